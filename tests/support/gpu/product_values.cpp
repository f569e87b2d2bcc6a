// What a product computes: sums in float32, times the scales of operands in fp8, then its epilogue.
#include <cstring>

#include "tests/support/gpu/product.h"

namespace zplan::stand_in {
namespace {

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
  if (is_fp8(a_layout.type))
    for (float& sum : sums.all) sum *= *e.a_scale * *e.b_scale;
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

}  // namespace

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

}  // namespace zplan::stand_in
