#include "planner/lower/expert_sums.h"

namespace zplan {
namespace {

constexpr std::int64_t kSums = 2;  // dropped choices, auxiliary loss

View add(Stage& stage, const char* name, Tier tier) {
  const BufferId id = stage.out.add({.name = name,
                                     .slot_size = size_of(DType::kF64) * kSums,
                                     .tier = tier,
                                     .category = Category::kInput,
                                     .dtype = DType::kF64,
                                     .persistent = true});
  return view_of(id, DType::kF64, {kSums});
}

}  // namespace

ExpertSums::ExpertSums(Stage& stage, bool has) : s_(stage), has_(has) {
  if (!has) return;
  s_.expert_sums = add(stage, "experts.sums", Tier::kGpu);
  if (s_.is_last()) host_ = add(stage, "experts.sums.host", Tier::kCpu);
}

void ExpertSums::begin_step() {
  if (has_)
    s_.out.kernel({Phase::kBegin, Part::kCombine, Action::kZero}, Lane::kCompute,
                  KernelId::kFillZero, {write(s_.expert_sums)});
}

void ExpertSums::finish() {
  if (!has_) return;
  const View& sums = s_.expert_sums;
  if (s_.mesh.world() > 1)
    s_.out.collective({Phase::kEnd, Part::kCombine, Action::kReduce}, Lane::kCommReduce,
                      CollectiveKind::kAllReduce, {s_.mesh.all()}, sums, sums);
  if (s_.is_last()) s_.out.copy({Phase::kEnd, Part::kCombine, Action::kDownload}, sums, host_);
}

}  // namespace zplan
