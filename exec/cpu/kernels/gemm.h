// Dense matrix product C[m,n] = op(A) op(B) + beta C (+ bias[n] on every row), beta 0 or 1.
// Work: 2 m n k flop; least traffic (m k + k n + (1 or 2) m n) elements.
// float of at least 32 rows, columns and depth runs on tile registers where the machine has them;
// else on oneDNN where that is built in, not slow, and offers an implementation that allocates
// nothing while it runs; other floats and doubles run on blocked_gemm of this folder.
// 16-bit operands run on mixed_gemm, which sums in float and rounds once; C is of their type or
// float.
// Results do not depend on the number of OpenMP threads, neither in prepare nor in run.
// Left out: batched products, TT, alpha, 16-bit instructions but those of AMX.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "exec/cpu/kernels/scratch.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

struct GemmShape {
  GemmOp op = GemmOp::kNN;
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;                 // beta = 1
  bool bias = false;                       // operands carry bias[n]
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // elements between stored rows; 0: rows are dense
  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// The shape with every leading dimension filled in.
GemmShape with_leading_dimensions(GemmShape shape);

template <typename T, typename C = T>
struct GemmOperands {
  const T* a;
  const T* b;
  C* c;                     // [m, n]; must not overlap a or b
  const T* bias = nullptr;  // [n], read iff shape.bias
};

// Goto-style product of this folder: B is packed panel by panel into scratch, row blocks of C are
// spread over the OpenMP threads, each of which packs its rows of A. Scratch for one thread is
// enough; more threads use what else there is. [Goto08]
template <typename T>
void blocked_gemm(const GemmShape& shape, const GemmOperands<T>& operands, Scratch scratch);
template <typename T>
Bytes blocked_gemm_scratch_bytes(const GemmShape& shape);

// The product of floats on tile registers (amx.h): whether it is made there, and how. Scratch for
// one thread is enough; threads share what there is, and are quicker with up to ten times as much.
bool amx_multiplies(const GemmShape& shape);
void amx_gemm(const GemmShape& shape, const GemmOperands<float>& operands, Scratch scratch);
Bytes amx_gemm_scratch_bytes();  // the least of a thread, of any shape

// The product of T = Bf16 or Fp16: tiles of A, B and C stand in scratch as floats, each tile of C
// is one thread's. Scratch for one thread is enough; more threads use what else there is.
template <typename T, typename C>
void mixed_gemm(const GemmShape& shape, const GemmOperands<T, C>& operands, Scratch scratch);
Bytes mixed_gemm_scratch_bytes();  // per thread, of any shape

// Holds what oneDNN builds per shape, so that a step builds nothing. One rank, one cache: use an
// instance from one thread at a time and never inside a parallel region; the OpenMP thread count of
// a product is the one at prepare. Different instances may run at the same time.
class GemmCache {
 public:
  GemmCache();
  ~GemmCache();
  GemmCache(GemmCache&&) noexcept;
  GemmCache& operator=(GemmCache&&) noexcept;

  // Ahead of the first step, once per shape; a second call for a shape does nothing.
  template <typename T>
  void prepare(const GemmShape& shape);

  // Scratch that run needs for a prepared shape.
  template <typename T>
  Bytes scratch_bytes(const GemmShape& shape) const;

  // For a prepared shape; allocates no block of 4 KiB or more.
  template <typename T, typename C = T>
  void run(const GemmShape& shape, const GemmOperands<T, C>& operands, Scratch scratch);

 private:
  struct Entries;
  std::unique_ptr<Entries> entries_;
};

}  // namespace zplan::exec::cpu
