// The type in which a kernel on elements of type T computes and keeps statistics, on every device.
#pragma once

#include <type_traits>

namespace zplan::exec {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace zplan::exec
