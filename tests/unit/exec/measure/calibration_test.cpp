#include "exec/measure/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "exec/cpu/cpu_device.h"
#include "tests/support/queue_device.h"

namespace zplan::exec {
namespace {

Calibration calibrate_quickly(Device& device, int& told) {
  CalibrationOptions options;
  options.quick = true;
  options.measured = [&told](const Measurement&) { ++told; };
  return calibrate(device, find_kernel_set("cpu.f32"), options);
}

void expect_sound(const Calibration& found) {
  std::set<std::string> groups, lines;
  for (const Measurement& m : found.measurements) {
    groups.insert(m.group);
    EXPECT_TRUE(lines.insert(m.what).second) << m.what;
    EXPECT_TRUE(std::isfinite(m.seconds) && m.seconds > 0) << m.what;
    EXPECT_EQ(m.rate > 0, m.rate_of != RateOf::kNothing) << m.what;
  }
  EXPECT_EQ(groups, (std::set<std::string>{"stream", "product", "small product", "attention",
                                           "copy", "launch", "contention"}));
  EXPECT_GE(found.product_overhead, 0);
  EXPECT_GE(found.copy_latency, 0);
  EXPECT_GT(found.launch_overhead, 0);
}

// The rate of several shapes lies between that of the slowest and that of the fastest.
void expect_between(const Calibration& found, const std::string& group, double rate) {
  double least = INFINITY, most = 0;
  for (const Measurement& m : found.measurements) {
    if (m.group != group) continue;
    least = std::min(least, m.rate);
    most = std::max(most, m.rate);
  }
  EXPECT_GE(rate, 0.999 * least) << group;
  EXPECT_LE(rate, 1.001 * most) << group;
}

TEST(Calibration, OfTheCpuHasAllButGraphs) {
  cpu::CpuDevice device;
  int told = 0;
  const Calibration found = calibrate_quickly(device, told);
  expect_sound(found);
  EXPECT_EQ(told, std::ssize(found.measurements));
  EXPECT_FALSE(found.graph_launch_overhead.has_value());
  expect_between(found, "product", found.product_rate);
  expect_between(found, "attention", found.attention_rate);
  expect_between(found, "stream", found.stream_rate);
}

TEST(Calibration, OfADeviceWithQueuesHasGraphs) {
  const auto device = make_queue_device();
  int told = 0;
  const Calibration found = calibrate_quickly(*device, told);
  expect_sound(found);
  ASSERT_TRUE(found.graph_launch_overhead.has_value());
  EXPECT_GT(*found.graph_launch_overhead, 0);
}

}  // namespace
}  // namespace zplan::exec
