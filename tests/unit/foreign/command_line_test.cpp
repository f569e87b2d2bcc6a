#include <gtest/gtest.h>

#include <string>

#include "planner/core/error.h"
#include "planner/foreign/syntax/command_line.h"
#include "planner/foreign/syntax/shell_arithmetic.h"

namespace zplan {
namespace {

JsonNode at(const JsonNode& root, std::initializer_list<std::string_view> path) {
  JsonNode node = root;
  for (const std::string_view key : path) node = JsonObject(node).member(key);
  return node;
}

std::string error_of(const auto& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ShellArithmetic, CountsAsAShellDoes) {
  EXPECT_EQ(shell_arithmetic("2 * (3 + 4) - 10 / 3"), 11);
  EXPECT_EQ(shell_arithmetic("-7 % 4"), -3);
  EXPECT_EQ(shell_arithmetic("1 / 0"), std::nullopt);
  EXPECT_EQ(shell_arithmetic("9223372036854775807 + 1"), std::nullopt);
  EXPECT_EQ(shell_arithmetic("N * 2"), std::nullopt);
}

constexpr const char* kScript = R"(#!/bin/bash
# Runs a model
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
MODEL_ARGS="
    --num-layers 24
    --hidden-size 2048 \
    --bf16
"
if [ -n "$DATA" ]; then
  EXTRA_ARGS="--split 949,50,1"
else
  EXTRA_ARGS="--mock-data"
fi
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS} $EXTRA_ARGS --global-batch-size $((WORLD_SIZE * 2)) \
    --betas 0.9 0.95 --lr=1e-4 --data-path $DATA_PATH
)";

TEST(CommandLine, VariablesAndArraysStandForTheirWords) {
  const CommandLine line = parse_command_line(kScript, "run.sh");
  EXPECT_EQ(at(line.root, {"launcher", "--nproc_per_node"}).integer(1, 99), 8);
  EXPECT_EQ(at(line.root, {"launcher", "--nnodes"}).integer(1, 99), 4);
  EXPECT_EQ(at(line.root, {"script"}).string(), "pretrain_gpt.py");
  EXPECT_EQ(at(line.root, {"arguments", "--num-layers"}).integer(1, 99), 24);
  EXPECT_TRUE(at(line.root, {"arguments", "--bf16"}).boolean());
  EXPECT_EQ(at(line.root, {"arguments", "--global-batch-size"}).integer(1, 99), 64);
  EXPECT_EQ(at(line.root, {"arguments", "--betas"}).items().size(), 2U);
  EXPECT_EQ(at(line.root, {"arguments", "--lr"}).number(0, 1), 1e-4);
}

TEST(CommandLine, TheFirstBranchIsTakenAndSaid) {
  const CommandLine line = parse_command_line(kScript, "run.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--split"}).string(), "949,50,1");
  ASSERT_EQ(line.assumed.size(), 1U);
  EXPECT_EQ(line.assumed[0], "run.sh:16:1");
}

TEST(CommandLine, WhatIsNotKnownStaysAsItIsWritten) {
  const CommandLine line = parse_command_line(kScript, "run.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--data-path"}).string(), "$DATA_PATH");
}

TEST(CommandLine, PlacesAreWhereAWordStands) {
  const CommandLine line = parse_command_line(kScript, "run.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--hidden-size"}).location(), "run.sh:13:19");
}

TEST(CommandLine, ArgumentsAloneAreACommand) {
  const CommandLine line = parse_command_line("--num-layers 2\n--no-bias\n", "args");
  EXPECT_TRUE(at(line.root, {"arguments", "--no-bias"}).boolean());
  EXPECT_EQ(at(line.root, {"arguments", "--num-layers"}).integer(1, 9), 2);
  EXPECT_EQ(error_of([] { parse_command_line("echo hello\n", "a.sh"); }),
            "a.sh:1:1: /: expected a command with options, \"--..\"");
}

// What a command prints is not known; its options are not the run's.
TEST(CommandLine, WhatIsSubstitutedStaysOneWord) {
  const CommandLine line = parse_command_line(
      "GPUS=$(nvidia-smi --query-gpu=name | wc -l)\nDP=$(( ${GPUS} / 2 ))\n"
      "run.py --gpus $GPUS --replicas $DP `date --utc` --bf16\n",
      "run.sh");
  EXPECT_EQ(at(line.root, {"arguments"}).members().size(), 3U);
  EXPECT_EQ(at(line.root, {"arguments", "--gpus"}).string(),
            "$(nvidia-smi --query-gpu=name | wc -l)");
  EXPECT_EQ(at(line.root, {"arguments", "--replicas"}).string(), "$(( ${GPUS} / 2 ))");
  EXPECT_TRUE(at(line.root, {"arguments", "--bf16"}).boolean());
}

TEST(CommandLine, VariablesThatAreNotSetAreNoFurtherValues) {
  const CommandLine line =
      parse_command_line("run.py --layers 2 $MORE --data $DATA ${OTHER} --bf16 $REST\n", "run.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--layers"}).integer(1, 9), 2);
  EXPECT_EQ(at(line.root, {"arguments", "--data"}).string(), "$DATA");
  ASSERT_EQ(line.unknown.size(), 2U);
  EXPECT_EQ(line.unknown[0].text, "$MORE");
  EXPECT_EQ(line.unknown[1].place, "run.sh:1:38");
  const CommandLine started = parse_command_line("$LAUNCHER run.py --layers 2\n", "run.sh");
  ASSERT_EQ(started.unknown.size(), 1U);
  EXPECT_EQ(started.unknown[0].text, "$LAUNCHER");
}

TEST(CommandLine, QuotesWithinAVariableAreTakenAway) {
  const CommandLine line = parse_command_line(
      "ARGS=\" --freq '([0]*1+[1]*3)' --name \\\"a\\\" \"\neval run.py $ARGS\n", "run.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--freq"}).string(), "([0]*1+[1]*3)");
  EXPECT_EQ(at(line.root, {"arguments", "--name"}).string(), "a");
}

TEST(CommandLine, AnInnerShellReplacesWhatQuotesKept) {
  const CommandLine line = parse_command_line(
      "L=\"python -m torch.distributed.run --nnodes 2\"\nA=\"run.py --layers 3\"\n"
      "srun bash -c '$L --node_rank $ID $A \\\n --bf16'\n",
      "run.slurm");
  EXPECT_EQ(at(line.root, {"launcher", "--nnodes"}).integer(1, 9), 2);
  EXPECT_EQ(at(line.root, {"arguments", "--layers"}).integer(1, 9), 3);
  EXPECT_EQ(at(line.root, {"arguments", "--bf16"}).location(), "run.slurm:4:2");
}

// Scripts that others read hold options and start nothing.
TEST(CommandLine, OptionsInVariablesCountWhereNothingIsStarted) {
  const CommandLine line =
      parse_command_line("NAME=x\nMODEL_ARGS=\"\n --layers 4\n --bf16\n\"\n", "model.sh");
  EXPECT_EQ(at(line.root, {"arguments", "--layers"}).integer(1, 9), 4);
  EXPECT_TRUE(at(line.root, {"arguments", "--bf16"}).boolean());
}

TEST(CommandLine, VariablesThatDoubleEachOtherEnd) {
  std::string text = "A=xxxxxxxx\n";
  for (int i = 0; i < 60; ++i) text += "A=\"$A$A\"\n";
  const CommandLine line = parse_command_line(text + "run.py --a $A\n", "grow.sh");
  EXPECT_LT(at(line.root, {"arguments", "--a"}).string().size(), std::size_t{1} << 22);
}

}  // namespace
}  // namespace zplan
