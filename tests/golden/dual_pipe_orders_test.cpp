// The passes of every rank of DualPipe, one by one, against its published source
// (dual_pipe_orders.json, made by dual_pipe_orders.py from the commit that it names): of q ranks
// rank i and rank q - 1 - i have the order of stage i of DualPipeV of q / 2 ranks, whose chunks are
// the two ways. Then what is published of q = PP ranks [DeepSeek24b Table 2]: a bubble of
// (PP / 2 - 1)(FB + B - 3 W) and PP + 1 micro-batches' activations of a way each.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/core/json_reader.h"
#include "planner/program/schedule/dual_pipe_v.h"
#include "planner/program/schedule/in_flight.h"
#include "planner/program/schedule/timing.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

std::string named_as_published(const PassOrder& order) {
  std::string line;
  for (const Pass& pass : order.passes) {
    if (!line.empty()) line += ' ';
    line += letter(pass.kind) + std::to_string(pass.chunk) + "." + std::to_string(pass.micro);
  }
  return line;
}

TEST(DualPipeOrders, HaveThePublishedPassesOnEveryRank) {
  JsonObject file = read_json_file(ZPLAN_SOURCE_DIR "/tests/data/dual_pipe_orders.json").object();
  file.schema("zplan.golden-dualpipe/1");
  EXPECT_FALSE(file.member("source").string().empty());
  const auto int32 = [](const JsonNode& node) {
    return static_cast<std::int32_t>(node.integer(1, 1000));
  };
  std::size_t compared = 0;
  for (const JsonNode& node : file.member("schedules").items()) {
    JsonObject row = node.object();
    const std::int32_t q = int32(row.member("ranks")), m = int32(row.member("micro_batches"));
    const std::vector<JsonNode> passes = row.member("passes").items();
    ASSERT_EQ(std::ssize(passes), q);
    for (std::int32_t rank = 0; rank < q; ++rank, ++compared)
      EXPECT_EQ(named_as_published(dual_pipe_v_order(std::min(rank, q - 1 - rank), q / 2, m / 2)),
                passes[static_cast<std::size_t>(rank)].string())
          << "rank " << rank << " of " << q << ", " << m;
    row.finish();
  }
  file.finish();
  EXPECT_GT(compared, 50U);
}

// A forward beside a whole backward takes as long as both here: FB = F + B. The pair is symmetric,
// so that each of its ranks waits as its half of DualPipeV does.
TEST(DualPipeOrders, WaitNoLongerAndKeepNoMoreThanPublished) {
  constexpr std::int64_t kForward = 1, kBackward = 2, kWeights = 1;
  for (const std::int32_t q : {4, 8, 16}) {
    for (const std::int32_t m : {2 * q, 4 * q}) {
      const PipelineSchedule half = dual_pipe_v(q / 2, m / 2);
      const ScheduleTime time =
          time_of(half, std::vector<PassUnits>(static_cast<std::size_t>(half.chunks.size())));
      const std::int64_t bubble = (q / 2 - 1) * (kForward + kBackward + kBackward - 3 * kWeights);
      for (std::size_t rank = 0; rank < half.ranks.size(); ++rank) {
        const RankTime& at = time.ranks[rank];
        EXPECT_LE(at.end - at.start - at.busy, bubble);
        EXPECT_EQ(most_chunks_in_flight(half.ranks[rank].passes), q + 1);
      }
    }
  }
}

}  // namespace
}  // namespace zplan
