#include "planner/foreign/frameworks/common_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/foreign/frameworks/framework.h"

namespace zplan {
namespace {

// On 8 GPUs.
Setup read(std::string_view framework, const std::string& json, const Pins& asked = {}) {
  static const ModelConfig model = load_model("llama3-8b");
  static const Cluster cluster = load_cluster("dgx-h100");
  return find_framework(framework).read(parse_json(json, "config"), {.model = model,
                                                                     .device = cluster.node.device,
                                                                     .ranks = cluster.devices(),
                                                                     .asked = asked,
                                                                     .devices_per_node = 8});
}

// "error tensor_parallel.autotp_size: .."
std::vector<std::string> said(const Setup& setup, std::string_view words) {
  std::vector<std::string> out;
  for (const Finding& each : setup.findings)
    if (each.message.find(words) != std::string::npos)
      out.push_back(std::string(name(each.trouble)) + " " + each.key + ": " + each.message);
  return out;
}

using Said = std::vector<std::string>;

TEST(CommonRules, RanksAreAMultipleOfWhatCutsTheModel) {
  const struct {
    std::string_view framework, json, key;
  } kCases[] = {{"deepspeed", R"({"train_batch_size": 8, "tensor_parallel": {"autotp_size": 3}})",
                 "tensor_parallel.autotp_size"},
                {"deepspeed", R"({"train_batch_size": 8, "sequence_parallel_size": 3})",
                 "sequence_parallel_size"},
                {"megatron", R"({"arguments": {"--tensor-model-parallel-size": 3}})",
                 "--tensor-model-parallel-size"},
                {"megatron", R"({"arguments": {"--pipeline-model-parallel-size": 3}})",
                 "--tensor-model-parallel-size"},
                {"torchtitan", R"({"parallelism": {"context_parallel_degree": 3}})",
                 "parallelism.tensor_parallel_degree"},
                {"accelerate", R"({"parallelism_config": {"parallelism_config_tp_size": 3}})",
                 "parallelism_config.parallelism_config_tp_size"}};
  for (const auto& each : kCases) {
    const auto setup = read(each.framework, std::string(each.json));
    EXPECT_EQ(said(setup, "ranks"),
              Said{"error " + std::string(each.key) + ": 8 ranks are no multiple of 3"})
        << each.json;
    EXPECT_EQ(setup.plan.parallel.dp, 2);
  }
}

TEST(CommonRules, RanksThatAreStartedAreComparedWithTheJobs) {
  const std::string launcher =
      R"({"launcher": {"--nproc_per_node": 2, "--nnodes": 2}, "arguments": )";
  const Said other = {
      "assumed : the launcher starts 4 ranks, the cluster has 8 GPUs: planned for "
      "these"};
  EXPECT_EQ(said(read("megatron", launcher + R"({"--num-layers": 2}})"), "starts"), other);
  EXPECT_EQ(said(read("torchtitan", launcher + R"({"--training.seq_len": 64}})"), "starts"), other);
  EXPECT_EQ(said(read("hf", launcher + R"({"--per_device_train_batch_size": 1}})"), "starts"),
            other);
  EXPECT_EQ(said(read("accelerate", R"({"num_processes": 1})"), "starts"),
            Said{"assumed num_processes: this starts 1 rank, the cluster has 8 GPUs: planned for "
                 "these"});
  // As many as there are, on one node or with a number of nodes that is not known.
  for (const char* same : {R"("--num_gpus": 8)", R"("--nproc-per-node": 8, "--nnodes": "$NODES")"})
    EXPECT_EQ(said(read("hf", std::string(R"({"launcher": {)") + same +
                                  R"(}, "arguments": {"--per_device_train_batch_size": 1}})"),
                   "starts"),
              Said{});
}

TEST(CommonRules, GlobalBatchesAreMultiplesOfThoseOfAllReplicas) {
  const auto megatron =
      read("megatron", R"({"arguments": {"--micro-batch-size": 3, "--global-batch-size": 50}})");
  EXPECT_EQ(
      said(megatron, "multiple"),
      Said{"error --global-batch-size: 50 is no multiple of micro-batch 3 x 8 replicas; 48 is "
           "taken here"});
  EXPECT_EQ(megatron.plan.batch.global_batch, 48);
  const auto torchtitan =
      read("torchtitan", R"({"training": {"local_batch_size": 4, "global_batch_size": 8}})");
  EXPECT_EQ(
      said(torchtitan, "multiple"),
      Said{"error training.global_batch_size: 8 is no multiple of micro-batch 4 x 8 replicas; "
           "32 is taken here"});
  // Of Accelerate the user says it, whose file is no error.
  Pins asked;
  asked.set("/batch/micro_batch", std::int64_t{2});
  asked.set("/batch/global_batch", std::int64_t{20});
  const auto accelerate = read("accelerate", R"({"distributed_type": "FSDP"})", asked);
  EXPECT_EQ(said(accelerate, "multiple"),
            Said{"assumed : 20 is no multiple of micro-batch 2 x 8 replicas; 16 is taken here"});
  EXPECT_EQ(accelerate.plan.batch.global_batch, 16);
}

TEST(CommonRules, ShardsAndReplicasAreThoseOfTheRanks) {
  const Said words = {"2 x 3 are not the 8 replicas that the ranks make; 4 shards are taken here"};
  const auto torchtitan =
      read("torchtitan", R"({"parallelism": {"data_parallel_replicate_degree": 2,
                             "data_parallel_shard_degree": 3}})");
  EXPECT_EQ(said(torchtitan, "shards"),
            Said{"error parallelism.data_parallel_shard_degree: " + words[0]});
  EXPECT_EQ(torchtitan.plan.parallel.shards, 4);
  const auto fsdp = read("fsdp", R"({"mesh": {"replicate": 2, "shard": 3}})");
  EXPECT_EQ(said(fsdp, "shards"), Said{"error mesh.shard: " + words[0]});
  EXPECT_EQ(fsdp.plan.parallel.shards, 4);
}

}  // namespace
}  // namespace zplan
