#include "planner/lower/tensor_parallel.h"

namespace zplan {

View TensorParallel::local(const View& like, const char* name, std::int64_t tokens) {
  return s_.transient(name, {tokens, like.shape[1]}, like.dtype);
}

View TensorParallel::gathered(Phase phase, Part part, const View& x, const char* name) {
  if (!s_.sequence_parallel()) return x;
  const View all = local(x, name, s_.tokens());
  s_.out.collective({phase, part, Action::kGatherRanks}, Lane::kCommTensor,
                    CollectiveKind::kAllGather, s_.tensor_group(), x, all);
  return all;
}

View TensorParallel::summed(Phase phase, Part part, const View& partial, const char* name) {
  const View target = s_.sequence_parallel() ? local(partial, name, s_.local_tokens()) : partial;
  sum_into(phase, part, partial, target);
  return target;
}

void TensorParallel::sum_into(Phase phase, Part part, const View& partial, const View& target) {
  if (s_.tp() == 1) return;
  s_.out.collective(
      {phase, part, Action::kSumRanks}, Lane::kCommTensor,
      s_.sequence_parallel() ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
      s_.tensor_group(), partial, target);
}

}  // namespace zplan
