// A ring put together by hand: every rank takes its own tokens causally and the blocks of the
// others merged; that is attention over the whole sequence, and so are its gradients.
#include "exec/cpu/kernels/block_attention.h"

#include <gtest/gtest.h>

#include <vector>

#include "exec/cpu/kernels/columns.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

struct RingCase {
  AttentionShape whole;
  std::int64_t ranks;

  AttentionShape own() const {
    AttentionShape s = whole;
    s.sequence /= ranks;
    return s;
  }
  std::int64_t kv_columns() const { return whole.kv_heads * (whole.head_dim + whole.value_dim); }
  // Rows of a rank among those of the whole: its stretch of the first half, then of the second.
  std::vector<std::int64_t> rows(std::int64_t rank) const {
    const std::int64_t piece = whole.sequence / (2 * ranks);
    std::vector<std::int64_t> all;
    for (std::int64_t b = 0; b < whole.batch; ++b)
      for (const std::int64_t at : {rank, 2 * ranks - 1 - rank})
        for (std::int64_t i = 0; i < piece; ++i) all.push_back(b * whole.sequence + at * piece + i);
    return all;
  }
};

const RingCase kCases[] = {{{1, 16, 2, 2, 4}, 2},
                           {{2, 264, 4, 2, 6}, 2},
                           {{1, 96, 4, 1, 5, 7}, 4},
                           {{2, 24, 2, 2, 3, 2}, 3}};

template <typename T>
std::vector<T> take(const std::vector<T>& from, const std::vector<std::int64_t>& rows,
                    std::int64_t width) {
  std::vector<T> taken;
  for (const std::int64_t row : rows)
    taken.insert(taken.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  return taken;
}

template <typename T>
struct Attended {
  std::vector<T> out, dqkv;
  std::vector<Compute<T>> lse;
};

template <typename T>
Attended<T> whole_attention(const AttentionShape& s, const std::vector<T>& qkv,
                            const std::vector<T>& dout) {
  Attended<T> x{buffer<T>(std::ssize(dout)), buffer<T>(std::ssize(qkv)),
                buffer<Compute<T>>(s.batch * s.heads * s.sequence)};
  Workspace forward(attention_forward_scratch_bytes<T>(s, 1)),
      backward(attention_backward_scratch_bytes<T>(s, 1));
  attention_forward<T>(s, {x.out.data(), x.lse.data(), qkv.data()}, forward.span());
  attention_backward<T>(s, {x.dqkv.data(), dout.data(), x.out.data(), x.lse.data(), qkv.data()},
                        backward.span());
  return x;
}

template <typename T>
class BlockAttention : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(BlockAttention, Types);

template <typename T>
std::vector<T> keys_of(const RingCase& c, const std::vector<T>& qkv) {
  const AttentionShape s = c.own();
  std::vector<T> kv = buffer<T>(s.batch * s.sequence * c.kv_columns());
  take_columns<T>({s.batch * s.sequence, s.columns(), s.heads * s.head_dim, c.kv_columns()},
                  kv.data(), qkv.data());
  return kv;
}

TYPED_TEST(BlockAttention, BlocksMergeToAttentionOverTheWholeSequence) {
  using T = TypeParam;
  for (const RingCase& c : kCases) {
    const AttentionShape s = c.own();
    const std::int64_t tokens = c.whole.batch * c.whole.sequence, width = s.columns();
    const std::int64_t out_width = s.heads * s.value_dim;
    const auto qkv = random_values<T>(tokens * width, 7, 2.0);
    const auto dout = random_values<T>(tokens * out_width, 8);
    const Attended<T> whole = whole_attention(c.whole, qkv, dout);
    std::vector<std::vector<T>> own(c.ranks), keys(c.ranks), dqkv(c.ranks), dkeys(c.ranks);
    for (std::int64_t r = 0; r < c.ranks; ++r) {
      own[r] = take(qkv, c.rows(r), width);
      keys[r] = keys_of(c, own[r]);
      dkeys[r].assign(keys[r].size(), T{0});
    }
    Workspace forward(attention_forward_scratch_bytes<T>(s, 1)),
        backward(attention_backward_scratch_bytes<T>(s, 1));
    for (std::int64_t r = 0; r < c.ranks; ++r) {
      const auto own_dout = take(dout, c.rows(r), out_width);
      Attended<T> x{buffer<T>(std::ssize(own_dout)), buffer<T>(std::ssize(own[r])),
                    buffer<Compute<T>>(s.batch * s.heads * s.sequence)};
      attention_forward<T>(s, {x.out.data(), x.lse.data(), own[r].data()}, forward.span());
      for (std::int64_t i = 1; i < c.ranks; ++i)
        block_attention_forward<T>(s,
                                   {x.out.data(), x.lse.data(), own[r].data(),
                                    keys[(r + c.ranks - i) % c.ranks].data(), r >= i},
                                   forward.span());
      expect_near(x.out, converted<double>(take(whole.out, c.rows(r), out_width)), 60);
      attention_backward<T>(
          s, {x.dqkv.data(), own_dout.data(), x.out.data(), x.lse.data(), own[r].data()},
          backward.span());
      for (std::int64_t i = 1; i < c.ranks; ++i) {
        const std::int64_t from = (r + c.ranks - i) % c.ranks;
        std::vector<T> given = buffer<T>(std::ssize(keys[from]));
        block_attention_backward<T>(s,
                                    {x.dqkv.data(), given.data(), own_dout.data(), x.out.data(),
                                     x.lse.data(), own[r].data(), keys[from].data(), r >= i},
                                    backward.span());
        for (std::size_t k = 0; k < given.size(); ++k) dkeys[from][k] += given[k];
      }
      dqkv[r] = x.dqkv;
    }
    for (std::int64_t r = 0; r < c.ranks; ++r) {
      add_columns<T>({s.batch * s.sequence, width, s.heads * s.head_dim, c.kv_columns()},
                     dqkv[r].data(), dkeys[r].data());
      expect_near(dqkv[r], converted<double>(take(whole.dqkv, c.rows(r), width)), 300);
    }
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
