#include "planner/program/job/names.h"

#include <gtest/gtest.h>

#include <set>

namespace zplan {
namespace {

template <typename Enum>
void expect_words(int count) {
  std::set<std::string_view> seen;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    EXPECT_TRUE(seen.insert(name(value)).second) << name(value);
    EXPECT_EQ(parse_name<Enum>(name(value)), value);
  }
  EXPECT_EQ(parse_name<Enum>("nonsense"), std::nullopt);
  EXPECT_EQ(parse_name<Enum>(""), std::nullopt);
}

TEST(Names, AreDistinctAndReadBack) {
  expect_words<DType>(kDTypeCount);
  expect_words<Tier>(kTierCount);
  expect_words<Category>(kCategoryCount);
  expect_words<Lane>(kLaneCount);
  expect_words<Access>(4);
  expect_words<Phase>(6);
  expect_words<Part>(20);
  expect_words<Action>(15);
  expect_words<KernelId>(kKernelCount);
  expect_words<CollectiveKind>(5);
  expect_words<Match>(3);
  expect_words<Var>(3);
  expect_words<Init>(3);
}

TEST(Names, SpellTheFirstAndTheLastOfEachLongList) {
  EXPECT_EQ(name(Lane::kCommGather), "comm_gather");
  EXPECT_EQ(name(Category::kInput), "input");
  EXPECT_EQ(name(Part::kGradientNorm), "gradient_norm");
  EXPECT_EQ(name(Action::kReport), "report");
  EXPECT_EQ(name(KernelId::kLoadBatch), "load_batch");
  EXPECT_EQ(name(KernelId::kAdamW), "adamw");
  EXPECT_EQ(all_names<Tier>(), "gpu, cpu or nvme");
}

TEST(Names, KnowTheSizeOfEachType) {
  EXPECT_EQ(size_of(DType::kF64), Bytes{8});
  EXPECT_EQ(size_of(DType::kF32), Bytes{4});
  EXPECT_EQ(size_of(DType::kI32), Bytes{4});
  EXPECT_EQ(size_of(DType::kF16), Bytes{2});
  EXPECT_EQ(size_of(DType::kBf16), Bytes{2});
  EXPECT_EQ(size_of(DType::kU8), Bytes{1});
}

TEST(Role, ReadsBack) {
  const Role role{Phase::kForward, Part::kQkv, Action::kCompute};
  EXPECT_EQ(name(role), "forward.qkv.compute");
  EXPECT_EQ(parse_role("forward.qkv.compute"), role);
  for (const char* wrong : {"", "forward", "forward.qkv", "forward.qkv.", "forward.qkv.compute.x",
                            "qkv.forward.compute"}) {
    EXPECT_EQ(parse_role(wrong), std::nullopt) << wrong;
  }
}

TEST(OpName, ReadsBack) {
  const Role role{Phase::kEnd, Part::kGradientNorm, Action::kReport};
  const OpId id = op_id(role, {.micro = 0xfffff, .layer = 0xffff});
  EXPECT_EQ(op_name(id), "end.gradient_norm.report[m1048575,l65535]");
  const OpId tile = op_id(role, {.micro = 1, .layer = 2, .tile = 0xff});
  EXPECT_EQ(op_name(tile), "end.gradient_norm.report[m1,l2,t255]");
  EXPECT_EQ(parse_op_name(op_name(tile)), tile);
  EXPECT_EQ(parse_op_name(op_name(id)), id);
  EXPECT_EQ(op_name(0), "begin.batch.compute[m0,l0]");
  for (const char* wrong :
       {"", "begin.batch.compute", "begin.batch.compute[m0]", "begin.batch.compute[m0,l0",
        "begin.batch.compute[m0,l65536]", "begin.batch.compute[m1048576,l0]",
        "begin.batch.compute[m0,l0,t256]", "begin.batch.compute[m-1,l0]",
        "begin.batch.compute[m0,l0]x", "begin.batch.compute[m0,l0,t]"}) {
    EXPECT_EQ(parse_op_name(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace zplan
