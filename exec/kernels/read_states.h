// How kernels of gradients, optimizer states and conversions read their calls, on every device, as
// read_model.h. H: the 16-bit types of the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "exec/host_kernels.h"
#include "exec/kernels/operands.h"
#include "planner/core/random.h"
#include "planner/core/units.h"

namespace zplan::exec {

template <typename C, typename H>
inline constexpr auto read_two_states = [](const KernelCall& c, const auto& body) {
  with_state<C, H>(c[0], [&](const auto* from) {
    with_state<C, H>(c[1], [&](auto* to) { body(to, from, c[0].elements()); });
  });
};

// Of any type: zero has the same bytes in all of them.
inline constexpr auto read_fill_zero = [](const KernelCall& c, const auto& body) {
  body(c[0].data, c[0].view->bytes().value);
};

// Place of element 0 in its flat unit.
inline std::int64_t flat_offset(const KernelCall& c) { return c.attributes[0]; }

// Of copies of a shard only the first counts; of what all tensor parallel ranks have, that of the
// first of them.
template <typename C, typename H>
inline constexpr auto read_sum_squares = [](const KernelCall& c, const auto& body) {
  const std::int64_t shared_from = c.attributes[1], tensor_member = c.attributes[2];
  if (c.attributes[3] != 0) return;
  const bool all = shared_from < 0 || tensor_member == 0;
  const std::int64_t n = c[0].elements();
  const std::int64_t counted =
      all ? n : std::clamp<std::int64_t>(shared_from - flat_offset(c), 0, n);
  with_state<C, H>(c[0], [&](const auto* x) { body(c[1].as<double>(), x, counted); });
};

inline constexpr auto read_clip_coefficient = [](const KernelCall& c, const auto& body) {
  body(c[2].as<double>(), c[0].as<double>(), c[1].as<double>(), c.attributes[0] != 0);
};

// Which unit, layer and tile an update rounds: a 12-bit unit, a 16-bit layer and a 4-bit tile.
inline std::uint32_t rounding_place(const KernelCall& c) {
  return static_cast<std::uint32_t>(c.attributes[2] << 20 | c.env.layer << 4 | c.env.tile);
}

// Of a kernel whose gradient is operand `grad`; scalars, clip and, where it is apart, the parameter
// follow it.
inline Adamw adamw_of(const KernelCall& c, std::size_t grad) {
  const bool has_param = c.operands.size() > grad + 3;
  return {.master = elements_of(c[0]),
          .m = elements_of(c[1]),
          .v = elements_of(c[2]),
          .grad = elements_of(c[grad]),
          .param = has_param ? elements_of(c[grad + 3]) : Elements{nullptr, c[0].view->dtype},
          .scalars = c[grad + 1].as<double>(),
          .clip = c[grad + 2].as<double>(),
          .n = c[0].elements(),
          .flat_offset = flat_offset(c),
          .decay_elements = c.attributes[1],
          .key = seed_key(c.services->train().seed),
          .place = rounding_place(c)};
}

inline constexpr auto read_adamw = [](const KernelCall& c, const auto& body) {
  body(adamw_of(c, 3));
};

inline constexpr auto read_adamw_8bit = [](const KernelCall& c, const auto& body) {
  const std::int64_t n = c[0].elements(), blocks = std::max<std::int64_t>(1, c[3].elements());
  body(AdamwBlocks{adamw_of(c, 5), elements_of(c[3]), elements_of(c[4]), ceil_div(n, blocks)});
};

// `grad`: 1, or 2 after a moment.
template <std::size_t grad>
inline constexpr auto read_sgd = [](const KernelCall& c, const auto& body) {
  const DType type = c[0].view->dtype;
  const bool has_param = c.operands.size() > grad + 3;
  body(Sgd{.master = elements_of(c[0]),
           .m = grad > 1 ? elements_of(c[1]) : Elements{nullptr, type},
           .grad = elements_of(c[grad]),
           .param = has_param ? elements_of(c[grad + 3]) : Elements{nullptr, type},
           .scalars = c[grad + 1].as<double>(),
           .clip = c[grad + 2].as<double>(),
           .n = c[0].elements(),
           .flat_offset = flat_offset(c),
           .decay_elements = c.attributes[1],
           .key = seed_key(c.services->train().seed),
           .place = rounding_place(c)});
};

inline constexpr auto read_muon_momentum = [](const KernelCall& c, const auto& body) {
  body(MuonMomentum{.m = elements_of(c[0]),
                    .grad = elements_of(c[1]),
                    .update = elements_of(c[4]),
                    .scalars = c[2].as<double>(),
                    .clip = c[3].as<double>(),
                    .n = c[0].elements(),
                    .flat_offset = flat_offset(c),
                    .key = seed_key(c.services->train().seed),
                    .place = rounding_place(c)});
};

// C: the type of the computation.
template <typename C>
inline constexpr auto read_orthogonalise = [](const KernelCall& c, const auto& body) {
  const std::int64_t side = std::min(c[0].shape()[0], c[0].shape()[1]);
  if (c[2].shape()[0] < side)
    throw_bad_input("orthogonalise: a matrix whose shorter side is " + std::to_string(side) +
                    " in scratch of " + std::to_string(c[2].shape()[0]));
  body(Orthogonalise<C>{c[0].as<C>(), c[1].as<C>(), c[2].as<C>(), c[3].as<C>(), c[0].shape()[0],
                        c[0].shape()[1]});
};

// What it goes down is the gradient of Sgd.
inline constexpr auto read_muon = read_sgd<1>;

}  // namespace zplan::exec
