#include "exec/checkpoint/finite.h"

#include <cstdint>

namespace zplan::exec {
namespace {

// A number whose exponent has all bits set is infinite or none.
template <typename Bits>
bool exponents_below(std::span<const std::byte> bytes, Bits exponent) {
  const std::span elements(reinterpret_cast<const Bits*>(bytes.data()),
                           bytes.size() / sizeof(Bits));
  bool found = false;  // without a branch: the compiler takes many elements at a time
  for (const Bits element : elements) found |= (element & exponent) == exponent;
  return !found;
}

}  // namespace

bool all_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF64:
      return exponents_below<std::uint64_t>(bytes, std::uint64_t{0x7ff} << 52);
    case DType::kF32:
      return exponents_below<std::uint32_t>(bytes, 0x7f800000U);
    case DType::kF16:
      return exponents_below<std::uint16_t>(bytes, 0x7c00U);
    case DType::kBf16:
      return exponents_below<std::uint16_t>(bytes, 0x7f80U);
    case DType::kI32:
    case DType::kU8:
      return true;
  }
  return true;
}

std::optional<std::string> not_finite(const SavedPiece& piece, std::span<const std::byte> bytes) {
  if (all_finite(piece.dtype, bytes)) return std::nullopt;
  const std::string name = piece.tensors.empty() ? "a parameter" : piece.tensors.front().name;
  return name + " has values that are not finite";
}

}  // namespace zplan::exec
