#include "sim/flow_network.h"

#include <gtest/gtest.h>

#include <ostream>
#include <utility>
#include <vector>

#include "planner/core/error.h"

namespace zplan::sim {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;  // ps

struct Completion {
  std::int64_t time = 0;
  std::uint32_t flow = 0;
  friend bool operator==(const Completion&, const Completion&) = default;
};

std::ostream& operator<<(std::ostream& out, const Completion& c) {
  return out << "flow " << c.flow << " at " << c.time << " ps";
}

// Runs to the end, one completion time after the other.
std::vector<Completion> drain(FlowNetwork& network) {
  std::vector<Completion> all;
  std::vector<FlowId> done;
  while (const auto next = network.next_completion()) {
    done.clear();
    network.advance(*next, done);
    EXPECT_FALSE(done.empty()) << "an announced completion must be reported";
    if (done.empty()) break;
    for (const FlowId flow : done) all.push_back({next->value, flow.value});
  }
  return all;
}

FlowId start(FlowNetwork& network, std::int64_t time, std::int64_t bytes, std::vector<LinkUse> uses,
             BytesPerSecond cap = kUncapped) {
  return network.start({time}, {bytes}, uses, cap);
}

TEST(FlowNetwork, AFlowAloneTakesBytesOverCapacityToTheNearestPicosecond) {
  const std::vector<std::pair<std::int64_t, double>> cases{
      {1, 3e9}, {2, 3e9}, {1000, 1e9}, {123'456'789, 450e9}, {(1ll << 40) + 1, 3.35e12}};
  for (const auto& [bytes, capacity] : cases) {
    FlowNetwork network;
    const LinkId link = network.add_link({capacity});
    const FlowId flow = start(network, 17, bytes, {{link}});
    const std::int64_t due = 17 + to_sim_time(Bytes{bytes} / BytesPerSecond{capacity}).value;
    EXPECT_EQ(drain(network), (std::vector<Completion>{{due, flow.value}}));
  }
}

TEST(FlowNetwork, TwoFlowsHalveALinkAndTheLongerOneThenHasItAlone) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId small = start(network, 0, 100, {{link}});
  const FlowId large = start(network, 0, 300, {{link}});
  EXPECT_DOUBLE_EQ(network.rate(small).value, 50.0);
  EXPECT_DOUBLE_EQ(network.rate(large).value, 50.0);
  // 100 B at 50 B/s: 2 s; then 200 B at 100 B/s: 2 s more.
  EXPECT_EQ(drain(network),
            (std::vector<Completion>{{2 * kSecond, small.value}, {4 * kSecond, large.value}}));
}

TEST(FlowNetwork, ALateArrivalSlowsOnlyWhatIsLeft) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId first = start(network, 0, 300, {{link}});
  const FlowId second = start(network, kSecond, 50, {{link}});
  // At 1 s 200 B are left; the second is through at 2 s, when 150 B are left at 100 B/s.
  EXPECT_EQ(drain(network),
            (std::vector<Completion>{{2 * kSecond, second.value}, {7 * kSecond / 2, first.value}}));
}

TEST(FlowNetwork, ChainOfBottlenecksFreesWhatTheLongFlowCannotUse) {
  FlowNetwork network;
  const LinkId narrow = network.add_link({10.0});
  const LinkId wide = network.add_link({100.0});
  const LinkId widest = network.add_link({200.0});
  const FlowId a = start(network, 0, 1000, {{narrow}});
  const FlowId b = start(network, 0, 1000, {{narrow}, {wide}});
  const FlowId c = start(network, 0, 1000, {{wide}, {widest}});
  const FlowId d = start(network, 0, 1000, {{widest}});
  EXPECT_DOUBLE_EQ(network.rate(a).value, 5.0);
  EXPECT_DOUBLE_EQ(network.rate(b).value, 5.0);
  EXPECT_DOUBLE_EQ(network.rate(c).value, 95.0);
  EXPECT_DOUBLE_EQ(network.rate(d).value, 105.0);
}

TEST(FlowNetwork, WeightsLoadTheLinkAndTheRateStaysPerFlow) {
  FlowNetwork network;
  const LinkId link = network.add_link({120.0});
  const FlowId eight_ranks = start(network, 0, 1000, {{link, 8.0}});
  const FlowId four_ranks = start(network, 0, 1000, {{link, 4.0}});
  EXPECT_DOUBLE_EQ(network.rate(eight_ranks).value, 10.0);  // 8 x 10 + 4 x 10 = 120
  EXPECT_DOUBLE_EQ(network.rate(four_ranks).value, 10.0);
}

TEST(FlowNetwork, ALinkNamedTwiceCountsWithTheSumOfTheWeights) {
  FlowNetwork network;
  const LinkId link = network.add_link({30.0});
  const FlowId flow = start(network, 0, 100, {{link, 1.0}, {link, 2.0}});
  EXPECT_DOUBLE_EQ(network.rate(flow).value, 10.0);
  EXPECT_EQ(drain(network), (std::vector<Completion>{{10 * kSecond, flow.value}}));
  EXPECT_DOUBLE_EQ(network.usage(link).carried_bytes, 300.0);
  EXPECT_EQ(network.usage(link).busy.value, 10 * kSecond);
}

TEST(FlowNetwork, ACapLeavesTheRestToTheOthers) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId capped = start(network, 0, 1000, {{link}}, {20.0});
  const FlowId loose = start(network, 0, 1000, {{link}}, {70.0});
  const FlowId free = start(network, 0, 1000, {{link}});
  EXPECT_DOUBLE_EQ(network.rate(capped).value, 20.0);
  EXPECT_DOUBLE_EQ(network.rate(loose).value, 40.0);
  EXPECT_DOUBLE_EQ(network.rate(free).value, 40.0);
}

// Of more than 16 flows only those are looked at anew that a change may concern, here over the one
// that names both links: 17 share what that leaves of 100 B/s.
TEST(FlowNetwork, AChangeReachesFlowsOfOtherLinksOverThoseThatNameBoth) {
  FlowNetwork network;
  const LinkId narrow = network.add_link({4.0}), wide = network.add_link({100.0});
  const FlowId both = start(network, 0, 1000, {{narrow}, {wide}});
  FlowId other{};
  for (int i = 0; i < 17; ++i) other = start(network, 0, 1000, {{wide}});
  EXPECT_DOUBLE_EQ(network.rate(other).value, 96.0 / 17);
  start(network, 0, 1000, {{narrow}});
  EXPECT_DOUBLE_EQ(network.rate(both).value, 2.0);
  EXPECT_DOUBLE_EQ(network.rate(other).value, 98.0 / 17);
}

TEST(FlowNetwork, AFlowAtItsCapTakesItsWeightOfTheLink) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  start(network, 0, 1000, {{link, 2.0}}, {20.0});
  const FlowId free = start(network, 0, 1000, {{link}});
  EXPECT_DOUBLE_EQ(network.rate(free).value, 60.0);
}

TEST(FlowNetwork, AFlowWithoutLinksRunsAtItsCap) {
  FlowNetwork network;
  const FlowId flow = start(network, 0, 100, {}, {50.0});
  EXPECT_EQ(drain(network), (std::vector<Completion>{{2 * kSecond, flow.value}}));
}

TEST(FlowNetwork, NothingToMoveOrNothingInTheWayCompletesAtOnce) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId empty = start(network, 5, 0, {{link}});
  const FlowId unhindered = start(network, 5, 100, {});
  const FlowId ordinary = start(network, 5, 100, {{link}});
  EXPECT_DOUBLE_EQ(network.rate(ordinary).value, 100.0);
  EXPECT_EQ(drain(network),
            (std::vector<Completion>{
                {5, empty.value}, {5, unhindered.value}, {5 + kSecond, ordinary.value}}));
}

TEST(FlowNetwork, CompletionsOfOnePicosecondComeInOrderOfStart) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  std::vector<Completion> expected;
  for (int i = 0; i < 5; ++i) {
    expected.push_back({5 * kSecond, start(network, 0, 100, {{link}}).value});
  }
  EXPECT_EQ(drain(network), expected);
}

TEST(FlowNetwork, AdvanceOverSeveralCompletionsChangesTheRatesAtEachOfThem) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId large = start(network, 0, 300, {{link}});
  const FlowId small = start(network, 0, 100, {{link}});
  std::vector<FlowId> done;
  network.advance({4 * kSecond - 1}, done);
  EXPECT_EQ(done, (std::vector<FlowId>{small}));
  network.advance({9 * kSecond}, done);
  EXPECT_EQ(done, (std::vector<FlowId>{small, large}));
  EXPECT_EQ(network.usage(link).busy.value, 4 * kSecond);
}

TEST(FlowNetwork, ACompletionPassedByStartIsReportedByTheNextAdvance) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId first = start(network, 0, 100, {{link}});
  const FlowId second = start(network, 3 * kSecond, 100, {{link}});
  EXPECT_NE(first, second);
  EXPECT_EQ(network.active_count(), 1u);
  EXPECT_EQ(network.next_completion()->value, kSecond);
  std::vector<FlowId> done;
  network.advance({4 * kSecond}, done);
  EXPECT_EQ(done, (std::vector<FlowId>{first, second}));
}

TEST(FlowNetwork, UsageCountsWeightedBytesAndTheTimeWithAtLeastOneFlow) {
  FlowNetwork network;
  const LinkId shared = network.add_link({100.0});
  const LinkId own = network.add_link({1000.0});
  start(network, 0, 100, {{shared}});
  start(network, kSecond / 2, 100, {{shared}, {own, 4.0}});
  std::vector<FlowId> done;
  network.advance({kSecond}, done);  // half a second alone, half a second at 50 B/s each
  EXPECT_DOUBLE_EQ(network.usage(shared).carried_bytes, 100.0);
  EXPECT_EQ(network.usage(shared).busy.value, kSecond);
  EXPECT_DOUBLE_EQ(network.usage(own).carried_bytes, 100.0);
  EXPECT_EQ(network.usage(own).busy.value, kSecond / 2);
  drain(network);  // at 1.5 s and 2 s
  start(network, 10 * kSecond, 100, {{shared}});
  drain(network);
  EXPECT_DOUBLE_EQ(network.usage(shared).carried_bytes, 300.0);
  EXPECT_EQ(network.usage(shared).busy.value, 3 * kSecond);
  EXPECT_DOUBLE_EQ(network.usage(own).carried_bytes, 400.0);
  EXPECT_EQ(network.usage(own).busy.value, 3 * kSecond / 2);
}

TEST(FlowNetwork, TransfersShorterThanAPicosecondStillComplete) {
  FlowNetwork network;
  const LinkId link = network.add_link({1e13});
  for (int i = 0; i < 64; ++i) start(network, 7, 1 + i % 3, {{link}});
  EXPECT_EQ(drain(network).size(), 64u);
  EXPECT_LE(network.now().value, 7 + 13);  // 127 B at 10 B/ps, to the nearest picosecond
}

TEST(FlowNetwork, AVanishingRateStaysWithinTheRangeOfTime) {
  FlowNetwork network;
  const LinkId link = network.add_link({1e-9});
  const FlowId slow = start(network, 1000, 1'000'000'000, {{link}});
  EXPECT_GT(network.next_completion()->value, 1000);
  std::vector<FlowId> done;
  network.advance({1'000'000 * kSecond}, done);
  EXPECT_TRUE(done.empty());
  EXPECT_DOUBLE_EQ(network.rate(slow).value, 1e-9);
}

TEST(FlowNetwork, SlotsAreReusedOnceReported) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  const FlowId first = start(network, 0, 100, {{link}});
  drain(network);
  EXPECT_EQ(start(network, 2 * kSecond, 100, {{link}}), first);
}

TEST(FlowNetwork, RefusesAClockThatRunsBackwardsAndUsesThatMakeNoSense) {
  FlowNetwork network;
  const LinkId link = network.add_link({100.0});
  std::vector<FlowId> done;
  network.advance({10}, done);
  EXPECT_THROW(network.advance({9}, done), Error);
  EXPECT_THROW(start(network, 10, -1, {{link}}), Error);
  EXPECT_THROW(start(network, 10, 1, {{link}}, {0.0}), Error);
  EXPECT_THROW(network.add_link({0.0}), Error);
}

}  // namespace
}  // namespace zplan::sim
