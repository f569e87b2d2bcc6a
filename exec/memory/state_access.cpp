#include "exec/memory/state_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include "exec/memory/initial_state.h"
#include "exec/memory/tensor_part.h"
#include "exec/scalar.h"
#include "planner/core/error.h"
#include "planner/program/job/meetings.h"

namespace zplan::exec {
namespace {

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
void read_piece(const RankMemory& memory, const StatePiece& piece, const Tensor& tensor,
                std::vector<double>& values) {
  const TensorPart part(tensor, piece.piece, piece.pieces);
  const std::int64_t from = std::max(piece.first, tensor.offset);
  const std::int64_t to = std::min(piece.first + piece.elements, tensor.offset + part.elements());
  if (from >= to) return;
  const PieceContent content(memory, piece);
  part.for_runs(from - tensor.offset, to - tensor.offset,
                [&](std::int64_t local, const TensorPart::Run& run) {
                  const std::int64_t begin = tensor.offset + local - piece.first;
                  for (std::int64_t i = 0; i < run.length; ++i) {
                    values[static_cast<std::size_t>(run.global + i)] =
                        load_scalar(content.data(), piece.dtype, (begin + i) / piece.every);
                  }
                });
}

// Stage that holds a unit and layer, and the home there.
std::pair<std::int32_t, const UnitHome*> find_home(const Job& job, const TensorRef& ref) {
  for (const RankClass& c : job.classes) {
    const bool has_layer = !job.units[ref.unit].per_layer || c.index_of(ref.layer);
    for (const UnitHome& home : c.homes) {
      if (home.unit == ref.unit && has_layer) return {c.stage, &home};
    }
  }
  throw_bad_input(fmt::format("no stage holds {}", tensor_name(job, ref)));
}

// The ranks that have a state of a tensor together, each a part of it; none where nobody has it.
struct Holders {
  const UnitHome* home = nullptr;
  std::vector<std::int32_t> ranks;
};

Holders holders_of(const Job& job, const TensorRef& ref, State state) {
  const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
  const auto [stage, home] = find_home(job, ref);
  const StateHome* const at = state_home(*home, state);
  if (at == nullptr) return {home, {}};
  AxisSet axes = at->shards | job.units[ref.unit].experts;
  if (tensor.split.kind != Split::Kind::kNone) axes = axes | job.mesh.named(kTensorAxis);
  const std::int32_t first = ranks_of_stage(job.mesh, stage).front();
  return {home, members_of(job.mesh, {axes}, first).ranks};
}

// What a rank has of the tensor, into the places of `values`.
void read_pieces(const Job& job, const RankMemory& memory, const UnitHome& home,
                 const TensorRef& ref, State state, std::vector<double>& values) {
  const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
  for (const StatePiece& piece : state_pieces(job, memory, home, state))
    if (piece.layer + tensor.member == ref.layer) read_piece(memory, piece, tensor, values);
}

// Compares the pieces of all ranks with the first of each kind that came.
class CopyCheck {
 public:
  CopyCheck(const Job& job, std::span<const RankMemory> ranks) : job_(job), ranks_(ranks) {}

  void add(std::int32_t rank, const UnitHome& home, State state) {
    const Unit& unit = job_.units[home.unit];
    for (const StatePiece& piece : state_pieces(job_, memory_of(rank), home, state)) {
      compare({home.unit, state, piece.layer, piece.first, piece.elements, piece.piece}, rank,
              piece, piece.first, piece.first + piece.elements);
      const std::int64_t begin = std::max(piece.first, unit.shared_from);
      const std::int64_t end =
          std::min(piece.first + piece.elements, unit.shared_from + unit.shared_elements);
      const std::int64_t block = piece.piece * job_.mesh.size(unit.experts) / piece.pieces;
      compare({home.unit, state, piece.layer, piece.first, piece.elements, kShared - block}, rank,
              piece, begin, end);
    }
  }
  const std::optional<std::string>& mismatch() const { return mismatch_; }

 private:
  // Unit, state, layer, first element, elements, number of the piece or, of what tensor parallel
  // ranks hold alike, kShared less the number of the ranks' part of the experts.
  using Key =
      std::tuple<std::uint32_t, State, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static constexpr std::int64_t kShared = -1;
  struct Seen {
    std::int32_t rank;
    StatePiece piece;
  };

  const RankMemory& memory_of(std::int32_t rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }

  // Flat elements [begin, end) of the piece.
  void compare(const Key& key, std::int32_t rank, const StatePiece& piece, std::int64_t begin,
               std::int64_t end) {
    if (mismatch_ || begin >= end) return;
    const auto [seen, is_new] = first_.try_emplace(key, Seen{rank, piece});
    if (is_new) return;
    const Seen& other = seen->second;
    const PieceContent mine(memory_of(rank), piece);
    const PieceContent theirs(memory_of(other.rank), other.piece);
    const std::int64_t element = size_of(piece.dtype).value;
    const std::int64_t skip = (begin - piece.first) / piece.every * element;
    const auto length = static_cast<std::size_t>((end - begin) / piece.every * element);
    if (std::memcmp(mine.data() + skip, theirs.data() + skip, length) == 0) return;
    mismatch_ = fmt::format(
        "{} of {}, layer {}: rank {} and rank {} hold different values", name(std::get<State>(key)),
        job_.units[std::get<std::uint32_t>(key)].name, piece.layer, other.rank, rank);
  }

  const Job& job_;
  std::span<const RankMemory> ranks_;
  std::map<Key, Seen> first_;
  std::optional<std::string> mismatch_;
};

}  // namespace

std::string_view name(State state) {
  constexpr std::array<std::string_view, kStates.size()> kNames{"param",   "master",  "moment1",
                                                                "moment2", "moment3", "moment4"};
  return kNames[static_cast<std::size_t>(state)];
}

const StateHome* state_home(const UnitHome& home, State state) {
  if (state == State::kParam) return &home.param;
  if (state == State::kMaster) return &home.master;
  const auto moment = static_cast<std::size_t>(state) - static_cast<std::size_t>(State::kMoment1);
  return moment < home.moments.size() ? &home.moments[moment] : nullptr;
}

std::vector<StatePiece> state_pieces(const Job& job, const RankMemory& memory, const UnitHome& home,
                                     State state) {
  const RankClass& c = memory.rank_class();
  const Unit& unit = job.units[home.unit];
  const StateHome* const at = state_home(home, state);
  if (at == nullptr) return {};
  const StateHome& place = *at;
  std::vector<StatePiece> pieces;
  const std::int64_t elements = job.piece_elements(unit, place.shards);
  const std::int64_t members = c.program.unit_layers;
  const std::vector<std::int64_t> layers = c.layers_with(unit);
  const std::int64_t instances = unit.per_layer ? std::ssize(layers) / members : 1;
  const std::int64_t first_of_rest = c.program.buffers[place.buffer].slots;
  for (std::int64_t slot = 0; slot < instances * unit.tiles; ++slot) {
    const bool in_rest = place.rest && slot >= first_of_rest;
    pieces.push_back({.buffer = in_rest ? *place.rest : place.buffer,
                      .slot = in_rest ? slot - first_of_rest : slot,
                      .dtype = c.program.buffers[place.buffer].dtype,
                      .layer = unit.per_layer
                                   ? layers[static_cast<std::size_t>(slot / unit.tiles * members)]
                                   : 0,
                      .piece = piece_number(job, unit, memory.point(), slot % unit.tiles),
                      .pieces = piece_count(job, unit),
                      .first = job.mesh.index_in(place.shards, memory.point()) * elements,
                      .elements = elements,
                      .every = place.every});
  }
  return pieces;
}

PieceContent::PieceContent(const RankMemory& memory, const StatePiece& piece)
    : data_(memory.slot_address(piece.buffer, piece.slot)) {
  if (data_ != nullptr) return;
  loaded_ = Slab(piece.bytes());
  memory.load(piece.buffer, piece.slot, piece.bytes(), loaded_.data());
  data_ = loaded_.data();
}

std::vector<TensorRef> all_tensors(const Job& job) {
  std::int64_t layers = 0;
  for (const RankClass& c : job.classes) layers += c.layer_count();
  std::vector<TensorRef> refs;
  for (std::uint32_t u = 0; u < job.units.size(); ++u) {
    const Unit& unit = job.units[u];
    const std::int64_t members = job.classes.front().program.unit_layers;
    const bool has_own = unit.layers.count > 0;
    const std::int64_t first = has_own ? unit.layers.first : 0;
    const std::int64_t end = has_own ? unit.layers.end() : unit.per_layer ? layers : 1;
    for (std::int64_t layer = first; layer < end; layer += members) {
      for (std::uint32_t t = 0; t < unit.tensors.size(); ++t)
        refs.push_back({u, t, layer + unit.tensors[t].member});
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
  std::vector<double> values(static_cast<std::size_t>(tensor.shape.elements()));
  const Holders holders = holders_of(job, ref, state);
  for (const std::int32_t rank : holders.ranks)
    read_pieces(job, ranks[static_cast<std::size_t>(rank)], *holders.home, ref, state, values);
  return values;
}

std::vector<double> read_share(const Job& job, const RankMemory& own, const TensorRef& ref,
                               State state) {
  const Tensor& tensor = job.units[ref.unit].tensors[ref.tensor];
  const Holders holders = holders_of(job, ref, state);
  if (std::find(holders.ranks.begin(), holders.ranks.end(), own.rank()) == holders.ranks.end())
    return {};
  std::vector<double> values(static_cast<std::size_t>(tensor.shape.elements()));
  read_pieces(job, own, *holders.home, ref, state, values);
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
  CopyCheck check(job, ranks);
  for (std::int32_t rank = 0; rank < std::ssize(ranks); ++rank) {
    for (const UnitHome& home : ranks[static_cast<std::size_t>(rank)].rank_class().homes) {
      for (State state : kStates) check.add(rank, home, state);
    }
  }
  return check.mismatch();
}

}  // namespace zplan::exec
