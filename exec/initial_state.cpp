#include "exec/initial_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "exec/state_access.h"
#include "planner/core/error.h"
#include "planner/core/random.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kDrawBlock = 4096;       // 32 KiB of draws at a time
constexpr std::int64_t kBlocksForThreads = 16;  // [derived] a block takes 0.2 ms, a fork much less

// The part [begin, end) of a flat unit that belongs to one tensor.
void draw_tensor(const Tensor& tensor, std::int64_t layer, std::uint64_t seed, std::int64_t begin,
                 std::span<double> values) {
  const std::int64_t end = begin + std::ssize(values);
  const std::int64_t from = std::max(begin, tensor.offset);
  const std::int64_t to = std::min(end, tensor.offset + tensor.shape.elements());
  if (from >= to || tensor.init == Init::kZero) return;
  if (tensor.init == Init::kOne) {
    std::fill(values.begin() + (from - begin), values.begin() + (to - begin), 1.0);
    return;
  }
  const TensorDraws draws(seed, name_in_layer(tensor, layer));
  for (std::int64_t i = from; i < to; ++i) {
    values[static_cast<std::size_t>(i - begin)] =
        tensor.init_std * draws.normal(static_cast<std::uint64_t>(i - tensor.offset));
  }
}

template <typename T>
void draw_into(const StatePiece& piece, const Unit& unit, std::uint64_t seed) {
  T* out = reinterpret_cast<T*>(piece.data);
  const std::int64_t blocks = ceil_div(piece.elements, kDrawBlock);
#pragma omp parallel for schedule(static) if (blocks >= kBlocksForThreads)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<double, kDrawBlock> values;
    const std::int64_t begin = b * kDrawBlock;
    const std::int64_t n = std::min(kDrawBlock, piece.elements - begin);
    const std::span<double> drawn(values.data(), static_cast<std::size_t>(n));
    draw_parameters(unit, piece.layer, seed, piece.first + begin, drawn);
    std::transform(drawn.begin(), drawn.end(), out + begin,
                   [](double value) { return static_cast<T>(value); });
  }
}

void initialise(const StatePiece& piece, const Unit& unit, State state, std::uint64_t seed) {
  const bool is_moment = state == State::kMoment1 || state == State::kMoment2;
  const Bytes bytes = size_of(piece.dtype) * piece.elements;
  if (is_moment) {
    std::fill_n(piece.data, bytes.value, std::byte{0});
  } else if (piece.dtype == DType::kF32) {
    draw_into<float>(piece, unit, seed);
  } else if (piece.dtype == DType::kF64) {
    draw_into<double>(piece, unit, seed);
  } else {
    throw_bad_input(
        fmt::format("states of unit {} cannot be initialised as {}", unit.name, name(piece.dtype)));
  }
}

// A copy is much cheaper than a draw. False when the rank does not have these parameters.
bool copy_elements(const StatePiece& from, const StatePiece& to) {
  const bool has_all = from.dtype == to.dtype && from.first <= to.first &&
                       to.first + to.elements <= from.first + from.elements;
  if (!has_all) return false;
  const std::int64_t element = size_of(from.dtype).value;
  std::memcpy(to.data, from.data + (to.first - from.first) * element,
              static_cast<std::size_t>(to.elements * element));
  return true;
}

void initialise_home(const Job& job, std::uint64_t seed, const RankMemory& memory,
                     const UnitHome& home) {
  const Unit& unit = job.units[home.unit];
  const std::vector<StatePiece> params = state_pieces(job, memory, home, State::kParam);
  for (const StatePiece& piece : params) initialise(piece, unit, State::kParam, seed);
  for (State state : {State::kMaster, State::kMoment1, State::kMoment2}) {
    if (state == State::kMaster && home.master.buffer == home.param.buffer) continue;
    const std::vector<StatePiece> pieces = state_pieces(job, memory, home, state);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (state == State::kMaster && copy_elements(params[i], pieces[i])) continue;
      initialise(pieces[i], unit, state, seed);
    }
  }
}

}  // namespace

std::string name_in_layer(const Tensor& tensor, std::int64_t layer) {
  const std::size_t place = tensor.name.find("{}");
  if (place == std::string::npos) return tensor.name;
  return std::string(tensor.name).replace(place, 2, std::to_string(layer));
}

void draw_parameters(const Unit& unit, std::int64_t layer, std::uint64_t seed, std::int64_t first,
                     std::span<double> values) {
  std::fill(values.begin(), values.end(), 0.0);
  for (const Tensor& tensor : unit.tensors) draw_tensor(tensor, layer, seed, first, values);
}

void initialise_states(const Job& job, std::uint64_t seed, RankMemory& memory) {
  for (const UnitHome& home : memory.rank_class().homes) initialise_home(job, seed, memory, home);
}

}  // namespace zplan::exec
