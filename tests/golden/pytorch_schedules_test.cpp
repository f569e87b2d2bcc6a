// The passes of every rank, one by one, against PyTorch's own schedules: pytorch_schedules.json,
// made by pipeline_schedules.py from the version of PyTorch that it names. PyTorch names a pass by
// the piece of the model, its kind and the micro-batch: "3F0".
#include <gtest/gtest.h>

#include "planner/core/json_reader.h"
#include "planner/program/schedule/dual_pipe_v.h"
#include "planner/program/schedule/interleaved.h"
#include "planner/program/schedule/one_forward_one_backward.h"
#include "planner/program/schedule/zero_bubble_v.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

PipelineSchedule ours(const std::string& name, std::int32_t p, std::int32_t v, std::int32_t m) {
  if (name == "ScheduleGPipe") return gpipe(p, m);
  if (name == "Schedule1F1B") return one_forward_one_backward(p, m);
  if (name == "ScheduleInterleaved1F1B") return interleaved(p, v, m);
  if (name == "ScheduleDualPipeV") return dual_pipe_v(p, m);
  EXPECT_EQ(name, "ScheduleZBVZeroBubble");
  return zero_bubble_v(p, m);
}

std::string named_as_pytorch(const PipelineSchedule& s, std::int32_t rank) {
  std::string line;
  for (const Pass& pass : s.ranks[static_cast<std::size_t>(rank)].passes) {
    if (!line.empty()) line += ' ';
    line += std::to_string(s.chunks.position(rank, pass.chunk)) + letter(pass.kind) +
            std::to_string(pass.micro);
  }
  return line;
}

TEST(PytorchSchedules, HaveTheSamePassesOnEveryRank) {
  JsonObject file = read_json_file(ZPLAN_SOURCE_DIR "/tests/data/pytorch_schedules.json").object();
  file.schema("zplan.golden-schedules/1");
  EXPECT_FALSE(file.member("torch").string().empty());
  const auto int32 = [](const JsonNode& node) {
    return static_cast<std::int32_t>(node.integer(1, 1000));
  };
  std::size_t compared = 0;
  for (const JsonNode& node : file.member("schedules").items()) {
    JsonObject row = node.object();
    const std::string name = row.member("schedule").string();
    const std::int32_t p = int32(row.member("ranks")), v = int32(row.member("chunks"));
    const std::int32_t m = int32(row.member("micro_batches"));
    const PipelineSchedule schedule = ours(name, p, v, m);
    const std::vector<JsonNode> passes = row.member("passes").items();
    ASSERT_EQ(std::ssize(passes), p);
    for (std::int32_t rank = 0; rank < p; ++rank, ++compared)
      EXPECT_EQ(named_as_pytorch(schedule, rank), passes[static_cast<std::size_t>(rank)].string())
          << name << ", rank " << rank << " of " << p << ", " << v << " chunks, " << m;
    row.finish();
  }
  file.finish();
  EXPECT_GT(compared, 90U);
}

}  // namespace
}  // namespace zplan
