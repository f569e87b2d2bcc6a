#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/foreign/nccl_tests.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::string& h100() {
  static const std::string text = measured_data("nccl_all_reduce_2x8_h100.txt");
  return text;
}

NcclRun only_run(const std::string& text, const std::string& name = "log.txt") {
  const std::vector<NcclRun> runs = parse_nccl_text(text, name);
  EXPECT_EQ(runs.size(), 1u);
  return runs.at(0);
}

std::string why_not(const std::string& text, const std::string& name = "log.txt") {
  return refusal([&] { parse_nccl_text(text, name); });
}

std::string with(const std::string& from, const std::string& to) {
  return why_not(replaced(h100(), from, to));
}

std::vector<double> microseconds(const NcclRun& run) {
  std::vector<double> times;
  for (const NcclRun::Time& time : run.times)
    times.push_back(std::round(time.time.value * 1e9) / 1e3);
  return times;
}

TEST(NcclText, ReadsAnAllReduceOfTwoNodes) {
  const NcclRun run = only_run(h100());
  EXPECT_EQ(run.program, "all_reduce_perf") << "of the command line";
  EXPECT_EQ(run.kind, MeasuredCollective::kAllReduce);
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(run.nodes, 2);
  EXPECT_EQ(run.device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(run.software, "");
  ASSERT_EQ(run.times.size(), 31u);
  EXPECT_EQ(run.times.front().size, Bytes{8});
  EXPECT_NEAR(run.times.front().time.value, 135.8e-6, 1e-12) << "out of place";
  EXPECT_EQ(run.times.back().size, Bytes{std::int64_t{8} << 30});
  EXPECT_NEAR(run.times.back().time.value, 47.535e-3, 1e-12);
}

// NVIDIA/nccl-tests issue 314, in the form of 2.19.6.
constexpr const char* kAllToAll =
    R"(# nccl-tests version 2.19.6 nccl-headers=22902 nccl-library=22605
# Collective test starting: alltoall_perf
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 100 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid 173504 on  TENCENT64 device  0 [0000:03:00] NVIDIA H20-3e
#  Rank  1 Group  0 Pid 173504 on  TENCENT64 device  1 [0000:16:00] NVIDIA H20-3e
#  Rank  2 Group  0 Pid 173504 on  TENCENT64 device  2 [0000:1c:00] NVIDIA H20-3e
#  Rank  3 Group  0 Pid 173504 on  TENCENT64 device  3 [0000:2e:00] NVIDIA H20-3e
#  Rank  4 Group  0 Pid 173504 on  TENCENT64 device  4 [0000:84:00] NVIDIA H20-3e
#  Rank  5 Group  0 Pid 173504 on  TENCENT64 device  5 [0000:9c:00] NVIDIA H20-3e
#  Rank  6 Group  0 Pid 173504 on  TENCENT64 device  6 [0000:b6:00] NVIDIA H20-3e
#  Rank  7 Group  0 Pid 173504 on  TENCENT64 device  7 [0000:bb:00] NVIDIA H20-3e
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong           timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         %Y-%m-%d %H:%M:%S
           0             0     float    none      -1     5.58    0.00    0.00       0     5.57    0.00    0.00     N/A  2025-11-02 10:00:01
     1048576         32768     float    none      -1    58.14   18.04   15.78       0    57.87   18.12   15.85     N/A  2025-11-02 10:00:01
     2097152         65536     float    none      -1    58.94   35.58   31.14       0    58.10   36.10   31.58     N/A  2025-11-02 10:00:02
     4194304        131072     float    none      -1    59.35   70.67   61.84       0    59.23   70.81   61.96     N/A  2025-11-02 10:00:03
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 36.3567
#
# Collective test concluded: alltoall_perf
)";

TEST(NcclText, ReadsNewVersionsWithTimestampsAndPassesOverRowsThatMoveNothing) {
  const NcclRun run = only_run(kAllToAll);
  EXPECT_EQ(run.kind, MeasuredCollective::kAllToAll);
  EXPECT_EQ(run.ranks, 8);
  EXPECT_EQ(run.nodes, 1);
  EXPECT_EQ(run.software, "nccl-tests 2.19.6, NCCL 2.26.5");
  EXPECT_EQ(run.date, "2025-11-02");
  EXPECT_THAT(microseconds(run), ElementsAre(58.14, 58.94, 59.35));
}

// NVIDIA/nccl issue 644: columns of all_gather_perf before 2022, no Group, no name; the devices are
// not told there.
constexpr const char* kOldAllGather =
    R"(# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   9470 on       host device  0 [0x19] GPU
#   Rank  1 Pid   9470 on       host device  1 [0x1a] GPU
#   Rank  2 Pid   9470 on       host device  2 [0x1b] GPU
#   Rank  3 Pid   9470 on       host device  3 [0x1c] GPU
#   Rank  4 Pid   9470 on       host device  4 [0x1d] GPU
#   Rank  5 Pid   9470 on       host device  5 [0x1e] GPU
#   Rank  6 Pid   9470 on       host device  6 [0x1f] GPU
#   Rank  7 Pid   9470 on       host device  7 [0x20] GPU
NCCL version 2.10.3+cuda11.4
#
#                                             out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       65536          2048   float    52.01    1.26    1.10  0e+00    50.09    1.31    1.14  0e+00
     1048576         32768   float    162.1    6.47    5.66  0e+00    162.0    6.47    5.66  0e+00
   134217728       4194304   float    16059    8.36    7.31  0e+00    16111    8.33    7.29  0e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 4.69
)";

TEST(NcclText, ReadsOldVersionsAndTakesTheTestFromTheNameOfTheFile) {
  const NcclRun run = only_run(kOldAllGather, "runs/all_gather-8.log");
  EXPECT_EQ(run.kind, MeasuredCollective::kAllGather);
  EXPECT_EQ(run.ranks, 8);
  EXPECT_EQ(run.software, "NCCL 2.10.3");
  EXPECT_THAT(microseconds(run), ElementsAre(52.01, 162.1, 16059));
  EXPECT_EQ(why_not(kOldAllGather),
            "log.txt:1: expected the name of the test, as in \"# Collective test starting: "
            "all_reduce_perf\" or in the name of the file, got none");
  EXPECT_THAT(why_not(kOldAllGather, "all_reduce.log"), HasSubstr("expected size 8192 of 2048"));
}

// NVIDIA/nccl-tests issue 82, and the blank column of alltoall_perf of that time (issue 172 of
// microsoft/Tutel).
constexpr const char* kOldTable = R"($ mpirun -np 2 ./build/PROGRAM -b 8 -g 1
[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 10 iters: 100 validation: 0
[1,0]<stdout>:#
[1,0]<stdout>:#   Rank  0 Pid  14926 on v100-gpu-1 device  0 [0x00] Tesla V100-PCIE-16GB
[1,0]<stdout>:#   Rank  1 Pid   9210 on v100-gpu-5 device  0 [0x00] Tesla V100-PCIE-16GB
[1,0]<stdout>:
[1,0]<stdout>:v100-gpu-1:14926:14926 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
[1,0]<stdout>:NCCL version 2.9.6+cuda11.2
[1,0]<stdout>:#       size         count    type    COLUMN     time   algbw   busbw  error     time   algbw   busbw  error
[1,0]<stdout>:        1024           COUNT   float       CELL    45.82    0.02    BUSBW    N/A    38.17    0.03    0.03    N/A
[1,1]<stderr>:v100-gpu-5:9210:9210 [0] NCCL INFO Launch mode Parallel
[1,0]<stdout>:# Out of bounds values : 0 OK
[1,0]<stdout>:# Avg bus bandwidth    : 0.02
)";

NcclRun old_table(const std::string& program, const std::string& column, const std::string& cell,
                  const std::string& count, const std::string& busbw) {
  std::string text = replaced(kOldTable, "PROGRAM", program);
  text = replaced(replaced(text, "COLUMN", column), "CELL", cell);
  return only_run(replaced(replaced(text, "COUNT", count), "BUSBW", busbw));
}

TEST(NcclText, ReadsTheColumnsThatATestHasAndPassesOverOtherLinesAndLabels) {
  EXPECT_EQ(old_table("broadcast_perf", "root", "0", "256", "0.02").kind,
            MeasuredCollective::kBroadcast);
  EXPECT_EQ(old_table("reduce_perf", "redop    root", "sum    1", "256", "0.02").kind,
            MeasuredCollective::kReduce);
  const NcclRun run = old_table("alltoall_perf", "redop", "", "128", "0.01");
  EXPECT_EQ(run.kind, MeasuredCollective::kAllToAll);
  EXPECT_EQ(run.nodes, 2);
  EXPECT_THAT(microseconds(run), ElementsAre(45.82));
}

// NVIDIA/nccl-tests issue 214, as srun --label shows it.
TEST(NcclText, ReadsSendAndReceiveUnderLabelsOfSlurm) {
  const NcclRun run = only_run(R"( 0: # Collective test starting: sendrecv_perf
 0: # nThread 1 nGpus 1 minBytes 256 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
 0: #  Rank  0 Group  0 Pid 1478709 on      gpu23 device  0 [0x31] NVIDIA A40
 0: #  Rank  1 Group  0 Pid 1171742 on      gpu24 device  0 [0x31] NVIDIA A40
 0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
 0:          256            64     float     sum      -1    34.24    0.01    0.01      0    33.65    0.01    0.01    N/A
 0:         4096          1024     float     sum      -1    30.74    0.13    0.13      0    30.69    0.13    0.13    N/A
 0: # Out of bounds values : 0 OK
 0: # Avg bus bandwidth    : 0.07
)");
  EXPECT_EQ(run.program, "sendrecv_perf");
  EXPECT_FALSE(run.kind);
  EXPECT_EQ(run.nodes, 2);
  EXPECT_THAT(microseconds(run), ElementsAre(34.24, 30.74));
}

TEST(NcclText, ReadsOneTableAfterAnotherEachWithItsOwnName) {
  const std::vector<NcclRun> runs =
      parse_nccl_text(h100() + kAllToAll + "$ ./all_gather_perf\n" + kOldAllGather, "log.txt");
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].kind, MeasuredCollective::kAllReduce);
  EXPECT_EQ(runs[1].kind, MeasuredCollective::kAllToAll);
  EXPECT_EQ(runs[2].kind, MeasuredCollective::kAllGather);
  EXPECT_EQ(runs[2].ranks, 8);
  EXPECT_EQ(runs[2].software, "NCCL 2.10.3");
}

TEST(NcclText, ATestThatIsNamedAfterItsTableHasThatName) {
  const std::string text =
      replaced(h100(), "all_reduce_perf", "x") + "# Collective test concluded: all_reduce_perf\n";
  EXPECT_EQ(only_run(text).program, "all_reduce_perf");
}

TEST(NcclText, OutOfPlaceFiguresAloneSuffice) {
  std::string text = kOldAllGather;
  for (const char* in_place :
       {"     time   algbw   busbw  error\n", "    50.09    1.31    1.14  0e+00",
        "    162.0    6.47    5.66  0e+00", "    16111    8.33    7.29  0e+00"}) {
    const bool header = std::string(in_place).ends_with('\n');
    const std::size_t at = text.rfind(in_place);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(in_place).size(), header ? "\n" : "");
  }
  EXPECT_THAT(microseconds(only_run(text, "all_gather.txt")), ElementsAre(52.01, 162.1, 16059));
}

TEST(NcclText, OtherReductionsAndFormatsAreLeftOut) {
  const std::string row = "       16384          4096     float     sum      -1    138.6";
  EXPECT_EQ(only_run(replaced(h100(), row, replaced(row, "sum", "max"))).times.size(), 30u);
  std::string narrow = replaced(row, "  4096     float", " 16384      int8");
  const NcclRun run = only_run(replaced(h100(), row, narrow));
  EXPECT_EQ(run.times.size(), 30u);
  EXPECT_EQ(run.left_out, 1u);
  narrow = replaced(row, "  4096     float", "  8192  bfloat16");
  EXPECT_EQ(only_run(replaced(h100(), row, narrow)).times.size(), 31u);
}

TEST(NcclText, WhatIsCutOffIsRefused) {
  const std::string& text = h100();
  EXPECT_THAT(why_not(text.substr(0, text.find("# Out of"))),
              StartsWith("log.txt:56: expected the line \"# Avg bus bandwidth\" at the end of a "
                         "table, got none"));
  EXPECT_THAT(why_not(text.substr(0, text.find("     sum"))), HasSubstr("figures after the type"));
  EXPECT_THAT(why_not(text.substr(0, text.find("#  Rank  8"))), HasSubstr("# Avg bus bandwidth"));
  EXPECT_THAT(why_not(text.substr(text.find("#       size"))),
              HasSubstr("before the table, got none"));
  EXPECT_THAT(why_not(replaced(text, "  47535  180.71  338.82      0", "  47535  180.71")),
              StartsWith("log.txt:56: expected 8 figures after the type, got 6"));
}

TEST(NcclText, WhatDoesNotAddUpIsRefused) {
  EXPECT_THAT(with("1048576        262144     float     sum      -1    203.2    5.16",
                   "1048576        262144     float     sum      -1    203.2    5.26"),
              StartsWith("log.txt:43: expected algbw 5.16 of 1048576 bytes in 203.2 us, got 5.26"));
  EXPECT_THAT(with("5.16    9.68", "5.16    9.58"), HasSubstr("expected busbw 9.68 of 1048576"));
  EXPECT_THAT(
      with("1048576        262144     float     sum", "1048576        262143     float     sum"),
      HasSubstr("expected size 1048572 of 262143 times float for 16 ranks of "
                "all_reduce_perf, got 1048576"));
  EXPECT_THAT(with("all_reduce_perf", "reduce_scatter_perf"), HasSubstr("for 16 ranks"));
  EXPECT_THAT(with("all_reduce_perf", "reduce_perf"), HasSubstr("expected busbw"));
  EXPECT_THAT(with("    203.2 ", "      0.0 "), HasSubstr("expected a time above 0"));
  EXPECT_THAT(with("262144     float", "262144     flaot"), HasSubstr("got \"flaot\""));
}

TEST(NcclText, WrongResultsAreRefused) {
  EXPECT_THAT(with("9.68      0", "9.68      3"),
              StartsWith("log.txt:43: expected no wrong results, got #wrong 3"));
  EXPECT_THAT(with("9.68      0", "9.68     10"), HasSubstr("#wrong 10"));
  EXPECT_THAT(with("9.49      0", "9.49      1"), HasSubstr("#wrong 1")) << "in place as well";
  EXPECT_THAT(with("values : 0 OK", "values : 8 FAILED"),
              StartsWith("log.txt:57: expected \"Out of bounds values : 0 OK\", got"));
}

TEST(NcclText, RanksThatAreNotOneGroupAreRefused) {
  EXPECT_THAT(with("Rank  1 Group", "Rank  0 Group"),
              StartsWith("log.txt:7: expected rank 1 after 1 ranks, got rank 0: each process is on "
                         "its own where nccl-tests are built without MPI=1"));
  EXPECT_THAT(with("Rank  9 Group  0", "Rank  9 Group  1"), HasSubstr("got groups 0 and 1"));
  EXPECT_THAT(with("node-b", "node-c"), HasSubstr("as many ranks on each host"));
  EXPECT_THAT(with("nThread 1 nGpus 1", "nThread 1 nGpus 3"), HasSubstr("a multiple of 3 ranks"));
}

TEST(NcclText, OtherTestsAndHostTimesAreRefused) {
  EXPECT_THAT(with("all_reduce_perf", "hypercube_perf"), HasSubstr("got \"hypercube_perf\""));
  EXPECT_THAT(with("root     time", "root  cputime"),
              StartsWith("log.txt:24: expected column time, got cputime"));
}

}  // namespace
}  // namespace zplan
