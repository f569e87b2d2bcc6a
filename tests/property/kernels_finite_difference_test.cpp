// Every backward kernel against central differences of its forward kernel, in double, on random
// small shapes. The loss is a fixed random weighting of the outputs; the upstream gradient is that
// weighting. Gradients are also run in accumulating form, onto ones.
#include <gtest/gtest.h>
// rapidcheck's macros need gtest first.
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/head_norm.h"
#include "exec/cpu/kernels/norm.h"
#include "exec/cpu/kernels/rope.h"
#include "tests/unit/exec/cpu/row_call.h"

namespace zplan::exec::cpu {
namespace {

using Values = std::vector<double>;

// [derived] Central differences err by step^2 f''' / 6 and by rounding / step: near 1e-9 here.
constexpr double kStep = 1e-5;
constexpr double kRelativeTolerance = 1e-6;

constexpr Bytes kScratch{1 << 21};  // more than any of these shapes needs

struct Random {
  std::mt19937 engine;

  Values values(std::int64_t n) { return random_values<double>(n, engine()); }

  std::vector<std::int32_t> integers(std::int64_t n, std::int32_t low, std::int64_t end) {
    std::uniform_int_distribution<std::int32_t> uniform(low, static_cast<std::int32_t>(end - 1));
    std::vector<std::int32_t> result(static_cast<std::size_t>(n));
    for (std::int32_t& value : result) value = uniform(engine);
    return result;
  }
};

Random any_random() { return {std::mt19937(*rc::gen::arbitrary<unsigned>())}; }
std::int64_t size_below(int end) { return *rc::gen::inRange(1, end); }

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// A gradient buffer: zeros-to-be, or ones when the kernel shall add to it.
Values gradient_buffer(std::size_t n, bool accumulate) {
  return Values(n, accumulate ? 1.0 : std::numeric_limits<double>::quiet_NaN());
}

// gradient[i] = d loss() / d input[i], plus one when accumulated; of every `step`-th element.
template <typename Loss>
void check_gradient(Values& input, const Values& gradient, bool accumulate, const Loss& loss,
                    std::size_t step = 1) {
  RC_ASSERT(gradient.size() == input.size());
  double largest = 1e-3;
  for (const double g : gradient) largest = std::max(largest, std::abs(g - (accumulate ? 1 : 0)));
  for (std::size_t i = 0; i < input.size(); i += step) {
    const double kept = input[i];
    input[i] = kept + kStep;
    const double above = loss();
    input[i] = kept - kStep;
    const double below = loss();
    input[i] = kept;
    const double numeric = (above - below) / (2 * kStep) + (accumulate ? 1 : 0);
    const double error = std::abs(numeric - gradient[i]);
    RC_ASSERT(error <= kRelativeTolerance * largest);  // false for NaN too
  }
}

Access access_of(bool accumulate) { return accumulate ? Access::kUpdate : Access::kWrite; }

// Of the two matrices a product reads and its result; the products are rows of the kernel table.
struct Matrix {
  Values& values;
  Shape shape;
};
void product(KernelId kernel, const Matrix& a, const Matrix& b, const Matrix& c,
             Access access = Access::kWrite) {
  RowCall(kernel)
      .with(a.values, a.shape)
      .with(b.values, b.shape)
      .with(c.values, c.shape, access)
      .scratch(kScratch)
      .run(DType::kF64);
}

RC_GTEST_PROP(KernelGradients, LinearMatchesFiniteDifferences, ()) {
  const std::int64_t tokens = size_below(6), in = size_below(20), out = size_below(20);
  const bool accumulate = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(tokens * in), w = random.values(in * out);
  Values bias = random.values(out), dy = random.values(tokens * out), y(dy.size());
  const auto loss = [&] {
    RowCall(KernelId::kLinearForward)
        .with(x, {tokens, in})
        .with(w, {in, out})
        .with(bias, {out})
        .with(y, {tokens, out}, Access::kWrite)
        .scratch(kScratch)
        .run(DType::kF64);
    return dot(y, dy);
  };
  Values dx = gradient_buffer(x.size(), false), dw = gradient_buffer(w.size(), accumulate);
  Values dbias = gradient_buffer(bias.size(), accumulate);
  product(KernelId::kLinearInputGradient, {dy, {tokens, out}}, {w, {in, out}}, {dx, {tokens, in}});
  RowCall(KernelId::kLinearWeightGradient)
      .with(x, {tokens, in})
      .with(dy, {tokens, out})
      .with(dw, {in, out}, access_of(accumulate))
      .with(dbias, {out}, access_of(accumulate))
      .scratch(kScratch)
      .run(DType::kF64);
  check_gradient(x, dx, false, loss);
  check_gradient(w, dw, accumulate, loss);
  check_gradient(bias, dbias, accumulate, loss);
}

RC_GTEST_PROP(KernelGradients, HeadMatchesFiniteDifferences, ()) {
  const std::int64_t tokens = size_below(6), hidden = size_below(20), vocab = size_below(25);
  const bool accumulate = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(tokens * hidden), wte = random.values(vocab * hidden);
  Values dlogits = random.values(tokens * vocab), logits(dlogits.size());
  const Shape rows{tokens, hidden}, table{vocab, hidden}, columns{tokens, vocab};
  const auto loss = [&] {
    product(KernelId::kHeadForward, {x, rows}, {wte, table}, {logits, columns});
    return dot(logits, dlogits);
  };
  Values dx = gradient_buffer(x.size(), false), dwte = gradient_buffer(wte.size(), accumulate);
  product(KernelId::kHeadInputGradient, {dlogits, columns}, {wte, table}, {dx, rows});
  product(KernelId::kHeadWeightGradient, {dlogits, columns}, {x, rows}, {dwte, table},
          access_of(accumulate));
  check_gradient(x, dx, false, loss);
  check_gradient(wte, dwte, accumulate, loss);
}

RC_GTEST_PROP(KernelGradients, EmbeddingMatchesFiniteDifferences, ()) {
  const EmbeddingShape s{size_below(4), size_below(6), size_below(80), size_below(7)};
  const bool add_wte = *rc::gen::arbitrary<bool>(), add_wpe = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  const auto tokens = random.integers(s.batch * s.sequence, 0, s.rows);
  Values wte = random.values(s.rows * s.hidden), wpe = random.values(s.sequence * s.hidden);
  Values dx = random.values(s.batch * s.sequence * s.hidden), x(dx.size());
  const auto loss = [&] {
    embedding_forward<double>(s, {x.data(), tokens.data(), wte.data(), wpe.data()});
    return dot(x, dx);
  };
  Values dwte = gradient_buffer(wte.size(), add_wte), dwpe = gradient_buffer(wpe.size(), add_wpe);
  std::vector<std::uint64_t> places(static_cast<std::size_t>(s.batch * s.sequence));
  embedding_backward<double>(
      s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), add_wte, add_wpe},
      {reinterpret_cast<std::byte*>(places.data()), places.size() * sizeof places[0]});
  check_gradient(wte, dwte, add_wte, loss);
  check_gradient(wpe, dwpe, add_wpe, loss);
}

RC_GTEST_PROP(KernelGradients, LayernormMatchesFiniteDifferences, ()) {
  // Two elements of hidden make a sign function of the row, too sharp for a difference quotient.
  const NormShape s{size_below(12), 2 + size_below(80)};
  const bool add_dx = *rc::gen::arbitrary<bool>(), add = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(s.tokens * s.hidden), dy = random.values(s.tokens * s.hidden);
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(s.hidden)) x[i] += 3.0;
  Values gain = random.values(s.hidden), bias = random.values(s.hidden), y(x.size());
  Values mean(static_cast<std::size_t>(s.tokens)), rstd(mean.size());
  const auto loss = [&] {
    layernorm_forward<double>(
        s, {y.data(), mean.data(), rstd.data(), x.data(), gain.data(), bias.data()});
    return dot(y, dy);
  };
  loss();
  Values dx = gradient_buffer(x.size(), add_dx), dgain = gradient_buffer(gain.size(), add);
  Values dbias = gradient_buffer(bias.size(), add);
  layernorm_backward<double>(s, {dx.data(), dgain.data(), dbias.data(), dy.data(), x.data(),
                                 mean.data(), rstd.data(), gain.data(), add_dx, add});
  check_gradient(x, dx, add_dx, loss);
  check_gradient(gain, dgain, add, loss);
  check_gradient(bias, dbias, add, loss);
}

RC_GTEST_PROP(KernelGradients, RmsnormMatchesFiniteDifferences, ()) {
  const NormShape s{size_below(12), size_below(80)};
  const bool add_dx = *rc::gen::arbitrary<bool>(), add = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(s.tokens * s.hidden), dy = random.values(s.tokens * s.hidden);
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(s.hidden)) x[i] += 3.0;
  Values gain = random.values(s.hidden), y(x.size()), rstd(static_cast<std::size_t>(s.tokens));
  const auto loss = [&] {
    rmsnorm_forward<double>(s, {y.data(), nullptr, rstd.data(), x.data(), gain.data(), nullptr});
    return dot(y, dy);
  };
  loss();
  Values dx = gradient_buffer(x.size(), add_dx), dgain = gradient_buffer(gain.size(), add);
  rmsnorm_backward<double>(s, {dx.data(), dgain.data(), nullptr, dy.data(), x.data(), nullptr,
                               rstd.data(), gain.data(), add_dx, add});
  check_gradient(x, dx, add_dx, loss);
  check_gradient(gain, dgain, add, loss);
}

RC_GTEST_PROP(KernelGradients, HeadNormMatchesFiniteDifferences, ()) {
  const std::int64_t normed = size_below(4), first = size_below(3) - 1;
  const HeadNormShape s{size_below(8), first + normed + size_below(3) - 1, size_below(20), first,
                        normed};
  const bool add = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(s.tokens * s.heads * s.head_dim);
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(s.head_dim)) x[i] += 3.0;
  const Values dy = random.values(static_cast<std::int64_t>(x.size()));
  Values gain = random.values(s.head_dim);
  Values kept(static_cast<std::size_t>(s.rows() * s.head_dim)),
      rstd(static_cast<std::size_t>(s.rows()));
  const auto loss = [&] {
    Values y = x;
    head_norm_forward<double>(s, {y.data(), kept.data(), rstd.data(), gain.data()});
    return dot(y, dy);
  };
  loss();
  Values dx = dy, dgain = gradient_buffer(gain.size(), add);
  head_norm_backward<double>(s,
                             {dx.data(), dgain.data(), kept.data(), rstd.data(), gain.data(), add});
  check_gradient(x, dx, false, loss);
  check_gradient(gain, dgain, add, loss);
}

// The gradient of x, which finite differences confirm.
Values checked_swiglu_gradient(const SwigluShape& s, Values& x, const Values& dy) {
  Values y(dy.size()), dx = gradient_buffer(x.size(), false);
  const auto loss = [&] {
    swiglu_forward(s, y.data(), x.data());
    return dot(y, dy);
  };
  swiglu_backward(s, dx.data(), dy.data(), x.data());
  check_gradient(x, dx, false, loss);
  return dx;
}

RC_GTEST_PROP(KernelGradients, SwigluMatchesFiniteDifferences, ()) {
  const SwigluShape s{size_below(6), size_below(30)};
  Random random = any_random();
  Values x = random.values(s.tokens * 2 * s.width), dy = random.values(s.tokens * s.width);
  for (double& value : x) value *= 6.0;
  const Values dx = checked_swiglu_gradient(s, x, dy);
  Values in_place = x;
  swiglu_backward(s, in_place.data(), dy.data(), in_place.data());
  RC_ASSERT(in_place == dx);
}

// Away from the limits, where the slope jumps.
RC_GTEST_PROP(KernelGradients, ALimitedGateMatchesFiniteDifferences, ()) {
  SwigluShape s{size_below(6), size_below(30), ActivationFunction::kQuickGelu, 0.5, 1};
  Random random = any_random();
  Values x = random.values(s.tokens * 2 * s.width), dy = random.values(s.tokens * s.width);
  for (double& value : x)
    if (std::abs(std::abs(value) - s.limit) < 1e-3) value += 0.01;
  checked_swiglu_gradient(s, x, dy);
}

RC_GTEST_PROP(KernelGradients, RopeMatchesFiniteDifferences, ()) {
  const std::int64_t turned = size_below(4);
  const RopeShape s{size_below(3), size_below(6), turned + size_below(3) - 1, 2 * size_below(6),
                    turned};
  Random random = any_random();
  Values x = random.values(s.batch * s.sequence * s.heads * s.head_dim),
         dy = random.values(static_cast<std::int64_t>(x.size()));
  const auto loss = [&] {
    Values y = x;
    rope(s, y.data(), 50.0, 1);
    return dot(y, dy);
  };
  Values dx = dy;
  rope(s, dx.data(), 50.0, -1);
  check_gradient(x, dx, false, loss);
}

RC_GTEST_PROP(KernelGradients, BiasAndColumnSumsMatchFiniteDifferences, ()) {
  const std::int64_t rows = size_below(6), columns = size_below(90);
  const bool add = *rc::gen::arbitrary<bool>();
  Random random = any_random();
  Values x = random.values(rows * columns), y = random.values(rows * columns);
  Values bias = random.values(columns), dout = random.values(rows * columns), out(x.size());
  const auto loss = [&] {
    bias_residual_add(out.data(), x.data(), y.data(), bias.data(), rows, columns);
    return dot(out, dout);
  };
  Values dbias = gradient_buffer(bias.size(), add);
  column_sums(dbias.data(), dout.data(), rows, columns, add);
  check_gradient(x, dout, false, loss);
  check_gradient(y, dout, false, loss);
  check_gradient(bias, dbias, add, loss);
}

RC_GTEST_PROP(KernelGradients, GeluMatchesFiniteDifferences, ()) {
  const std::int64_t n = size_below(60);
  Random random = any_random();
  Values x = random.values(n), dy = random.values(n), y(x.size());
  for (double& value : x) value *= 6.0;  // into both saturated ends
  const auto loss = [&] {
    gelu_forward(y.data(), x.data(), n);
    return dot(y, dy);
  };
  Values dx = gradient_buffer(x.size(), false);
  gelu_backward(dx.data(), dy.data(), x.data(), n);
  check_gradient(x, dx, false, loss);
}

void check_attention(const AttentionShape& s, Random random, std::size_t step = 1) {
  const std::int64_t h = s.heads * s.value_dim;
  Values qkv = random.values(s.batch * s.sequence * s.columns());
  for (double& value : qkv) value *= 2.0;
  Values dout = random.values(s.batch * s.sequence * h), out(dout.size());
  Values lse(static_cast<std::size_t>(s.batch * s.heads * s.sequence));
  Workspace scratch(kScratch);
  const auto loss = [&] {
    attention_forward<double>(s, {out.data(), lse.data(), qkv.data()}, scratch.span());
    return dot(out, dout);
  };
  loss();
  Values dqkv = gradient_buffer(qkv.size(), false);
  attention_backward<double>(s, {dqkv.data(), dout.data(), out.data(), lse.data(), qkv.data()},
                             scratch.span());
  check_gradient(qkv, dqkv, false, loss, step);
}

RC_GTEST_PROP(KernelGradients, AttentionMatchesFiniteDifferences, ()) {
  const std::int64_t kv_heads = size_below(4), group = size_below(4);
  check_attention(
      {size_below(3), size_below(12), kv_heads * group, kv_heads, size_below(12), size_below(12)},
      any_random());
}

TEST(KernelGradients, AttentionMatchesFiniteDifferencesAcrossBlocks) {
  EXPECT_TRUE(rc::check([] { check_attention({1, 131, 2, 1, 1}, any_random(), 61); }));
}

RC_GTEST_PROP(KernelGradients, SeparateAttentionMatchesFiniteDifferences, ()) {
  const std::int64_t kv_heads = size_below(4), group = size_below(4);
  const AttentionShape s{size_below(3), size_below(10), kv_heads * group,
                         kv_heads,      size_below(8),  size_below(8)};
  Random random = any_random();
  const std::int64_t h = s.heads * s.value_dim;
  Values qkv = random.values(s.batch * s.sequence * s.columns());
  Values dout = random.values(s.batch * s.sequence * h), out(dout.size());
  const auto squares = static_cast<std::size_t>(s.batch * s.heads * s.sequence * s.sequence);
  Values probs(squares), dscores(squares);
  Workspace workspace(kScratch);
  const Scratch scratch = workspace.span();
  GemmCache cache;
  const auto loss = [&] {
    attention_scores<double>(cache, s, probs.data(), qkv.data(), scratch);
    softmax_forward({s.batch * s.heads, s.sequence}, probs.data());
    attention_context<double>(cache, s, out.data(), probs.data(), qkv.data(), scratch);
    return dot(out, dout);
  };
  loss();
  Values dqkv = gradient_buffer(qkv.size(), false);
  attention_context_gradient<double>(cache, s, dscores.data(), dout.data(), qkv.data(), scratch);
  softmax_backward({s.batch * s.heads, s.sequence}, dscores.data(), probs.data());
  const Values kept = probs;
  attention_scores_gradient<double>(
      cache, s, {dqkv.data(), dscores.data(), kept.data(), dout.data(), qkv.data()}, scratch);
  check_gradient(qkv, dqkv, false, loss);
}

// The loss of a vocabulary cut in two, by the statistics of both pieces.
RC_GTEST_PROP(KernelGradients, ParallelCrossEntropyMatchesFiniteDifferences, ()) {
  const std::int64_t tokens = size_below(6), columns = size_below(20);
  const std::int64_t vocab = columns + *rc::gen::inRange<std::int64_t>(1, columns + 1);
  const double scale = 0.25;
  Random random = any_random();
  const auto targets = random.integers(tokens, kIgnoredTarget, vocab);
  Values logits = random.values(2 * tokens * columns);  // piece by piece
  for (double& value : logits) value *= 5.0;
  Values gradient, statistics(static_cast<std::size_t>(2 * tokens * 3));
  Workspace scratch(kScratch);
  const auto loss = [&] {
    double sum = 0;
    gradient = logits;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t piece = 0; piece < 2; ++piece) {
        const LogitShape s{tokens, piece == 0 ? columns : vocab - columns, columns,
                           piece * columns};
        double* own = gradient.data() + piece * tokens * columns;
        if (pass == 0) {
          cross_entropy_statistics<double>(
              s, {statistics.data() + piece * tokens * 3, own, targets.data()});
        } else {
          sum = 0;
          cross_entropy_gradient<double>(
              s, {own, targets.data(), statistics.data(), 2, tokens * 3, scale, &sum},
              scratch.span());
        }
      }
    }
    return scale * sum;
  };
  loss();
  check_gradient(logits, Values(gradient), false, loss);
}

RC_GTEST_PROP(KernelGradients, CrossEntropyMatchesFiniteDifferences, ()) {
  const std::int64_t vocab = size_below(40);
  const LogitShape s{size_below(6), vocab, vocab + size_below(5) - 1};
  const double scale = 0.25;
  Random random = any_random();
  const auto targets = random.integers(s.tokens, kIgnoredTarget, s.valid);
  Values logits = random.values(s.tokens * s.columns), gradient;
  for (double& value : logits) value *= 5.0;
  Workspace scratch(kScratch);
  const auto loss = [&] {
    double sum = 0;
    gradient = logits;
    cross_entropy<double>(s, {gradient.data(), targets.data(), scale, &sum}, scratch.span());
    return scale * sum;
  };
  loss();
  check_gradient(logits, Values(gradient), false, loss);
}

}  // namespace
}  // namespace zplan::exec::cpu
