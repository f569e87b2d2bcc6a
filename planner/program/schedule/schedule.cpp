#include "planner/program/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr std::array<char, 4> kLetters{'F', 'B', 'I', 'W'};
constexpr std::array<const char*, 4> kWords{"forward", "backward", "input backward",
                                            "weight backward"};

ChunkMap chunks_by(std::int32_t ranks, std::int32_t chunks, bool turns) {
  std::vector<std::vector<std::int32_t>> positions(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    for (std::int32_t c = 0; c < chunks; ++c) {
      const bool back = turns && c % 2 == 1;
      positions[static_cast<std::size_t>(rank)].push_back(c * ranks +
                                                          (back ? ranks - 1 - rank : rank));
    }
  }
  return ChunkMap(std::move(positions));
}

}  // namespace

char letter(PassKind kind) { return kLetters[static_cast<std::size_t>(kind)]; }

std::string text(const Pass& pass) {
  return letter(pass.kind) + std::to_string(pass.chunk) + "." + std::to_string(pass.micro);
}

std::string description(const Pass& pass) {
  return std::string(kWords[static_cast<std::size_t>(pass.kind)]) + " of micro-batch " +
         std::to_string(pass.micro) + ", chunk " + std::to_string(pass.chunk);
}

ChunkMap::ChunkMap(std::vector<std::vector<std::int32_t>> positions)
    : positions_(std::move(positions)) {
  ZPLAN_ASSERT(!positions_.empty() && !positions_.front().empty());
  places_.resize(positions_.size() * positions_.front().size(), {-1, -1});
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    ZPLAN_ASSERT(positions_[static_cast<std::size_t>(rank)].size() == positions_.front().size());
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) {
      const std::int32_t p = position(rank, chunk);
      ZPLAN_ASSERT(p >= 0 && p < size() && at(p).rank < 0);
      places_[static_cast<std::size_t>(p)] = {rank, chunk};
    }
  }
}

ChunkMap looped_chunks(std::int32_t ranks, std::int32_t chunks) {
  return chunks_by(ranks, chunks, false);
}

ChunkMap v_shaped_chunks(std::int32_t ranks, std::int32_t chunks) {
  return chunks_by(ranks, chunks, true);
}

void find_phases(PassOrder& order) {
  const std::vector<Pass>& passes = order.passes;
  const auto is_forward = [](const Pass& pass) { return pass.kind == PassKind::kForward; };
  const auto first = std::find_if_not(passes.begin(), passes.end(), is_forward);
  auto after = std::find_if(passes.rbegin(), passes.rend(), is_forward).base();
  if (first == passes.begin() || first == passes.end() || after == passes.end()) return;
  const Pass backward = *after++;
  if (backward.kind == PassKind::kInputBackward && after != passes.end() &&
      *after ==
          Pass{.kind = PassKind::kWeightBackward, .chunk = backward.chunk, .micro = backward.micro})
    ++after;
  order.cuts = {static_cast<std::size_t>(first - passes.begin()) - 1,
                static_cast<std::size_t>(after - passes.begin())};
}

PassOrder in_rounds(const PassOrder& order, std::int32_t rounds) {
  if (rounds == 1) return order;
  std::int32_t micro_batches = 0;
  for (const Pass& pass : order.passes) micro_batches = std::max(micro_batches, pass.micro + 1);
  PassOrder all;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::size_t from = all.passes.size();
    if (round > 0) all.cut();
    for (const std::size_t cut : order.cuts) all.cuts.push_back(from + cut);
    for (Pass pass : order.passes) {
      pass.micro += round * micro_batches;
      all.passes.push_back(pass);
    }
  }
  return all;
}

void set_last_apart(PassOrder& order) {
  std::set<std::int32_t> inputs, weights;  // chunks whose last such pass has been seen
  for (auto pass = order.passes.rbegin(); pass != order.passes.rend(); ++pass) {
    const bool last_input = gives_input_gradient(pass->kind) && inputs.insert(pass->chunk).second;
    const bool last_weights =
        gives_weight_gradient(pass->kind) && weights.insert(pass->chunk).second;
    pass->apart = last_input || last_weights;
  }
}

std::optional<Pass> out_of_turn(const PassOrder& order) {
  std::map<std::int32_t, int> weights_left;  // of a chunk
  for (const Pass& pass : order.passes) {
    if (pass.kind == PassKind::kBackward && weights_left[pass.chunk] > 0) return pass;
    if (pass.kind == PassKind::kInputBackward) ++weights_left[pass.chunk];
    if (pass.kind == PassKind::kWeightBackward) --weights_left[pass.chunk];
  }
  return std::nullopt;
}

}  // namespace zplan
