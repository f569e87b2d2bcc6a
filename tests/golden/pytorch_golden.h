// The reference (one rank, nothing sharded) against PyTorch in float64: initial parameters, losses,
// gradient norms, gradients and final parameters of a tiny model over five AdamW steps. The files
// are made by tests/data/make_golden.py, which implements the models with autograd and the random
// numbers anew; make_golden_optimizers.py, make_golden_lora.py and make_golden_fp8.py beside it
// have other optimizers, LoRA and rounded products. Tolerance: both sides round differently at
// 1e-16 per operation; five steps of a two-layer model stay within 1e-12.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/optimizer_kind.h"
#include "planner/program/job/job.h"

namespace zplan::testing_support {

inline constexpr const char* kF64Sets[] = {"cpu.f64", "cpu.f64.unfused"};

class PyTorchGolden {
 public:
  PyTorchGolden(const std::string& file, const std::string& kernel_set);  // "golden_gpt2_tiny"
  ~PyTorchGolden();

  void expect_initial_parameters() const;
  void expect_losses_and_norms() const;
  void expect_losses_with_a_tight_clip() const;
  void expect_gradients() const;  // of the first and the last step
  void expect_final_parameters() const;
  // Losses and final parameters of a file of make_golden_optimizers.py.
  void expect_training_with(OptimizerKind kind) const;
  // Losses, norms and final parameters of a run in the file of make_golden_fp8.py.
  void expect_run(const std::string& name) const;
  // Losses, norms and factors of the file of make_golden_lora.py.
  void expect_lora() const;
  // Losses and norms of each run of 4-bit matrices in the file that make_golden_lora.py writes.
  void expect_qlora() const;

 private:
  struct File;

  std::vector<double> values(const std::string& kind, const std::string& name) const;
  // All tensors of a Job after so many steps.
  void expect_parameters(int steps, const std::string& kind) const;

  std::unique_ptr<File> file_;
  Job job_;
};

}  // namespace zplan::testing_support
