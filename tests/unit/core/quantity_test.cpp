// Quantities: text in, text out.
#include "planner/core/quantity.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(ParseBytes, KnowsPowersOf1000And1024) {
  EXPECT_EQ(parse_bytes("80 GiB"), Bytes{80LL << 30});
  EXPECT_EQ(parse_bytes("1.5 TB"), Bytes{1'500'000'000'000});
  EXPECT_EQ(parse_bytes("512B"), Bytes{512});
  EXPECT_EQ(parse_bytes("0.5 KiB"), Bytes{512});
  EXPECT_EQ(parse_bytes("1 kB"), Bytes{1000});
  EXPECT_EQ(parse_bytes("2 PiB"), Bytes{2LL << 50});
}

TEST(ParseBytes, IsExactForWholeByteCounts) {
  EXPECT_EQ(parse_bytes("34091302912 B"), Bytes{34'091'302'912});
  EXPECT_EQ(parse_bytes("9223372036854775807 B"), Bytes{INT64_MAX});
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"",
                           "80",
                           "GiB",
                           " 80 GiB",
                           "80 GiB ",
                           "80  GiB",
                           "-1 B",
                           "+1 B",
                           "1e3 B",
                           "80 gib",
                           "80 Gb",
                           "1. B",
                           ".5 B",
                           "1,5 B",
                           "80 GiB/s",
                           "nan B",
                           "inf B",
                           "9223372036854775808 B",
                           "9999999 PiB",
                           "0x10 B"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(ParseRate, KnowsBytesAndBits) {
  EXPECT_EQ(parse_bytes_per_second("3.35 TB/s"), BytesPerSecond{3.35e12});
  EXPECT_EQ(parse_bytes_per_second("100 Gbit/s"), BytesPerSecond{12.5e9});
  EXPECT_EQ(parse_bytes_per_second("800 Mbit/s"), BytesPerSecond{1e8});
  EXPECT_EQ(parse_bytes_per_second("1 GiB/s"), BytesPerSecond{1073741824.0});
  for (const char* text : {"100 Gb/s", "100 Gbit", "3 TB", "3", "/s", "3 /s"}) {
    EXPECT_EQ(parse_bytes_per_second(text), std::nullopt) << text;
  }
}

TEST(ParseRate, KnowsFlops) {
  EXPECT_EQ(parse_flops_per_second("125 TFLOP/s"), FlopsPerSecond{125e12});
  EXPECT_EQ(parse_flops_per_second("0.5 PFLOP/s"), FlopsPerSecond{0.5e15});
  for (const char* text : {"125 TFLOPS", "125 TFLOP", "125 tflop/s", "125"}) {
    EXPECT_EQ(parse_flops_per_second(text), std::nullopt) << text;
  }
}

TEST(ParseSeconds, KnowsFourUnits) {
  EXPECT_EQ(parse_seconds("6 us"), Seconds{6e-6});
  EXPECT_EQ(parse_seconds("2.5ms"), Seconds{2.5e-3});
  EXPECT_EQ(parse_seconds("3 ns"), Seconds{3e-9});
  EXPECT_EQ(parse_seconds("1 s"), Seconds{1});
  EXPECT_EQ(parse_seconds("1 min"), std::nullopt);
  EXPECT_EQ(parse_seconds("6"), std::nullopt);
}

TEST(ParseSeconds, RefusesValuesBeyondDouble) {
  EXPECT_EQ(parse_seconds(std::string(5000, '9').append(" s")), std::nullopt);
}

TEST(FormatBytes, PicksAPowerOf1024) {
  EXPECT_EQ(format_bytes({0}), "0 B");
  EXPECT_EQ(format_bytes({1023}), "1023 B");
  EXPECT_EQ(format_bytes({1024}), "1.00 KiB");
  EXPECT_EQ(format_bytes({34'091'302'912}), "31.75 GiB");
  EXPECT_EQ(format_bytes({(1LL << 30) - 1}), "1.00 GiB");
  EXPECT_EQ(format_bytes({3LL << 40}), "3.00 TiB");
  EXPECT_EQ(format_bytes({-2048}), "-2.00 KiB");
}

TEST(Quantity, SizesThatAreHeldAgainstEachOtherDiffer) {
  using Pair = std::pair<std::string, std::string>;
  constexpr std::int64_t kSize = 23'149'989'888;  // 21.56 GiB
  EXPECT_EQ(format_apart({3LL << 30}, {2LL << 30}), Pair("3.00 GiB", "2.00 GiB"));
  EXPECT_EQ(format_apart({kSize + (1 << 20)}, {kSize}), Pair("21.561 GiB", "21.560 GiB"));
  EXPECT_EQ(format_apart({kSize + 4096}, {kSize}), Pair("21.560112 GiB", "21.560108 GiB"));
  EXPECT_EQ(format_apart({kSize + 1}, {kSize}), Pair("23149989889 B", "23149989888 B"));
  EXPECT_EQ(format_apart({kSize}, {kSize}), Pair("21.56 GiB", "21.56 GiB"));
}

TEST(FormatSeconds, PicksAUnit) {
  EXPECT_EQ(format_seconds({0}), "0 s");
  EXPECT_EQ(format_seconds({2138.4}), "2138 s");
  EXPECT_EQ(format_seconds({2.138}), "2.14 s");
  EXPECT_EQ(format_seconds({0.99999}), "1.00 s");
  EXPECT_EQ(format_seconds({3.1e-3}), "3.10 ms");
  EXPECT_EQ(format_seconds({25e-6}), "25.0 us");
  EXPECT_EQ(format_seconds({850e-9}), "850 ns");
}

TEST(FormatCount, KeepsThreeDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(512), "512");
  EXPECT_EQ(format_count(2.5), "2.50");
  EXPECT_EQ(format_count(124'439'808), "124M");
  EXPECT_EQ(format_count(10'279'047'168.0), "10.3B");
  EXPECT_EQ(format_count(1.03e12), "1.03T");
  EXPECT_EQ(format_count(999'999), "1.00M");
}

TEST(FormatRate, UsesPowersOf1000) {
  EXPECT_EQ(format_rate(BytesPerSecond{3.35e12}), "3.35 TB/s");
  EXPECT_EQ(format_rate(BytesPerSecond{12.5e9}), "12.5 GB/s");
  EXPECT_EQ(format_rate(FlopsPerSecond{125e12}), "125 TFLOP/s");
  EXPECT_EQ(format_rate(FlopsPerSecond{25e15}), "25.0 PFLOP/s");
}

}  // namespace
}  // namespace zplan
