// Matrix products on cuBLASLt: C[m,n] = op(A) op(B) / sqrt(root) + beta C, beta 0 or 1, row-major,
// one or a batch of them equally far apart. Work: 2 m n k flop each; least traffic (m k + k n + (1
// or 2) m n) elements.
// A and B are float32, bf16 or fp16, C of their type or float32; sums in float32, rounded once
// (partial sums are never stored in 16 bits), float32 operands are not cut to TF32. What is added
// to C of 16 bits is rounded to them first: cuBLASLt 13.1 did so on an H100 with every algorithm
// that was tried. With an epilogue: + bias[n] on every row, also with GELU of that, or the product
// times the slope of GELU, or of kTN also the column sums of B.
// GELU is the tanh form in the library, as in kernels/elementwise.h; the library applies it to the
// float32 sums, kernels of our own to sums that were rounded to the type of C.
// The algorithm of a product is chosen once, ahead of the first step, among those that stay within
// the scratch of the operation and with the alignment that all its operands have: the fastest of
// those that the library proposes, with the epilogue or without it and with what does the rest. It
// may differ from run to run, and the bits with it, unless the last choice is given again
// (KernelChoice in exec/backend.h). run() allocates nothing and may be captured in a graph.
// A and B may also be codes of fp8 with a scale each in device memory. Then they lie with k
// innermost (kNT here, the form that the library calls TN), m, n and k are multiples of 16, and
// sums are not added up faster at the cost of digits (the library's fast accumulation stays off)
// [cuBLAS]. Left out: TT, batches with an epilogue.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/gemm_layout.h"
#include "exec/cuda/kernels/cast_fp8.h"
#include "exec/kernel_choice.h"

namespace zplan::exec::cuda {

// Elements from row to row, as stored, and from one matrix of a batch to the next. 0: rows are
// dense, and there is one matrix.
struct GemmStride {
  std::int64_t row = 0, matrix = 0;
  friend auto operator<=>(const GemmStride&, const GemmStride&) = default;
};

struct GemmShape {
  GemmOp op = GemmOp::kNN;
  std::int64_t m = 0, n = 0, k = 0;
  DType type = DType::kF32;    // of A and B, unless they are codes
  DType result = DType::kF32;  // of C and the vector
  bool accumulate = false;     // beta = 1
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  std::int64_t batch = 1;
  GemmStride a{}, b{}, c{};
  std::int64_t root = 1;
  Fp8Format a_fp8 = Fp8Format::kNone, b_fp8 = Fp8Format::kNone;  // both or neither

  bool in_fp8() const { return a_fp8 != Fp8Format::kNone; }
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// Bytes that divide each address, of c also that of aux; room for the algorithm.
struct GemmRoom {
  std::uint32_t a = 0, b = 0, c = 0, vector = 0;
  Bytes scratch{0};
  friend bool operator==(const GemmRoom&, const GemmRoom&) = default;
};

struct GemmOperands {
  const void* a;
  const void* b;
  void* c;  // must not overlap a or b
  void* vector = nullptr;
  void* aux = nullptr;  // like C
  void* scratch;
  const float *a_scale = nullptr, *b_scale = nullptr;  // of codes
};

// What an epilogue does that the product leaves out.
using GemmRest = std::function<void(cudaStream_t, const GemmOperands&)>;

// What was chosen, for reports.
struct GemmChoice {
  std::string what;               // the first operation with this product
  GemmShape shape;                // with the epilogue of the library's kernel
  std::string key = {};           // of the product and of the room that it has
  std::string value = {};         // which chooses the same again
  int timed = 0;                  // candidates
  double seconds = 0, first = 0;  // of the fastest, and of the library's first; 0: not timed
  int algorithm = 0;              // cuBLASLt's numbers
  std::uint32_t tile = 0, stages = 0;
  std::int32_t split_k = 1;
  Bytes workspace{0};
};

KernelChoice describe(const GemmChoice& choice);

class GemmPlans {
 public:
  GemmPlans();
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // Values of earlier choices by key, which are taken again.
  void know(std::map<std::string, std::string> choices) { known_ = std::move(choices); }

  // Ahead of the first step, once per operation; returns the workspace of its product. Operations
  // with one shape share a plan that suits all of them and has run once (warm_up.h). `rest` is what
  // the caller does where the product leaves the epilogue out. Throws Error naming the operation
  // when no algorithm does.
  Bytes prepare(const std::string& what, const GemmShape& shape, const GemmRoom& room,
                const GemmRest& rest = nullptr);

  // The epilogue that run() applies to a prepared shape. Where the library has no algorithm with
  // that of the shape, it is kBias instead of kBiasGelu, and kNone instead of any other but kBias.
  GemmEpilogue epilogue(const GemmShape& shape) const;
  void run(cudaStream_t stream, const GemmShape& shape, const GemmOperands& operands) const;

  std::span<const GemmChoice> choices() const { return choices_; }

 private:
  struct Plan;
  struct Library;

  void choose(Plan& plan, const GemmShape& shape, const GemmRest& rest);
  void time_candidates(Plan& plan, const GemmShape& shape, const GemmRest& rest);

  std::unique_ptr<Library> library_;
  std::map<GemmShape, std::unique_ptr<Plan>> plans_;
  std::vector<GemmChoice> choices_;
  std::map<std::string, std::string> known_;
};

}  // namespace zplan::exec::cuda
