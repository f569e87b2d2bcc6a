// Rows of the dispatch table: segments, the bias of logits, and rows of images. Internal to
// exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/image_rows.h"
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

// `x`: the operand of all tokens.
inline ImageRowsShape image_rows_shape(const Call& c, std::size_t x) {
  const Shape& shape = c[x].shape();
  return {shape[0], shape[1], c.attributes[0], c.attributes[1], c.attributes[2]};
}

template <typename T>
struct PutRowsRow {
  static void run(const Call& c, GemmCache&) {
    put_rows<T>(image_rows_shape(c, 1), c[0].as<T>(), c[1].as<T>());
  }
};

template <typename T>
struct TakeRowsRow {
  static void run(const Call& c, GemmCache&) {
    take_rows<T>(image_rows_shape(c, 0), c[0].as<T>(), c[1].as<T>(), c[1].shape()[0]);
  }
};

template <typename T>
struct MeanRowsRow {
  static void run(const Call& c, GemmCache&) {
    const Shape &x = c[0].shape(), &y = c[1].shape();
    mean_rows<T>(c[0].as<T>(), c[1].as<T>(), y[0], x[0] / y[0], y[1]);
  }
};

template <typename T>
struct MeanRowsGradientRow {
  static void run(const Call& c, GemmCache&) {
    const Shape &dy = c[0].shape(), &dx = c[1].shape();
    mean_rows_gradient<T>(c[0].as<T>(), c[1].as<T>(), dy[0], dx[0] / dy[0], dy[1]);
  }
};

template <typename T>
constexpr auto end_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      DispatchEntry{K::kSegmentForward, nullptr, SegmentForwardRow<T>::run},
      DispatchEntry{K::kSegmentBackward, nullptr, SegmentBackwardRow<T>::run},
      DispatchEntry{K::kAddBias, nullptr, AddBiasRow<T>::run},
      DispatchEntry{K::kPutRows, nullptr, PutRowsRow<T>::run},
      DispatchEntry{K::kTakeRows, nullptr, TakeRowsRow<T>::run},
      DispatchEntry{K::kMeanRows, nullptr, MeanRowsRow<T>::run},
      DispatchEntry{K::kMeanRowsGradient, nullptr, MeanRowsGradientRow<T>::run},
  });
}

}  // namespace zplan::exec::cpu
