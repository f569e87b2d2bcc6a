#include "exec/memory/coded_state.h"

#include <vector>

#include "exec/kernels/four_bits.h"
#include "exec/scalar.h"

namespace zplan::exec {
namespace {

void store_rounded(std::span<const double> values, DType dtype, std::byte* to) {
  with_float_type(dtype, [&](auto type) {
    auto* const out = reinterpret_cast<decltype(type)*>(to);
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = rounded<decltype(type)>(values[i]);
  });
}

}  // namespace

void encode(Codes codes, std::span<const double> values, std::uint8_t* to) {
  const CodeTable& table = code_table(codes == Codes::kFp4);
  for (std::int64_t i = 0; i < std::ssize(values); i += kCodeBlock) {
    const std::span<const double> block =
        values.subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(kCodeBlock));
    encode_block(table, block, greatest_magnitude(block), to + i / 2);
  }
}

Scales scales_in(const UnitHome& home, State moment) {
  if (moment == State::kMoment2) return Scales::kConstants;
  return home.moments.size() > 1 ? Scales::kBytes : Scales::kPlain;
}

void store_scales(Scales what, std::span<const double> values, DType dtype, std::byte* to) {
  const auto block = static_cast<std::size_t>(kCodeBlock);
  std::vector<double> scales(values.size() / block);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = greatest_magnitude(values.subspan(i * block, block));
  if (what == Scales::kPlain) return store_rounded(scales, dtype, to);
  const auto size = static_cast<std::size_t>(kScalesOfConstant);
  std::vector<double> constants(scales.size() / size);
  for (std::size_t i = 0; i < constants.size(); ++i)
    constants[i] = greatest_magnitude(std::span(scales).subspan(i * size, size));
  if (what == Scales::kConstants) return store_rounded(constants, dtype, to);
  for (std::size_t i = 0; i < scales.size(); ++i)
    to[i] = std::byte{scale_code(scales[i], constants[i / size])};
}

}  // namespace zplan::exec
