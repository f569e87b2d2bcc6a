#include "hwprofiles/csv_table.h"

#include <gtest/gtest.h>

#include "hwprofiles/embedded_tables.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

TEST(CsvTable, GivesFieldsByColumnName) {
  const CsvTable table("m,time_us\n16,2.5\r\n32,3\n", "t.csv");
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.number(0, table.column("time_us")), 2.5);
  EXPECT_EQ(table.text(1, table.column("m")), "32");
}

TEST(CsvTable, NamesTheLineOfABrokenRow) {
  EXPECT_EQ(testing_support::message_of([] { CsvTable("a,b\n1,2\n3\n", "t.csv"); }),
            "t.csv:3: expected 2 fields, got 1");
  const CsvTable table("a,b\n1,x\n", "t.csv");
  EXPECT_EQ(testing_support::message_of([&] { table.number(0, 1); }),
            "t.csv:2: b: expected a number, got \"x\"");
  EXPECT_EQ(testing_support::message_of([&] { table.column("c"); }),
            "t.csv:1: expected a column \"c\", got none");
}

TEST(CsvTable, AllBuiltInTablesAreWellFormed) {
  EXPECT_GE(embedded_tables().size(), 30u);
  for (const EmbeddedFile& file : embedded_tables()) {
    const CsvTable table(file.text, std::string(file.name));
    EXPECT_GT(table.rows(), 0u) << file.name;
  }
  EXPECT_TRUE(find_table("gemm_a100_sxm"));
  EXPECT_FALSE(find_table("gemm_none"));
}

}  // namespace
}  // namespace zplan
