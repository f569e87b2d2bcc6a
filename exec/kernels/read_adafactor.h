// How Adafactor's kernels read their calls, on every device, as read_states.h.
#pragma once

#include "exec/kernels/adafactor_arguments.h"
#include "exec/kernels/read_states.h"

namespace zplan::exec {

// Of a kernel whose first operand is the piece.
inline FactoredPart factored_part(const KernelCall& c) {
  return {.n = c[0].elements(),
          .first = flat_offset(c),
          .begin = c.attributes[1],
          .matrices = c.attributes[3],
          .rows = c.attributes[4],
          .columns = c.attributes[5]};
}

// As operand `i` holds them.
inline FactoredPart checked_part(const KernelCall& c, std::size_t i) {
  const FactoredPart part = factored_part(c);
  const std::int64_t moments = part.matrices * (part.rows + part.columns);
  if (part.matrices < 1 || part.rows < 1 || part.columns < 0 || c[i].elements() != moments)
    throw_bad_input("adafactor: " + std::to_string(part.matrices) + " x " +
                    std::to_string(part.rows) + " x " + std::to_string(part.columns) +
                    " elements with " + std::to_string(c[i].elements()) + " sums");
  return part;
}

inline constexpr auto read_adafactor_gradient = [](const KernelCall& c, const auto& body) {
  body(elements_of(c[0]), c[1].as<double>(), c[2].as<double>(), elements_of(c[3]), c[0].elements());
};

inline constexpr auto read_adafactor_sums = [](const KernelCall& c, const auto& body) {
  body(checked_part(c, 2), elements_of(c[0]), elements_of(c[1]), c[2].as<double>(),
       c[3].as<double>());
};

inline constexpr auto read_adafactor_factors = [](const KernelCall& c, const auto& body) {
  body(FactoredMoments{.part = checked_part(c, 1),
                       .update = elements_of(c[0]),
                       .moments = elements_of(c[1]),
                       .sums = c[2].as<double>(),
                       .scalars = c[3].as<double>(),
                       .clip = c[4].as<double>(),
                       .squares = c[5].as<double>(),
                       .key = seed_key(c.services->train().seed),
                       .place = rounding_place(c)});
};

inline constexpr auto read_adafactor_scale = [](const KernelCall& c, const auto& body) {
  body(factored_part(c), elements_of(c[0]), c[1].as<double>(), c[2].as<double>(),
       c[3].as<double>());
};

}  // namespace zplan::exec
