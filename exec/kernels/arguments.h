// What kernels take on every device: sizes and addresses. T is the compute type of the kernel set,
// G that of gradients.
#pragma once

#include <cstdint>
#include <limits>

#include "exec/kernels/compute_type.h"
#include "planner/core/philox.h"
#include "planner/program/job/ops.h"
#include "planner/program/kernels/attribute_values.h"

namespace zplan::exec {

// ---- matrix products ----------------------------------------------------------------------------

enum class GemmOp : std::uint8_t {
  kNN,  // A is [m, k], B is [k, n]
  kNT,  // A is [m, k], B is stored [n, k]
  kTN,  // A is stored [k, m], B is [k, n]
};

// What follows C[m, n] = op(A) op(B).
enum class GemmEpilogue : std::uint8_t {
  kNone,
  kBias,          // C += vector[n] on every row
  kColumnSums,    // vector[n] = column sums of B over k
  kBiasGelu,      // aux = product + vector[n], C = gelu(aux)
  kGeluGradient,  // C = product gelu'(aux)
};

// ---- embedding ----------------------------------------------------------------------------------

struct EmbeddingShape {
  std::int64_t batch, sequence, hidden;
  std::int64_t rows;              // of the piece
  std::int64_t first = 0;         // token of its row 0
  std::int64_t token_stride = 0;  // from sequence to sequence; on the CPU 0: dense
  double scale = 1;               // of the rows of the table
};

template <typename T>
struct EmbeddingForward {
  T* x;                        // [b, s, h], overwritten
  const std::int32_t* tokens;  // [b, token_stride], the first s of each
  const T* wte;                // [rows, h]
  const T* wpe;                // [s, h], the first s rows of the table; null: no positions
};

template <typename T, typename G = T>
struct EmbeddingBackward {
  G* dwte;  // [rows, h]
  G* dwpe;  // [s, h]; null: no positions
  const T* dx;
  const std::int32_t* tokens;
  bool accumulate_wte;  // false: overwritten, rows of absent tokens become zero; true: added
  bool accumulate_wpe;
};

// ---- norms --------------------------------------------------------------------------------------

struct NormShape {
  std::int64_t tokens, hidden;
};

// RMSNorm has neither mean nor bias; without a gain and a bias these pointers are null.
template <typename T>
struct NormForward {
  T* y;              // [T, h], overwritten
  Compute<T>* mean;  // [T], overwritten, kept for backward
  Compute<T>* rstd;  // [T], overwritten, kept for backward
  const T* x;
  const T* gain;  // [h]
  const T* bias;  // [h]
  double epsilon = epsilon_of(0);
};

template <typename T, typename G = T>
struct NormBackward {
  T* dx;     // [T, h]
  G* dgain;  // [h]
  G* dbias;  // [h]
  const T* dy;
  const T* x;
  const Compute<T>* mean;
  const Compute<T>* rstd;
  const T* gain;
  bool accumulate_dx;          // false overwrites, true adds
  bool accumulate_parameters;  // the same for dgain and dbias
};

// What is normalised: the sum of the residual stream and a branch. bias is null for RMSNorm.
template <typename T>
struct ResidualSum {
  T* sum;         // [T, h] x + (y + bias), overwritten
  const T* x;     // [T, h]
  const T* y;     // [T, h]
  const T* bias;  // [h]
};

// ---- layers -------------------------------------------------------------------------------------

struct SwigluShape {
  std::int64_t tokens, width;
  ActivationFunction function = ActivationFunction::kSilu;  // of the gate
  double limit = std::numeric_limits<double>::infinity();
  double offset = 0;  // of up, beside its limits
};

struct RopeShape {
  std::int64_t batch, sequence, heads, head_dim;  // of the array; head_dim even
  std::int64_t turned;                            // the first heads, which turn
  std::int64_t first = 0;                         // position of the first token
  std::int64_t size = head_dim;                   // the first elements of each, even, which do
  std::int64_t stretch = 1;                       // by which positions are divided

  std::int64_t pairs() const { return size / 2; }
};

// Columns cut into pieces, each of which has its equal part of all segments.
struct ColumnPieces {
  std::int64_t rows, pieces;
  std::int64_t segments[3];  // what a piece has of each

  std::int64_t width() const { return segments[0] + segments[1] + segments[2]; }
};

struct SquareRows {
  std::int64_t squares, sequence;  // b a of them, s x s each
};

// Heads of attention and what each has beside its scores, [a].
template <typename T>
struct SinksForward {
  T* out;           // [b, s, a, v], updated
  Compute<T>* lse;  // [b, a, s], updated
  const T* sinks;   // [a]
};
template <typename T, typename G = T>
struct SinksBackward {
  G* dsinks;              // [a]
  const T* dout;          // [b, s, a, v]
  const T* out;           // [b, s, a, v]
  const Compute<T>* lse;  // [b, a, s]
  const T* sinks;         // [a]
  bool accumulate;        // false overwrites, true adds
};
struct SinksShape {
  std::int64_t batch, sequence, heads, value_dim;
};

// ---- loss ---------------------------------------------------------------------------------------

inline constexpr std::int32_t kIgnoredTarget = -1;  // of a token without a loss

struct CrossEntropyShape {
  std::int64_t batch, sequence;  // tokens, b s of them
  std::int64_t valid;            // columns of the piece that belong to the vocabulary, may be none
  std::int64_t columns;          // with padding: elements from row to row
  std::int64_t first;            // vocabulary index of column 0
  double cap = 0;                // of the logits; 0: none
};

// Both in float64: the loss of the step is added up, the gradients carry the loss scale.
struct LossSum {
  double* loss;              // [1], gains sum of -log p(target) times `scale`
  const double* loss_scale;  // [1]; null: 1
  double scale;              // 1 / (valid tokens of the global batch)
};

// ---- optimizer ----------------------------------------------------------------------------------

// Elements of a floating-point type that is known at run time.
struct Elements {
  void* data;  // null: none
  DType type;
};

struct Adamw {
  Elements master;        // [n], updated
  Elements m;             // [n], updated, first moment
  Elements v;             // [n], updated, second moment; of the type of m
  Elements grad;          // [n], only read
  Elements param;         // [n], overwritten with the new master; null or the master: nothing
  const double* scalars;  // [11] (step_scalars.h)
  const double* clip;     // [2]; a negative factor or an inactive step skips the update
  std::int64_t n;
  std::int64_t flat_offset;     // place of element 0 in its flat unit
  std::int64_t decay_elements;  // the first elements of the flat unit, the ones that decay
  PhiloxKey key;                // of the random bits
  std::uint32_t place;          // which unit, layer and tile
};

// m and v are u8 in it, of blocks with a scale each.
struct AdamwBlocks {
  Adamw adamw;
  Elements m_scale, v_scale;  // [ceil(n / block)], updated, in the type of the computation
  std::int64_t block;
};

struct MuonMomentum {
  Elements m;       // [n], updated
  Elements grad;    // [n], only read
  Elements update;  // [n], overwritten, in the type of the computation
  const double* scalars;
  const double* clip;
  std::int64_t n, flat_offset;
  PhiloxKey key;
  std::uint32_t place;
};

// [r, c] x, updated, and next; [min(r, c), min(r, c)] gram and polynomial. All but x are scratch.
template <typename C>
struct Orthogonalise {
  C *x, *next, *gram, *polynomial;
  std::int64_t rows, columns;
};

struct Sgd {
  Elements master;  // [n], updated
  Elements m;       // [n], updated; null: no momentum
  Elements grad;    // [n], only read
  Elements param;   // [n], overwritten with the new master; null or the master: nothing
  const double* scalars;
  const double* clip;
  std::int64_t n, flat_offset, decay_elements;
  PhiloxKey key;
  std::uint32_t place;
};

}  // namespace zplan::exec
