// States of a unit that is kept as 4-bit codes (exec/kernels/four_bits.h), made of its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/memory/state_access.h"

namespace zplan::exec {

// Whole blocks of values; two codes a byte.
void encode(Codes codes, std::span<const double> values, std::uint8_t* to);

// Scales multiply the codes of whole blocks of values. They are of a float type, or a byte each
// where they have 8 bits; constants multiply such bytes.
enum class Scales : std::uint8_t { kPlain, kBytes, kConstants };
Scales scales_in(const UnitHome& home, State moment);
void store_scales(Scales what, std::span<const double> values, DType dtype, std::byte* to);

}  // namespace zplan::exec
