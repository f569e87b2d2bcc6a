#include "planner/program/schedule/fold.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
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

// A pass at micro-batch 0 (body empty), or one with the backward beside it, the least micro-batch
// of which is 0, or a loop whose body counts from its own micro-batch.
struct ItemShape {
  Pass pass{};
  std::optional<Pass> backward{};
  std::int32_t count = 1, step = 0;
  std::vector<Item> body{};
  int depth = 0;
};

class Folder {
 public:
  std::vector<PassLoop> fold(std::span<const Pass> passes) {
    std::vector<Item> items;
    items.reserve(passes.size());
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const bool both = passes[i].beside && i + 1 < passes.size();
      items.push_back(both ? item_of(passes[i], passes[i + 1])
                           : Item{shape_of(passes[i]), passes[i].micro});
      if (both) ++i;
    }
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

  // Returns what tells passes of the same chunk and micro-batch apart.
  static std::int32_t kind_of(const Pass& pass) {
    return static_cast<std::int32_t>(pass.kind) * 4 + (pass.apart ? 2 : 0) +
           (pass.reversed ? 1 : 0);
  }

  std::int32_t shape_of(Pass pass) {
    const std::size_t key =
        static_cast<std::size_t>(pass.chunk) * 16 + static_cast<std::size_t>(kind_of(pass));
    if (passes_.size() <= key) passes_.resize(key + 1, -1);
    if (passes_[key] < 0) {
      passes_[key] = static_cast<std::int32_t>(shapes_.size());
      pass.micro = 0;
      shapes_.push_back({.pass = pass});
    }
    return passes_[key];
  }

  Item item_of(Pass forward, Pass backward) {
    const std::int32_t first = std::min(forward.micro, backward.micro);
    forward.micro -= first;
    backward.micro -= first;
    // The keys of loops begin with another number.
    const Key key{-1,
                  forward.chunk,
                  forward.micro,
                  kind_of(forward),
                  backward.chunk,
                  backward.micro,
                  kind_of(backward)};
    return {number(key, {.pass = forward, .backward = backward}), first};
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
      const auto add = [&](Pass pass) {
        pass.micro += inner.micro;
        result.body.emplace_back(pass);
      };
      add(shape(inner).pass);
      if (shape(inner).backward) add(*shape(inner).backward);
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
      const bool is_pass = shape(item).body.empty(), is_one = is_pass && !shape(item).backward;
      if (!is_one || comes_again(group, item)) flush();
      if (is_one) {
        group.push_back(item);
      } else {
        loops.push_back(tree_of(is_pass ? loop_of({&item, 1}, 1, 1) : item));
      }
    }
    flush();
    return loops;
  }

  std::vector<std::int32_t> passes_;  // shapes by kind and chunk; -1: none yet
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
