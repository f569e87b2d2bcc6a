// What `zplan calibrate` writes of collectives between GPUs: measured on stand-in GPUs, it is read
// back as it was measured, and plans are timed by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "exec/cpu/cpu_device.h"
#include "hwprofiles/node_file.h"
#include "planner/cli/calibrate/calibration_report.h"
#include "planner/core/error.h"
#include "planner/cost/cost_model.h"
#include "sim/simulate.h"
#include "tests/support/gpu/judged_device.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using exec::NodeCollectives;

constexpr int kGpus = 4;
constexpr const char* kBase = "dgx-h100";
constexpr const char* kSet = "cuda.sm90.bf16";

NodeCollectives measure() {
  stand_in::StandIn gpu({.devices = kGpus});
  std::vector<std::shared_ptr<exec::Device>> owners;
  std::vector<exec::Device*> devices;
  for (int i = 0; i < kGpus; ++i) {
    owners.push_back(stand_in::make_judged_device(i));
    devices.push_back(owners.back().get());
  }
  exec::NodeCollectiveOptions options;
  options.sizes = {1 << 10, 1 << 14, 1 << 18};
  options.beside = 1 << 12;
  options.tokens = options.inputs = options.outputs = 32;
  options.effort = {0.001, 3};
  NodeCollectives found = exec::measure_node_collectives(devices, find_kernel_set(kSet), options);
  owners.clear();
  EXPECT_EQ(gpu.close(), std::vector<std::string>{});
  return found;
}

// All but collectives is made up: rates of a device, which other tests measure.
CalibrationReport report_of(const NodeCollectives& found) {
  CalibrationReport report;
  report.device = "stand-in";
  report.kernel_set = kSet;
  report.date = "2026-11-27";
  report.base = kBase;
  report.memory = Bytes{std::int64_t{80} << 30};
  report.context = Bytes{1 << 29};
  report.found.product_rate = report.found.attention_rate = 1e14;
  report.found.stream_rate = 1e12;
  report.found.upload_rate = report.found.download_rate = 1e10;
  report.found.graph_launch_overhead = 1e-6;
  report.collectives = found;
  return report;
}

// One machine, whose figures all tests here look at.
class CalibratedNode : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    found_ = std::make_unique<NodeCollectives>(measure());
    report_ = std::make_unique<CalibrationReport>(report_of(*found_));
    text_ = std::make_unique<std::string>(
        calibrated_profile(hardware_template(kBase), load_cluster(kBase).node, *report_));
  }
  static void TearDownTestSuite() {
    text_.reset();
    report_.reset();
    found_.reset();
  }
  static TimeCurve settled(const NodeCollectives::Curve& curve) {
    TimeCurve times;
    for (const NodeCollectives::Time& time : curve.times)
      times.add(static_cast<double>(time.bytes), {time.seconds});
    times.settle();
    return times;
  }
  static const NodeCollectives::Curve& found(CollectiveKind kind, int ranks) {
    for (const NodeCollectives::Curve& curve : found_->curves)
      if (curve.kind == kind && curve.ranks == ranks) return curve;
    throw std::out_of_range("no such curve");
  }

  inline static std::unique_ptr<NodeCollectives> found_;
  inline static std::unique_ptr<CalibrationReport> report_;
  inline static std::unique_ptr<std::string> text_;
};

TEST_F(CalibratedNode, IsReadBackAsItWasMeasured) {
  const HwProfile node = parse_hw_profile(*text_, "mine.json");
  const auto& curves = node.device.collectives->curves;
  ASSERT_EQ(found_->curves.size(), 12u);
  for (const NodeCollectives::Curve& measured : found_->curves) {
    const auto kind = find_measured_collective(name(measured.kind));
    ASSERT_TRUE(kind.has_value());
    const CollectiveCurve& read = curves.at({*kind, measured.ranks});
    const TimeCurve expected = settled(measured);
    EXPECT_EQ(read.size(), measured.times.size());
    for (const NodeCollectives::Time& time : measured.times) {
      const double seconds = expected.at(static_cast<double>(time.bytes)).value;
      EXPECT_NEAR(read.at(static_cast<double>(time.bytes)).value, seconds, 1e-6 * seconds);
    }
  }
  EXPECT_NEAR(node.latency.p2p_intra.value, found_->neighbours.seconds, 1e-9);
}

TEST_F(CalibratedNode, KeepsTheCurvesOfGroupsThatItHasNot) {
  const HwProfile base = load_cluster(kBase).node, node = parse_hw_profile(*text_, "mine.json");
  const MeasuredGroup eight{MeasuredCollective::kAllReduce, 8};
  const double size = 1 << 24;
  EXPECT_EQ(node.device.collectives->curves.at(eight).at(size).value,
            base.device.collectives->curves.at(eight).at(size).value);
}

// Of the group of four; the sums of gradients are within the sizes that were measured.
TEST_F(CalibratedNode, TimesThePlansThatAreMadeForIt) {
  const std::string path = testing::TempDir() + "zplan_calibrated_node.json";
  std::ofstream(path) << *text_;
  Plan plan = testing_support::base_plan(kSet);
  plan.batch.micro_batch = 2;
  plan.parallel.dp = kGpus;
  const Job job = testing_support::placed_job(plan);
  const Cluster mine = load_cluster(path), base = load_cluster(kBase);
  std::filesystem::remove(path);
  const CostModel model(job, mine);
  const TimeCurve all_reduce = settled(found(CollectiveKind::kAllReduce, kGpus));
  int sums = 0;
  const Program& program = job.classes[0].program;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.kind != OpKind::kCollective || node.collective != CollectiveKind::kAllReduce) continue;
    const auto bytes = static_cast<double>(program.operands(node)[0].bytes().value);
    if (bytes < all_reduce.least() || bytes > all_reduce.most()) continue;
    ++sums;
    // Between the times of the measured sizes around it; the formula says how far. Where these
    // times are equal, as on a machine that does other work, it may lie below both by as much as a
    // latency and a rate lie below a power of bytes: sizes k apart at most 2 k^(1/4) / (1 +
    // k^(1/2)) [derived] in the middle, with half of the time there latency.
    const TimeCurve::Between sizes = all_reduce.around(bytes);
    const double root = std::sqrt(sizes.after / sizes.before);
    const double bend = 2 * std::sqrt(root) / (1 + root);
    const double time = to_seconds(model.costs(0)[i].alone).value;
    EXPECT_GE(time, all_reduce.at(sizes.before).value * bend * (1 - 1e-3)) << bytes;
    EXPECT_LE(time, all_reduce.at(sizes.after).value * (1 + 1e-3)) << bytes;
  }
  EXPECT_GE(sums, 2);
  const auto on_lane = [](const sim::SimResult& result) {
    double busy = 0;
    for (const sim::LaneReport& lane : result.lanes)
      if (lane.lane == Lane::kCommReduce) busy += lane.busy.value;
    return busy;
  };
  EXPECT_GT(on_lane(sim::simulate(model)), on_lane(sim::simulate(job, base)))
      << "a stand-in is slower than NVLink";
}

TEST_F(CalibratedNode, IsShownCurveByCurve) {
  const Sheet sheet = calibration_sheet(*report_);
  const auto answer = nlohmann::json::parse(sheet.json());
  ASSERT_EQ(answer["collectives"].size(), 12u);
  EXPECT_EQ(answer["collectives"][0]["op"], "all_gather");
  EXPECT_EQ(answer["collectives"][0]["ranks"], 2);
  EXPECT_EQ(answer["collectives"][0]["times"].size(), 3u);
  EXPECT_THAT(sheet.text(), testing::HasSubstr("beside all_reduce of 4096 bytes among 4"));
  EXPECT_THAT(sheet.text(), testing::HasSubstr("/latency/p2p_intra"));
}

// The tests of the program hold its answers to the schemas; on no machine of theirs is there a GPU.
TEST_F(CalibratedNode, IsShownAsItsSchemaSays) {
  std::ifstream in(ZPLAN_SOURCE_DIR "/planner/cli/schemas/calibration.json");
  const auto schema = nlohmann::json::parse(in);
  const auto answer = nlohmann::json::parse(calibration_sheet(*report_).json());
  const auto keys = [](const nlohmann::json& object) {
    std::set<std::string> all;
    for (const auto& [key, value] : object.items()) all.insert(key);
    return all;
  };
  EXPECT_THAT(keys(schema["properties"]), testing::IsSupersetOf(keys(answer)));
  for (const auto& key : schema["required"]) EXPECT_TRUE(answer.contains(key)) << key;
  const auto& items = schema["properties"]["collectives"]["items"]["properties"];
  EXPECT_EQ(keys(items), keys(answer["collectives"][0]));
}

// All but collectives, of which nothing is measured.
CalibrationReport report_of_one() {
  CalibrationReport report = report_of({});
  report.collectives.reset();
  return report;
}

// Says why in its answer, and the profile has all else.
void expect_all_but_collectives(CalibrationReport report, const std::string& why) {
  CalibrationReport one = report_of_one();
  const auto profile_of = [](CalibrationReport& of) {
    return calibrated_profile(hardware_template(kBase), load_cluster(kBase).node, of);
  };
  EXPECT_EQ(profile_of(report), profile_of(one));
  const Sheet sheet = calibration_sheet(report);
  EXPECT_THAT(sheet.text(), testing::ContainsRegex("\nCollectives were not measured: .*" + why));
  const auto answer = nlohmann::json::parse(sheet.json());
  EXPECT_EQ(answer["no_collectives"], report.no_collectives);
  EXPECT_FALSE(answer.contains("collectives"));
  EXPECT_FALSE(nlohmann::json::parse(calibration_sheet(one).json()).contains("no_collectives"));
}

using Open = std::function<std::shared_ptr<exec::Device>(int)>;

void measure(
    exec::Device& first, CalibrationReport& report,
    const Open& open = [](int gpu) { return stand_in::make_judged_device(gpu); }) {
  exec::NodeCollectiveOptions options;
  options.sizes = {1 << 10};
  options.beside = 1 << 10;
  options.tokens = options.inputs = options.outputs = 32;
  options.effort = {0.001, 3};
  options.deadline = std::chrono::seconds(300);  // nobody waits for it
  measure_collectives(first, 2, open, options, report);
}

TEST(CalibrationWithoutNccl, SaysWhatIsMissing) {
  exec::cpu::CpuDevice none;
  CalibrationReport report = report_of_one();
  measure(none, report);
  expect_all_but_collectives(report, "built without NCCL");
}

// At once, and when some are measured.
TEST(CalibrationWhereNcclFails, KeepsAllElse) {
  const auto expect_kept = [](const char* function, int calls, const char* why) {
    stand_in::StandIn gpu({.devices = 2});
    CalibrationReport report = report_of_one();
    const auto first = stand_in::make_judged_device(0);
    gpu.fail_call(function, ncclSystemError, calls);
    measure(*first, report);
    expect_all_but_collectives(report, why);
    EXPECT_EQ(gpu.findings(), std::vector<std::string>{}) << function;
  };
  expect_kept("ncclCommInitRankConfig", 1, "connecting 2 ranks: NCCL reports");
  expect_kept("ncclAllGather", 5, "NCCL reports");
}

TEST(CalibrationWhereAGpuIsInUse, KeepsAllElse) {
  stand_in::StandIn gpu({.devices = 2});
  CalibrationReport report = report_of_one();
  measure(*stand_in::make_judged_device(0), report, [](int) -> std::shared_ptr<exec::Device> {
    throw Error(ExitCode::kDevice, "CUDA device 1 is in use");
  });
  expect_all_but_collectives(report, "CUDA device 1 is in use");
}

}  // namespace
}  // namespace zplan
