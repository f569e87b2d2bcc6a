#include "planner/certainty/knowledge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/certainty/interval.h"
#include "planner/cost/reliance.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MeasuredStack measured_stack() {
  MeasuredStack runs;
  runs.name = "theirs";
  runs.runs = 12;
  runs.run_sd = 0.06;
  runs.most_devices = 64;
  runs.devices = {"H100-SXM5-80GB"};
  runs.formats = {"bf16"};
  runs.features = {"data parallelism", "ZeRO 3"};
  runs.fitted = {"gemm", "elementwise"};
  runs.correlation = {{1, -0.5}, {-0.5, 1}};
  return runs;
}

Evidence measured_evidence() {
  Evidence evidence;
  evidence.stack.name = "theirs";
  evidence.stack.values = {{"gemm", 0, 1.1, 0.1, "fitted", "runs"},
                           {"elementwise", 0, 1.2, 0.2, "fitted", "runs"},
                           {"tensor_exposed", 0, 0.5, 0, "assumed", "a guess"}};
  evidence.runs = {measured_stack()};
  return evidence;
}

const HwProfile& h100() {
  static const HwProfile node = load_cluster("dgx-h100").node;
  return node;
}

Kind known_kind() { return {"H100-SXM5-80GB", "bf16", 64, {"data parallelism", "ZeRO 3"}}; }

double sd_of(const Knowledge& knowledge, Constant k) {
  return std::sqrt(knowledge.covariance[k][k]);
}

TEST(Knowledge, TakesUncertaintyAndCorrelationOfFittedRatesFromTheirFit) {
  const Knowledge known = knowledge_of(measured_evidence(), h100(), known_kind());
  const Constant gemm = constant_of(&StackRates::gemm);
  const Constant elementwise = constant_of(&StackRates::elementwise);
  EXPECT_DOUBLE_EQ(sd_of(known, gemm), 0.1);
  EXPECT_DOUBLE_EQ(sd_of(known, elementwise), 0.2);
  EXPECT_DOUBLE_EQ(known.covariance[gemm][elementwise], -0.5 * 0.1 * 0.2);
  EXPECT_DOUBLE_EQ(known.covariance[elementwise][gemm], -0.5 * 0.1 * 0.2);
  EXPECT_DOUBLE_EQ(known.run_sd, 0.06);
  EXPECT_THAT(known.unknown, IsEmpty());
}

TEST(Knowledge, TakesRatesOfTheClassOfDevices) {
  Evidence evidence = measured_evidence();
  evidence.stack.values.push_back({"gemm", 90, 1.3, 0.03, "fitted", "runs"});
  evidence.runs.front().fitted = {"gemm@90", "elementwise"};
  const Constant gemm = constant_of(&StackRates::gemm);
  const Constant elementwise = constant_of(&StackRates::elementwise);
  const Knowledge on_h100 = knowledge_of(evidence, h100(), known_kind());
  EXPECT_DOUBLE_EQ(sd_of(on_h100, gemm), 0.03);
  EXPECT_DOUBLE_EQ(on_h100.covariance[gemm][elementwise], -0.5 * 0.03 * 0.2);
  const HwProfile a100 = load_cluster("dgx-a100").node;
  const Knowledge elsewhere = knowledge_of(evidence, a100, known_kind());
  EXPECT_DOUBLE_EQ(sd_of(elsewhere, gemm), 0.1);
  EXPECT_DOUBLE_EQ(elsewhere.covariance[gemm][elementwise], 0);
}

TEST(Knowledge, TakesTheSpreadOverStacksForRatesThatNobodyMeasured) {
  const Knowledge known = knowledge_of(measured_evidence(), h100(), known_kind());
  const Constant k = constant_of(&StackRates::tensor_exposed);
  EXPECT_DOUBLE_EQ(sd_of(known, k), stack_rates()[k].spread);
}

TEST(Knowledge, DoubtsTheHardwareOnlyWhereNoRunWasOnIt) {
  const Constant products = constant_of(HardwareTime::kProducts);
  EXPECT_EQ(sd_of(knowledge_of(measured_evidence(), h100(), known_kind()), products), 0);
  Kind elsewhere = known_kind();
  elsewhere.device = "B200-SXM-180GB";
  const Knowledge known = knowledge_of(measured_evidence(), h100(), elsewhere);
  EXPECT_GT(sd_of(known, products), 0);
  EXPECT_THAT(known.unknown, ElementsAre(HasSubstr("no run of theirs on B200-SXM-180GB")));
}

// Nobody measured how far below its bursts such a device multiplies for long.
TEST(Knowledge, DoubtsProductsWhereClocksThatLastAreAssumed) {
  const Constant products = constant_of(HardwareTime::kProducts);
  const Kind other{"GB200 GPU (NVL72)", "bf16", 64, {"data parallelism", "ZeRO 3"}};
  const Knowledge known = knowledge_of(measured_evidence(), h100(), other);
  HwProfile assumed = h100();
  assumed.sources.push_back({"/device/sustained", "1.25", "assumed", "between two others"});
  const Knowledge doubted = knowledge_of(measured_evidence(), assumed, other);
  EXPECT_NEAR(sd_of(doubted, products), std::hypot(sd_of(known, products), 0.1), 1e-12);
}

TEST(Knowledge, NamesAndWidensForFormatFeatureAndScale) {
  const Constant overall = constant_of(&StackRates::overall);
  const double before = sd_of(knowledge_of(measured_evidence(), h100(), known_kind()), overall);
  Kind other = known_kind();
  other.format = "fp8";
  Knowledge known = knowledge_of(measured_evidence(), h100(), other);
  EXPECT_GT(sd_of(known, overall), before);
  EXPECT_THAT(known.unknown, ElementsAre(HasSubstr("in fp8")));
  other = known_kind();
  other.features.emplace_back("a pipeline");
  known = knowledge_of(measured_evidence(), h100(), other);
  EXPECT_GT(sd_of(known, overall), before);
  EXPECT_THAT(known.unknown, ElementsAre(HasSubstr("with a pipeline")));
  other = known_kind();
  other.devices = 129;
  known = knowledge_of(measured_evidence(), h100(), other);
  EXPECT_GT(sd_of(known, overall), before);
  EXPECT_THAT(known.unknown, ElementsAre(HasSubstr("more than 64 devices")));
  other.devices = 128;
  EXPECT_THAT(knowledge_of(measured_evidence(), h100(), other).unknown, IsEmpty());
}

TEST(Knowledge, OfOurOwnStackOnGpusIsThatItCanOnlyBeSlower) {
  const Evidence own = evidence_of(load_stack("own"), load_measured_runs());
  const Knowledge known = knowledge_of(own, h100(), known_kind());
  const Constant gemm = constant_of(&StackRates::gemm);
  EXPECT_EQ(known.slower[gemm], stack_rates()[gemm].spread);
  EXPECT_EQ(known.covariance[gemm][gemm], 0);
  std::vector<double> reliances(known.mean.size());
  reliances[gemm] = 1;
  EXPECT_GT(spread_of(known, reliances).mean, 0);
}

TEST(Knowledge, OfAStackThatWasNeverMeasuredSaysSo) {
  const Evidence hf = evidence_of(load_stack("hf"), load_measured_runs());
  EXPECT_THAT(knowledge_of(hf, h100(), known_kind()).unknown,
              ElementsAre("no run of hf was ever measured"));
}

TEST(Knowledge, OfSoftwareThatNobodyNamedIsNoBetterThanThatOfUnmeasuredSoftware) {
  const Constant overall = constant_of(&StackRates::overall);
  Evidence guessed = measured_evidence();
  guessed.stated = false;
  const Knowledge known = knowledge_of(guessed, h100(), known_kind());
  EXPECT_THAT(known.unknown,
              ElementsAre("software or kernels that are not known to be those of theirs"));
  Evidence unmeasured = measured_evidence();
  unmeasured.runs.clear();
  EXPECT_GE(sd_of(known, overall), sd_of(knowledge_of(unmeasured, h100(), known_kind()), overall));
}

TEST(Knowledge, OfADeviceIsThatOfItsClass) {
  EXPECT_TRUE(same_class("A100-SXM4-40GB", "A100-SXM4-80GB"));
  EXPECT_TRUE(same_class("A100-SXM4-40GB", "A100-SXM4-40GB"));
  EXPECT_FALSE(same_class("A100-SXM4-40GB", "A100-PCIe-40GB"));
  EXPECT_FALSE(same_class("GeForce RTX 4090 24GB", "GeForce RTX 3090 24GB"));
  EXPECT_FALSE(same_class("AMD EPYC", "AMD"));
  Kind larger = known_kind();
  larger.device = "H100-SXM5-96GB";
  EXPECT_THAT(knowledge_of(measured_evidence(), h100(), larger).unknown, IsEmpty());
}

// One GPU and cores were measured, each with features of its own (hwprofiles/measured/own.json).
TEST(Knowledge, OfOurOwnStackIsThatOfItsRunsOnTheKindOfDevice) {
  const Evidence own = evidence_of(load_stack("own"), load_measured_runs());
  const auto unknown = [&](const Kind& kind) { return knowledge_of(own, h100(), kind).unknown; };
  EXPECT_THAT(unknown({"H100-SXM5-80GB", "bf16", 1, {"recomputation"}}), IsEmpty());
  EXPECT_THAT(unknown({"AMD EPYC", "fp32", 4, {"a pipeline"}}), IsEmpty());
  EXPECT_THAT(
      unknown({"H100-SXM5-80GB", "bf16", 8, {"a pipeline"}}),
      ElementsAre("no run of own with a pipeline", "no run of own on more than one device"));
  EXPECT_THAT(unknown({"V100-SXM3-32GB", "fp16", 8, {"a pipeline"}}),
              ElementsAre("no run of own on V100-SXM3-32GB", "no run of own in fp16"));
}

TEST(Knowledge, OfOurOwnStackNeedsNoDoubtOfKernelsThatCalibrateMeasured) {
  const Evidence own = evidence_of(load_stack("own"), load_measured_runs());
  HwProfile node = h100();
  node.sources = {{"/device/gemm_efficiency", "0.7", "measured", "zplan calibrate: products"}};
  const Knowledge known = knowledge_of(own, node, known_kind());
  const Constant gemm = constant_of(&StackRates::gemm);
  EXPECT_EQ(known.slower[gemm], 0);
  const Constant products = constant_of(HardwareTime::kProducts);
  EXPECT_LT(sd_of(known, products),
            sd_of(knowledge_of(own, h100(), known_kind()), products) + 1e-9);
}

}  // namespace
}  // namespace zplan
