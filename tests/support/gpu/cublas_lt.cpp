// cuBLASLt of the stand-in GPU: D = epilogue(alpha op(A) op(B) + beta C), column-major, sums in
// float32. The rules are those that cublasLt.h states; what breaks one is a finding. An algorithm
// belongs to the problem, the alignments and the workspace that it was asked for.
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/support/gpu/machine.h"
#include "tests/support/gpu/matrices.h"

namespace zplan::stand_in {
namespace {

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = static_cast<cudaDataType_t>(-1);
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t a = 256, b = 256, c = 256, d = 256, schemes = 0;
};

// What is left of it in cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t problem = 0;  // a hash
  std::uint32_t a = 0, b = 0, c = 0, d = 0, bias = 0, aux = 0;
  std::uint64_t workspace = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

struct Problem {
  const Description* description;
  const Matrix *a, *b, *c, *d;
};

template <typename To, typename From>
To& of(From* handle) {
  return *reinterpret_cast<To*>(handle);
}
template <typename To, typename From>
const To& of(const From* handle) {
  return *reinterpret_cast<const To*>(handle);
}

bool has_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
}
bool writes_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
}
bool has_aux(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_DGELU;
}
bool is_known(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_DEFAULT || has_bias(e) || has_aux(e);
}

std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(bits == 0 ? 256 : std::min<std::uintptr_t>(bits & -bits, 256));
}

std::uint64_t hash_of(const Problem& p) {
  std::uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211ULL;
  };
  for (const Matrix* m : {p.a, p.b, p.c, p.d})
    for (const std::int64_t v :
         {std::int64_t{m->type}, m->rows, m->columns, m->ld, std::int64_t{m->batch}, m->stride})
      add(v);
  for (const std::int64_t v : {std::int64_t{p.description->a}, std::int64_t{p.description->b},
                               std::int64_t{p.description->epilogue}, p.description->aux_ld})
    add(v);
  return hash;
}

// Why the library would not take it; empty: it does.
std::string fault_of(const Problem& p) {
  const Description& x = *p.description;
  for (const auto& [name, m] : {std::pair{"A", p.a}, {"B", p.b}, {"C", p.c}, {"D", p.d}}) {
    if (m->ld < m->rows)
      return fmt::format("the leading dimension of {} is {}, below its {} rows", name, m->ld,
                         m->rows);
    if (m->batch > 1 && m->batch != p.d->batch) return fmt::format("{} has another batch", name);
  }
  const bool ta = x.a != CUBLAS_OP_N, tb = x.b != CUBLAS_OP_N;
  const std::int64_t k = ta ? p.a->rows : p.a->columns;
  if ((ta ? p.a->columns : p.a->rows) != p.d->rows ||
      (tb ? p.b->rows : p.b->columns) != p.d->columns || (tb ? p.b->columns : p.b->rows) != k)
    return "the sizes of A, B and D do not fit together";
  if (p.c->rows != p.d->rows || p.c->columns != p.d->columns || p.c->type != p.d->type)
    return "C and D differ";
  if (p.a->type != p.b->type) return "A and B have different types";
  if (x.compute != CUBLAS_COMPUTE_32F) return "not computed in float32";
  if (!is_known(x.epilogue)) return "an epilogue that the stand-in does not know";
  if (has_aux(x.epilogue) && (x.aux_ld % 8 != 0 || x.aux_ld < p.d->rows))
    return fmt::format(
        "the auxiliary leading dimension is {}, for {} rows; it must be a multiple "
        "of 8, and no less",
        x.aux_ld, p.d->rows);
  if (has_aux(x.epilogue) && x.aux == nullptr) return "an epilogue without its auxiliary matrix";
  if (has_bias(x.epilogue) && x.bias == nullptr) return "an epilogue without its vector";
  if (has_bias(x.epilogue) && x.bias_type != static_cast<cudaDataType_t>(-1) &&
      x.bias_type != p.d->type)
    return "the vector of the epilogue has not the type of D";
  return "";
}

cublasStatus_t refuse(const char* function, const std::string& fault) {
  Machine& m = Machine::the();
  const Lock lock(m.mutex);
  m.find(fmt::format("{}: {}", function, fault));
  return CUBLAS_STATUS_INVALID_VALUE;
}

struct Operands {
  float alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
};

// Of an operand that is not where the algorithm wants it.
std::string fault_of(const Problem& p, const Operands& x, const Algorithm& algorithm,
                     std::size_t workspace) {
  const Description& description = *p.description;
  if (algorithm.problem != hash_of(p)) return "the algorithm was chosen for another product";
  const auto is_short = [](const void* address, std::uint32_t needed) {
    return alignment_of(address) < needed;
  };
  if (is_short(x.a, algorithm.a) || is_short(x.b, algorithm.b) || is_short(x.c, algorithm.c) ||
      is_short(x.d, algorithm.d))
    return "an operand is aligned less than was promised when the algorithm was chosen";
  if (has_bias(description.epilogue) && is_short(description.bias, algorithm.bias))
    return "the vector is aligned less than was promised when the algorithm was chosen";
  if (has_aux(description.epilogue) && is_short(description.aux, algorithm.aux))
    return "the auxiliary matrix is aligned less than was promised";
  if (workspace < algorithm.workspace)
    return fmt::format("the algorithm needs {} bytes of workspace, got {}", algorithm.workspace,
                       workspace);
  if (algorithm.workspace > 0 && is_short(x.workspace, 16))
    return "the workspace is not on 16 bytes";
  return "";
}

// But ahead of the first step, on the stream 0: there results have no meaning
// (exec/cuda/warm_up.h).
std::string overlap_of(const Problem& p, const Operands& x, cudaStream_t stream) {
  if (stream == nullptr) return "";
  const Access d = p.d->access(x.d, true);
  if (d.overlaps(p.a->access(x.a, false)) || d.overlaps(p.b->access(x.b, false)))
    return "D overlaps A or B";
  if (x.beta != 0 && x.c != x.d && d.overlaps(p.c->access(x.c, false))) return "D overlaps C";
  return "";
}

std::vector<Access> accesses_of(const Problem& p, const Operands& x, const Algorithm& algorithm) {
  const Description& e = *p.description;
  std::vector<Access> all = {p.a->access(x.a, false), p.b->access(x.b, false),
                             p.d->access(x.d, true)};
  if (x.beta != 0) all.push_back(p.c->access(x.c, false));
  if (algorithm.workspace > 0) all.push_back(write_of(x.workspace, algorithm.workspace));
  if (has_bias(e.epilogue)) {
    const auto bytes = static_cast<std::size_t>(p.d->rows) * size_of_type(p.d->type);
    all.push_back({static_cast<const std::byte*>(e.bias), bytes, writes_bias(e.epilogue)});
  }
  if (has_aux(e.epilogue)) {
    const Matrix aux{p.d->type, p.d->rows, p.d->columns, e.aux_ld, 1, 0};
    all.push_back(aux.access(e.aux, e.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS));
  }
  return all;
}

// The sums of one matrix of the batch, by rows of D.
Values product(const Description& e, const Matrix& a_layout, const Matrix& b_layout,
               const Operands& x, std::int64_t batch) {
  const Values a = load(a_layout, x.a, batch, e.a != CUBLAS_OP_N),
               b = load(b_layout, x.b, batch, e.b != CUBLAS_OP_N);
  Values sums{a.rows, b.columns, std::vector<float>(static_cast<std::size_t>(a.rows * b.columns))};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const float factor = x.alpha * a.at(i, k);
      float* row = &sums.at(i, 0);
      const float* other = &b.at(k, 0);
      for (std::int64_t j = 0; j < b.columns; ++j) row[j] += factor * other[j];
    }
  return sums;
}

void apply_epilogue(const Description& e, const Matrix& d, Values& sums) {
  const Matrix aux{d.type, d.rows, d.columns, e.aux_ld, 1, 0};
  for (std::int64_t i = 0; i < d.rows; ++i)
    for (std::int64_t j = 0; j < d.columns; ++j) {
      float& value = sums.at(i, j);
      if (e.epilogue == CUBLASLT_EPILOGUE_DGELU)
        value *= gelu_slope(load(d.type, e.aux, j * aux.ld + i));
      if (!has_bias(e.epilogue) || writes_bias(e.epilogue)) continue;
      value += load(d.type, e.bias, i);
      if (e.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) continue;
      store(d.type, e.aux, j * aux.ld + i, value);
      value = gelu(value);
    }
}

// Sums of op(A) or of op(B)'s transpose over k.
void write_sums(const Description& e, const Matrix& layout, const void* data, bool transposed,
                cudaDataType_t type) {
  const Values values = load(layout, data, 0, transposed);
  for (std::int64_t i = 0; i < values.rows; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < values.columns; ++k) sum += values.at(i, k);
    store(type, e.bias, i, sum);
  }
}

// What is added to C of 16 bits is rounded first (exec/cuda/gemm.h).
void store_result(const Matrix& c, const Matrix& d, const Operands& x, std::int64_t batch,
                  const Values& sums) {
  for (std::int64_t j = 0; j < d.columns; ++j)
    for (std::int64_t i = 0; i < d.rows; ++i) {
      float value = sums.at(i, j);
      if (x.beta != 0)
        value =
            rounded(d.type, value) + x.beta * load(d.type, x.c, batch * c.stride + j * c.ld + i);
      store(d.type, x.d, batch * d.stride + j * d.ld + i, value);
    }
}

void multiply(const Description& e, const Matrix& a, const Matrix& b, const Matrix& c,
              const Matrix& d, const Operands& x, std::size_t workspace) {
  if (workspace > 0) std::memset(x.workspace, 0xff, workspace);
  for (std::int64_t batch = 0; batch < d.batch; ++batch) {
    Values sums = product(e, a, b, x, batch);
    apply_epilogue(e, d, sums);
    store_result(c, d, x, batch, sums);
  }
  if (e.epilogue == CUBLASLT_EPILOGUE_BGRADA) write_sums(e, a, x.a, e.a != CUBLAS_OP_N, d.type);
  if (e.epilogue == CUBLASLT_EPILOGUE_BGRADB) write_sums(e, b, x.b, e.b == CUBLAS_OP_N, d.type);
}

template <typename Value>
cublasStatus_t set(Value& to, const void* from, std::size_t size, const char* function) {
  if (size != sizeof to) return refuse(function, "a value of another size");
  std::memcpy(&to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace zplan::stand_in

using namespace zplan::stand_in;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const cudaError_t error = call("cublasLtCreate", [](Machine&, Lock&) { return cudaSuccess; });
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the stand-in"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{
      type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld, 1, 0});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of<Matrix>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t size) {
  const char* const function = "cublasLtMatrixLayoutSetAttribute";
  Matrix& matrix = of<Matrix>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(matrix.batch, value, size, function);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(matrix.stride, value, size, function);
  return refuse(function, "an attribute that the stand-in does not know");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &of<Description>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  const char* const function = "cublasLtMatmulDescSetAttribute";
  Description& x = of<Description>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(x.a, value, size, function);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(x.b, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(x.epilogue, value, size, function);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(x.bias_type, value, size, function);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(x.bias, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(x.aux_ld, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(x.aux, value, size, function);
    default:
      return refuse(function, "an attribute that the stand-in does not know");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  const char* const function = "cublasLtMatmulPreferenceSetAttribute";
  Preference& x = of<Preference>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(x.workspace, value, size, function);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(x.schemes, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(x.a, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(x.b, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(x.c, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(x.d, value, size, function);
    default:
      return refuse(function, "an attribute that the stand-in does not know");
  }
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t size,
                                                    std::size_t* written) {
  if (attribute != CUBLASLT_ALGO_CONFIG_ID || size != sizeof(int))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const int number = static_cast<int>(of<Algorithm>(algorithm).number);
  std::memcpy(value, &number, sizeof number);
  *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

// Two algorithms: one that uses what workspace there may be, up to a size, and one without.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  constexpr std::uint64_t kMostWorkspace = 4096;
  const Description& x = of<Description>(description);
  const Problem problem{&x, &of<Matrix>(a), &of<Matrix>(b), &of<Matrix>(c), &of<Matrix>(d)};
  *count = 0;
  if (const std::string fault = fault_of(problem); !fault.empty())
    return refuse("cublasLtMatmulAlgoGetHeuristic", fault);
  const bool is_plain =
      x.epilogue == CUBLASLT_EPILOGUE_DEFAULT || x.epilogue == CUBLASLT_EPILOGUE_BIAS;
  const bool offers = is_plain || Machine::the().options.has_epilogues;
  if (!offers || (problem.d->batch > 1 && x.epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Preference& p = of<Preference>(preference);
  for (const std::uint64_t workspace : {std::min(p.workspace, kMostWorkspace), std::uint64_t{0}}) {
    if (*count == asked) break;
    cublasLtMatmulHeuristicResult_t& result = found[*count];
    result = {};
    const Algorithm algorithm{hash_of(problem),
                              p.a,
                              p.b,
                              p.c,
                              p.d,
                              alignment_of(x.bias),
                              alignment_of(x.aux),
                              workspace,
                              static_cast<std::uint64_t>(*count)};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    ++*count;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, std::size_t workspace_size, cudaStream_t stream) {
  const Description e = of<Description>(description);
  const Matrix al = of<Matrix>(a_layout), bl = of<Matrix>(b_layout), cl = of<Matrix>(c_layout),
               dl = of<Matrix>(d_layout);
  const Problem problem{&e, &al, &bl, &cl, &dl};
  const Operands x{
      *static_cast<const float*>(alpha), *static_cast<const float*>(beta), a, b, c, d, workspace};
  std::string fault = fault_of(problem);
  if (fault.empty() && chosen == nullptr) fault = "no algorithm";
  const Algorithm algorithm = chosen == nullptr ? Algorithm{} : of<Algorithm>(chosen);
  if (fault.empty()) fault = fault_of(problem, x, algorithm, workspace_size);
  if (fault.empty()) fault = overlap_of(problem, x, stream);
  if (!fault.empty()) return refuse("cublasLtMatmul", fault);
  const cudaError_t queued = call("cublasLtMatmul", [&](Machine& m, Lock&) {
    Stream* to = m.stream_of(stream, "cublasLtMatmul");
    if (to == nullptr) return cudaErrorInvalidResourceHandle;
    return m.submit(
        *to, {"cublasLtMatmul", accesses_of(problem, x, algorithm), [=](Machine&, Device&, Agent&) {
                multiply(e, al, bl, cl, dl, x, algorithm.workspace);
              }});
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
