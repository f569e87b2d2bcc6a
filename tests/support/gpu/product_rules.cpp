// The rules that cublasLt.h, and for fp8 the description of cublasLtMatmul, state for a product,
// and what a product touches.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/support/gpu/product.h"

namespace zplan::stand_in {

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

namespace {

// [cuBLAS] "TN" and 16 bytes; that codes without a scale are taken as they are is no fault of the
// library's, but would pass in silence.
std::string fault_of_fp8(const Problem& p) {
  constexpr std::int64_t kStep = 16;
  const Description& x = *p.description;
  if (!is_fp8(p.a->type) || !is_fp8(p.b->type)) return "one of A and B is fp8";
  if (p.a->type == CUDA_R_8F_E5M2 && p.b->type == CUDA_R_8F_E5M2) return "A and B are both e5m2";
  if (x.a == CUBLAS_OP_N || x.b != CUBLAS_OP_N) return "fp8 takes A transposed and B as it is";
  for (const auto& [name, m] : {std::pair{"A", p.a}, {"B", p.b}, {"D", p.d}})
    for (const std::int64_t n : {m->rows, m->columns, m->ld})
      if (n % kStep != 0)
        return fmt::format("{} of {} x {}, {} apart, does not go with fp8: multiples of {} do",
                           name, m->rows, m->columns, m->ld, kStep);
  if (x.a_scale == nullptr || x.b_scale == nullptr) return "an operand in fp8 has no scale";
  return "";
}

}  // namespace

// Which ones go with fp8 is not documented for all: that it has none with the slope of GELU and
// with sums of columns is assumed.
bool offers(const Problem& p, const Preference& preference) {
  constexpr int kFirstWithFp8 = 89;
  constexpr std::uint32_t kLeastAlignment = 16;
  const Options& device = Machine::the().options;
  const cublasLtEpilogue_t e = p.description->epilogue;
  if (is_fp8(p)) {
    if (device.capability < kFirstWithFp8 || e == CUBLASLT_EPILOGUE_DGELU || writes_bias(e))
      return false;
    if (std::min({preference.a, preference.b, preference.c, preference.d}) < kLeastAlignment)
      return false;
  }
  const bool is_plain = e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS;
  if (!is_plain && !device.has_epilogues) return false;
  return p.d->batch == 1 || e == CUBLASLT_EPILOGUE_DEFAULT;
}

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
  if (is_fp8(p)) {
    if (const std::string fault = fault_of_fp8(p); !fault.empty()) return fault;
  } else if (p.a->type != p.b->type) {
    return "A and B have different types";
  } else if (x.a_scale != nullptr || x.b_scale != nullptr) {
    return "operands that are not in fp8 have a scale";
  }
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

std::string fault_of(const Problem& p, const Operands& x, const Algorithm& algorithm,
                     std::size_t workspace) {
  const Description& description = *p.description;
  if (algorithm.problem != hash_of(p)) return "the algorithm was chosen for another product";
  const auto is_short = [](const void* address, std::uint32_t needed) {
    return alignment_of(address) < needed;
  };
  if (is_fp8(p) && (is_short(description.a_scale, sizeof(float)) ||
                    is_short(description.b_scale, sizeof(float))))
    return "the scale of an operand in fp8 is no float";
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
  if (is_fp8(p))
    for (const float* scale : {e.a_scale, e.b_scale})
      all.push_back({reinterpret_cast<const std::byte*>(scale), sizeof *scale, false});
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

}  // namespace zplan::stand_in
