// What a layer multiplies matrices for. Kernel table and measured tables both speak of it.
#pragma once

#include <cstdint>

namespace zplan {

// The output of a layer, the gradient of its input, or that of its weights, which is added to what
// is there in float32 or, the last one, in 16 bits.
enum class ProductPhase : std::uint8_t {
  kForward,
  kInputGradient,
  kWeightGradient,
  kShortWeightGradient
};
inline constexpr int kProductPhases = 4;

}  // namespace zplan
