#include "exec/cuda/gemm.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/cuda/check.h"
#include "exec/cuda/warm_up.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {
namespace {

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_call(call, cublasLtGetStatusString(status));
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

// Of A or B, which may be codes.
cudaDataType_t data_type(DType type, Fp8Format fp8) {
  if (fp8 == Fp8Format::kNone) return data_type(type);
  return fp8 == Fp8Format::kE4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}
Bytes element_size(DType type, Fp8Format fp8) {
  return fp8 == Fp8Format::kNone ? size_of(type) : Bytes{1};
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
Layout make_layout(const ColumnMajorMatrix& matrix, cudaDataType_t type, const GemmStride& stride,
                   std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(matrix.rows),
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

// The library's first operand is B.
void set_scales(cublasLtMatmulDesc_t description, const void* a_scale, const void* b_scale) {
  set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b_scale);
  set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a_scale);
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
  if (shape.in_fp8()) {
    const void* const somewhere = aligned_address(alignof(float));
    set_scales(made, somewhere, somewhere);
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

// Where operands lie behind each other to be timed; the vector and what is like C have places too.
struct OperandPlaces {
  explicit OperandPlaces(const GemmShape& s) {
    const ColumnMajorGemm stored = column_major(s.op, s.m, s.n, s.k);
    const auto place = [&](Bytes bytes) {
      const Bytes begin = end;
      end = round_up(end + bytes, kBufferAlignment);
      return begin;
    };
    a = place(element_size(s.type, s.a_fp8) * extent(s, stored.second, s.a));
    b = place(element_size(s.type, s.b_fp8) * extent(s, stored.first, s.b));
    c = place(size_of(s.result) * extent(s, stored.result, s.c));
    aux = has_aux(s.epilogue) ? place(size_of(s.result) * (s.m * s.n)) : c;
    vector = place(size_of(s.result) * s.n);
    if (s.in_fp8()) scale = place(size_of(DType::kF32));
  }
  GemmOperands at(std::byte* begin, void* scratch) const {
    return {.a = begin + a.value,
            .b = begin + b.value,
            .c = begin + c.value,
            .vector = begin + vector.value,
            .aux = begin + aux.value,
            .scratch = scratch,
            .a_scale = reinterpret_cast<const float*>(begin + scale.value),
            .b_scale = reinterpret_cast<const float*>(begin + scale.value)};
  }

  Bytes a{0}, b{0}, c{0}, vector{0}, aux{0}, scale{0}, end{0};
};

// Of one call, from as many as take a few milliseconds.
template <typename Launch>
double launch_seconds(cudaStream_t stream, const Launch& launch) {
  constexpr double kWanted = 2e-3;
  constexpr int kLeast = 3, kMost = 20;
  const EventHandle begin = make_cuda_event(true), end = make_cuda_event(true);
  const auto seconds = [&](int times) {
    check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    for (int i = 0; i < times; ++i) launch();
    check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3 / times;
  };
  launch();  // loads it
  const double once = std::max(seconds(1), 1e-9);
  return seconds(std::clamp(static_cast<int>(kWanted / once), kLeast, kMost));
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

namespace {

// A kernel of the library that computes a product, or all but its epilogue.
struct Candidate {
  GemmEpilogue epilogue;
  cublasLtMatmulAlgo_t algorithm;
  Bytes workspace;
};

// An algorithm as text; the library promises that its bytes may be stored and used again by the
// same version of it.
std::string text_of(const Candidate& candidate) {
  std::string text =
      fmt::format("{}:{}:", cublasLtGetVersion(), static_cast<int>(candidate.epilogue));
  for (const std::uint64_t word : candidate.algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

// "e4m3 x e5m2", or the type of both.
std::string operands_text(const GemmShape& s) {
  if (!s.in_fp8()) return std::string(name(s.type));
  const auto text = [](Fp8Format fp8) { return fp8 == Fp8Format::kE4m3 ? "e4m3" : "e5m2"; };
  return fmt::format("{} x {}", text(s.a_fp8), text(s.b_fp8));
}

// A product in the room that it has.
std::string key_of(const GemmShape& s, const GemmRoom& r) {
  return fmt::format("{}{}{} {}x{}x{} {} {} b{} {},{},{},{},{},{} r{} {}.{}.{}.{} {}",
                     static_cast<int>(s.op), static_cast<int>(s.epilogue), s.accumulate ? "+" : "",
                     s.m, s.n, s.k, operands_text(s), name(s.result), s.batch, s.a.row, s.a.matrix,
                     s.b.row, s.b.matrix, s.c.row, s.c.matrix, s.root, r.a, r.b, r.c, r.vector,
                     r.scratch.value);
}

}  // namespace

struct GemmPlans::Plan {
  explicit Plan(const GemmShape& shape)
      : gemm(column_major(shape.op, shape.m, shape.n, shape.k)),
        first(make_layout(gemm.first, data_type(shape.type, shape.b_fp8), shape.b, shape.batch)),
        second(make_layout(gemm.second, data_type(shape.type, shape.a_fp8), shape.a, shape.batch)),
        result(make_layout(gemm.result, data_type(shape.result), shape.c, shape.batch)) {}

  // Adds what the library proposes with this epilogue, the best first.
  void find(cublasLtHandle_t handle, const GemmShape& shape, GemmEpilogue with) {
    if (has_aux(with) && !takes_aux(gemm.result)) return;
    const Description wanted = make_description(shape, gemm, with, room);
    const Preference preference = make_preference(room);
    constexpr int kAsked = 8;
    std::array<cublasLtMatmulHeuristicResult_t, kAsked> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, wanted.get(), first.get(), second.get(), result.get(), result.get(),
        preference.get(), kAsked, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return;
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    for (const auto& one : std::span(found).first(static_cast<std::size_t>(count))) {
      const Bytes workspace{static_cast<std::int64_t>(one.workspaceSize)};
      if (one.state == CUBLAS_STATUS_SUCCESS && workspace <= room.scratch)
        candidates.push_back({with, one.algo, workspace});
    }
  }

  void take(const Candidate& candidate, const GemmShape& shape) {
    description = make_description(shape, gemm, candidate.epilogue, room);
    taken = candidate;
  }

  ColumnMajorGemm gemm;
  Layout first, second, result;
  GemmRoom room;
  std::vector<Candidate> candidates;
  Description description;  // of the one that is taken
  Candidate taken{};
  std::size_t choice = 0;  // of choices_
};

KernelChoice describe(const GemmChoice& choice) {
  const GemmShape& s = choice.shape;
  std::string kernel = fmt::format("product of {} x {} x {}{}, {}: cuBLASLt {}, tile {}, stages {}",
                                   s.m, s.n, s.k, s.batch > 1 ? fmt::format(" x {}", s.batch) : "",
                                   operands_text(s), choice.algorithm, choice.tile, choice.stages);
  if (choice.split_k > 1) kernel += fmt::format(", k in {} parts", choice.split_k);
  if (s.epilogue != GemmEpilogue::kNone) kernel += ", with its epilogue";
  if (choice.timed > 1)
    kernel += fmt::format("; the fastest of {}, {:.3g} us, the library's first {:.3g} us",
                          choice.timed, choice.seconds * 1e6, choice.first * 1e6);
  return {.operation = choice.what,
          .kernel = kernel,
          .slow = {},
          .key = choice.key,
          .value = choice.value};
}

GemmPlans::GemmPlans() : library_(std::make_unique<Library>()) {}
GemmPlans::~GemmPlans() = default;

Bytes GemmPlans::prepare(const std::string& what, const GemmShape& shape, const GemmRoom& room,
                         const GemmRest& rest) {
  std::unique_ptr<Plan>& plan = plans_[shape];
  const bool is_new = plan == nullptr;
  if (is_new) {
    plan = std::make_unique<Plan>(shape);
    plan->room = room;
    plan->choice = choices_.size();
    choices_.push_back({.what = what, .shape = shape});
  }
  const GemmRoom needed = least(plan->room, room);
  if (!is_new && needed == plan->room) return plan->taken.workspace;
  plan->room = needed;
  plan->candidates.clear();
  plan->find(library_->handle, shape, shape.epilogue);
  const GemmEpilogue fallback = fallback_of(shape.epilogue);
  if (fallback != shape.epilogue) plan->find(library_->handle, shape, fallback);
  if (plan->candidates.empty()) {
    throw Error(ExitCode::kDevice,
                fmt::format("{}: cuBLASLt has no algorithm for a product of {} x {} x {} in {} "
                            "bytes of scratch",
                            what, shape.m, shape.n, shape.k, needed.scratch.value));
  }
  choose(*plan, shape, rest);
  return plan->taken.workspace;
}

// The same as before where that is known, else the fastest.
void GemmPlans::choose(Plan& plan, const GemmShape& shape, const GemmRest& rest) {
  GemmChoice& choice = choices_[plan.choice];
  choice.key = key_of(shape, plan.room);
  const auto known = known_.find(choice.key);
  const auto same = std::find_if(
      plan.candidates.begin(), plan.candidates.end(),
      [&](const Candidate& c) { return known != known_.end() && text_of(c) == known->second; });
  if (same != plan.candidates.end()) plan.candidates = {*same};
  time_candidates(plan, shape, rest);
  const cublasLtMatmulAlgo_t& chosen = plan.taken.algorithm;
  choice.value = text_of(plan.taken);
  choice.shape.epilogue = plan.taken.epilogue;
  choice.algorithm = configuration<int>(chosen, CUBLASLT_ALGO_CONFIG_ID);
  choice.tile = configuration<std::uint32_t>(chosen, CUBLASLT_ALGO_CONFIG_TILE_ID);
  choice.stages = configuration<std::uint32_t>(chosen, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  choice.split_k = configuration<std::int32_t>(chosen, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  choice.workspace = plan.taken.workspace;
}

// Takes the fastest.
void GemmPlans::time_candidates(Plan& plan, const GemmShape& shape, const GemmRest& rest) {
  GemmChoice& choice = choices_[plan.choice];
  choice.timed = 0;
  choice.seconds = choice.first = 0;
  plan.take(plan.candidates.front(), shape);
  Bytes scratch{0};
  for (const Candidate& candidate : plan.candidates)
    scratch = std::max(scratch, candidate.workspace);
  if (rest) scratch = plan.room.scratch;
  const OperandPlaces places(shape);
  warm_up(places.end, scratch, [&](cudaStream_t stream, std::byte* begin, std::byte* own) {
    const GemmOperands operands = places.at(begin, own);
    const auto once = [&] {
      run(stream, shape, operands);
      if (rest && plan.taken.epilogue != shape.epilogue) rest(stream, operands);
    };
    if (plan.candidates.size() == 1) return once();
    const Candidate* best = nullptr;
    for (const Candidate& candidate : plan.candidates) {
      plan.take(candidate, shape);
      const double seconds = launch_seconds(stream, once);
      ++choice.timed;
      if (best == nullptr) choice.first = seconds;
      if (best != nullptr && seconds >= choice.seconds) continue;
      best = &candidate;
      choice.seconds = seconds;
    }
    plan.take(*best, shape);
  });
}

GemmEpilogue GemmPlans::epilogue(const GemmShape& shape) const {
  return plans_.at(shape)->taken.epilogue;
}

void GemmPlans::run(cudaStream_t stream, const GemmShape& shape,
                    const GemmOperands& operands) const {
  const Plan& plan = *plans_.at(shape);
  const GemmEpilogue epilogue = plan.taken.epilogue;
  if (has_vector(epilogue))
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.vector);
  if (has_aux(epilogue))
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  if (shape.in_fp8()) set_scales(plan.description.get(), operands.a_scale, operands.b_scale);
  const bool leaves_gelu =
      shape.epilogue == GemmEpilogue::kBiasGelu && epilogue == GemmEpilogue::kBias;
  void* const c = leaves_gelu ? operands.aux : operands.c;
  const float alpha = 1 / std::sqrt(static_cast<float>(shape.root));
  const float beta = shape.accumulate ? 1 : 0;
  check_cublas(
      cublasLtMatmul(library_->handle, plan.description.get(), &alpha, operands.b, plan.first.get(),
                     operands.a, plan.second.get(), &beta, c, plan.result.get(), c,
                     plan.result.get(), &plan.taken.algorithm, operands.scratch,
                     static_cast<std::size_t>(plan.taken.workspace.value), stream),
      "cublasLtMatmul");
}

}  // namespace zplan::exec::cuda
