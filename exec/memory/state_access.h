// Where model states lie in the ranks' slabs, and how to read a global tensor back from the shards
// of all ranks. For initialisation, tests and comparisons of runs; nothing here runs in a step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/memory/slab.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

// From kMoment1 on in the order of UnitHome::moments.
enum class State : std::uint8_t { kParam, kMaster, kMoment1, kMoment2, kMoment3, kMoment4 };
inline constexpr std::array kStates{State::kParam,   State::kMaster,  State::kMoment1,
                                    State::kMoment2, State::kMoment3, State::kMoment4};

std::string_view name(State state);  // "param"

// Null: the unit does not have the state.
const StateHome* state_home(const UnitHome& home, State state);

// What one rank holds of one instance of a unit: flat elements [first, first + elements) of a piece
// (tensor_part.h).
struct StatePiece {
  BufferId buffer = 0;
  std::int64_t slot = 0;
  DType dtype = DType::kF32;
  std::int64_t layer = 0;   // the first of the unit's instance; 0 for units that are not per layer
  std::int64_t piece = 0;   // number of the piece
  std::int64_t pieces = 1;  // of how many
  std::int64_t first = 0;
  std::int64_t elements = 0;
  std::int32_t every = 1;  // flat elements that one of the state is of

  Bytes bytes() const { return size_of(dtype) * (elements / every); }
};

// One piece per slot of the state's home; none where the unit does not have it.
std::vector<StatePiece> state_pieces(const Job& job, const RankMemory& memory, const UnitHome& home,
                                     State state);

// The content of a piece, in its slab or read from NVMe.
class PieceContent {
 public:
  PieceContent(const RankMemory& memory, const StatePiece& piece);
  const std::byte* data() const { return data_; }

 private:
  Slab loaded_;
  const std::byte* data_;
};

// A tensor of the model.
struct TensorRef {
  std::uint32_t unit = 0;
  std::uint32_t tensor = 0;  // within the unit
  std::int64_t layer = 0;    // 0 for units that are not per layer
};

// All tensors, each once, in order of units, layers and places.
std::vector<TensorRef> all_tensors(const Job& job);
std::string tensor_name(const Job& job, const TensorRef& ref);

// Values in row-major order, from the first stage that holds the tensor; replicas from the ranks
// with the lowest indices. Of a state that is of several elements the same for all of them; zero of
// one that the tensor does not have.
// `ranks` are the memories of all ranks, by rank. Throws Error when no stage holds it.
std::vector<double> read_tensor(const Job& job, std::span<const RankMemory> ranks,
                                const TensorRef& ref, State state = State::kParam);

// What one rank adds to that: the values of its pieces, and zeros elsewhere. Nothing where it adds
// none.
std::vector<double> read_share(const Job& job, const RankMemory& own, const TensorRef& ref,
                               State state);

struct StateDifference {
  std::string tensor;
  std::int64_t element = 0;
  double first = 0, second = 0;
};

// What makes two elements equal: their values (NaN equals nothing, -0 equals +0), or their bits.
enum class Equality : std::uint8_t { kValue, kBits };

// The element where two runs of the same model differ most, whatever their plans; nothing when all
// elements of the state are equal. Throws Error when the models have different tensors.
std::optional<StateDifference> largest_difference(const Job& job_a,
                                                  std::span<const RankMemory> ranks_a,
                                                  const Job& job_b,
                                                  std::span<const RankMemory> ranks_b,
                                                  State state = State::kParam,
                                                  Equality equality = Equality::kValue);

// Copies of a state must be equal bit by bit: those over the dp indices, those of a unit that
// several stages hold, and what all tensor parallel ranks and tiles share. Names the first that is
// not.
std::optional<std::string> replica_mismatch(const Job& job, std::span<const RankMemory> ranks);

}  // namespace zplan::exec
