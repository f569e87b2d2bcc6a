#include "exec/cuda/gemm.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/cuda/warm_up.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::kDevice, fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

template <typename Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept { destroy(handle); }
};
template <typename Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t data_type(DType type) {
  if (type == DType::kBf16) return CUDA_R_16BF;
  if (type == DType::kF16) return CUDA_R_16F;
  ZPLAN_ASSERT(type == DType::kF32);
  return CUDA_R_32F;
}

template <typename Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_cublas(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

// For reports; 0 where the library does not tell it of an algorithm.
template <typename Value>
Value configuration(const cublasLtMatmulAlgo_t& algorithm,
                    cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : Value{};
}

template <typename Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  check_cublas(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
}

// A stored row of a row-major matrix is a column here.
Layout make_layout(const ColumnMajorMatrix& matrix, DType type, const GemmStride& stride,
                   std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublas(
      cublasLtMatrixLayoutCreate(&made, data_type(type), static_cast<std::uint64_t>(matrix.rows),
                                 static_cast<std::uint64_t>(matrix.columns),
                                 stride.row == 0 ? matrix.rows : stride.row),
      "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  if (batch > 1) {
    set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride.matrix);
  }
  return layout;
}

// B is the library's first operand, so sums over its k are those of "A".
cublasLtEpilogue_t epilogue_of(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmEpilogue::kColumnSums:
      return CUBLASLT_EPILOGUE_BGRADA;
    case GemmEpilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GemmEpilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmEpilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_vector(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::kBias || epilogue == GemmEpilogue::kColumnSums ||
         epilogue == GemmEpilogue::kBiasGelu;
}

bool has_aux(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::kBiasGelu || epilogue == GemmEpilogue::kGeluGradient;
}

// What the library does instead where it has no algorithm; the caller does the rest.
GemmEpilogue fallback_of(GemmEpilogue epilogue) {
  const bool keeps_bias = epilogue == GemmEpilogue::kBias || epilogue == GemmEpilogue::kBiasGelu;
  return keeps_bias ? GemmEpilogue::kBias : GemmEpilogue::kNone;
}

// An address as aligned as those that will come: some algorithms need more than the least.
void* aligned_address(std::uint32_t alignment) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(alignment));
}

// The vector goes along the rows of the library's result, the columns of C. aux has the type of C,
// as it is not said otherwise.
Description make_description(const GemmShape& shape, const ColumnMajorGemm& gemm,
                             GemmEpilogue epilogue, const GemmRoom& room) {
  cublasLtMatmulDesc_t made = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  Description description(made);
  const auto operation = [](const ColumnMajorMatrix& m) {
    return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, operation(gemm.first));
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, operation(gemm.second));
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
  if (has_vector(epilogue)) {
    set(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(shape.result));
    set(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned_address(room.vector));
  }
  if (has_aux(epilogue)) {
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, gemm.result.rows);
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned_address(room.c));
  }
  return description;
}

// Where k is cut into pieces, their sums stay in float32.
Preference make_preference(const GemmRoom& room) {
  cublasLtMatmulPreference_t made = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(room.scratch.value));
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                 CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, room.b);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, room.a);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, room.c);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, room.c);
  return preference;
}

// From the first to the last element of an operand.
std::int64_t extent(const GemmShape& s, const ColumnMajorMatrix& stored, const GemmStride& stride) {
  const std::int64_t row = stride.row == 0 ? stored.rows : stride.row;
  return (s.batch - 1) * stride.matrix + (stored.columns - 1) * row + stored.rows;
}

Bytes largest_operand(const GemmShape& s) {
  const ColumnMajorGemm stored = column_major(s.op, s.m, s.n, s.k);
  return std::max({size_of(s.type) * extent(s, stored.second, s.a),
                   size_of(s.type) * extent(s, stored.first, s.b),
                   size_of(s.result) * extent(s, stored.result, s.c)});
}

GemmRoom least(const GemmRoom& x, const GemmRoom& y) {
  return {std::min(x.a, y.a), std::min(x.b, y.b), std::min(x.c, y.c), std::min(x.vector, y.vector),
          std::min(x.scratch, y.scratch)};
}

}  // namespace

struct GemmPlans::Library {
  Library() { check_cublas(cublasLtCreate(&handle), "cublasLtCreate"); }
  ~Library() { cublasLtDestroy(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  cublasLtHandle_t handle = nullptr;
};

struct GemmPlans::Plan {
  explicit Plan(const GemmShape& shape)
      : gemm(column_major(shape.op, shape.m, shape.n, shape.k)),
        first(make_layout(gemm.first, shape.type, shape.b, shape.batch)),
        second(make_layout(gemm.second, shape.type, shape.a, shape.batch)),
        result(make_layout(gemm.result, shape.result, shape.c, shape.batch)) {}

  // Whether there is an algorithm with this epilogue.
  bool choose(cublasLtHandle_t handle, const GemmShape& shape, GemmEpilogue with) {
    if (has_aux(with) && !takes_aux(gemm.result)) return false;
    Description wanted = make_description(shape, gemm, with, room);
    const Preference preference = make_preference(room);
    constexpr int kAsked = 8;
    std::array<cublasLtMatmulHeuristicResult_t, kAsked> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, wanted.get(), first.get(), second.get(), result.get(), result.get(),
        preference.get(), kAsked, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
      return false;
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    for (const auto& candidate : std::span(found).first(static_cast<std::size_t>(count))) {
      if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
      if (candidate.workspaceSize > static_cast<std::size_t>(room.scratch.value)) continue;
      algorithm = candidate.algo;
      workspace = {static_cast<std::int64_t>(candidate.workspaceSize)};
      epilogue = with;
      description = std::move(wanted);
      return true;
    }
    return false;
  }

  ColumnMajorGemm gemm;
  Layout first, second, result;
  Description description;
  GemmRoom room;
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  cublasLtMatmulAlgo_t algorithm{};
  Bytes workspace{0};
  std::size_t choice = 0;  // of choices_
};

GemmPlans::GemmPlans() : library_(std::make_unique<Library>()) {}
GemmPlans::~GemmPlans() = default;

Bytes GemmPlans::prepare(const std::string& what, const GemmShape& shape, const GemmRoom& room) {
  std::unique_ptr<Plan>& plan = plans_[shape];
  const bool is_new = plan == nullptr;
  if (is_new) {
    plan = std::make_unique<Plan>(shape);
    plan->room = room;
    plan->choice = choices_.size();
    choices_.push_back({.what = what, .shape = shape});
  }
  const GemmRoom needed = least(plan->room, room);
  if (!is_new && needed == plan->room) return plan->workspace;
  plan->room = needed;
  const GemmEpilogue fallback = fallback_of(shape.epilogue);
  const bool found =
      plan->choose(library_->handle, shape, shape.epilogue) ||
      (fallback != shape.epilogue && plan->choose(library_->handle, shape, fallback));
  if (!found) {
    throw Error(ExitCode::kDevice,
                fmt::format("{}: cuBLASLt has no algorithm for a product of {} x {} x {} in {} "
                            "bytes of scratch",
                            what, shape.m, shape.n, shape.k, needed.scratch.value));
  }
  GemmChoice& choice = choices_[plan->choice];
  const cublasLtMatmulAlgo_t& chosen = plan->algorithm;
  choice.shape.epilogue = plan->epilogue;
  choice.algorithm = configuration<int>(chosen, CUBLASLT_ALGO_CONFIG_ID);
  choice.tile = configuration<std::uint32_t>(chosen, CUBLASLT_ALGO_CONFIG_TILE_ID);
  choice.stages = configuration<std::uint32_t>(chosen, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  choice.split_k = configuration<std::int32_t>(chosen, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  choice.workspace = plan->workspace;
  warm_up(largest_operand(shape), plan->workspace,
          [&](cudaStream_t stream, std::byte* operands, std::byte* scratch) {
            run(stream, shape, {operands, operands, operands, operands, operands, scratch});
          });
  return plan->workspace;
}

GemmEpilogue GemmPlans::epilogue(const GemmShape& shape) const {
  return plans_.at(shape)->epilogue;
}

void GemmPlans::run(cudaStream_t stream, const GemmShape& shape,
                    const GemmOperands& operands) const {
  const Plan& plan = *plans_.at(shape);
  if (has_vector(plan.epilogue))
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.vector);
  if (has_aux(plan.epilogue))
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  const bool leaves_gelu =
      shape.epilogue == GemmEpilogue::kBiasGelu && plan.epilogue == GemmEpilogue::kBias;
  void* const c = leaves_gelu ? operands.aux : operands.c;
  const float alpha = 1 / std::sqrt(static_cast<float>(shape.root));
  const float beta = shape.accumulate ? 1 : 0;
  check_cublas(
      cublasLtMatmul(library_->handle, plan.description.get(), &alpha, operands.b, plan.first.get(),
                     operands.a, plan.second.get(), &beta, c, plan.result.get(), c,
                     plan.result.get(), &plan.algorithm, operands.scratch,
                     static_cast<std::size_t>(plan.workspace.value), stream),
      "cublasLtMatmul");
}

}  // namespace zplan::exec::cuda
