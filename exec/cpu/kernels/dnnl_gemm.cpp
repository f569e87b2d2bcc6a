// oneDNN side of GemmCache: transposes by strides, beta = 1 by a sum post-op, user scratchpad.
// [oneDNN]
#include "exec/cpu/kernels/dnnl_gemm.h"

#ifdef ZPLAN_HAVE_DNNL

#include <algorithm>
#include <dnnl.hpp>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace zplan::exec::cpu {
namespace {

using dnnl::memory;
using Desc = memory::desc;

// oneDNN 2.6 lets threads share the sum over k of a TN product from k = 2048 on, which makes the
// result depend on the thread count. Longer sums therefore run as a fixed series of products of
// this depth. Measured at 1 to 64 threads over 400 shapes: never below 2048, never for NN and NT.
constexpr std::int64_t kDepthOfOneOwner = 1024;

// A long sum of NN walks B in stripes too tall for the caches, and where rows of B are whole pages
// their lines fall into few sets of a cache: on 2 cores with AVX-512 oneDNN 2.6 reaches 113 to 176
// Gflop/s for NN and TN of n = 3072 and 235 for NN of k = 50304, blocked_gemm 260 and more.
constexpr std::int64_t kMostDepthOfStripe = 1536;
constexpr std::int64_t kPageBytes = 4096;

// Assumed: its other implementations (gemm:jit, ref) allocate packing buffers in every call.
constexpr std::string_view kAllocationFreePrefix = "brg";

memory::dims strides_of(bool transposed, std::int64_t leading) {
  return transposed ? memory::dims{1, leading} : memory::dims{leading, 1};
}

// One primitive with its memory objects; only data handles change between runs.
class Product {
 public:
  Product(const GemmShape& s, const dnnl::engine& engine) {
    const auto f32 = memory::data_type::f32;
    const Desc a({s.m, s.k}, f32, strides_of(s.op == GemmOp::kTN, s.lda));
    const Desc b({s.k, s.n}, f32, strides_of(s.op == GemmOp::kNT, s.ldb));
    const Desc c({s.m, s.n}, f32, strides_of(false, s.ldc));
    const Desc bias({1, s.n}, f32, strides_of(false, s.n));
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (s.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto wanted = s.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc found(wanted, attributes, engine);
    is_allocation_free_ =
        std::string_view(found.impl_info_str()).starts_with(kAllocationFreePrefix);
    scratch_bytes_ = static_cast<std::int64_t>(found.scratchpad_desc().get_size());
    primitive_ = dnnl::matmul(found);
    const auto add = [&](int argument, const Desc& desc) {
      arguments_.insert({argument, memory(desc, engine, nullptr)});
    };
    add(DNNL_ARG_SRC, a);
    add(DNNL_ARG_WEIGHTS, b);
    add(DNNL_ARG_DST, c);
    if (s.bias) add(DNNL_ARG_BIAS, bias);
    if (scratch_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, found.scratchpad_desc());
  }

  bool is_allocation_free() const { return is_allocation_free_; }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(const GemmOperands<float>& x, std::byte* scratch, const dnnl::stream& stream) {
    for (auto& [argument, data] : arguments_) data.set_data_handle(handle(argument, x, scratch));
    primitive_.execute(stream, arguments_);
  }

 private:
  static void* handle(int argument, const GemmOperands<float>& x, std::byte* scratch) {
    switch (argument) {  // oneDNN takes all handles as void*, inputs are not written
      case DNNL_ARG_SRC:
        return const_cast<float*>(x.a);
      case DNNL_ARG_WEIGHTS:
        return const_cast<float*>(x.b);
      case DNNL_ARG_BIAS:
        return const_cast<float*>(x.bias);
      case DNNL_ARG_DST:
        return x.c;
      case DNNL_ARG_SCRATCHPAD:
        return scratch;
    }
    ZPLAN_ASSERT(false);
    return nullptr;
  }

  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
  std::int64_t scratch_bytes_ = 0;
  bool is_allocation_free_ = false;
};

bool is_slow(const GemmShape& s) {
  if (s.op == GemmOp::kNT) return false;
  const bool has_rows_of_pages = s.ldb * static_cast<std::int64_t>(sizeof(float)) % kPageBytes == 0;
  return has_rows_of_pages || (s.op == GemmOp::kNN && s.k > kMostDepthOfStripe);
}

// The whole product as a series over k: the first slice, then equal ones, then the rest.
class SlicedProduct final : public DnnlGemm {
 public:
  explicit SlicedProduct(const GemmShape& s)
      : shape_(s), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const std::int64_t depth = s.op == GemmOp::kTN ? std::min(s.k, kDepthOfOneOwner) : s.k;
    GemmShape part = s;
    for (std::int64_t begin = 0; begin < s.k; begin += depth) {
      part.k = std::min(depth, s.k - begin);
      const bool is_new = slices_.size() < 2 || part.k != depth;
      if (is_new) products_.emplace_back(part, engine_);
      slices_.push_back({begin, products_.size() - 1});
      part.accumulate = true;
      part.bias = false;
    }
  }

  bool is_allocation_free() const {
    return std::all_of(products_.begin(), products_.end(),
                       [](const Product& p) { return p.is_allocation_free(); });
  }

  Bytes scratch_bytes() const override {
    std::int64_t most = 0;
    for (const Product& p : products_) most = std::max(most, p.scratch_bytes());
    return {round_up(most, kScratchAlignBytes)};
  }

  void run(const GemmOperands<float>& operands, Scratch scratch) override {
    ZPLAN_ASSERT(scratch_bytes().value <= static_cast<std::int64_t>(scratch.size()));
    for (const Slice& slice : slices_) {
      GemmOperands<float> part = operands;
      part.a += slice.begin * shape_.lda;  // of NN and NT there is one slice
      part.b += slice.begin * shape_.ldb;
      products_[slice.product].run(part, scratch.data(), stream_);
    }
    stream_.wait();
  }

 private:
  struct Slice {
    std::int64_t begin;
    std::size_t product;
  };
  GemmShape shape_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Product> products_;
  std::vector<Slice> slices_;
};

}  // namespace

std::unique_ptr<DnnlGemm> DnnlGemm::create(const GemmShape& shape) {
  const GemmShape s = with_leading_dimensions(shape);
  const bool is_empty = s.m == 0 || s.n == 0 || s.k == 0;
  if (is_empty || is_slow(s)) return nullptr;
  auto product = std::make_unique<SlicedProduct>(s);
  if (!product->is_allocation_free()) return nullptr;
  return product;
}

}  // namespace zplan::exec::cpu

#else

namespace zplan::exec::cpu {

std::unique_ptr<DnnlGemm> DnnlGemm::create(const GemmShape&) { return nullptr; }

}  // namespace zplan::exec::cpu

#endif
