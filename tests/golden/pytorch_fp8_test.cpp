// Products of rounded operands on a tiny Llama against PyTorch: in blocks, and with one scale for
// each operand (tests/data/make_golden_fp8.py).
#include <gtest/gtest.h>

#include "tests/golden/pytorch_golden.h"

namespace zplan {
namespace {

TEST(PyTorchFp8, BlocksAgree) {
  const testing_support::PyTorchGolden golden{"golden_fp8_tiny", "cpu.f64.fp8"};
  golden.expect_run("blocks");
}

TEST(PyTorchFp8, OneScaleForEachOperandAgrees) {
  const testing_support::PyTorchGolden golden{"golden_fp8_tiny", "cpu.f64.fp8.whole"};
  golden.expect_run("whole");
}

}  // namespace
}  // namespace zplan
