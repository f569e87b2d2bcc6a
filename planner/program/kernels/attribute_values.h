// What attributes of kernels mean that are no plain numbers: activation functions, the epsilon of a
// norm. 0 is what a kernel does without one.
#pragma once

#include <cstdint>

namespace zplan {

// 0: the one that the kernel is named after, the tanh form of GELU or, gated, SiLU.
enum class ActivationFunction : std::uint8_t {
  kOwn,
  kGeluTanh,
  kGelu,
  kSilu,
  kRelu,
  kQuickGelu,
  kSquaredRelu
};

// A limit of an activation is written in units of 1e-9.
constexpr double limit_of(std::int64_t attribute) { return static_cast<double>(attribute) / 1e9; }

// An epsilon is written in units of 1e-12. The usual one, 1e-5, is that of GPT-2 [Radford19] and
// of Llama 2 and 3 [Touvron23].
inline constexpr std::int64_t kUsualEpsilon = 10'000'000;
constexpr std::int64_t epsilon_attribute(std::int64_t epsilon) {
  return epsilon == kUsualEpsilon ? 0 : epsilon;
}
constexpr double epsilon_of(std::int64_t attribute) {
  return static_cast<double>(attribute == 0 ? kUsualEpsilon : attribute) / 1e12;
}

}  // namespace zplan
