#include "planner/foreign/hugging_face/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "models/model_formulas.h"
#include "planner/foreign/hugging_face/weights.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

std::string with_length(const std::string& header) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header;
}

std::string tensor(const std::string& name, const std::string& type, const std::string& shape,
                   std::int64_t begin, std::int64_t end) {
  return "\"" + name + R"(": {"dtype": ")" + type + R"(", "shape": [)" + shape +
         R"(], "data_offsets": [)" + std::to_string(begin) + ", " + std::to_string(end) + "]}";
}

// Of a file that ends `data` bytes behind its header.
std::string refused(const std::string& header, std::int64_t data) {
  const std::string start = with_length(header);
  return refusal([&] { parse_safetensors(start, std::ssize(start) + data, "m.safetensors"); });
}

TEST(Safetensors, ReadsTheHeaderAlone) {
  const std::string start = with_length(
      "{" + tensor("b", "F32", "2", 12, 20) + ", " + tensor("a", "BF16", "2, 3", 0, 12) + ", " +
      tensor("none", "F16", "0, 4", 20, 20) + R"(, "__metadata__": {"format": "pt"}})");
  const auto tensors = parse_safetensors(start, std::ssize(start) + 20, "m.safetensors");
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].elements, 6);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[1].type, "F32");
  EXPECT_EQ(tensors[2].elements, 0);
}

TEST(Safetensors, RefusesLengthsThatCannotBe) {
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  EXPECT_THAT(refusal([&] { parse_safetensors(huge, 8, "m"); }),
              HasSubstr("m: expected a header of at most 0 bytes, got 9223372036854775807"));
  EXPECT_THAT(refusal([&] { parse_safetensors(huge, std::int64_t{1} << 40, "m"); }),
              HasSubstr("at most 100000000 bytes"));
  EXPECT_THAT(refusal([&] { parse_safetensors("abc", 3, "m"); }), HasSubstr("a file of 3"));
  EXPECT_THAT(refused("[]", 0), HasSubstr("a JSON object"));
}

TEST(Safetensors, RefusesDataThatAreNotThere) {
  EXPECT_THAT(refused("{" + tensor("a", "F32", "2", 0, 8) + "}", 4),
              HasSubstr("/a/data_offsets: expected offsets in order and up to 4"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "2", 8, 0) + "}", 8), HasSubstr("in order"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "3", 0, 8) + "}", 8),
              HasSubstr("/a/data_offsets: expected the 12 bytes of the shape, got 8"));
  EXPECT_THAT(
      refused("{" + tensor("a", "F32", "2", 0, 8) + ", " + tensor("b", "F32", "2", 4, 12) + "}",
              12),
      HasSubstr("\"b\": expected data from byte 8 on"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "2", 4, 12) + "}", 12), HasSubstr("from byte 0 on"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "2", 0, 8) + "}", 9),
              HasSubstr("up to the end of the file, 9"));
}

TEST(Safetensors, RefusesTypesAndShapesThatCannotBe) {
  EXPECT_THAT(refused("{" + tensor("a", "F33", "2", 0, 8) + "}", 8),
              HasSubstr("m.safetensors:1:17: /a/dtype: expected one of"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "4294967296, 4294967296", 0, 8) + "}", 8),
              HasSubstr("/a/shape: expected at most 2^50 elements"));
  EXPECT_THAT(refused("{" + tensor("a", "F32", "-1", 0, 8) + "}", 8), HasSubstr("/a/shape/0"));
}

// A model of two layers and the weights that it would have.
class Weights : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    model_.layers = 2;
    model_.hidden = 4;
    model_.heads = model_.kv_heads = 2;
    model_.ffn = 8;
    model_.vocab = 10;
    model_.sequence = 6;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // One tensor of each layer has all of it, another one what is outside.
  std::string header(std::int64_t more_of_last) const {
    const std::int64_t layer = layer_parameter_count(model_);
    const std::int64_t rest = parameter_count(model_) - 2 * layer;
    std::string text = "{";
    std::int64_t at = 0;
    const auto add = [&](const std::string& name, std::int64_t elements) {
      text += (at == 0 ? "" : ", ") +
              tensor(name, "BF16", std::to_string(elements), at, at + 2 * elements);
      at += 2 * elements;
    };
    add("wte.weight", rest);
    add("h.0.all.weight", layer);
    add("h.1.all.weight", layer);
    if (more_of_last > 0) add("h.1.bias", more_of_last);
    return text + "}";
  }
  void write(const std::string& name, const std::string& header, std::int64_t data) {
    const std::string start = with_length(header);
    std::ofstream(folder_ / name, std::ios::binary) << start;
    fs::resize_file(folder_ / name, start.size() + static_cast<std::size_t>(data));
  }
  void write_text(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  std::int64_t bytes(std::int64_t more = 0) const { return 2 * (parameter_count(model_) + more); }

  fs::path folder_;
  ModelConfig model_;
};

TEST_F(Weights, AreComparedWithTheParametersCounted) {
  EXPECT_FALSE(read_weights(folder_, model_));
  write("model.safetensors", header(0), bytes());
  const StoredWeights weights = read_weights(folder_, model_).value();
  EXPECT_EQ(weights.parameters, parameter_count(model_));
  EXPECT_EQ(weights.tensors, 3);
  EXPECT_EQ(weights.types, "BF16");
  EXPECT_THAT(weights.differences, IsEmpty());
}

TEST_F(Weights, NameWhatDoesNotAddUp) {
  write("model.safetensors", header(7), bytes(7));
  EXPECT_THAT(read_weights(folder_, model_)->differences,
              ElementsAre(HasSubstr(": +7"), HasSubstr("h.*.bias is in 1 of 2 layers")));
}

TEST_F(Weights, SetBuffersAndCopiesAndLayersBehindTheLastApart) {
  std::string text = header(0);
  std::int64_t at = bytes();
  text.pop_back();
  for (const auto& [name, shape] : {std::pair{"h.0.attn.bias", "1, 1, 2, 2"},
                                    {"lm_head.weight", "4"},
                                    {"h.2.all.weight", "4"}}) {
    text += ", " + tensor(name, "F32", shape, at, at + 16);
    at += 16;
  }
  write("model.safetensors", text + "}", at);
  const StoredWeights weights = read_weights(folder_, model_).value();
  EXPECT_EQ(weights.apart, 12);
  EXPECT_EQ(weights.types, "BF16, F32");
  EXPECT_THAT(weights.differences, IsEmpty());
}

TEST_F(Weights, OfShardsGoTogetherWithTheirIndex) {
  const std::string index = R"({"metadata": {"total_size": SIZE}, "weight_map": {
      "wte.weight": "a.safetensors", "h.0.all.weight": "a.safetensors",
      "h.1.all.weight": "a.safetensors"}})";
  const auto sized = [&](std::int64_t size) {
    return replaced(index, "SIZE", std::to_string(size));
  };
  write_text("model.safetensors.index.json", sized(bytes()));
  EXPECT_FALSE(read_weights(folder_, model_)->headers) << "the shard is elsewhere";
  EXPECT_EQ(read_weights(folder_, model_)->bytes, bytes());
  write("a.safetensors", header(0), bytes());
  EXPECT_THAT(read_weights(folder_, model_)->differences, IsEmpty());
  write_text("model.safetensors.index.json", sized(bytes() + 1));
  EXPECT_THAT(read_weights(folder_, model_)->differences, ElementsAre(HasSubstr("total_size")));
  write_text("model.safetensors.index.json",
             R"({"weight_map": {"wte.weight": "a.safetensors", "other": "a.safetensors"}})");
  EXPECT_THAT(refusal([&] { read_weights(folder_, model_); }), HasSubstr("expected \"other\""));
  write_text("model.safetensors.index.json", R"({"weight_map": {"wte.weight": "a.safetensors"}})");
  EXPECT_THAT(refusal([&] { read_weights(folder_, model_); }), HasSubstr("got \"h.0.all.weight\""));
  write_text("model.safetensors.index.json", R"({"weight_map": {"a": "../a.safetensors"}})");
  EXPECT_THAT(refusal([&] { read_weights(folder_, model_); }),
              HasSubstr("/weight_map/a: expected the name of a file beside this one"));
}

}  // namespace
}  // namespace zplan
