// Values of tensors by their Euclidean norm, and the parts of a QKV bias.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace zplan::testing_support {

inline double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

inline bool is_qkv_bias(const std::string& tensor) { return tensor.ends_with("c_attn.bias"); }
// Of cross-attention that of the keys stands alone.
inline bool is_key_bias(const std::string& tensor) {
  return tensor.ends_with("crossattention.k.bias");
}

// Query, key and value part of a QKV bias.
inline std::vector<std::vector<double>> thirds(const std::vector<double>& v) {
  const auto third = static_cast<std::ptrdiff_t>(v.size() / 3);
  return {{v.begin(), v.begin() + third},
          {v.begin() + third, v.end() - third},
          {v.end() - third, v.end()}};
}

}  // namespace zplan::testing_support
