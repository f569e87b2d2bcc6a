#include "exec/initial_state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "exec/scalar.h"
#include "exec/state_access.h"
#include "exec/tensor_part.h"
#include "planner/core/random.h"
#include "planner/program/carried.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kDrawBlock = 4096;       // 32 KiB of draws at a time
constexpr std::int64_t kBlocksForThreads = 16;  // [derived] a block takes 0.2 ms, a fork much less

// The part [begin, end) of a flat unit that belongs to one tensor.
void draw_tensor(const Tensor& tensor, const UnitInstance& instance, std::uint64_t seed,
                 std::int64_t begin, std::span<double> values) {
  const TensorPart part(tensor, instance.piece, instance.pieces);
  const std::int64_t from = std::max(begin, tensor.offset);
  const std::int64_t to = std::min(begin + std::ssize(values), tensor.offset + part.elements());
  if (from >= to || tensor.init == Init::kZero) return;
  const TensorDraws draws(seed, name_in_layer(tensor, instance.layer + tensor.member));
  const auto draw = [&](std::int64_t global) {
    if (tensor.init == Init::kOne) return 1.0;
    return tensor.init_std * draws.normal(static_cast<std::uint64_t>(global));
  };
  part.for_runs(from - tensor.offset, to - tensor.offset,
                [&](std::int64_t local, const TensorPart::Run& run) {
                  double* out = values.data() + (tensor.offset + local - begin);
                  for (std::int64_t i = 0; i < run.length; ++i) out[i] = draw(run.global + i);
                });
}

template <typename T>
void draw_into(std::byte* data, const StatePiece& piece, const Unit& unit, std::uint64_t seed) {
  T* out = reinterpret_cast<T*>(data);
  const UnitInstance instance{piece.layer, piece.piece, piece.pieces};
  const std::int64_t blocks = ceil_div(piece.elements, kDrawBlock);
#pragma omp parallel for schedule(static) if (blocks >= kBlocksForThreads)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<double, kDrawBlock> values;
    const std::int64_t begin = b * kDrawBlock;
    const std::int64_t n = std::min(kDrawBlock, piece.elements - begin);
    const std::span<double> drawn(values.data(), static_cast<std::size_t>(n));
    draw_parameters(unit, instance, seed, piece.first + begin, drawn);
    std::transform(drawn.begin(), drawn.end(), out + begin, rounded<T>);
  }
}

void fill(std::byte* data, const StatePiece& piece, const Unit& unit, State state,
          std::uint64_t seed) {
  if (state == State::kMoment1 || state == State::kMoment2) {
    std::fill_n(data, piece.bytes().value, std::byte{0});
    return;
  }
  with_float_type(piece.dtype,
                  [&](auto type) { draw_into<decltype(type)>(data, piece, unit, seed); });
}

void initialise(const RankMemory& memory, const StatePiece& piece, const Unit& unit, State state,
                std::uint64_t seed) {
  if (std::byte* data = memory.slot_address(piece.buffer, piece.slot))
    return fill(data, piece, unit, state, seed);
  const Slab staging(piece.bytes());
  fill(staging.data(), piece, unit, state, seed);
  memory.store(piece.buffer, piece.slot, piece.bytes(), staging.data());
}

// A copy is much cheaper than a draw. False when the rank does not have these parameters at hand.
bool copy_elements(const RankMemory& memory, const StatePiece& from, const StatePiece& to) {
  const std::byte* source = memory.slot_address(from.buffer, from.slot);
  std::byte* target = memory.slot_address(to.buffer, to.slot);
  const bool has_all = source != nullptr && target != nullptr && from.dtype == to.dtype &&
                       from.first <= to.first &&
                       to.first + to.elements <= from.first + from.elements;
  if (!has_all) return false;
  const Bytes skip = size_of(from.dtype) * (to.first - from.first);
  std::memcpy(target, source + skip.value, static_cast<std::size_t>(to.bytes().value));
  return true;
}

void initialise_home(const Job& job, std::uint64_t seed, const RankMemory& memory,
                     const UnitHome& home) {
  const Unit& unit = job.units[home.unit];
  const std::vector<StatePiece> params = state_pieces(job, memory, home, State::kParam);
  for (const StatePiece& piece : params) initialise(memory, piece, unit, State::kParam, seed);
  for (State state : {State::kMaster, State::kMoment1, State::kMoment2}) {
    if (state == State::kMaster && home.master.buffer == home.param.buffer) continue;
    const std::vector<StatePiece> pieces = state_pieces(job, memory, home, state);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (state == State::kMaster && copy_elements(memory, params[i], pieces[i])) continue;
      initialise(memory, pieces[i], unit, state, seed);
    }
  }
}

// What is reserved of a file holds zeros already.
void clear(const RankMemory& memory, BufferId id) {
  const Buffer& buffer = memory.rank_class().program.buffers[id];
  if (buffer.tier == Tier::kNvme) return;
  if (std::byte* data = memory.slot_address(id, 0)) {
    std::fill_n(data, buffer.size().value, std::byte{0});
    return;
  }
  const Slab zeros(buffer.size());
  std::fill_n(zeros.data(), buffer.size().value, std::byte{0});
  memory.store(id, 0, buffer.size(), zeros.data());
}

std::vector<bool> home_buffers(const RankClass& rank_class) {
  std::vector<bool> is_home(rank_class.program.buffers.size(), false);
  for (const UnitHome& home : rank_class.homes) {
    for (State state : kStates) is_home[state_home(home, state).buffer] = true;
  }
  return is_home;
}

}  // namespace

std::string name_in_layer(const Tensor& tensor, std::int64_t layer) {
  const std::size_t place = tensor.name.find("{}");
  if (place == std::string::npos) return tensor.name;
  return std::string(tensor.name).replace(place, 2, std::to_string(layer));
}

void draw_parameters(const Unit& unit, const UnitInstance& instance, std::uint64_t seed,
                     std::int64_t first, std::span<double> values) {
  std::fill(values.begin(), values.end(), 0.0);
  for (const Tensor& tensor : unit.tensors) draw_tensor(tensor, instance, seed, first, values);
}

std::vector<BufferId> initialised_buffers(const RankClass& rank_class) {
  std::vector<BufferId> result = carried_buffers(rank_class);
  const std::vector<bool> is_home = home_buffers(rank_class);
  for (BufferId id = 0; id < is_home.size(); ++id)
    if (is_home[id]) result.push_back(id);
  return result;
}

void initialise_states(const Job& job, std::uint64_t seed, RankMemory& memory) {
  for (const UnitHome& home : memory.rank_class().homes) initialise_home(job, seed, memory, home);
  for (BufferId id : carried_buffers(memory.rank_class())) clear(memory, id);
}

}  // namespace zplan::exec
