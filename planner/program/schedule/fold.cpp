#include "planner/program/schedule/fold.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

namespace zplan {
namespace {

// [assumed] Groups of passes and loops that are longer are not looked for: published schedules have
// periods of a few groups per chunk.
constexpr std::size_t kLongestGroup = 256;

// A pass or a loop: a shape, the same wherever it stands, at a micro-batch.
struct Item {
  std::int32_t shape = 0;
  std::int32_t micro = 0;
};

// A pass at micro-batch 0 (body empty), or a loop whose body counts from its own micro-batch.
struct ItemShape {
  Pass pass{};
  std::int32_t count = 1, step = 0;
  std::vector<Item> body{};
  int depth = 0;
};

class Folder {
 public:
  std::vector<PassLoop> fold(std::span<const Pass> passes) {
    std::vector<Item> items;
    items.reserve(passes.size());
    for (const Pass& pass : passes) items.push_back({shape_of(pass), pass.micro});
    for (std::size_t group = 1; group <= std::min(items.size() / 2, kLongestGroup);)
      group = fold_runs(items, group) ? 1 : group + 1;
    return grouped(items);
  }

 private:
  using Key = std::vector<std::int32_t>;

  std::int32_t number(const Key& key, ItemShape shape) {
    const auto [at, is_new] = loops_.try_emplace(key, static_cast<std::int32_t>(shapes_.size()));
    if (is_new) shapes_.push_back(std::move(shape));
    return at->second;
  }

  std::int32_t shape_of(Pass pass) {
    const auto kind = static_cast<std::size_t>(pass.kind) * 2 + (pass.apart ? 1 : 0);
    const std::size_t key = static_cast<std::size_t>(pass.chunk) * 8 + kind;
    if (passes_.size() <= key) passes_.resize(key + 1, -1);
    if (passes_[key] < 0) {
      passes_[key] = static_cast<std::int32_t>(shapes_.size());
      pass.micro = 0;
      shapes_.push_back({.pass = pass});
    }
    return passes_[key];
  }

  const ItemShape& shape(const Item& item) const {
    return shapes_[static_cast<std::size_t>(item.shape)];
  }

  // Whether the group after this one is the same, `step` micro-batches later.
  static bool repeats(const Item* group, std::size_t size, std::int32_t step) {
    for (std::size_t i = 0; i < size; ++i)
      if (group[i].shape != group[size + i].shape || group[size + i].micro - group[i].micro != step)
        return false;
    return true;
  }

  std::int32_t count_groups(const std::vector<Item>& items, std::size_t from,
                            std::size_t size) const {
    std::int32_t count = 1;
    if (from + 2 * size > items.size()) return count;
    const std::int32_t step = items[from + size].micro - items[from].micro;
    for (std::size_t i = from; i + 2 * size <= items.size(); i += size, ++count)
      if (!repeats(&items[i], size, step)) break;
    return count;
  }

  bool has_room(std::span<const Item> body) const {
    return std::all_of(body.begin(), body.end(),
                       [&](const Item& item) { return shape(item).depth < kMaxPassLoops; });
  }

  Item loop_of(std::span<const Item> body, std::int32_t count, std::int32_t step) {
    ItemShape loop{.count = count, .step = step, .body{body.begin(), body.end()}};
    const std::int32_t first =
        std::min_element(body.begin(), body.end(), [](const Item& a, const Item& b) {
          return a.micro < b.micro;
        })->micro;
    Key key{count, step, static_cast<std::int32_t>(body.size())};
    for (Item& item : loop.body) {
      item.micro -= first;
      loop.depth = std::max(loop.depth, shape(item).depth + 1);
      key.insert(key.end(), {item.shape, item.micro});
    }
    return {number(key, std::move(loop)), first};
  }

  // Replaces the runs of groups of this size, from the left; false if there are none.
  bool fold_runs(std::vector<Item>& items, std::size_t size) {
    std::vector<Item> folded;
    for (std::size_t i = 0; i < items.size();) {
      const std::int32_t count = count_groups(items, i, size);
      const std::span<const Item> body(&items[i], std::min(size, items.size() - i));
      if (count < 2 || !has_room(body)) {
        folded.push_back(items[i++]);
        continue;
      }
      folded.push_back(loop_of(body, count, items[i + size].micro - items[i].micro));
      i += size * static_cast<std::size_t>(count);
    }
    if (folded.size() == items.size()) return false;
    items = std::move(folded);
    return true;
  }

  PassLoop tree_of(const Item& item) const {
    const ItemShape& loop = shape(item);
    PassLoop result{loop.count, item.micro, loop.step, {}};
    for (const Item& inner : loop.body) {
      if (!shape(inner).body.empty()) {
        result.body.emplace_back(tree_of(inner));
        continue;
      }
      Pass pass = shape(inner).pass;
      pass.micro = inner.micro;
      result.body.emplace_back(pass);
    }
    return result;
  }

  bool comes_again(std::span<const Item> group, const Item& item) const {
    const Pass& pass = shape(item).pass;
    return std::any_of(group.begin(), group.end(), [&](const Item& other) {
      return shape(other).pass.kind == pass.kind && shape(other).pass.chunk == pass.chunk;
    });
  }

  std::vector<PassLoop> grouped(const std::vector<Item>& items) {
    std::vector<PassLoop> loops;
    std::vector<Item> group;
    const auto flush = [&] {
      if (!group.empty()) loops.push_back(tree_of(loop_of(group, 1, 1)));
      group.clear();
    };
    for (const Item& item : items) {
      const bool is_pass = shape(item).body.empty();
      if (!is_pass || comes_again(group, item)) flush();
      if (is_pass) {
        group.push_back(item);
      } else {
        loops.push_back(tree_of(item));
      }
    }
    flush();
    return loops;
  }

  std::vector<std::int32_t> passes_;  // shapes by kind, apart and chunk; -1: none yet
  std::map<Key, std::int32_t> loops_;
  std::vector<ItemShape> shapes_;
};

void unfold_into(const PassLoop& loop, std::int32_t micro, std::vector<Pass>& passes) {
  for (std::int32_t i = 0; i < loop.count; ++i) {
    const std::int32_t base = micro + loop.first + loop.step * i;
    for (const LoopEntry& entry : loop.body) {
      if (const auto* inner = std::get_if<PassLoop>(&entry)) {
        unfold_into(*inner, base, passes);
        continue;
      }
      Pass pass = std::get<Pass>(entry);
      pass.micro += base;
      passes.push_back(pass);
    }
  }
}

std::size_t body_size(const PassLoop& loop) {
  std::size_t size = 0;
  for (const LoopEntry& entry : loop.body) {
    const auto* inner = std::get_if<PassLoop>(&entry);
    size += inner ? body_size(*inner) : 1;
  }
  return size;
}

}  // namespace

std::vector<PassLoop> fold(const PassOrder& order) {
  std::vector<PassLoop> loops;
  Folder folder;
  std::size_t from = 0;
  const auto phase = [&](std::size_t to) {
    std::vector<PassLoop> more = folder.fold(std::span(order.passes).subspan(from, to - from));
    std::move(more.begin(), more.end(), std::back_inserter(loops));
    from = to;
  };
  for (const std::size_t cut : order.cuts) phase(cut);
  phase(order.passes.size());
  return loops;
}

std::vector<Pass> unfold(const std::vector<PassLoop>& loops) {
  std::vector<Pass> passes;
  for (const PassLoop& loop : loops) unfold_into(loop, 0, passes);
  return passes;
}

std::size_t body_size(const std::vector<PassLoop>& loops) {
  std::size_t size = 0;
  for (const PassLoop& loop : loops) size += body_size(loop);
  return size;
}

}  // namespace zplan
