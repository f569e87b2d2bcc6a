// CostModels that share what their meshes load, against those built alone: whoever asks first, and
// from several threads. small_machine: nodes of 4 GPUs.
#include "planner/cost/shared_wires.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "planner/core/error.h"
#include "planner/cost/cost_model.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

namespace groups = testing_support::groups;
using Adds = std::vector<void (*)(ClassBuilder&)>;

constexpr std::int64_t kMega = 1'000'000;
constexpr int kDp = 4, kTp = 4;  // one replica of a stage fills a node

// All that a CostModel says, to the last bit.
struct Seen {
  std::vector<std::tuple<std::string, std::string, double>> links;
  std::vector<std::tuple<int, int, int, int>> places;
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t, double>> costs;
  std::vector<std::vector<std::pair<std::uint32_t, double>>> shares;  // by cost
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen seen(const CostModel& model) {
  Seen all;
  for (const CostLink& link : model.links())
    all.links.emplace_back(link.name, link.kind, link.capacity.value);
  for (int stage = 0; stage < static_cast<int>(model.job().classes.size()); ++stage) {
    const ClassPlace& at = model.place(stage);
    all.places.emplace_back(at.node, at.rank, at.members, at.ranks);
    for (const OpCost& cost : model.costs(stage)) {
      all.costs.emplace_back(cost.fixed.value, cost.alone.value, cost.bytes.value, cost.cap.value);
      all.shares.emplace_back();
      for (const LinkShare& share : model.shares(cost))
        all.shares.back().emplace_back(share.link, share.weight);
    }
  }
  return all;
}

// One of each pattern of transfers, of the first of two stages.
const Adds kAdds{
    [](ClassBuilder& p) { p.collective(CollectiveKind::kAllGather, groups::kTensor, kMega); },
    [](ClassBuilder& p) { p.collective(CollectiveKind::kReduceScatter, groups::kData, kMega); },
    [](ClassBuilder& p) { p.collective(CollectiveKind::kAllToAll, groups::kData, kMega); },
    [](ClassBuilder& p) { p.collective(CollectiveKind::kShift, groups::kData, kMega); },
    [](ClassBuilder& p) { p.collective(CollectiveKind::kAllReduce, groups::kEmbedding, kMega); },
    [](ClassBuilder& p) { p.copy(Tier::kGpu, Tier::kCpu, kMega); },
    [](ClassBuilder& p) { p.copy(Tier::kNvme, Tier::kCpu, kMega); },
    [](ClassBuilder& p) { p.accumulate_on_cpu(kMega); },
    [](ClassBuilder& p) { p.send(1, kMega); }};

// Its first stage begins with another transfer, and so meets links in another order.
Job job_beginning_with(std::size_t first, int tp = kTp) {
  ClassBuilder front, back;
  for (std::size_t i = 0; i < kAdds.size(); ++i) kAdds[(first + i) % kAdds.size()](front);
  back.receive(0, kMega);
  back.collective(CollectiveKind::kAllReduce, groups::kData, kMega);
  return make_job({front, back}, kDp, tp);
}

// Of one mesh, of the same sizes in another rank order, on some devices of each node, and of
// another size.
std::vector<Job> jobs() {
  std::vector<Job> all;
  for (std::size_t first = 0; first < kAdds.size(); ++first)
    all.push_back(job_beginning_with(first));
  all.push_back(job_beginning_with(0));
  all.back().mesh =
      testing_support::mesh_of({.dp = kDp, .tp = kTp, .pp = 2, .pipeline_first = true});
  all.push_back(job_beginning_with(0, 2));
  all.push_back(job_beginning_with(0, 2));
  all.back().mesh.gpus = {3, 1};
  return all;
}

Cluster plain() { return small_machine(8); }

// Two nodes in a leaf, with half the uplinks that they could load, one switch per port.
Cluster oversubscribed() {
  Cluster cluster = small_machine(8);
  cluster.network = {2, 2, true, false};
  return cluster;
}

class SharedWiresTest : public testing::TestWithParam<Cluster (*)()> {
 protected:
  SharedWiresTest() {
    for (const Job& job : jobs_) alone_.push_back(seen(CostModel(job, cluster_)));
  }

  const Cluster cluster_ = GetParam()();
  const std::vector<Job> jobs_ = jobs();
  std::vector<Seen> alone_;
};

TEST_P(SharedWiresTest, TheJobsDifferInLinksAndInTheirOrder) {
  for (std::size_t i = 1; i < jobs_.size(); ++i) EXPECT_NE(alone_[i].links, alone_[0].links) << i;
}

TEST_P(SharedWiresTest, ModelsDoNotDependOnWhoAskedBefore) {
  for (std::size_t first = 0; first < jobs_.size(); ++first) {
    SharedWires shared(cluster_);
    for (std::size_t i = 0; i < 2 * jobs_.size(); ++i) {
      const std::size_t at = (first + i) % jobs_.size();
      EXPECT_EQ(seen(CostModel(jobs_[at], cluster_, &shared)), alone_[at]) << first << ' ' << at;
    }
  }
}

TEST_P(SharedWiresTest, SeveralThreadsMayBuildModelsAtATime) {
  constexpr std::size_t kThreads = 4;
  SharedWires shared(cluster_);
  std::vector<std::vector<Seen>> found(kThreads, std::vector<Seen>(jobs_.size()));
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < jobs_.size(); ++i) {
          const std::size_t at = (t + i) % jobs_.size();
          found[t][at] = seen(CostModel(jobs_[at], cluster_, &shared));
        }
      });
  }
  for (const std::vector<Seen>& of_thread : found) EXPECT_EQ(of_thread, alone_);
}

TEST_P(SharedWiresTest, EqualMeshesShareAndOthersDoNot) {
  SharedWires shared(cluster_);
  const auto of = [&](std::size_t job) { return shared.of(jobs_[job].mesh); };
  const std::size_t same = kAdds.size();  // those before differ in their programs only
  for (std::size_t i = 1; i < same; ++i) EXPECT_EQ(of(i), of(0)) << i;
  for (std::size_t i = same; i < jobs_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(of(i), of(j)) << i << ' ' << j;
}

INSTANTIATE_TEST_SUITE_P(Networks, SharedWiresTest, testing::Values(plain, oversubscribed),
                         [](const auto& one) {
                           return one.param == plain ? "Plain" : "Oversubscribed";
                         });

// Three stages of two ranks: two stages in the first node, one in the second.
TEST(SharedWires, AnswersAreKeptByAllThatTheyWereAskedWith) {
  const Cluster cluster = small_machine(2);
  const auto wires = SharedWires(cluster).of(testing_support::mesh_of({.dp = 2, .pp = 3}));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(wires->way(0, 1), Way::kPeerLink);
    EXPECT_EQ(wires->way(1, 2), Way::kNetwork);
    EXPECT_EQ(wires->reach(groups::kData, 0).islands, 1);
    EXPECT_EQ(wires->reach(groups::kWorld, 0).islands, 2);
    EXPECT_EQ(wires->ranks_beside(0, {}), 2);
    EXPECT_EQ(wires->ranks_beside(0, groups::kData.axes), 1);
    EXPECT_EQ(wires->shares({PatternKind::kHost, 0, 0, 0, {}}).front().weight, 2);
    EXPECT_EQ(wires->shares({PatternKind::kHost, 2, 0, 0, {}}).front().at.node, 1);
    EXPECT_EQ(wires->shares({PatternKind::kHost, 0, 0, 0, groups::kData}).front().weight, 1);
  }
}

TEST(SharedWires, WhatFailsFailsAgain) {
  const Cluster cluster = small_machine(2);
  const Job job = job_beginning_with(0);
  SharedWires shared(cluster);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(CostModel(job, cluster, &shared), Error);
}

TEST(SharedWires, WhoHoldsAMeshKeepsIt) {
  const Cluster cluster = small_machine(1);
  auto shared = std::make_unique<SharedWires>(cluster);
  const auto wires = shared->of(testing_support::mesh_of({.tp = 4}));
  shared.reset();
  EXPECT_EQ(wires->reach(groups::kTensor, 0).islands, 1);
}

}  // namespace
}  // namespace zplan
