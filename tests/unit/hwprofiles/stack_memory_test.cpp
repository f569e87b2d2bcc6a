#include "hwprofiles/stack_memory.h"

#include <gtest/gtest.h>

#include <set>

#include "hwprofiles/memory_quantity.h"
#include "hwprofiles/stack.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

std::string with(const std::string& memory) {
  return R"({"schema": "zplan.stack/1", "name": "x", "description": "d", "software": [],
"fused": false, "rates": {}, "memory": )" +
         memory + "}";
}

StackMemory read(const std::string& memory) { return parse_stack(with(memory), "x.json").memory; }

TEST(StackMemory, ReadsSizesAndNumbersByCapability) {
  const StackMemory memory = read(R"({
"libraries": {"value": {"80": "4 MiB", "90": "32 MiB"}, "uncertainty": 0.1, "source": "measured",
              "ref": "r"},
"loss": {"value": 4, "uncertainty": 0, "source": "assumed", "ref": "r"}})");
  EXPECT_TRUE(memory.given);
  EXPECT_EQ(memory.at(MemoryQuantity::kLibraries, 70), 0);
  EXPECT_EQ(memory.at(MemoryQuantity::kLibraries, 80), 4 << 20);
  EXPECT_EQ(memory.at(MemoryQuantity::kLibraries, 89), 4 << 20);
  EXPECT_EQ(memory.at(MemoryQuantity::kLibraries, 100), 32 << 20);
  EXPECT_EQ(memory[MemoryQuantity::kLibraries].uncertainty, 0.1);
  EXPECT_EQ(memory.at(MemoryQuantity::kLoss, 0), 4);
  EXPECT_FALSE(memory.has(MemoryQuantity::kBuckets));
  EXPECT_EQ(memory.at(MemoryQuantity::kBuckets, 90), 0);
}

TEST(StackMemory, IsNotGivenWhereTheFileHasNone) {
  EXPECT_FALSE(load_stack("own").memory.given);
  EXPECT_TRUE(read("{}").given);
}

TEST(StackMemory, RefusesUnknownQuantitiesAndValuesWithoutUncertainty) {
  EXPECT_EQ(message_of([] { read(R"({"los": {}})"); }),
            "x.json:2:41: /memory/los: expected key \"loss\", got unknown key \"los\"");
  const std::string bare = R"({"loss": {"value": 4, "source": "assumed", "ref": "r"}})";
  EXPECT_NE(message_of([&] { read(bare); }).find("\"uncertainty\""), std::string::npos);
  const std::string number =
      R"({"libraries": {"value": 4, "uncertainty": 0, "source": "assumed", "ref": "r"}})";
  EXPECT_NE(message_of([&] { read(number); }).find("/memory/libraries/value"), std::string::npos);
  const std::string order =
      R"({"loss": {"value": {"90": 1, "80": 2}, "uncertainty": 0, "source": "assumed", "ref": "r"}})";
  EXPECT_NE(message_of([&] { read(order); }).find("ascending"), std::string::npos);
}

TEST(StackMemory, EveryQuantityStandsOnceInItsPlace) {
  std::set<std::string_view> names;
  std::size_t place = 0;
  for (const MemoryQuantityRow& row : memory_quantities()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(static_cast<std::size_t>(row.quantity), place++) << row.name;
  }
  EXPECT_EQ(names.size(), kMemoryQuantityCount);
}

}  // namespace
}  // namespace zplan
