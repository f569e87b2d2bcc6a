// The largest models by family of plans: Fig. 6a and Fig. 1 of ZeRO-Infinity [Rajbhandari21] and
// Fig. 7 of ZeRO-Offload [Ren21], all on DGX-2.
//
// A printed size is a floor: the papers print what they ran, from a short list of shapes, with
// software that loses GPU memory to fragmentation and buffers and, in ZeRO-Infinity, keeps 20 bytes
// per parameter where the standard recipe has 16; here a size is the last layer whose placement
// fits. Sizes above it by family: data parallel 1.37 times (their shape beyond 1.4B is 2B, which
// does not fit here either), ZeRO-2 and ZeRO-Offload up to 1.2 times, ZeRO-3 and 3D 1.5 (30B is
// what 16 bytes take of 16 GPUs), CPU 1.3, NVMe 1.75 (28 TB over 16 bytes are 1.75T, over 20 1.4T).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/model_formulas.h"
#include "planner/search/questions/largest_model.h"

namespace zplan {
namespace {

constexpr double kHeadroom = 0.05;  // as the program leaves free
constexpr double kMostOverPrinted = 1.8;

LargestModel largest(const char* family, const std::string& where, const Pins& pins = {}) {
  static const std::vector<LadderStep> kLadder = size_ladder();
  Cluster cluster = load_cluster(where);
  cluster.headroom = kHeadroom;
  return largest_model(find_size_family(family), kLadder, cluster, pins, {.threads = 2});
}

// Billions of parameters.
double most(const char* family, const std::string& where, const Pins& pins = {}) {
  const LargestModel found = largest(family, where, pins);
  EXPECT_TRUE(found.refused.empty()) << found.refused;
  return found.model ? static_cast<double>(parameter_count(*found.model)) / 1e9 : 0;
}

void expect_printed(double found, double printed, const std::string& what) {
  EXPECT_GE(found, printed) << what;
  EXPECT_LE(found, kMostOverPrinted * printed) << what;
}

struct Printed {
  const char* family;
  double billions;
};
constexpr Printed kFig6a[] = {{"data-parallel", 1.4}, {"zero-2", 10}, {"zero-offload", 13},
                              {"zero-3", 20},         {"3d", 20},     {"infinity-cpu", 70},
                              {"infinity-nvme", 1000}};

TEST(LargestModels, Figure6aOfZeroInfinity) {
  for (const Printed& row : kFig6a)
    expect_printed(most(row.family, "dgx2"), row.billions, row.family);
}

TEST(LargestModels, FamiliesOfFigure6aComeInItsOrder) {
  double last = 0;
  for (const char* family : {"data-parallel", "zero-1", "zero-2", "zero-offload", "zero-3",
                             "infinity-cpu", "infinity-nvme"}) {
    const double size = most(family, "dgx2");
    EXPECT_GT(size, last) << family;
    last = size;
  }
}

TEST(LargestModels, TwentyBytesPerParameterTakeAFifthOfTheSize) {
  Pins pins;
  pins.recipes = {"main-gradients"};
  const double size = most("infinity-nvme", "dgx2", pins);
  expect_printed(size, 1000, "20 bytes");
  EXPECT_NEAR(size / most("infinity-nvme", "dgx2"), 16.0 / 20, 0.02);
}

TEST(LargestModels, Figure1OfZeroInfinity) {
  const struct {
    int nodes;
    double infinity, three_d;
  } kFig1[] = {{1, 1000, 20}, {8, 8000, 160}, {16, 16000, 320}, {32, 32000, 640}};
  for (const auto& row : kFig1) {
    const std::string where = "dgx2x" + std::to_string(row.nodes);
    expect_printed(most("infinity-nvme-tp", where), row.infinity, "Infinity " + where);
    expect_printed(most("3d", where), row.three_d, "3D " + where);
  }
}

// Megatron: tensor parallel ranks alone. A size lies between the printed floor and what the states
// alone take of a V100, or of the host: bytes per parameter of a GPU 16, 16 / N cut by tensor
// parallelism, 2 + 14 / N with ZeRO-2, 2 / N with states on the host, which keeps 14.
// reports/paper_figures.md has these rows point by point.
TEST(LargestModels, Figure7OfZeroOffload) {
  constexpr int kGpus[] = {1, 4, 16};
  constexpr double kGpuBytes = 31.75 * 1024 * 1024 * 1024,
                   kHostBytes = 1.5 * 1024 * kGpuBytes / 31.75;
  const struct {
    const char* family;
    double billions[3];
    double whole, cut, host;  // bytes per parameter: on each GPU, over all GPUs, in the node
  } kRows[] = {{"data-parallel", {1.4, 1.4, 1.4}, 16, 0, 0},
               {"3d", {1.4, 4.5, 15}, 0, 16, 0},
               {"zero-2", {1.4, 3.9, 8}, 2, 14, 0},
               {"zero-offload-tp", {13, 30, 70}, 0, 2, 14}};
  for (const auto& row : kRows)
    for (std::size_t i = 0; i < std::size(kGpus); ++i) {
      Pins pins;
      pins.ranks = kGpus[i];
      if (row.family == std::string("3d")) {
        pins.set("/parallel/dp", 1);
        pins.set("/parallel/pp", 1);
      }
      const double found = most(row.family, "dgx2", pins);
      const double of_gpu = kGpuBytes / 1e9 / (row.whole + row.cut / kGpus[i]);
      const double ceiling = row.host > 0 ? std::min(of_gpu, kHostBytes / 1e9 / row.host) : of_gpu;
      EXPECT_GE(found, row.billions[i]) << row.family << " on " << kGpus[i];
      EXPECT_LE(found, ceiling) << row.family << " on " << kGpus[i];
      EXPECT_GE(found, 0.75 * ceiling) << row.family << " on " << kGpus[i];
    }
}

// Of the states alone: 16 B per parameter cut over the ranks of a model; of ZeRO-2 2 + 14 / N.
TEST(LargestModels, OnMoreGpusAsManyMoreAsTheirStatesAllow) {
  const auto on = [](const char* family, int gpus) {
    Pins pins;
    pins.ranks = gpus;
    return most(family, "dgx2", pins);
  };
  EXPECT_DOUBLE_EQ(on("data-parallel", 4), on("data-parallel", 1));
  EXPECT_NEAR(on("zero-2", 4) / on("zero-2", 1), 16 / (2 + 14 / 4.0), 0.3);
  EXPECT_NEAR(on("zero-2", 16) / on("zero-2", 1), 16 / (2 + 14 / 16.0), 0.3);
  EXPECT_GE(on("zero-offload", 1), 13);
}

TEST(LargestModels, WhatRunsOutIsTheTierOfTheStates) {
  EXPECT_EQ(largest("zero-3", "dgx2").misfit->tier, Tier::kGpu);
  EXPECT_EQ(largest("infinity-cpu", "dgx2").misfit->tier, Tier::kCpu);
  EXPECT_EQ(largest("infinity-nvme", "dgx2").misfit->tier, Tier::kNvme);
}

TEST(LargestModels, BisectionAgreesWithTryingEveryStep) {
  const std::vector<LadderStep> ladder = size_ladder();
  Cluster cluster = load_cluster("dgx2");
  cluster.headroom = kHeadroom;
  for (const char* family : {"data-parallel", "zero-2"}) {
    const SizeFamily& wanted = find_size_family(family);
    const LargestModel found = largest_model(wanted, ladder, cluster, {}, {.threads = 2});
    Pins pins = pins_of(wanted, {});
    pins.set("/batch/global_batch", cluster.devices());
    const std::int64_t size = parameter_count(*found.model);
    for (const LadderStep& step : ladder) {
      const ModelConfig model = model_of(step);
      if (parameter_count(model) > 2 * size) break;
      EXPECT_EQ(fitting_plan(model, cluster, pins, 2).plan.has_value(),
                parameter_count(model) <= size)
          << family << " " << model.name;
    }
  }
}

TEST(LargestModels, TheNextIsTheNextStepOfTheLadder) {
  const std::vector<LadderStep> ladder = size_ladder();
  for (const SizeFamily& family : kSizeFamilies) {
    const LargestModel found = largest(family.key.data(), "dgx2");
    const auto is_found = [&](const LadderStep& step) {
      return model_of(step).name == found.model->name;
    };
    const auto at = std::find_if(ladder.begin(), ladder.end(), is_found);
    ASSERT_LT(at + 1, ladder.end()) << family.key;
    EXPECT_EQ(model_of(*(at + 1)).name, found.next->name) << family.key;
  }
}

// Where homes are free plans whose bytes are not refused by a bound are placed in turn.
TEST(LargestModels, PlansAreTriedUntilOneFits) {
  Cluster cluster = load_cluster("dgx2");
  cluster.headroom = kHeadroom;
  for (const char* family : {"data-parallel", "zero-1", "zero-2", "zero-3"}) {
    const LargestModel found = largest(family, "dgx2");
    Pins pins;
    pins.set("/batch/micro_batch", 1);
    pins.set("/batch/global_batch", cluster.devices());
    pins.set("/parallel/tp", 1);
    pins.set("/parallel/pp", 1);
    EXPECT_TRUE(fitting_plan(*found.next, cluster, pins, 2).plan.has_value()) << family;
  }
}

// The search of `zplan plan` over the same pins finds a plan for the model, and none for the next.
TEST(LargestModels, TheSearchFindsThemAndNothingLarger) {
  const struct {
    const char *family, *where;
  } kCases[] = {{"zero-3", "dgx2"}, {"zero-offload-tp", "dgx2"}, {"3d", "dgx2"}, {"3d", "dgx2x32"}};
  for (const auto& [family, where] : kCases) {
    const LargestModel found = largest(family, where);
    Cluster cluster = load_cluster(where);
    cluster.headroom = kHeadroom;
    Pins pins = pins_of(find_size_family(family), {});
    pins.set("/batch/global_batch", cluster.devices());
    const auto fits = [&](const ModelConfig& model) {
      Evaluator evaluator = make_evaluator(model, cluster);
      evaluator.simulate = [](const Plan&) { return Seconds{1e9}; };  // only whether it fits counts
      return search(model, cluster, pins, evaluator, {.threads = 2, .max_simulated = 1})
          .best.has_value();
    };
    EXPECT_TRUE(fits(*found.model)) << family << " " << where;
    EXPECT_FALSE(fits(*found.next)) << family << " " << where;
  }
}

TEST(LargestModels, AnInterruptedSearchKeepsWhatItHas) {
  int calls = 0;
  const LargestModel found =
      largest_model(find_size_family("zero-3"), size_ladder(), load_cluster("dgx2"), {},
                    {.threads = 1, .interrupted = [&] { return ++calls > 2; }});
  EXPECT_TRUE(found.interrupted);
  EXPECT_TRUE(found.model.has_value());
}

TEST(LargestModels, TheLadderRisesAndEndsItsWidthsAtPublishedShapes) {
  const std::vector<LadderStep> ladder = size_ladder();
  std::int64_t last = 0;
  for (const LadderStep& step : ladder) {
    EXPECT_GT(parameter_count(model_of(step)), last);
    last = parameter_count(model_of(step));
  }
  for (const char* name : {"zero-infinity-100b", "zero-infinity-0.5t", "zero-infinity-1t",
                           "zero-infinity-5t", "zero-infinity-10t", "zero-infinity-20t"}) {
    const ModelConfig published = load_model(name);
    bool is_step = false;
    for (const LadderStep& step : ladder)
      is_step = is_step || parameter_count(model_of(step)) == parameter_count(published);
    EXPECT_TRUE(is_step) << name;
  }
}

}  // namespace
}  // namespace zplan
