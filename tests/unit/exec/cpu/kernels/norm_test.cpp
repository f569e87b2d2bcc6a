// Gradients of the norms: the slopes of what forward gives; and what they are added to.
#include "exec/cpu/kernels/norm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

using Numbers = std::vector<double>;

constexpr NormShape kRows{3, 7};
constexpr std::size_t kHidden = 7;

struct Weights {
  Numbers x = random_values<double>(21, 1), gain = random_values<double>(kHidden, 2);
  Numbers bias = random_values<double>(kHidden, 3);
};

struct Gradients {
  Numbers x = Numbers(21, 0.5), gain = Numbers(kHidden, 0.5), bias = Numbers(kHidden, 0.5);
};

class Norms : public testing::TestWithParam<bool> {
 protected:
  bool centred() const { return GetParam(); }

  // The sum of the results, each times its dy.
  double value(const Weights& w) {
    Numbers y(w.x.size());
    const NormForward<double> forward{y.data(),      mean_.data(),
                                      rstd_.data(),  w.x.data(),
                                      w.gain.data(), centred() ? w.bias.data() : nullptr};
    centred() ? layernorm_forward(kRows, forward) : rmsnorm_forward(kRows, forward);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy_[i] * y[i];
    return sum;
  }

  Gradients gradients(const Weights& w, bool to_x, bool to_parameters) {
    Gradients g;
    value(w);
    const NormBackward<double> backward{g.x.data(), g.gain.data(), g.bias.data(), dy_.data(),
                                        w.x.data(), mean_.data(),  rstd_.data(),  w.gain.data(),
                                        to_x,       to_parameters};
    centred() ? layernorm_backward(kRows, backward) : rmsnorm_backward(kRows, backward);
    return g;
  }

  void expect_slopes(const Numbers& gradient, Numbers Weights::*of) {
    constexpr double kStep = 1e-6;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      Weights up, down;
      (up.*of)[i] += kStep;
      (down.*of)[i] -= kStep;
      EXPECT_NEAR(gradient[i], (value(up) - value(down)) / (2 * kStep), 1e-7) << i;
    }
  }

  static void expect_more(const Numbers& sum, const Numbers& alone) {
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], 0.5 + alone[i], 1e-14) << i;
  }

 private:
  Numbers dy_ = random_values<double>(21, 4), mean_ = Numbers(3), rstd_ = Numbers(3);
};

TEST_P(Norms, HaveTheSlopesOfTheirResults) {
  const Gradients g = gradients({}, false, false);
  expect_slopes(g.x, &Weights::x);
  expect_slopes(g.gain, &Weights::gain);
  if (centred()) expect_slopes(g.bias, &Weights::bias);
}

TEST_P(Norms, AddTheirGradientsToWhatIsThere) {
  const Gradients alone = gradients({}, false, false);
  const Gradients in_x = gradients({}, true, false), in_parameters = gradients({}, false, true);
  expect_more(in_x.x, alone.x);
  EXPECT_EQ(in_x.gain, alone.gain);
  EXPECT_EQ(in_parameters.x, alone.x);
  expect_more(in_parameters.gain, alone.gain);
  if (centred()) expect_more(in_parameters.bias, alone.bias);
}

INSTANTIATE_TEST_SUITE_P(All, Norms, testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "LayerNorm" : "RmsNorm");
});

}  // namespace
}  // namespace zplan::exec::cpu
