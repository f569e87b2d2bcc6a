#include "planner/foreign/frameworks/key_place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/core/json_edit.h"
#include "planner/foreign/syntax/command_line.h"

namespace zplan {
namespace {

JsonNode file(const std::string& text) { return parse_json(text, "ds.json"); }
JsonNode command(const std::string& text) { return parse_command_line(text, "run.sh").root; }

TEST(KeyPlace, IsWhereAKeyStands) {
  const KeyPlace at =
      find_place(file(R"({"zero_optimization": {"stage": 2}})"), "zero_optimization.stage");
  ASSERT_TRUE(at.value);
  EXPECT_EQ(at.value->location(), "ds.json:1:33");
}

TEST(KeyPlace, IsTheInnermostObjectWhereAKeyWouldBeAdded) {
  const JsonNode root = file(R"({"zero_optimization": {"stage": 2}, "bf16": null})");
  const KeyPlace at = find_place(root, "zero_optimization.offload_param.device");
  EXPECT_FALSE(at.value);
  EXPECT_EQ(at.path, "zero_optimization");
  EXPECT_EQ(at.key, "offload_param.device");
  EXPECT_EQ(at.object.location(), "ds.json:1:23");
  for (const char* key : {"gradient_clipping", "bf16.enabled"}) {
    const KeyPlace top = find_place(root, key);
    EXPECT_FALSE(top.value);
    EXPECT_EQ(top.path, "");
    EXPECT_EQ(top.key, key);
  }
}

TEST(KeyPlace, OfACommandIsAnOption) {
  const JsonNode root = command("TP=2\ntorchrun run.py --tp-size $TP --a.b_c 3\n");
  EXPECT_EQ(find_place(root, "--tp-size").value->location(), "run.sh:1:4");
  const KeyPlace dotted = find_place(root, "a.b-c");
  EXPECT_EQ(dotted.value->integer(0, 9), 3);
  EXPECT_EQ(dotted.key, "--a.b_c");
  const KeyPlace absent = find_place(root, "bf16");
  EXPECT_FALSE(absent.value);
  EXPECT_TRUE(absent.in_command);
  EXPECT_EQ(absent.key, "--bf16");
  EXPECT_EQ(absent.object.location(), "run.sh:2:1");
}

TEST(KeyPlace, IsInAFileThatIsNamed) {
  const auto path = std::filesystem::temp_directory_path() / "zplan_key_place_ds.json";
  std::ofstream(path) << R"({"zero_optimization": {"stage": 2}})";
  const std::string named = json_string(path.string());
  for (const JsonNode& root : {file(R"({"deepspeed": )" + named + "}"),
                               command("run.py --deepspeed " + path.string() + "\n")}) {
    const KeyPlace at = find_place(root, "deepspeed.zero_optimization.stage");
    ASSERT_TRUE(at.value);
    EXPECT_EQ(at.value->location(), path.string() + ":1:33");
    const KeyPlace absent = find_place(root, "deepspeed.zero_optimization.overlap_comm");
    EXPECT_EQ(absent.path, "zero_optimization");
    EXPECT_FALSE(absent.in_command);
    // With the file in its place the key is edited there.
    const JsonNode edited =
        with_key(with_named_file(root), "deepspeed.zero_optimization.stage", "3");
    EXPECT_NE(json_text(edited).find(R"("stage": 3)"), std::string::npos) << json_text(edited);
  }
  std::filesystem::remove(path);
}

TEST(KeyPlace, KeysAreSetAndTakenAway) {
  const JsonNode root = file(R"({"a": {"b": 1, "c": 2}})");
  EXPECT_EQ(json_text(with_key(root, "a.b", "3")), json_text(file(R"({"a": {"b": 3, "c": 2}})")));
  EXPECT_EQ(json_text(with_key(root, "a.b", "")), json_text(file(R"({"a": {"c": 2}})")));
  EXPECT_EQ(json_text(with_key(root, "d.e", "\"x\"")),
            json_text(file(R"({"a": {"b": 1, "c": 2}, "d": {"e": "x"}})")));
  const JsonNode line = command("run.py --tp 2 --bf16\n");
  EXPECT_EQ(find_place(with_key(line, "--tp", "4"), "--tp").value->integer(0, 9), 4);
  EXPECT_FALSE(find_place(with_key(line, "--bf16", ""), "--bf16").value);
  EXPECT_TRUE(find_place(with_key(line, "fp16", "true"), "--fp16").value->boolean());
}

TEST(KeyPlace, OptionsInYamlAreBelowTheirName) {
  const JsonNode root = file(R"({"MODEL_ARGS": {"--num-layers": 2}, "ENV_VARS": {}})");
  EXPECT_EQ(find_place(root, "--num-layers").value->integer(0, 9), 2);
  EXPECT_EQ(find_place(with_key(root, "--bf16", "true"), "--bf16").value->boolean(), true);
}

}  // namespace
}  // namespace zplan
