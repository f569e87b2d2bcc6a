// What is declared of attention against cuDNN's own answers for GPUs that are not there: for the
// models of the catalogue, one and eight tensor parallel ranks, cuDNN has a plan of the backward
// pass within the scratch of the Job where has_tensor_cores says so, and nowhere else, and of the
// forward pass at least there. Few heads are asked for; with ZPLAN_ALL_ATTENTION=1 in the
// environment all shapes and all sizes of heads (minutes).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "exec/cuda/attention_graph.h"
#include "exec/kernels/operands.h"
#include "models/model_config.h"
#include "planner/core/error.h"
#include "planner/lower/lower.h"
#include "planner/program/kernels/fused_attention.h"
#include "tests/crosscheck/cudnn/described_device.h"
#include "tests/support/sanitized.h"

namespace zplan {
namespace {

using exec::Operand;
using exec::cuda::AttentionKey;
using exec::cuda::AttentionPass;
using exec::cuda::AttentionShape;
using testing_support::DescribedDevice;

struct Use {
  std::string model;
  Bytes scratch{0};  // least of those who use it
};
using Uses = std::map<AttentionKey, Use>;

void add(Uses& uses, const AttentionKey& key, const std::string& model, Bytes scratch) {
  const auto [use, is_new] = uses.try_emplace(key, Use{model, scratch});
  if (scratch < use->second.scratch) use->second = {model, scratch};
}

void add_attention(Uses& uses, const Program& program, const std::string& model) {
  for (const Node& node : program.nodes) {
    const bool is_forward = node.kernel == KernelId::kAttentionForward;
    if (node.kind != OpKind::kKernel) continue;
    if (!is_forward && node.kernel != KernelId::kAttentionBackward) continue;
    const std::span<const View> views = program.operands(node);
    const Operand qkv{&views[is_forward ? 0 : 1]}, out{&views[is_forward ? 1 : 2]};
    add(uses,
        {.shape = exec::attention_shape<AttentionShape>(qkv, out),
         .type = qkv.view->dtype,
         .pass = is_forward ? AttentionPass::kForward : AttentionPass::kBackward},
        model, views.back().bytes());
  }
}

Uses uses_of_catalogue(const std::string& set) {
  constexpr std::int64_t kSequences = 2;  // of a micro-batch
  Uses uses;
  for (const ModelConfig& model : model_catalogue()) {
    for (const int tp : {1, 8}) {
      Plan plan;
      plan.model = model.name;
      plan.kernel_set = set;
      plan.precision = default_recipe(set);
      plan.parallel.tp = tp;
      plan.batch = {
          .global_batch = kSequences, .micro_batch = kSequences, .sequence = model.sequence};
      try {
        const Job job = lower(plan, model);
        for (const RankClass& c : job.classes) add_attention(uses, c.program, model.name);
      } catch (const Error&) {  // the model has no such plan
      }
    }
  }
  return uses;
}

bool asks_for_all() { return std::getenv("ZPLAN_ALL_ATTENTION") != nullptr; }

// Takes the largest of each size of heads, and of forward passes those of the longest sequences; a
// third of them, unless `tests/run --all` asks for all.
Uses few_of(const Uses& all) {
  constexpr std::int64_t kLong = 128, kLongest = 8192;
  testing_support::Thinned thinned(testing_support::one_in(3));
  Uses few;
  std::set<std::pair<std::int64_t, AttentionPass>> kinds;
  for (auto use = all.rbegin(); use != all.rend(); ++use) {
    const AttentionKey& key = use->first;
    const bool is_forward = key.pass == AttentionPass::kForward;
    if (key.shape.sequence < (is_forward ? kLongest : kLong)) continue;
    if (kinds.emplace(key.shape.widest(), key.pass).second && !thinned.skips()) few.insert(*use);
  }
  return few;
}

struct Case {
  const char* name;
  DescribedDevice device;
  const char* set;
};

class AttentionPlans : public ::testing::TestWithParam<Case> {
 protected:
  void check(const AttentionKey& key, Bytes scratch, const std::string& model) const {
    std::string why_not;
    const auto plan = exec::cuda::plan_attention(key, scratch, build_, why_not);
    const bool declared = has_tensor_cores(set_, key.shape.widest());
    const bool is_forward = key.pass == AttentionPass::kForward;
    EXPECT_TRUE((plan != nullptr) == declared || (is_forward && plan != nullptr))
        << model << ", " << (is_forward ? "forward" : "backward") << " of " << key.shape.batch
        << " x " << key.shape.sequence << ", heads " << key.shape.heads << " / "
        << key.shape.kv_heads << " of " << key.shape.head_dim << " / " << key.shape.value_dim
        << ", " << scratch.value << " bytes of scratch: declared " << declared << "; " << why_not;
  }

  const KernelSet& set_ = find_kernel_set(GetParam().set);

 private:
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_ =
      testing_support::properties_of(GetParam().device);
  exec::cuda::GraphBuild build_ = [this](cudnn_frontend::graph::Graph& graph) {
    graph.set_device_properties(properties_).set_sm_version(GetParam().device.capability);
    return graph.build({cudnn_frontend::HeurMode_t::A});
  };
};

TEST_P(AttentionPlans, OfTheCatalogueAreWhatIsDeclared) {
  const Uses all = uses_of_catalogue(GetParam().set);
  EXPECT_GT(all.size(), 40u);
  for (const auto& [key, use] : asks_for_all() ? all : few_of(all))
    check(key, use.scratch, use.model);
}

TEST_P(AttentionPlans, OfHeadsOfAllSizesAreWhatIsDeclared) {
  if (!asks_for_all()) GTEST_SKIP() << "ZPLAN_ALL_ATTENTION=1 asks for it";
  constexpr std::int64_t kMost = 264, kHeads = 4, kSequence = 1024, kStep = 4;
  constexpr std::int64_t kKeys = 192, kValues = 128;  // the only pair with 192 on a B200
  for (std::int64_t size = kStep; size <= kMost; size += kStep)
    for (const AttentionPass pass : {AttentionPass::kForward, AttentionPass::kBackward})
      check({.shape = {1, kSequence, kHeads, kHeads, size, size == kKeys ? kValues : size},
             .type = DType::kBf16,
             .pass = pass},
            Bytes{64 << 20}, "a model");
}

using testing_support::kA100, testing_support::kB200, testing_support::kH100;
INSTANTIATE_TEST_SUITE_P(Devices, AttentionPlans,
                         ::testing::Values(Case{"H100", kH100, "cuda.sm90.bf16"},
                                           Case{"A100", kA100, "cuda.sm80.bf16"},
                                           Case{"B200", kB200, "cuda.sm100.bf16"}),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace zplan
