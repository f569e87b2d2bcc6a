#include "exec/checkpoint/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/checkpoint/checksum.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

// The last lines are the text's checksum: as an editor would leave it after a change.
std::string resealed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t seal = text.find("\"xxh3\"");
  text.resize(seal);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return text + "\"xxh3\": \"" + checksum_text(checksum(text)) + "\"\n}\n";
}

Header header() {
  return {.step = 20,
          .samples = 160,
          .seed = ~std::uint64_t{0},
          .world = 4,
          .fingerprint = "0123",
          .loss_scale = SavedLossScale{65536, 3, 1, true},
          .validated = true,
          .plan = "{\n \"x\": \"\t\\\"\"}\n"};
}

RankIndex index() {
  Tensor tensor{.name = "h.3.w", .shape = {6, 4}, .offset = 8};
  tensor.split = {Split::Kind::kColumns, {2, 2}};
  RankIndex index{.step = 20, .rank = 3, .bytes = {12288}, .pieces = {}, .carried = {}};
  index.pieces.push_back({.at = {4096, 48, 5},
                          .state = State::kMoment2,
                          .dtype = DType::kF32,
                          .piece = 1,
                          .pieces = 2,
                          .first = 0,
                          .elements = 12,
                          .every = 1,
                          .tensors = {tensor}});
  index.carried.push_back({{8192, 24, 6}, "loss_scale"});
  index.choices = {{"4x8 \"f32\"", "tile 3"}, {"4x9", ""}};
  return index;
}

TEST(CheckpointFormat, ReadsBackWhatItWrites) {
  const Header read = header_from_text(to_text(header()), "x.json");
  EXPECT_EQ(to_text(read), to_text(header()));
  EXPECT_EQ(read.seed, ~std::uint64_t{0});
  EXPECT_EQ(read.plan, header().plan);
  EXPECT_TRUE(read.loss_scale->overflowed);
  EXPECT_TRUE(read.validated);
  const RankIndex again = index_from_text(to_text(index()), "y.json");
  EXPECT_EQ(to_text(again), to_text(index()));
  EXPECT_EQ(again.pieces[0].tensors[0].split, index().pieces[0].tensors[0].split);
  EXPECT_EQ(again.choices, index().choices);
}

TEST(CheckpointFormat, ReadsBackWholeTensorsOfExperts) {
  RankIndex written = index();
  written.pieces[0].tensors[0].split = {};
  written.pieces[0].tensors[0].blocks = 2;
  const std::string text = to_text(written);
  EXPECT_EQ(index_from_text(text, "y.json").pieces[0].tensors[0].blocks, 2);
  EXPECT_THROW(index_from_text(resealed(text, "[6, 4]", "[3, 3]"), "y.json"), Error);
}

TEST(CheckpointFormat, OneThatSaysNothingOfAValidationHasNone) {
  const std::string old = resealed(to_text(header()), "  \"validated\": true,\n", "");
  EXPECT_FALSE(header_from_text(old, "x.json").validated);
}

TEST(CheckpointFormat, AChangedByteIsNoticed) {
  const std::string text = to_text(header());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 2);
    EXPECT_THROW(header_from_text(other, "x.json"), Error) << i;
  }
  EXPECT_THROW(header_from_text(text.substr(0, text.size() - 1), "x.json"), Error);
  EXPECT_THROW(header_from_text("", "x.json"), Error);
}

TEST(CheckpointFormat, RefusesWhatNoRunWrites) {
  const std::string good = to_text(index());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"offset\": 4096", "\"offset\": 4097"},
           {"\"bytes\": 48", "\"bytes\": 47"},
           {"\"bytes\": 48", "\"bytes\": -48"},
           {"\"state\": \"moment2\"", "\"state\": \"moment9\""},
           {"\"dtype\": \"f32\"", "\"dtype\": \"i32\""},
           {"\"piece\": 1", "\"piece\": 2"},
           {"\"pieces\": 2", "\"pieces\": 3"},
           {"\"elements\": 12", "\"elements\": 13"},
           {"\"every\": 1", "\"every\": 0"},
           {"[6, 4]", "[6, 0]"},
           {"[6, 4]", "[999999999999, 999999999999]"},
           {"[2, 2]", "[2, 3]"},
           {"[2, 2]", "[1, 3]"},
           {"\"blocks\": 1", "\"blocks\": 5"},
           {"\"split\": \"columns\"", "\"split\": \"diagonals\""},
           {"\"rank\": 3", "\"rank\": -3"},
           {"checkpoint_rank/1", "checkpoint_rank/2"}})
    EXPECT_THROW(index_from_text(resealed(good, from, to), "y.json"), Error) << to;
  EXPECT_NO_THROW(index_from_text(resealed(good, "h.3.w", "h.4.w"), "y.json"));
}

// The published value of no bytes [xxHash].
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum_text(checksum(std::string_view())), "2d06800538d394c2");
}

}  // namespace
}  // namespace zplan::exec
