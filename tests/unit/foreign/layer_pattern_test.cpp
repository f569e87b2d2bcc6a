#include "planner/foreign/frameworks/layer_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace zplan {
namespace {

std::string pattern(std::string_view text, std::size_t most = 64) {
  const auto layers = layer_pattern(text, most);
  if (!layers) return "none";
  std::string out;
  for (const bool layer : *layers) out += layer ? '1' : '0';
  return out;
}

TEST(LayerPattern, IsWhatPythonMakesOfIt) {
  EXPECT_EQ(pattern("([0]*3+[1]*5)"), "00011111");
  EXPECT_EQ(pattern("[0]*1+[1]*2"), "011");
  EXPECT_EQ(pattern("([0,1]*3)"), "010101");
  EXPECT_EQ(pattern("([1]*2 + [0]) * 2"), "110110");
  EXPECT_EQ(pattern("[]*9"), "");
}

TEST(LayerPattern, OtherWordsAreNone) {
  for (const char* text : {"", "2", "[2]", "[0", "([1]*3", "[1]*", "[1]*x", "[1]*-1", "[1] [1]",
                           "[1]*99999999999999999999", "[1]+", "((((((((((((([1])))))))))))))"})
    EXPECT_EQ(pattern(text), "none") << text;
}

TEST(LayerPattern, NoMoreLayersThanThereAre) {
  EXPECT_EQ(pattern("[1]*4", 4), "1111");
  EXPECT_EQ(pattern("[1]*5", 4), "none");
  EXPECT_EQ(pattern("[1]*3+[1]*2", 4), "none");
  EXPECT_EQ(pattern("[]*4000000000", 4), "");
}

}  // namespace
}  // namespace zplan
