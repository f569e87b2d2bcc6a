// Rows of the dispatch table: gradients, optimizer states and conversions between types. Internal
// to exec/cuda.
#pragma once

#include "exec/cuda/call_support.h"
#include "exec/cuda/kernels/adamw.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/gradient_norm.h"
#include "exec/host_kernels.h"
#include "planner/core/random.h"

namespace zplan::exec::cuda {

inline void run_accumulate(const KernelCall& c, LaneContext& lane) {
  with_state(c[0], [&]<typename From>(const From* from) {
    with_state(c[1], [&]<typename To>(To* to) {
      accumulate<To, From>(lane.stream, to, from, c[0].elements());
    });
  });
}

inline void run_cast(const KernelCall& c, LaneContext& lane) {
  with_state(c[0], [&]<typename From>(const From* from) {
    with_state(
        c[1], [&]<typename To>(To* to) { cast<To, From>(lane.stream, to, from, c[0].elements()); });
  });
}

inline void run_fill_zero(const KernelCall& c, LaneContext& lane) {
  fill_zero(lane.stream, c[0].data, c[0].view->bytes().value);
}

inline void run_sum_squares(const KernelCall& c, LaneContext& lane) {
  if (!is_counted(c)) return;
  const std::int64_t n = counted_squares(c);
  with_state(c[0], [&]<typename T>(const T* x) {
    sum_squares<T>(lane.stream, c[1].as<double>(), x, n, lane.partials);
  });
}

inline void run_clip_coefficient(const KernelCall& c, LaneContext& lane) {
  clip_coefficient(lane.stream, c[2].as<double>(), c[0].as<double>(), c[1].as<double>(),
                   c.attributes[0] != 0);
}

inline Elements elements_of(const Operand& operand) { return {operand.data, operand.view->dtype}; }

inline void run_adamw(const KernelCall& c, LaneContext& lane) {
  const bool has_param = c.operands.size() > 6;
  adamw(lane.stream, {.master = elements_of(c[0]),
                      .m = elements_of(c[1]),
                      .v = elements_of(c[2]),
                      .grad = elements_of(c[3]),
                      .param = has_param ? elements_of(c[6]) : Elements{nullptr, c[0].view->dtype},
                      .scalars = c[4].as<double>(),
                      .clip = c[5].as<double>(),
                      .n = c[0].elements(),
                      .flat_offset = flat_offset(c),
                      .decay_elements = c.attributes[1],
                      .key = seed_key(c.services->train().seed),
                      .place = rounding_place(c)});
}

}  // namespace zplan::exec::cuda
