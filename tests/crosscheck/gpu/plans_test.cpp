// exec/cuda on the stand-in GPU: plans give what the CPU backend gives, in streams and in graphs,
// with ranks that share a device and with ranks on devices of their own, which meet by NCCL; and
// nothing that the stand-in judges is done wrong. A few plans always run;
// ZPLAN_GPU_EVERY=12 bin/test_crosscheck_gpu_plans runs every 12th of the cover besides, 1 all of
// it; ZPLAN_GPU_PROCESSES=12 runs every 12th of those of several ranks by `zplan run` in real
// processes; ZPLAN_GPU_DEADLINE=3600 gives partners so many seconds, on a machine that has other
// work. Elsewhere ranks on devices of their own are threads that meet over sockets, as processes
// do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/error.h"
#include "planner/program/instances/validation.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/crosscheck/gpu/real_processes.h"
#include "tests/support/gpu/judged_device.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/support/plan_cover.h"
#include "tests/support/sanitized.h"
#include "tests/support/tensor_values.h"
#include "tests/support/trained.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan {
namespace {

using testing_support::Choice;
using testing_support::Tensors;
using testing_support::Trained;

constexpr int kSteps = 3;
constexpr const char* kLongTest = "what takes long is of `tests/run --all`";

// Of the loss, of the norm of the gradients and of the way of each parameter; 0: not compared.
struct Allowed {
  double loss, norm = 0, way = 0;
};
constexpr Allowed kF32{1e-5, 1e-5, 1e-3};  // as tests/crosscheck/cover/one_rank.cpp has them
constexpr Allowed kBf16{4e-3}, kFp16{5e-4};
// Where all but the products is in bf16 on one side, operands of some elements fall to the next
// number of fp8. Rounding them at all moves the norm of tiny-llama by 1.1 %.
constexpr Allowed kFp8{1e-3, 8e-3};

Allowed allowed_of(const Plan& cpu_plan) {
  const KernelSet& set = find_kernel_set(cpu_plan.kernel_set);
  if (set.rounds_whole) return kFp8;
  return set.compute == DType::kBf16 ? kBf16 : set.compute == DType::kF16 ? kFp16 : kF32;
}

// Levels for which CUDA has no kernels become plain ones; a model becomes one of those that have
// all of theirs, so that each of these meets the levels of the others.
Choice within_cuda(Choice c) {
  constexpr int kWithKernels[] = {0, 1, 2, 6};  // tiny-gpt, -llama, -mla, -neox in kModels
  int& model = c[testing_support::factor("/model")];
  if (std::find(std::begin(kWithKernels), std::end(kWithKernels), model) == std::end(kWithKernels))
    model = kWithKernels[static_cast<std::size_t>(model) % std::size(kWithKernels)];
  c[testing_support::factor("/parallel/ring")] = 0;
  int& optimizer = c[testing_support::factor("/optimizer/kind")];
  if (!(testing_support::kOptimizerLevels[optimizer].kind <= OptimizerKind::kSgd)) optimizer = 0;
  int& set = c[testing_support::factor("/kernel_set")];
  if (testing_support::kSetLevels[set].type.starts_with("fp8")) set = 0;
  return c;
}

std::int64_t ranks_of(const Choice& choice) {
  return testing_support::plan_of(choice, "cpu.f32").parallel.ranks();
}

// Every so many as the environment says, of plans of so many ranks; none where it says nothing.
std::vector<Choice> choices(const char* environment, int least_ranks) {
  std::vector<Choice> all, some;
  const char* const variable = std::getenv(environment);
  if (variable == nullptr) return some;
  const std::size_t every = std::max<std::size_t>(1, std::stoull(variable));
  for (const Choice& of_cover : testing_support::pairwise_choices()) {
    const Choice c = within_cuda(of_cover);
    if (testing_support::is_legal(c) && ranks_of(c) >= least_ranks &&
        std::find(all.begin(), all.end(), c) == all.end())
      all.push_back(c);
  }
  for (std::size_t i = 0; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

// Of cpu.*.fp8.whole those whose products are in fp8, all else in bf16.
bool computes_alike(const KernelSet& cuda, const KernelSet& cpu) {
  if (cpu.rounds_whole) return cuda.layer_products == LayerProducts::kFp8;
  return cuda.layer_products == LayerProducts::kAsStored && cuda.compute == cpu.compute;
}

// The newest set for the device that computes as the CPU's does and fuses attention where it does.
std::string cuda_set(const std::string& cpu_set) {
  constexpr int kCapability = 90;
  const KernelSet& cpu = find_kernel_set(cpu_set);
  std::string newest;
  for (const KernelSet& set : kernel_sets())
    if (set.runs_on == RunsOn::kCuda && set.capability <= kCapability && computes_alike(set, cpu) &&
        set.fused_attention == cpu.fused_attention)
      newest = set.id;
  return newest;
}

std::chrono::seconds deadline() {
  const char* const seconds = std::getenv("ZPLAN_GPU_DEADLINE");
  return std::chrono::seconds(seconds == nullptr ? 60 : std::stol(seconds));
}

exec::RunOptions steps(int count) {
  exec::RunOptions options;
  options.steps = count;
  options.comm_deadline = deadline();
  return options;
}

// Of the job, whose states are validated at the end where that can be.
exec::RunOptions all_steps(const Job& job) {
  exec::RunOptions options = steps(kSteps);
  if (no_validation(job)) return options;
  options.validation = testing_support::validation({.batches = 1});
  return options;
}

std::shared_ptr<exec::Rendezvous> meet(int rank, int world, int port) {
  exec::RendezvousOptions options = exec::testing::options_of(rank, world, port);
  options.silence_deadline = Seconds{static_cast<double>(deadline().count())};
  return std::make_shared<exec::Rendezvous>(options);
}

// All ranks on one device.
std::unique_ptr<Trained> run_on_one_device(const Job& job) {
  auto trained = std::make_unique<Trained>();
  trained->job = job;
  exec::RunOptions options = all_steps(job);
  options.device = stand_in::make_judged_device();
  trained->result = testing_support::run_text(trained->job, options);
  return trained;
}

// A thread and a device for each rank, as if they were processes. Communicators of a device are
// ordered by their launches, without which those of two lanes may each hold what the other needs.
std::unique_ptr<Trained> run_on_devices(const Job& job) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  auto trained = std::make_unique<Trained>();
  trained->job = job;
  const int world = job.world();
  std::vector<exec::RunResult> results(static_cast<std::size_t>(world));
  std::vector<std::shared_ptr<exec::Device>> devices;
  for (int rank = 0; rank < world; ++rank) devices.push_back(stand_in::make_judged_device(rank));
  const int port = exec::testing::free_port();
  const auto errors = exec::testing::on_ranks(world, [&](int rank) {
    exec::RunOptions options = all_steps(job);
    options.device = devices[static_cast<std::size_t>(rank)];
    options.rendezvous = meet(rank, world, port);
    results[static_cast<std::size_t>(rank)] = testing_support::run_text(trained->job, options);
    options.rendezvous->finish();
  });
  std::string all;
  for (const std::string& error : errors)
    if (!error.empty()) all += error + "; ";
  if (!all.empty()) throw Error(ExitCode::kDevice, all);
  for (exec::RunResult& result : results) {
    if (result.has_losses) {
      trained->result.steps = result.steps;
      trained->result.validations = result.validations;
    }
    std::move(result.memory.begin(), result.memory.end(),
              std::back_inserter(trained->result.memory));
  }
  return trained;
}

// cpu.*.fp8.whole has whole operands, where ranks of a device round what they have of them.
Plan plan_of_the_cpu(Plan plan) {
  if (find_kernel_set(plan.kernel_set).rounds_whole) plan.parallel.tp = 1;
  return plan;
}

struct Expected {
  std::unique_ptr<Trained> trained;
  Tensors start, end;
};

// The same plan on the CPU.
Expected train_on_cpu(const Plan& plan) {
  Expected expected;
  const auto untrained = testing_support::train(plan, steps(0));
  expected.start = testing_support::states(*untrained);
  expected.trained = testing_support::train(plan, all_steps(testing_support::placed_job(plan)));
  expected.end = testing_support::states(*expected.trained);
  return expected;
}

void expect_same_way(const Tensors& got, const Expected& expected, double allowed) {
  for (const auto& [tensor, values] : expected.end) {
    if (testing_support::is_key_bias(tensor) || testing_support::is_qkv_bias(tensor)) continue;
    const double way = testing_support::distance(values, expected.start.at(tensor));
    EXPECT_LE(testing_support::distance(got.at(tensor), values), allowed * way) << tensor;
  }
}

void expect_same_numbers(const exec::RunResult& got, const Expected& expected, const Plan& plan) {
  const Allowed allowed = allowed_of(plan);
  const auto &ours = got.steps, &theirs = expected.trained->result.steps;
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < theirs.size(); ++i)
    EXPECT_NEAR(ours[i].loss, theirs[i].loss, allowed.loss * theirs[i].loss) << "step " << i;
  const auto &mine = got.validations, &valid = expected.trained->result.validations;
  ASSERT_EQ(mine.size(), valid.size());
  for (std::size_t i = 0; i < valid.size(); ++i)
    EXPECT_NEAR(mine[i].loss, valid[i].loss, allowed.loss * valid[i].loss) << "validation";
  if (allowed.norm == 0) return;
  for (std::size_t i = 0; i < theirs.size(); ++i)
    EXPECT_NEAR(ours[i].gradient_norm, theirs[i].gradient_norm,
                allowed.norm * theirs[i].gradient_norm)
        << "step " << i;
}

void expect_agreement(const Trained& got, const Expected& expected, const Plan& plan) {
  expect_same_numbers(got.result, expected, plan);
  if (const double way = allowed_of(plan).way; way > 0)
    expect_same_way(testing_support::states(got), expected, way);
}

// Nothing where the device has no kernels for the plan.
std::optional<Job> cuda_job(const Plan& cpu_plan) {
  Plan plan = cpu_plan;
  plan.kernel_set = cuda_set(cpu_plan.kernel_set);
  if (find_kernel_set(cpu_plan.kernel_set).rounds_whole)
    plan.precision = default_recipe(plan.kernel_set);
  if (illegal(plan, shape_of(load_model(plan.model)))) return std::nullopt;
  return testing_support::placed_job(plan);
}

template <typename Run>
void expect_run(const Run& run, Job job, LaunchMode launch, const Expected& expected,
                const Plan& plan) {
  SCOPED_TRACE(launch == LaunchMode::kGraph ? "graphs" : "streams");
  job.launch = launch;
  stand_in::Options options;
  options.devices = job.world();
  stand_in::StandIn gpu(options);
  bool is_refused = false;
  try {
    const auto trained = run(job);
    expect_agreement(*trained, expected, plan);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadInput) throw;
    // Ranks that need more streams than wait independently are refused on one device.
    is_refused = std::string_view(error.what()).find("or more streams") != std::string_view::npos;
    if (!is_refused) ADD_FAILURE() << error.what();
    if (is_refused) std::cout << "refused: " << error.what() << '\n';
  }
  EXPECT_EQ(gpu.close(), std::vector<std::string>{});
  if (launch == LaunchMode::kGraph && !is_refused) {
    EXPECT_GE(gpu.launches(), kSteps);
  }
}

void expect_agreement_with_the_cpu(const Plan& plan) {
  const std::optional<Job> job = cuda_job(plan);
  if (!job) GTEST_SKIP() << "no kernel set for a device has this plan";
  const bool shares = job->world() > 1;
  try {
    const Expected expected = train_on_cpu(plan_of_the_cpu(plan));
    expect_run(run_on_one_device, *job, LaunchMode::kStream, expected, plan);
    if (!shares) return expect_run(run_on_one_device, *job, LaunchMode::kGraph, expected, plan);
    expect_run(run_on_devices, *job, LaunchMode::kStream, expected, plan);
    expect_run(run_on_devices, *job, LaunchMode::kGraph, expected, plan);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    GTEST_SKIP() << error.what();
  }
}

// Where processes leave their states.
class Kept {
 public:
  Kept() { std::filesystem::remove_all(path); }
  ~Kept() { std::filesystem::remove_all(path); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const std::string path = testing::TempDir() + "zplan_kept_" + std::to_string(::getpid());
};

// Of what is kept after all steps, as the CPU's plan cuts it.
Tensors kept_parameters(const Kept& kept, const Plan& cpu_plan) {
  exec::RunOptions options = steps(kSteps);
  options.resume.path = kept.path;
  const auto loaded = testing_support::train(cpu_plan, options);
  EXPECT_EQ(loaded->result.begin.step, kSteps);
  return testing_support::states(*loaded);
}

// As `zplan run` has it, whose plans name a cluster that has such devices.
void expect_processes(Plan plan, const Job& job, LaunchMode launch, const Expected& expected) {
  SCOPED_TRACE(launch == LaunchMode::kGraph ? "graphs" : "streams");
  const Plan cpu_plan = plan;
  plan.kernel_set = job.kernel_set;
  plan.hardware = "dgx-h100";
  plan.launch = launch;
  const Kept kept;
  testing_support::ProcessRun run{
      .steps = kSteps, .validates = !no_validation(job), .save = kept.path, .deadline = deadline()};
  testing_support::make_steps_plain(job, run.train);
  const auto got = testing_support::run_in_processes(plan, job.world(), run);
  expect_same_numbers(got.result, expected, cpu_plan);
  if (const double way = allowed_of(cpu_plan).way; way > 0)
    expect_same_way(kept_parameters(kept, cpu_plan), expected, way);
  EXPECT_EQ(got.findings, std::vector<std::string>{});
  if (launch == LaunchMode::kGraph) {
    EXPECT_GE(got.launches, kSteps);
  }
}

void expect_processes_agree_with_the_cpu(const Plan& plan) {
  const std::optional<Job> job = cuda_job(plan);
  if (!job) GTEST_SKIP() << "no kernel set for a device has this plan";
  try {
    const Expected expected = train_on_cpu(plan);
    expect_processes(plan, *job, LaunchMode::kStream, expected);
    expect_processes(plan, *job, LaunchMode::kGraph, expected);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadInput) GTEST_SKIP() << error.what();
    FAIL() << error.what();
  }
}

// On a GPU made of threads each sequence costs.
Plan small_plan(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  Plan plan = testing_support::base_plan(kernel_set, model);
  plan.batch.global_batch = 4;
  plan.batch.micro_batch = 2;
  return plan;
}

TEST(PlansOnGpu, OfOneRank) { expect_agreement_with_the_cpu(small_plan("cpu.f32")); }

TEST(PlansOnGpu, OfOneRankIn16Bits) { expect_agreement_with_the_cpu(small_plan("cpu.bf16")); }

TEST(PlansOnGpu, OfProductsInFp8) {  // their numbers: Fp8ProductsOnGpu of crosscheck_gpu
  if (!testing_support::is_everything_asked_for()) GTEST_SKIP() << kLongTest;
  expect_agreement_with_the_cpu(small_plan("cpu.f32.fp8.whole"));
}

TEST(PlansOnGpu, OfProductsInFp8AndShardedParameters) {
  if (!testing_support::is_everything_asked_for()) GTEST_SKIP() << kLongTest;
  Plan plan = small_plan("cpu.f32.fp8.whole", "tiny-llama");
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.batch.micro_batch = 1;
  expect_agreement_with_the_cpu(plan);
}

// Each rank gives a scale to what it has of an operand.
TEST(PlansOnGpu, OfProductsInFp8AndTensorParallelRanks) {
  if (!testing_support::is_everything_asked_for()) GTEST_SKIP() << kLongTest;
  Plan plan = small_plan("cpu.f32.fp8.whole");
  plan.parallel.tp = 2;
  expect_agreement_with_the_cpu(plan);
}

TEST(PlansOnGpu, OfSeparateKernels) {
  expect_agreement_with_the_cpu(small_plan("cpu.f32.unfused"));
}

TEST(PlansOnGpu, OfSeparateKernelsAndSharedKeys) {
  if (!testing_support::is_everything_asked_for()) GTEST_SKIP() << kLongTest;
  expect_agreement_with_the_cpu(small_plan("cpu.f32.unfused", "tiny-llama"));
}

TEST(PlansOnGpu, OfShardedParameters) {
  Plan plan = small_plan("cpu.f32");
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  expect_agreement_with_the_cpu(plan);
}

TEST(PlansOnGpu, OfStagesAndTensorParallelRanks) {
  Plan plan = small_plan("cpu.f32");
  plan.parallel.pp = plan.parallel.tp = 2;
  plan.batch.micro_batch = 1;
  expect_agreement_with_the_cpu(plan);
}

TEST(PlansOnGpu, OfARingOfThreeStages) {
  Plan plan = small_plan("cpu.f32");
  plan.parallel.pp = 3;
  plan.parallel.chunks = 2;
  plan.schedule = Schedule::kInterleaved;
  plan.stage_layers = {0, 1, 1, 1, 1, 0};
  plan.batch.global_batch = 3;
  plan.batch.micro_batch = 1;
  expect_agreement_with_the_cpu(plan);
}

TEST(PlansOnGpu, OfStatesOnTheHost) {
  Plan plan = small_plan("cpu.f32");
  plan.batch.micro_batch = 1;
  plan.zero_stage = 2;
  plan.parallel.dp = 2;
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  expect_agreement_with_the_cpu(plan);
}

std::string plan_name(const testing::TestParamInfo<Choice>& plan) {
  return testing_support::name_of(plan.param);
}

class CoverOnGpu : public testing::TestWithParam<Choice> {};

TEST_P(CoverOnGpu, GivesWhatTheCpuGives) {
  expect_agreement_with_the_cpu(testing_support::plan_of(GetParam(), "cpu.f32"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CoverOnGpu);
INSTANTIATE_TEST_SUITE_P(Pairwise, CoverOnGpu, testing::ValuesIn(choices("ZPLAN_GPU_EVERY", 1)),
                         plan_name);

class CoverInProcesses : public testing::TestWithParam<Choice> {};

TEST_P(CoverInProcesses, GivesWhatTheCpuGives) {
  expect_processes_agree_with_the_cpu(testing_support::plan_of(GetParam(), "cpu.f32"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CoverInProcesses);
INSTANTIATE_TEST_SUITE_P(Pairwise, CoverInProcesses,
                         testing::ValuesIn(choices("ZPLAN_GPU_PROCESSES", 2)), plan_name);

}  // namespace
}  // namespace zplan
