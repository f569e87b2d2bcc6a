#include "planner/foreign/fio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/foreign/measured_file.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string& five_jobs() {
  static const std::string text = measured_data("fio_five_jobs.json");
  return text;
}

FioRun read(const std::string& text) {
  const MeasuredFile file = parse_measured(text, "fio.json");
  EXPECT_TRUE(file.fio && file.runs.empty());
  return file.fio.value();
}

std::string with(const std::string& from, const std::string& to) {
  return refusal([&] { read(replaced(five_jobs(), from, to)); });
}

TEST(Fio, ReadsRatesAndHowMuchWasInFlight) {
  const FioRun run = read(five_jobs());
  EXPECT_EQ(run.software, "fio-3.33");
  EXPECT_EQ(run.date, "2026-11-22");
  ASSERT_EQ(run.groups.size(), 5u);
  const FioGroup& reads = run.groups[0];
  EXPECT_EQ(reads.jobs, "read");
  EXPECT_EQ(reads.read.bytes_per_second, 1075142008);
  EXPECT_EQ(reads.read.block(), Bytes{1 << 20});
  EXPECT_NEAR(reads.in_flight(), 16, 0.2) << "iodepth 16";
  EXPECT_EQ(reads.write.requests_per_second, 0);
  EXPECT_EQ(reads.drives, 1);
  EXPECT_TRUE(reads.counted) << "of disk_util";
  const FioGroup& both = run.groups[2];
  EXPECT_EQ(both.read.bytes_per_second, 550217179);
  EXPECT_EQ(both.write.bytes_per_second, 559033099);
  EXPECT_NEAR(both.in_flight(), 32, 0.5) << "iodepth 16, numjobs 2";
  const FioGroup& latency = run.groups[3];
  EXPECT_EQ(latency.read.block(), Bytes{4 << 10});
  EXPECT_NEAR(latency.read.latency().value, 100535.9e-9, 1e-10);
}

// axboe/fio issue 1627; whoever asks for mixed jobs of 100 % reads gets reads.
TEST(Fio, ReadsJsonOfVersion328WithDevicesByName) {
  const std::string text = R"({
  "fio version" : "fio-3.28", "timestamp" : 1691898935, "timestamp_ms" : 1691898935399,
  "time" : "Sun Aug 13 03:55:35 2023",
  "global options" : {"direct" : "1", "buffered" : "0", "rw" : "rw", "bs" : "128k", "iodepth" : "64"},
  "jobs" : [{
    "jobname" : "seqmixedread100write0", "groupid" : 0, "error" : 0, "eta" : 0, "elapsed" : 301,
    "job options" : {"name" : "seqmixedread100write0", "filename" : "/dev/nvme0n1:/dev/nvme1n1"},
    "read" : {"io_bytes" : 3723602165760, "io_kbytes" : 3636330240, "bw_bytes" : 12411965845,
              "bw" : 12121060, "iops" : 94695.784347, "runtime" : 300001, "total_ios" : 28408830,
              "lat_ns" : {"min" : 215000, "max" : 1362000, "mean" : 675800.0}},
    "write" : {"io_bytes" : 0, "bw_bytes" : 0, "bw" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0}
  }]
})";
  const FioRun run = read(text);
  EXPECT_EQ(run.date, "2023-08-13");
  const FioGroup& group = run.groups.at(0);
  EXPECT_EQ(group.drives, 2);
  EXPECT_EQ(group.read.block(), Bytes{128 << 10});
  EXPECT_NEAR(group.in_flight(), 64, 0.1);
  const FioGroup raid = read(replaced(text, "/dev/nvme0n1:/dev/nvme1n1", "/dev/md0")).groups.at(0);
  EXPECT_EQ(raid.drives, 1);
  EXPECT_FALSE(raid.counted) << "a RAID may have several, and there is no disk_util";
}

TEST(Fio, CountsTheDisksOfARaidOnce) {
  const std::string disks = R"("disk_util": [
    {"name": "md0", "read_ios": 10, "write_ios": 0, "aggr_read_ios": 5},
    {"name": "nvme0n1", "read_ios": 5, "write_ios": 0},
    {"name": "nvme1n1", "read_ios": 5, "write_ios": 0},
    {"name": "sda", "read_ios": 0, "write_ios": 0}], "rest": [)";
  const FioRun run = read(replaced(five_jobs(), "\"disk_util\": [", disks));
  EXPECT_EQ(run.groups.at(0).drives, 2);
}

// axboe/fio issue 430: rates in KiB/s and times in us; the latency is made up.
TEST(Fio, ReadsTheUnitsOfVersion2) {
  const FioGroup group = read(R"({
  "fio version" : "fio-2.20", "timestamp" : 1502919927, "global options" : {"direct" : "1"},
  "jobs" : [{"jobname" : "Test", "groupid" : 0, "error" : 0,
    "job options" : {"rw" : "read", "bs" : "128k", "filename" : "/dev/sdak"},
    "read" : {"io_bytes" : 4995968, "bw" : 249785, "iops" : 1951.452427, "runtime" : 20001,
              "total_ios" : 39031, "lat" : {"min" : 200, "max" : 9000, "mean" : 511.5}},
    "write" : {"io_bytes" : 0, "bw" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0}}]
})")
                             .groups.at(0);
  EXPECT_EQ(group.read.bytes_per_second, 249785.0 * 1024);
  EXPECT_EQ(group.read.block(), Bytes{128 << 10});
  EXPECT_NEAR(group.read.latency().value, 511.5e-6, 1e-12);
}

TEST(Fio, JobsOfOneGroupCountTogether) {
  const std::string text = replaced(five_jobs(), "\"groupid\": 1", "\"groupid\": 0");
  const FioGroup group = read(text).groups.at(0);
  EXPECT_EQ(group.jobs, "read, write");
  EXPECT_EQ(group.read.bytes_per_second, 1075142008);
  EXPECT_EQ(group.write.bytes_per_second, 1589052175);
  EXPECT_NEAR(group.in_flight(), 32, 0.3);
}

TEST(Fio, PassesOverWhatItWritesBesideItsJson) {
  const std::string text = "note: both iodepth >= 1 and synchronous I/O engine are selected\n" +
                           five_jobs() + "\nDisk stats (read/write):\n";
  EXPECT_EQ(read(text).groups.size(), 5u);
  const std::string place = refusal([&] { read(replaced(text, "\"error\": 0", "\"error\": 5")); });
  EXPECT_THAT(place, StartsWith("fio.json:20:16: /jobs/0/error: expected a job without an error"));
}

TEST(Fio, WhatSaysNothingOfADriveIsRefused) {
  EXPECT_THAT(with("\"direct\": \"1\"", "\"direct\": \"0\""), HasSubstr("expected direct=1"));
  EXPECT_THAT(with("\"direct\": \"1\"", "\"invalidate\": \"1\""), HasSubstr("page cache"));
  EXPECT_THAT(with("\"bw_bytes\": 1075142008", "\"bw_bytes\": 1175142008"),
              HasSubstr("/jobs/0/read/bw_bytes: expected 1.07514e+09 by the totals"));
  EXPECT_THAT(with("\"total_ios\": 2064", "\"total_ios\": 4128"), HasSubstr("/jobs/0/read/iops"));
  EXPECT_THAT(with("\"runtime\": 2013", "\"runtime\": 0"), HasSubstr("/jobs/0/read/runtime"));
  EXPECT_THAT(with("\"jobs\"", "\"client_stats\""), HasSubstr("jobs"));
  EXPECT_THAT(refusal([] { read(R"({"fio version": "fio-3.1", "timestamp": 1, "jobs": []})"); }),
              HasSubstr("expected a job that reads or writes, got none"));
}

}  // namespace
}  // namespace zplan
