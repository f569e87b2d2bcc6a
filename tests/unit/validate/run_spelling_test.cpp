#include "planner/validate/run_spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/validate/record_plan.h"
#include "planner/validate/run_form.h"
#include "tests/unit/validate/second_form.h"

namespace zplan {
namespace {

using testing::HasSubstr;

std::string read_as(const char* pointer, const char* word, const char* quantity = nullptr) {
  Json record = with(base(), {{pointer, word}});
  if (quantity != nullptr) record[Json::json_pointer("/precision/compute")] = quantity;
  const auto run = read(record);
  return run ? said(*run, pointer) : complaint(record);
}

TEST(RunSpelling, WordsAreReadAsPeopleAndSoftwareWriteThem) {
  for (const char* word : {"AdamW", "Adam", "FusedAdam", "adamw_torch", "adamw_torch_fused",
                           "distributed_fused_adam", "DeepSpeedCPUAdam"})
    EXPECT_EQ(read_as("/optimizer/kind", word), "\"adamw\"") << word;
  for (const char* word : {"adamw_8bit", "adamw8bit", "paged_adamw_8bit", "adamw_bnb_8bit"})
    EXPECT_EQ(read_as("/optimizer/kind", word), "\"adamw-8bit\"") << word;
  for (const char* word : {"BF16", "bfloat16"})
    EXPECT_EQ(read_as("/precision/compute", word), "\"bf16\"") << word;
  EXPECT_EQ(read_as("/model/norm", "RMSNorm"), "\"rmsnorm\"");
  EXPECT_EQ(read_as("/model/position", "RoPE"), "\"rope\"");
  EXPECT_EQ(read_as("/pipeline/schedule", "GPipe"), "\"gpipe\"");
  EXPECT_EQ(read_as("/kernels/attention", "FlashAttention-3"), "\"flash_3\"");
  for (const char* word : {"Float8BlockScaling", "Blockwise", "1x128"})
    EXPECT_EQ(read_as("/precision/fp8/recipe", word, "fp8"), "\"blockwise\"") << word;
  EXPECT_EQ(read_as("/precision/fp8/recipe", "MXFP8BlockScaling", "fp8"), "\"mxfp8\"");
}

TEST(RunSpelling, AnUnknownWordIsRefusedWithThoseThatAreKnown) {
  EXPECT_THAT(read_as("/precision/fp8/recipe", "banana", "fp8"), HasSubstr("tensorwise"));
  EXPECT_EQ(read_as("/optimizer/kind", "Lion"), "\"Lion\"") << "refused by name when planned";
}

// No two words of a row are told apart by case and punctuation alone, and what a spelling is read
// as is a word of the row.
TEST(RunSpelling, OfEachRowLeadsToOneWord) {
  for (const RunKey& key : run_keys()) {
    std::set<std::string> seen;
    for (const std::string& word : parts_of(key.words))
      EXPECT_TRUE(seen.insert(folded(word)).second) << key.pointer << ": " << word;
    for (const std::string& part : parts_of(key.spellings)) {
      const std::string spelling = part.substr(0, part.find('='));
      EXPECT_TRUE(seen.insert(folded(spelling)).second) << key.pointer << ": " << spelling;
      const auto word = known_word(key, spelling);
      ASSERT_TRUE(word) << key.pointer << ": " << spelling;
      EXPECT_EQ(known_word(key, *word), word) << key.pointer << ": " << spelling;
    }
  }
}

}  // namespace
}  // namespace zplan
