#include "exec/memory/initial_state.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

#include "exec/memory/coded_state.h"
#include "exec/memory/state_access.h"
#include "exec/memory/tensor_part.h"
#include "exec/scalar.h"
#include "planner/core/random.h"
#include "planner/program/instances/carried.h"

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

// Calls store(begin, values) for all elements of a piece, by blocks, on all cores.
template <typename Store>
void draw_blocks(const StatePiece& piece, const Unit& unit, std::uint64_t seed,
                 const Store& store) {
  const UnitInstance instance{piece.layer, piece.piece, piece.pieces};
  const std::int64_t blocks = ceil_div(piece.elements, kDrawBlock);
#pragma omp parallel for schedule(static) if (blocks >= kBlocksForThreads)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<double, kDrawBlock> values;
    const std::int64_t begin = b * kDrawBlock;
    const std::int64_t n = std::min(kDrawBlock, piece.elements - begin);
    const std::span<double> drawn(values.data(), static_cast<std::size_t>(n));
    draw_parameters(unit, instance, seed, piece.first + begin, drawn);
    store(begin, drawn);
  }
}

// Rounded to the elements of `data`, from `begin` on.
template <typename T>
void store_rounded(std::byte* data, std::int64_t begin, std::span<const double> values) {
  std::transform(values.begin(), values.end(), reinterpret_cast<T*>(data) + begin, rounded<T>);
}

// Calls use(data) with the bytes of a piece, wherever it is kept.
template <typename Use>
void with_bytes(const RankMemory& memory, const StatePiece& piece, const Use& use) {
  if (std::byte* data = memory.slot_address(piece.buffer, piece.slot)) return use(data);
  const Slab staging(piece.bytes());
  use(staging.data());
  memory.store(piece.buffer, piece.slot, piece.bytes(), staging.data());
}

void draw(const RankMemory& memory, const StatePiece& piece, const Unit& unit, std::uint64_t seed) {
  with_bytes(memory, piece, [&](std::byte* data) {
    with_float_type(piece.dtype, [&](auto type) {
      draw_blocks(piece, unit, seed, [data](std::int64_t begin, std::span<const double> values) {
        store_rounded<decltype(type)>(data, begin, values);
      });
    });
  });
}

// Two pieces of the same elements: drawing takes longer than all else.
void draw_both(const RankMemory& memory, const StatePiece& first, const StatePiece& second,
               const Unit& unit, std::uint64_t seed) {
  with_bytes(memory, first, [&](std::byte* one) {
    with_bytes(memory, second, [&](std::byte* other) {
      with_float_type(first.dtype, [&](auto one_type) {
        with_float_type(second.dtype, [&](auto other_type) {
          draw_blocks(first, unit, seed, [=](std::int64_t begin, std::span<const double> values) {
            store_rounded<decltype(one_type)>(one, begin, values);
            store_rounded<decltype(other_type)>(other, begin, values);
          });
        });
      });
    });
  });
}

void clear(const RankMemory& memory, const StatePiece& piece) {
  with_bytes(memory, piece,
             [&](std::byte* data) { std::fill_n(data, piece.bytes().value, std::byte{0}); });
}

bool has_same_elements(const StatePiece& a, const StatePiece& b) {
  return a.first == b.first && a.elements == b.elements && a.layer == b.layer &&
         a.piece == b.piece && a.pieces == b.pieces;
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

// Codes of 4 bits, whose blocks lie in a piece whole.
void draw_codes(const RankMemory& memory, const UnitHome& home, const StatePiece& piece,
                const Unit& unit, std::uint64_t seed) {
  with_bytes(memory, piece, [&](std::byte* data) {
    draw_blocks(piece, unit, seed, [&](std::int64_t begin, std::span<const double> values) {
      encode(home.codes, values, reinterpret_cast<std::uint8_t*>(data) + begin / 2);
    });
  });
}

// Draws what codes are multiplied by, of whole units: each rank draws all of it.
void draw_scales(const RankMemory& memory, const UnitHome& home, State state,
                 const StatePiece& piece, const Unit& unit, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(piece.elements));
  draw_blocks(piece, unit, seed, [&](std::int64_t begin, std::span<const double> drawn) {
    std::ranges::copy(drawn, values.begin() + begin);
  });
  with_bytes(memory, piece, [&](std::byte* data) {
    store_scales(scales_in(home, state), values, piece.dtype, data);
  });
}

void initialise_codes(const Job& job, std::uint64_t seed, const RankMemory& memory,
                      const UnitHome& home) {
  const Unit& unit = job.units[home.unit];
  for (const StatePiece& piece : state_pieces(job, memory, home, State::kParam))
    draw_codes(memory, home, piece, unit, seed);
  for (const State state : {State::kMoment1, State::kMoment2})
    for (const StatePiece& piece : state_pieces(job, memory, home, state))
      draw_scales(memory, home, state, piece, unit, seed);
}

void initialise_home(const Job& job, std::uint64_t seed, const RankMemory& memory,
                     const UnitHome& home) {
  if (home.codes != Codes::kNone) return initialise_codes(job, seed, memory, home);
  const Unit& unit = job.units[home.unit];
  const std::vector<StatePiece> params = state_pieces(job, memory, home, State::kParam);
  std::vector<StatePiece> masters;
  if (home.master.buffer != home.param.buffer)
    masters = state_pieces(job, memory, home, State::kMaster);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const StatePiece* master = i < masters.size() ? &masters[i] : nullptr;
    if (master != nullptr && has_same_elements(params[i], *master)) {
      draw_both(memory, params[i], *master, unit, seed);
      continue;
    }
    draw(memory, params[i], unit, seed);
    if (master != nullptr && !copy_elements(memory, params[i], *master))
      draw(memory, *master, unit, seed);
  }
  for (std::size_t i = params.size(); i < masters.size(); ++i) draw(memory, masters[i], unit, seed);
  for (const State state : kStates)
    if (state >= State::kMoment1)
      for (const StatePiece& piece : state_pieces(job, memory, home, state)) clear(memory, piece);
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
    for (const BufferId id : home.buffers()) is_home[id] = true;
  }
  return is_home;
}

}  // namespace

std::string name_in_layer(const Tensor& tensor, std::int64_t layer) {
  const std::size_t place = tensor.name.find('{'), end = tensor.name.find('}');
  if (place == std::string::npos || end == std::string::npos) return tensor.name;
  std::int64_t less = 0;
  const char* const from = tensor.name.data() + place + 1;
  if (end > place + 1) std::from_chars(from, tensor.name.data() + end, less);
  return std::string(tensor.name).replace(place, end + 1 - place, std::to_string(layer + less));
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
  clear_carried(memory);
}

void clear_carried(RankMemory& memory) {
  for (BufferId id : carried_buffers(memory.rank_class())) clear(memory, id);
}

}  // namespace zplan::exec
