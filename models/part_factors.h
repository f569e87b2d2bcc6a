// Factors of parts of a layer that have no parameters, as Falcon-H1 has them [Zuo25]: the
// columns of first products are multiplied by one each, and what enters the last product of a mixer
// with a state.
#pragma once

#include <cstdint>
#include <string_view>

namespace zplan {

// The factors are in units of 1e-9.
struct PartFactors {
  static constexpr std::int64_t kOne = 1'000'000'000;

  // Mamba-2 has these: of the gate, of what the state takes, of B, C and steps, and of the input of
  // its last product.
  std::int64_t mamba_z = kOne, mamba_x = kOne, mamba_b = kOne, mamba_c = kOne, mamba_dt = kOne;
  std::int64_t mamba_out = kOne;
  std::int64_t query = kOne, key = kOne, value = kOne;  // of attention, before positions
  std::int64_t gate = kOne, up = kOne;                  // of a gated MLP

  friend bool operator==(const PartFactors&, const PartFactors&) = default;
};

struct PartFactorField {
  std::string_view name;
  std::int64_t PartFactors::*member;
};
inline constexpr PartFactorField kPartFactorFields[] = {
    {"mamba_z_factor", &PartFactors::mamba_z},   {"mamba_x_factor", &PartFactors::mamba_x},
    {"mamba_b_factor", &PartFactors::mamba_b},   {"mamba_c_factor", &PartFactors::mamba_c},
    {"mamba_dt_factor", &PartFactors::mamba_dt}, {"mamba_out_factor", &PartFactors::mamba_out},
    {"query_factor", &PartFactors::query},       {"key_factor", &PartFactors::key},
    {"value_factor", &PartFactors::value},       {"mlp_gate_factor", &PartFactors::gate},
    {"mlp_up_factor", &PartFactors::up},
};

}  // namespace zplan
