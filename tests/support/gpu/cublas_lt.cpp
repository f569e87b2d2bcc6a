// cuBLASLt of the stand-in GPU: D = epilogue(alpha op(A) op(B) + beta C), column-major, sums in
// float32. The rules are those that cublasLt.h states; what breaks one is a finding. An algorithm
// belongs to the problem, the alignments and the workspace that it was asked for.
#include <algorithm>
#include <cstring>

#include "tests/support/gpu/product.h"

using namespace zplan::stand_in;

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
  const Preference& p = of<Preference>(preference);
  if (!offers(problem, p)) return CUBLAS_STATUS_NOT_SUPPORTED;
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
