#include "exec/memory/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <vector>

#include "exec/memory/poison.h"
#include "exec/run.h"
#include "planner/core/error.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

using testing::find_buffer;
using testing::find_kernel;
using ::testing::HasSubstr;
using testing::mini_job;

std::string violation(const Job& job, std::uint64_t schedule_seed = 0) {
  RunOptions options = testing::mini_run(RunMode::kSerial, 2);
  options.guard = true;
  options.schedule_seed = schedule_seed;
  try {
    run(job, testing::mini_data(), options);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
    return error.what();
  }
}

TEST(Guard, FindsNothingInASoundJob) {
  EXPECT_EQ(violation(mini_job({.dp = 2, .pp = 2, .shard_optimizer = true})), "");
}

TEST(Guard, CatchesAMissingEdgeWhereItReadsTooEarly) {
  Job job = mini_job({.pp = 2});
  Program& last = job.classes[1].program;
  testing::remove_edges(last, find_kernel(last, KernelId::kHeadForward));
  // In the fixed schedule the receive happens to come first; some drawn ones are less lucky.
  std::string found;
  for (std::uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) found = violation(job, seed);
  EXPECT_EQ(found,
            "rank 1: forward.head.compute[m0,l0] reads buffer x where its bytes belong to no "
            "buffer");
}

TEST(Guard, CatchesAReadOfWhatWasNeverWritten) {
  Job job = mini_job({});
  Program& program = job.classes[0].program;
  // Without the filling of the gradients, the first kernel that adds to them reads nothing.
  for (Node& node : program.nodes) {
    if (node.role != Role{Phase::kBegin, Part::kEmbedding, Action::kZero}) continue;
    node.kind = OpKind::kMark;
    node.operands_end = node.operands_begin;
  }
  EXPECT_THAT(violation(job), HasSubstr("backward.head.weight_gradient[m0,l0] reads byte 0 of its "
                                        "view of buffer grad, which was never written"));
}

TEST(Guard, CatchesTwoBuffersThatLiveAtTheSameAddress) {
  Job job = mini_job({});
  RankClass& c = job.classes[0];
  c.placement.offset[find_buffer(c.program, "dx")] =
      c.placement.offset[find_buffer(c.program, "x")];
  EXPECT_THAT(violation(job), HasSubstr("reads buffer x where its bytes belong to buffer dx"));
}

// A ring slot that only its owner fills.
TEST(Guard, CatchesABroadcastByARankThatDoesNotOwnTheLayer) {
  if (testing_support::kThreadSanitized) GTEST_SKIP() << "it has one thread";
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.gather = Gather::kOwned;
  plan.placement = {Tier::kCpu, Tier::kGpu, Tier::kCpu, Tier::kGpu};
  Job job = testing_support::placed_job(plan);
  RunOptions options = testing::mini_run(RunMode::kSerial, 2);
  options.guard = true;
  testing_support::run_text(job, options);
  for (Node& node : job.classes[0].program.nodes)
    if (node.kind == OpKind::kCollective && node.collective == CollectiveKind::kBroadcast)
      node.member = node.member == 0 ? 1 : 0;
  EXPECT_THAT([&] { testing_support::run_text(job, options); },
              ::testing::ThrowsMessage<Error>(HasSubstr("forward.layer.gather[m0,l1] reads")));
}

// One rank with a buffer in each of two tiers, the second persistent.
Job two_tiers() {
  Job job;
  RankClass c;
  c.program.buffers = {
      {.name = "gpu", .slot_size = Bytes{512}},
      {.name = "other", .slot_size = Bytes{256}},
      {.name = "cpu", .slot_size = Bytes{256}, .tier = Tier::kCpu, .persistent = true}};
  c.placement.offset = {Bytes{0}, Bytes{256}, Bytes{0}};
  c.placement.slab = {Bytes{512}, Bytes{256}, Bytes{0}};
  job.classes = {c};
  return job;
}

class GuardOfTwoTiers : public ::testing::Test {
 protected:
  GuardOfTwoTiers() : job_(two_tiers()), memory_(job_, 0), guard_(memory_) {}

  Operand operand(BufferId buffer, Access access, std::int64_t elements, std::int64_t first = 0) {
    View& view = views_.emplace_back();
    view.buffer = buffer;
    view.access = access;
    view.offset = Bytes{first * 4};
    view.shape = {elements};
    return {&view, memory_.address(view, {}), memory_.offset(view, {})};
  }
  static void write(const Operand& to, float value) {
    std::fill_n(to.as<float>(), to.elements(), value);
  }

  // An operation that fills its first operand.
  void perform(const std::vector<Operand>& operands, const char* what, float value) {
    guard_.open(operands, what);
    write(operands[0], value);
    guard_.check(operands, what);
  }

  // What the guard says of an operation that declares so many elements and writes `written`.
  std::string after_writing(std::int64_t declared, std::int64_t written) {
    const std::vector<Operand> operands{operand(0, Access::kWrite, declared)};
    try {
      guard_.open(operands, "op");
      std::fill_n(operands[0].as<float>(), written, 1.0f);
      guard_.check(operands, "op");
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
      return error.what();
    }
  }

  Job job_;
  RankMemory memory_;
  Guard guard_;
  std::list<View> views_;
};

using GuardOfTwoTiersDeathTest = GuardOfTwoTiers;

TEST_F(GuardOfTwoTiersDeathTest, OpensOnlyTheTiersOfTheOperands) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<Operand> operands{operand(0, Access::kWrite, 4)};
  guard_.open(operands, "op");
  write(operands[0], 1);
  EXPECT_DEATH(memory_.slab(Tier::kCpu).data()[0] = std::byte{1}, "");
  guard_.check(operands, "op");
  guard_.close();
  EXPECT_DEATH(memory_.slab(Tier::kGpu).data()[0] = std::byte{1}, "");
  guard_.release();
  memory_.slab(Tier::kCpu).data()[0] = std::byte{1};
}

TEST_F(GuardOfTwoTiersDeathTest, ClosesTheTiersThatTheNextOperationLeavesOut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<Operand> first{operand(0, Access::kWrite, 4)};
  perform(first, "first", 1);
  const std::vector<Operand> second{operand(2, Access::kWrite, 4)};
  guard_.open(second, "second");
  write(second[0], 1);
  EXPECT_DEATH(memory_.slab(Tier::kGpu).data()[0] = std::byte{1}, "");
  guard_.check(second, "second");
  guard_.open(first, "first");
  write(first[0], 1);
}

TEST_F(GuardOfTwoTiers, CatchesAWriteBeyondTheView) {
  EXPECT_EQ(after_writing(7, 7), "");
  EXPECT_EQ(after_writing(7, 8),
            "op changes byte 28 of the gpu slab outside its views, which belongs to buffer gpu");
}

TEST_F(GuardOfTwoTiers, CatchesAViewThatIsNotFullyWritten) {
  EXPECT_EQ(after_writing(9, 8), "op leaves byte 32 of its view of buffer gpu unwritten");
}

TEST_F(GuardOfTwoTiers, PoisonsScratchBeforeEachUse) {
  const std::vector<Operand> operands{operand(0, Access::kScratch, 8)};
  for (int use = 0; use < 2; ++use) {
    guard_.open(operands, "op");
    for (int i = 0; i < 8; ++i) {
      const std::byte* element = operands[0].data + 4 * i;
      EXPECT_EQ(find_poison(element, element + 4, Bytes{4}), element);
    }
    write(operands[0], 1);
    guard_.check(operands, "op");
    guard_.close();
  }
}

TEST_F(GuardOfTwoTiers, AnInPlaceOperationKeepsItsInput) {
  const std::vector<Operand> fill{operand(0, Access::kWrite, 2, 2)};
  perform(fill, "fill", 7);
  // Gathers in place: reads elements 2 and 3 of what it writes.
  const std::vector<Operand> gather{operand(0, Access::kRead, 2, 2), operand(0, Access::kWrite, 8)};
  guard_.open(gather, "gather");
  EXPECT_EQ(gather[0].as<float>()[0], 7);
  gather[1].as<float>()[0] = 1;
  EXPECT_THROW(guard_.check(gather, "gather"), Error);  // element 1 is missing
  write(gather[1], 3);
  guard_.check(gather, "gather");
  guard_.close();
}

TEST_F(GuardOfTwoTiers, AnotherTenantTakesTheBytesOver) {
  const std::vector<Operand> first{operand(0, Access::kWrite, 128)};
  perform(first, "first", 1);
  const std::vector<Operand> second{operand(1, Access::kWrite, 1)};
  perform(second, "second", 2);
  const std::vector<Operand> kept{operand(0, Access::kRead, 64)};
  guard_.open(kept, "kept");
  guard_.check(kept, "kept");
  const std::vector<Operand> lost{operand(0, Access::kRead, 65)};
  EXPECT_THROW(guard_.open(lost, "lost"), Error);
  const std::vector<Operand> rest{operand(1, Access::kRead, 2)};
  EXPECT_THROW(guard_.open(rest, "rest"), Error);  // element 1 was never written
}

// A workspace of three pages; at other times a buffer has its last page, another workspace its
// first.
class GuardOfWorkspace : public ::testing::Test {
 protected:
  GuardOfWorkspace() : memory_(job(), 0), guard_(memory_) {}

  const Job& job() {
    RankClass c;
    c.program.buffers = {{.name = "work", .slot_size = Bytes{12288}},
                         {.name = "tenant", .slot_size = Bytes{4096}},
                         {.name = "data", .slot_size = Bytes{4096}},
                         {.name = "other work", .slot_size = Bytes{4096}}};
    c.placement.offset = {Bytes{0}, Bytes{8192}, Bytes{12288}, Bytes{0}};
    c.placement.slab = {Bytes{16384}, Bytes{0}, Bytes{0}};
    c.program.views = {view(0, Access::kScratch, 3072), view(1, Access::kWrite, 1024),
                       view(2, Access::kWrite, 1024), view(3, Access::kScratch, 1024)};
    job_.classes = {c};
    return job_;
  }
  static View view(BufferId buffer, Access access, std::int64_t elements) {
    View result;
    result.buffer = buffer;
    result.access = access;
    result.shape = {elements};
    return result;
  }

  // Writes all of a buffer.
  void use(BufferId buffer) {
    const View& v = job_.classes[0].program.views[buffer];
    const std::vector<Operand> operands{{&v, memory_.address(v, {}), memory_.offset(v, {})}};
    guard_.open(operands, "op");
    std::fill_n(operands[0].as<float>(), v.shape.elements(), 1.0f);
    guard_.check(operands, "op");
  }
  float& word(std::int64_t byte) {
    return *reinterpret_cast<float*>(memory_.slab(Tier::kGpu).data() + byte);
  }

  Job job_;
  RankMemory memory_;
  Guard guard_;
};

using GuardOfWorkspaceDeathTest = GuardOfWorkspace;

TEST_F(GuardOfWorkspaceDeathTest, TakesItFromOperationsWithoutIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  use(0);
  use(2);
  EXPECT_DEATH(word(0) = 1, "");
  EXPECT_DEATH(word(8192) = 1, "");
  use(0);
  word(0) = 1;
  use(2);
  guard_.release();
  word(0) = 1;
}

TEST_F(GuardOfWorkspaceDeathTest, GivesAndTakesItsBytesWithTheirOwner) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  use(0);
  use(2);
  use(1);  // takes the last page over; the rest is neither the workspace nor watched
  EXPECT_EQ(word(8192), 1);
  use(2);
  EXPECT_EQ(word(8192), 1);
  use(0);
  use(2);
  EXPECT_DEATH(word(8192) = 1, "");
}

TEST_F(GuardOfWorkspaceDeathTest, GivesItsBytesToAnother) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  use(0);
  use(2);
  use(3);  // takes the first page over
  EXPECT_EQ(word(0), 1);
  use(2);
  EXPECT_DEATH(word(0) = 1, "");
}

TEST(GuardOfNvme, KnowsWhichBytesWereWritten) {
  Job job;
  RankClass c;
  c.program.buffers = {{.name = "file", .slot_size = Bytes{8192}, .tier = Tier::kNvme}};
  c.placement.offset = {Bytes{0}};
  c.placement.slab = {Bytes{0}, Bytes{0}, Bytes{8192}};
  job.classes = {c};
  RankMemory memory(job, 0, {.directory = ::testing::TempDir()});
  Guard guard(memory);
  View view;
  const auto operand = [&](Access access, std::int64_t elements) {
    view = {};
    view.access = access;
    view.shape = {elements};
    return std::vector<Operand>{{&view, nullptr, memory.offset(view, {})}};
  };
  const auto transfer = [&](Access access, std::int64_t elements) -> std::string {
    const std::vector<Operand> operands = operand(access, elements);
    try {
      guard.open(operands, "op");
      guard.check(operands, "op");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(transfer(Access::kRead, 4), "op reads buffer file where its bytes belong to no buffer");
  EXPECT_EQ(transfer(Access::kWrite, 1100), "");
  EXPECT_EQ(transfer(Access::kRead, 1100), "");
  EXPECT_EQ(transfer(Access::kRead, 1101),
            "op reads byte 4400 of its view of buffer file, which was never written");
  // The rest of the last block goes with a shorter write.
  EXPECT_EQ(transfer(Access::kWrite, 10), "");
  EXPECT_EQ(transfer(Access::kRead, 1100),
            "op reads byte 40 of its view of buffer file, which was never written");
  EXPECT_EQ(transfer(Access::kUpdate, 10), "");
  EXPECT_EQ(transfer(Access::kRead, 10), "") << "an update leaves content";
}

}  // namespace
}  // namespace zplan::exec
