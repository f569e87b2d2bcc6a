#include "exec/checkpoint/state_filler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "exec/checkpoint/saved_states.h"
#include "exec/kernels/dynamic_codes.h"
#include "exec/memory/coded_state.h"
#include "exec/memory/initial_state.h"
#include "exec/scalar.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan::exec {
namespace {

bool is_moment(State state) { return state >= State::kMoment1; }

// The DType of moments in bytes is that of their codes.
bool is_in_blocks(const RankMemory& memory, const UnitHome& home) {
  if (home.moments.empty() || home.codes != Codes::kNone) return false;
  return memory.rank_class().program.buffers[home.moments.front().buffer].dtype == DType::kU8;
}

const DynamicCodes<double>& codes_of(State state) {
  return state == State::kMoment1 ? kSignedCodes<double> : kUnsignedCodes<double>;
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.shape == b.shape && a.offset == b.offset && a.split == b.split &&
         a.piece_rows == b.piece_rows && a.blocks == b.blocks;
}

bool is_same(const SavedPiece& a, const StatePiece& b, const std::vector<Tensor>& tensors) {
  return a.dtype == b.dtype && a.piece == b.piece && a.pieces == b.pieces && a.first == b.first &&
         a.elements == b.elements && a.every == b.every &&
         std::equal(a.tensors.begin(), a.tensors.end(), tensors.begin(), tensors.end(),
                    [](const Tensor& x, const Tensor& y) { return is_same(x, y); });
}

std::string words(const Shape& shape) {
  return joined(std::span(shape.dims).first(static_cast<std::size_t>(shape.rank)), ", ");
}

// Elements of both types, one by one.
void convert(std::byte* to, DType to_type, const std::byte* from, DType from_type, std::int64_t n) {
  if (to_type == from_type) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size_of(to_type).value));
    return;
  }
  with_float_type(to_type, [&](auto target) {
    auto* const out = reinterpret_cast<decltype(target)*>(to);
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = rounded<decltype(target)>(load_scalar(from, from_type, i));
  });
}

}  // namespace

void StateFiller::fill(RankMemory& memory) {
  for (const UnitHome& home : memory.rank_class().homes) fill_home(memory, home);
}

void StateFiller::fill_home(RankMemory& memory, const UnitHome& home) {
  if (home.codes != Codes::kNone) return fill_codes(memory, home);
  const bool in_blocks = is_in_blocks(memory, home);
  for (const State state : kStates) {
    const bool is_param = state == State::kMaster && home.master.buffer == home.param.buffer;
    if (is_param || (in_blocks && state > State::kMoment2)) continue;
    const std::vector<StatePiece> pieces = state_pieces(job_, memory, home, state);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const StatePiece& piece = pieces[i];
      store_bytes(memory, piece.buffer, piece.slot, piece.bytes(), [&](std::byte* data) {
        if (!in_blocks || !is_moment(state)) return fill_piece(home, state, piece, data);
        const auto after = static_cast<State>(static_cast<int>(state) + kScalesAfterCodes);
        const StatePiece scales = state_pieces(job_, memory, home, after)[i];
        store_bytes(memory, scales.buffer, scales.slot, scales.bytes(), [&](std::byte* other) {
          fill_blocks(home, state, piece, scales, data, other);
        });
      });
    }
  }
}

// Fills codes in as they were saved, or makes them of parameters that were saved as numbers.
void StateFiller::fill_codes(RankMemory& memory, const UnitHome& home) {
  for (const State state : {State::kParam, State::kMoment1, State::kMoment2})
    for (const StatePiece& piece : state_pieces(job_, memory, home, state))
      store_bytes(memory, piece.buffer, piece.slot, piece.bytes(), [&](std::byte* data) {
        if (const std::byte* same = same_piece(home, state, piece)) {
          std::memcpy(data, same, static_cast<std::size_t>(piece.bytes().value));
          return;
        }
        StatePiece exact = piece;
        exact.dtype = DType::kF64;
        exact.every = 1;
        std::vector<double> values(static_cast<std::size_t>(piece.elements));
        fill_piece(home, State::kParam, exact, reinterpret_cast<std::byte*>(values.data()));
        auto* const bytes = reinterpret_cast<std::uint8_t*>(data);
        if (state == State::kParam) return encode(home.codes, values, bytes);
        store_scales(scales_in(home, state), values, piece.dtype, data);
      });
}

void StateFiller::fill_piece(const UnitHome& home, State state, const StatePiece& piece,
                             std::byte* data) {
  if (const std::byte* same = same_piece(home, state, piece)) {
    std::memcpy(data, same, static_cast<std::size_t>(piece.bytes().value));
    return;
  }
  std::fill_n(data, piece.bytes().value, std::byte{0});
  const std::int64_t size = size_of(piece.dtype).value;
  const auto copy = [&](const StateSource::Source& at, std::int64_t from, std::int64_t to,
                        std::int64_t n) {
    const SavedPiece& saved = source_.piece(at);
    const std::byte* const bytes = source_.bytes(at);
    if (saved.dtype == DType::kU8 && !is_moment(state))
      throw_bad_input(
          fmt::format("{}: has 4-bit codes of {}, which only a plan with the same base reads that "
                      "cuts it the same",
                      source_.path(), saved.tensors[at.tensor].name));
    if (saved.dtype != DType::kU8) {
      convert(data + to * size, piece.dtype, bytes + from * size_of(saved.dtype).value, saved.dtype,
              n);
      return;
    }
    const StateSource::Source scales = source_.scales_of(at);
    const SavedPiece& of_scales = source_.piece(scales);
    const std::byte* const scale_bytes = source_.bytes(scales);
    with_float_type(piece.dtype, [&](auto type) {
      auto* const out = reinterpret_cast<decltype(type)*>(data) + to;
      for (std::int64_t i = 0; i < n; ++i) {
        const double scale =
            load_scalar(scale_bytes, of_scales.dtype, (from + i) / of_scales.every);
        const auto code = std::to_integer<std::size_t>(bytes[from + i]);
        out[i] = rounded<decltype(type)>(codes_of(state).values[code] * scale);
      }
    });
  };
  for_sources(home, state, piece, copy);
}

void StateFiller::fill_blocks(const UnitHome& home, State state, const StatePiece& codes,
                              const StatePiece& scales, std::byte* code_data,
                              std::byte* scale_data) {
  const std::byte* const same_codes = same_piece(home, state, codes);
  const auto after = static_cast<State>(static_cast<int>(state) + kScalesAfterCodes);
  const std::byte* const same_scales = same_piece(home, after, scales);
  if (same_codes != nullptr && same_scales != nullptr) {
    std::memcpy(code_data, same_codes, static_cast<std::size_t>(codes.bytes().value));
    std::memcpy(scale_data, same_scales, static_cast<std::size_t>(scales.bytes().value));
    return;
  }
  StatePiece exact = codes;
  exact.dtype = DType::kF64;
  std::vector<double> values(static_cast<std::size_t>(codes.elements));
  fill_piece(home, state, exact, reinterpret_cast<std::byte*>(values.data()));
  for (std::int64_t first = 0; first < codes.elements; first += scales.every) {
    const std::int64_t n = std::min<std::int64_t>(scales.every, codes.elements - first);
    const std::span<const double> block(values.data() + first, static_cast<std::size_t>(n));
    double scale = 0;
    for (const double value : block) scale = std::max(scale, std::abs(value));
    for (std::int64_t i = 0; i < n; ++i)
      code_data[first + i] = std::byte{
          codes_of(state).code(scale > 0 ? block[static_cast<std::size_t>(i)] / scale : 0.0)};
    with_float_type(scales.dtype, [&](auto type) {
      reinterpret_cast<decltype(type)*>(scale_data)[first / scales.every] =
          rounded<decltype(type)>(scale);
    });
  }
}

template <typename Use>
void StateFiller::for_sources(const UnitHome& home, State state, const StatePiece& piece,
                              const Use& use) {
  for (Tensor tensor : job_.units[home.unit].tensors) {
    const std::vector<PieceRun> to =
        piece_runs(tensor, piece.piece, piece.pieces, piece.first, piece.elements);
    if (to.empty()) continue;
    tensor.name = name_in_layer(tensor, piece.layer + tensor.member);
    if (is_moment(state) && !has_moments(home, tensor.name)) {
      without_.insert(tensor.name);
      continue;
    }
    std::int64_t found = 0;
    for (const StateSource::Source& at :
         source_.sources(tensor.name, source_state(tensor.name, state, piece.dtype))) {
      const SavedPiece& saved = source_.piece(at);
      const Tensor& other = saved.tensors[at.tensor];
      if (other.shape != tensor.shape)
        throw_bad_input(fmt::format("{}: {} is [{}], expected [{}]: another model", source_.path(),
                                    tensor.name, words(other.shape), words(tensor.shape)));
      const std::vector<PieceRun> from =
          piece_runs(other, saved.piece, saved.pieces, saved.first, saved.elements);
      found += for_common_runs(
          from, to, [&](std::int64_t a, std::int64_t b, std::int64_t n) { use(at, a, b, n); });
    }
    if (found != count_elements(to))
      throw_bad_input(fmt::format("{}: has {} of {} elements of {} of {}", source_.path(), found,
                                  count_elements(to), name(state), tensor.name));
  }
}

// A parameter of another type is that of its master, which has more bits.
State StateFiller::source_state(const std::string& tensor, State state, DType dtype) const {
  if (is_moment(state)) return state;
  const auto& masters = source_.sources(tensor, State::kMaster);
  const auto& params = source_.sources(tensor, State::kParam);
  if (masters.empty()) return State::kParam;
  const bool is_param =
      state == State::kParam && !params.empty() && source_.piece(params.front()).dtype == dtype;
  return is_param ? State::kParam : State::kMaster;
}

// As many as the home has, whatever their types.
bool StateFiller::has_moments(const UnitHome& home, const std::string& tensor) const {
  constexpr std::size_t kMostMoments = 2;
  std::size_t saved = 0;
  for (const State state : {State::kMoment1, State::kMoment2})
    if (!source_.sources(tensor, state).empty()) ++saved;
  return saved == std::min(home.moments.size(), kMostMoments);
}

const std::byte* StateFiller::same_piece(const UnitHome& home, State state,
                                         const StatePiece& piece) {
  const std::vector<Tensor> tensors = saved_tensors(job_.units[home.unit], piece);
  if (tensors.empty()) return nullptr;
  if (is_moment(state) && !has_moments(home, tensors.front().name)) return nullptr;
  for (const StateSource::Source& at : source_.sources(tensors.front().name, state))
    if (is_same(source_.piece(at), piece, tensors)) return source_.bytes(at);
  return nullptr;
}

}  // namespace zplan::exec
