#include "exec/state_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include "exec/initial_state.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

std::string_view name(State state) {
  constexpr std::array<std::string_view, kStates.size()> kNames{"param", "master", "moment1",
                                                                "moment2"};
  return kNames[static_cast<std::size_t>(state)];
}

double element(const StatePiece& piece, std::int64_t i) {
  if (piece.dtype == DType::kF64) return reinterpret_cast<const double*>(piece.data)[i];
  if (piece.dtype == DType::kF32) return reinterpret_cast<const float*>(piece.data)[i];
  throw_bad_input(fmt::format("states of {} cannot be read", zplan::name(piece.dtype)));
}

bool equal(double a, double b, Equality equality) {
  switch (equality) {
    case Equality::kValue:
      return a == b;
    case Equality::kBits:  // widening float to double keeps every bit
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  }
  ZPLAN_ASSERT(false);
  return false;
}

// Copies the part of the tensor that the piece holds.
void read_piece(const StatePiece& piece, const Tensor& tensor, std::vector<double>& values) {
  const std::int64_t from = std::max(piece.first, tensor.offset);
  const std::int64_t to =
      std::min(piece.first + piece.elements, tensor.offset + tensor.shape.elements());
  for (std::int64_t i = from; i < to; ++i) {
    values[static_cast<std::size_t>(i - tensor.offset)] = element(piece, i - piece.first);
  }
}

// Stage that holds a unit and layer, and the home there.
std::pair<std::int32_t, const UnitHome*> find_home(const Job& job, const TensorRef& ref) {
  for (const RankClass& c : job.classes) {
    const std::int64_t in_stage = ref.layer - c.first_layer;
    for (const UnitHome& home : c.homes) {
      const bool has_layer =
          !job.units[ref.unit].per_layer || (in_stage >= 0 && in_stage < c.layers);
      if (home.unit == ref.unit && has_layer) return {c.stage, &home};
    }
  }
  throw_bad_input(fmt::format("no stage holds {}", tensor_name(job, ref)));
}

}  // namespace

const StateHome& state_home(const UnitHome& home, State state) {
  switch (state) {
    case State::kMaster:
      return home.master;
    case State::kMoment1:
      return home.moment1;
    case State::kMoment2:
      return home.moment2;
    case State::kParam:
      break;
  }
  return home.param;
}

std::vector<StatePiece> state_pieces(const Job& job, const RankMemory& memory, const UnitHome& home,
                                     State state) {
  const RankClass& c = memory.rank_class();
  const Unit& unit = job.units[home.unit];
  const StateHome& place = state_home(home, state);
  std::vector<StatePiece> pieces;
  for (std::int64_t slot = 0; slot < (unit.per_layer ? c.layers : 1); ++slot) {
    pieces.push_back({.data = memory.slot_address(place.buffer, slot),
                      .dtype = c.program.buffers[place.buffer].dtype,
                      .layer = unit.per_layer ? c.first_layer + slot : 0,
                      .first = place.sharded ? memory.dp_index() * unit.shard_elements : 0,
                      .elements = place.sharded ? unit.shard_elements : unit.flat_elements});
  }
  return pieces;
}

std::vector<TensorRef> all_tensors(const Job& job) {
  std::int64_t layers = 0;
  for (const RankClass& c : job.classes) layers += c.layers;
  std::vector<TensorRef> refs;
  for (std::uint32_t u = 0; u < job.units.size(); ++u) {
    const Unit& unit = job.units[u];
    for (std::int64_t layer = 0; layer < (unit.per_layer ? layers : 1); ++layer) {
      for (std::uint32_t t = 0; t < unit.tensors.size(); ++t) refs.push_back({u, t, layer});
    }
  }
  return refs;
}

std::string tensor_name(const Job& job, const TensorRef& ref) {
  return name_in_layer(job.units[ref.unit].tensors[ref.tensor], ref.layer);
}

std::vector<double> read_tensor(const Job& job, std::span<const RankMemory> ranks,
                                const TensorRef& ref, State state) {
  const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
  const auto [stage, home] = find_home(job, ref);
  std::vector<double> values(static_cast<std::size_t>(tensor.shape.elements()));
  const bool sharded = state_home(*home, state).sharded;
  for (std::int32_t d = 0; d < (sharded ? job.dp : 1); ++d) {
    const RankMemory& memory = ranks[static_cast<std::size_t>(job.rank_of(d, stage))];
    for (const StatePiece& piece : state_pieces(job, memory, *home, state)) {
      if (piece.layer == ref.layer) read_piece(piece, tensor, values);
    }
  }
  return values;
}

std::optional<StateDifference> largest_difference(const Job& job_a,
                                                  std::span<const RankMemory> ranks_a,
                                                  const Job& job_b,
                                                  std::span<const RankMemory> ranks_b, State state,
                                                  Equality equality) {
  std::map<std::string, TensorRef> in_b;
  for (const TensorRef& ref : all_tensors(job_b)) in_b[tensor_name(job_b, ref)] = ref;
  std::optional<StateDifference> worst;
  double worst_size = -1;
  for (const TensorRef& ref : all_tensors(job_a)) {
    const std::string tensor = tensor_name(job_a, ref);
    const auto found = in_b.find(tensor);
    if (found == in_b.end()) throw_bad_input(fmt::format("only one run has {}", tensor));
    const std::vector<double> a = read_tensor(job_a, ranks_a, ref, state);
    const std::vector<double> b = read_tensor(job_b, ranks_b, found->second, state);
    if (a.size() != b.size()) throw_bad_input(fmt::format("{} differs in size", tensor));
    in_b.erase(found);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (equal(a[i], b[i], equality)) continue;
      const double size = std::abs(a[i] - b[i]);
      const double ranked = std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
      if (ranked <= worst_size) continue;
      worst_size = ranked;
      worst = StateDifference{tensor, static_cast<std::int64_t>(i), a[i], b[i]};
    }
  }
  if (!in_b.empty()) throw_bad_input(fmt::format("only one run has {}", in_b.begin()->first));
  return worst;
}

std::optional<std::string> replica_mismatch(const Job& job, std::span<const RankMemory> ranks) {
  // Pieces with one key hold the same elements.
  using Key = std::tuple<std::uint32_t, State, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::pair<StatePiece, std::size_t>> first_seen;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const UnitHome& home : ranks[rank].rank_class().homes) {
      for (State state : kStates) {
        for (const StatePiece& piece : state_pieces(job, ranks[rank], home, state)) {
          const Key key{home.unit, state, piece.layer, piece.first, piece.elements};
          const auto [seen, is_new] = first_seen.try_emplace(key, piece, rank);
          if (is_new) continue;
          const Bytes bytes = size_of(piece.dtype) * piece.elements;
          const auto length = static_cast<std::size_t>(bytes.value);
          if (std::memcmp(piece.data, seen->second.first.data, length) == 0) continue;
          return fmt::format("{} of {}, layer {}: rank {} and rank {} hold different values",
                             name(state), job.units[home.unit].name, piece.layer,
                             seen->second.second, rank);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace zplan::exec
