#include "planner/foreign/drive_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kGiga = 1e9;

// Four drives of 6 and 3 GB/s on paper, of which programs reach half.
NvmeProfile base() {
  NvmeProfile drives;
  drives.drives = 4;
  drives.drive_read = {6 * kGiga};
  drives.drive_write = {3 * kGiga};
  drives.efficiency = 0.5;
  return drives;
}

FioRate rate(double gb_s, double block_kib, double in_flight) {
  const double bytes = gb_s * kGiga;
  return {bytes, bytes / (block_kib * 1024), in_flight};
}

FioGroup group(const FioRate& read, const FioRate& write, int drives = 1) {
  return {"jobs", "fio.json:5:3", drives, true, read, write};
}

DriveValues values(std::vector<FioGroup> groups) {
  return drive_values({{"fio.json", {"fio-3.33", "2026-11-22", std::move(groups)}}}, base());
}

TEST(DriveValues, RatesAreThoseOfOneDrive) {
  const DriveValues found =
      values({group(rate(10, 1024, 64), {}, 2), group({}, rate(8, 512, 32), 4)});
  EXPECT_NEAR(found.read->value.value, 5 * kGiga, 1);
  EXPECT_NEAR(found.write->value.value, 2 * kGiga, 1);
  EXPECT_EQ(found.block->value, Bytes{512 << 10}) << "of the last";
  EXPECT_EQ(found.queue_depth->value, 8) << "of the last, on each of four drives";
  EXPECT_EQ(found.read->ref,
            "blocks of 1.00 MiB on 2 drives; fio-3.33, jobs jobs; fio.json, 2026-11-22");
  EXPECT_FALSE(found.read_beside_write || found.latency);
  EXPECT_TRUE(found.notes.empty());
}

// r/R + (1 - s) w/W = 1, as the model of a drive has it.
TEST(DriveValues, WhatADriveReadsWhileItWritesIsOnTheLineThroughBoth) {
  const DriveValues alone = values({group(rate(6, 1024, 32), {}), group({}, rate(3, 1024, 32)),
                                    group(rate(3, 1024, 16), rate(2, 1024, 16))});
  EXPECT_NEAR(alone.read_beside_write->value, 1 - (1 - 0.5) / (2.0 / 3), 1e-12);
  const DriveValues by_base = values({group(rate(3, 1024, 16), rate(1.2, 1024, 16), 2)});
  EXPECT_NEAR(by_base.read_beside_write->value, 0, 1e-12) << "1 - (1 - 1.5 / 3) / (0.6 / 1.5) < 0";
  const DriveValues independent = values({group(rate(3, 1024, 16), rate(1.5, 1024, 16))});
  EXPECT_NEAR(independent.read_beside_write->value, 1, 1e-12);
  EXPECT_FALSE(independent.read);
}

TEST(DriveValues, OneReadAtATimeTellsTheLatency) {
  const FioRate small = rate(0.04, 4, 1);
  const DriveValues found = values({group(small, {}), group(rate(4, 1024, 32), {})});
  EXPECT_NEAR(found.latency->value.value, 4096 / (0.04 * kGiga) - 4096 / (4 * kGiga), 1e-12)
      << "less the transfer at the rate that a later group has";
  EXPECT_THAT(found.latency->ref, HasSubstr("reads of 4.00 KiB, one at a time"));
  EXPECT_NEAR(values({group(small, {})}).latency->value.value,
              4096 / (0.04 * kGiga) - 4096 / (3 * kGiga), 1e-12)
      << "or that the base has";
}

TEST(DriveValues, SmallTransfersAndSingleWritesAreLeftOutAndTold) {
  const DriveValues found =
      values({group(rate(0.1, 4, 32), {}), group({}, rate(0.1, 4, 1)),
              group(rate(1, 4, 8), rate(1, 4, 8)), group(rate(3.5, 1024, 1), {})});
  EXPECT_FALSE(found.read || found.write || found.read_beside_write || found.latency);
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("fio.json: jobs jobs left out: neither large"),
                          HasSubstr("left out: neither"), HasSubstr("left out: neither"),
                          HasSubstr("left out: no longer than the transfer alone")));
}

TEST(DriveValues, LaterGroupsWinAndAreTold) {
  const DriveValues found = values({group(rate(2, 1024, 32), {}), group(rate(3, 256, 32), {})});
  EXPECT_NEAR(found.read->value.value, 3 * kGiga, 1);
  EXPECT_THAT(found.notes, ElementsAre("fio.json: jobs jobs replace what was measured before"));
}

TEST(DriveValues, WithoutLatenciesThereIsNoDepth) {
  const DriveValues found = values({group(rate(2, 1024, 0), {})});
  EXPECT_TRUE(found.read);
  EXPECT_FALSE(found.queue_depth);
}

TEST(DriveValues, MoreDrivesThanTheBaseHasAreRefused) {
  EXPECT_EQ(refusal([] { values({group(rate(2, 1024, 32), {}, 5)}); }),
            "fio.json:5:3: expected at most 4 drives, those of the base, got 5");
}

}  // namespace
}  // namespace zplan
