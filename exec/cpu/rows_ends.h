// Rows of the dispatch table: segments, and the bias of logits. Internal to exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/model_ends.h"

namespace zplan::exec::cpu {

inline SegmentShape segment_shape(const Call& c) {
  const Shape& x = c[0].shape();
  return {x[0], x[1], x[2], c[1].shape()[0], c.attributes[0], c.attributes[2]};
}

template <typename T>
struct SegmentForwardRow {
  static void run(const Call& c, GemmCache&) {
    if (c.attributes[1] == 0) segment_forward<T>(segment_shape(c), c[0].as<T>(), c[1].as<T>());
  }
};

template <typename T>
struct SegmentBackwardRow {
  static void run(const Call& c, GemmCache&) {
    with_gradient<T>(c[1], [&]<typename G>(G* drows) {
      segment_backward<T>(segment_shape(c), drows, c[0].as<T>(), c[1].adds());
    });
  }
};

template <typename T>
struct AddBiasRow {
  static void run(const Call& c, GemmCache&) {
    add_bias<T>(c[0].shape()[0], c[0].shape()[1], c[0].as<T>(), c[1].as<T>());
  }
};

template <typename T>
constexpr auto end_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      DispatchEntry{K::kSegmentForward, nullptr, SegmentForwardRow<T>::run},
      DispatchEntry{K::kSegmentBackward, nullptr, SegmentBackwardRow<T>::run},
      DispatchEntry{K::kAddBias, nullptr, AddBiasRow<T>::run},
  });
}

}  // namespace zplan::exec::cpu
