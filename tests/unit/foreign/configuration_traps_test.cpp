// What configurations in public repositories do that a reader can stumble over, in files of our
// own: each is read, or what is wrong with it is found at its place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/config_file.h"

namespace zplan {
namespace {

struct Read {
  Setup setup;
  ModelConfig model;
  std::vector<Finding> findings;

  std::string kind_of(std::string_view key) const {
    for (const Finding& finding : findings)
      if (finding.key == key) return std::string(name(finding.trouble));
    return "";
  }
  std::string message_of(std::string_view key) const {
    for (const Finding& finding : findings)
      if (finding.key == key) return finding.message;
    return "";
  }
  bool is_broken() const { return setup.is_broken(); }
};

Read read_file(const ConfigFile& file, const char* model_name = "llama3-8b") {
  const Cluster cluster = load_cluster("dgx-h100");
  auto own = file.framework->model != nullptr ? file.framework->model(file.root) : std::nullopt;
  ModelConfig model = own ? std::move(*own) : load_model(model_name);
  Setup setup = file.framework->read(file.root, {.model = model,
                                                 .device = cluster.node.device,
                                                 .ranks = cluster.devices(),
                                                 .devices_per_node = 8});
  EXPECT_EQ(illegal(setup.plan, shape_of(model)), std::nullopt);
  std::vector<Finding> findings = setup.findings;
  findings.insert(findings.end(), file.findings.begin(), file.findings.end());
  return {std::move(setup), std::move(model), std::move(findings)};
}

Read read(const std::string& name, const std::string& text) {
  return read_file(parse_config(text, name));
}

std::string error_of(const std::string& name, const std::string& text) {
  try {
    read(name, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kOptions =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 "
    "--global-batch-size 8 --bf16 ";

TEST(DeepSpeedTraps, CommentsAndLastCommasAreRead) {
  const Read file = read("ds.json",
                         "{ // of mine\n  \"train_micro_batch_size_per_gpu\": 2, # two\n"
                         "  /* a URL \"x\" */ \"zero_optimization\": {\"stage\": 2,},\n}");
  EXPECT_EQ(file.setup.plan.zero_stage, 2);
  EXPECT_EQ(file.setup.plan.batch.micro_batch, 2);
  EXPECT_EQ(error_of("ds.json", "{\"train_batch_size\": GBS,}"),
            "ds.json:1:22: /train_batch_size: expected a value, got \"GBS\"");
  EXPECT_EQ(
      error_of("ds.json", "{\"train_batch_size\": \"8//\", \"train_batch_size\": 8}"),
      "ds.json:1:29: /train_batch_size: expected each key once, got \"train_batch_size\" again "
      "(first on line 1)");
}

TEST(DeepSpeedTraps, NamesWithoutTheStageAreTheSameKeys) {
  const Read file = read("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "bfloat16": {
      "enabled": true}, "zero_optimization": {"stage": 3, "max_live_parameters": 0,
      "gather_16bit_weights_on_model_save": true}})");
  EXPECT_FALSE(file.is_broken());
  EXPECT_EQ(file.setup.plan.kernel_set, "cuda.sm90.bf16");
  EXPECT_EQ(file.setup.plan.prefetch, 0);
}

TEST(DeepSpeedTraps, WhatIsDeprecatedStillCounts) {
  const Read file = read("ds.json", R"({"train_micro_batch_size_per_gpu": 1,
      "zero_optimization": {"stage": 2, "cpu_offload": true}})");
  EXPECT_EQ(file.setup.plan.placement.optimizer, Tier::kCpu);
  EXPECT_EQ(file.kind_of("zero_optimization.cpu_offload"), "assumed");
  EXPECT_FALSE(file.is_broken());
}

TEST(DeepSpeedTraps, GradientsInFp32AreAPlanAtStage1) {
  const Read file = read("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {
      "enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
      "zero_optimization": {"stage": 1}})");
  EXPECT_EQ(file.setup.plan.precision, find_recipe("fp32-gradients", "cuda.sm90.bf16"));
}

TEST(DeepSpeedTraps, KeysOfOtherStagesHaveNoEffect) {
  const struct {
    const char* key;
    bool at_2, at_3;  // whether it counts
  } kKeys[] = {{"reduce_bucket_size", true, true},
               {"allgather_bucket_size", true, false},
               {"stage3_prefetch_bucket_size", false, true},
               {"stage3_max_live_parameters", false, true},
               {"stage3_max_reuse_distance", false, true},
               {"stage3_param_persistence_threshold", false, true}};
  for (const auto& [key, at_2, at_3] : kKeys) {
    for (const int stage : {2, 3}) {
      const Read file = read("ds.json", fmt::format(R"({{"train_batch_size": 8, "zero_optimization":
          {{"stage": {}, "{}": 900000000}}}})",
                                                    stage, key));
      EXPECT_EQ(file.kind_of(std::string("zero_optimization.") + key),
                (stage == 2 ? at_2 : at_3) ? "" : "no_effect")
          << key << " at stage " << stage;
    }
  }
}

TEST(TrainerTraps, KeysOfTheScriptAreNamedTogether) {
  const Read file = read("sft.yaml",
                         "model_name_or_path: x\ndataset: y\ncutoff_len: 2048\n"
                         "per_device_train_batch_size: 2\ngradient_acumulation_steps: 4\n"
                         "warmup_ratio: 0.1\nuse_peft: true\nbf16: 'True'\n");
  EXPECT_EQ(file.message_of("model_name_or_path"),
            "4 of the training script, no keys of Transformers 5.24.0: model_name_or_path, "
            "dataset, cutoff_len, use_peft");
  EXPECT_EQ(file.kind_of("gradient_acumulation_steps"), "unknown");
  EXPECT_EQ(file.kind_of("warmup_ratio"), "removed");
  EXPECT_NE(file.message_of("warmup_ratio").find("use warmup_steps"), std::string::npos);
  EXPECT_TRUE(file.setup.plan.train.has_lora());
  EXPECT_EQ(file.setup.plan.kernel_set, "cuda.sm90.bf16");
}

TEST(TrainerTraps, NamesWithNewlinesStayInALine) {
  const Read file = read("run.sh", "run.py --per_device_train_batch_size 1 \"--a\nb\"\n");
  for (const Finding& finding : file.findings)
    EXPECT_EQ(finding.message.find('\n'), std::string::npos) << finding.message;
  EXPECT_FALSE(file.message_of("a\nb").empty());
}

TEST(TrainerTraps, ACommandIsItsArguments) {
  const Read file = read("run.sh",
                         "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 4 "
                         "--bf16 True --fsdp \"full_shard auto_wrap\" --lazy_preprocess True "
                         "--gradient_checkpointing --report_to none\n");
  EXPECT_EQ(file.setup.plan.zero_stage, 3);
  EXPECT_EQ(file.setup.plan.batch.micro_batch, 4);
  EXPECT_TRUE(file.setup.plan.all_full());
  EXPECT_EQ(file.kind_of("lazy_preprocess"), "assumed");
}

class NamedFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "examples" / "train");
    write("examples/ds_z3.json",
          R"({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("zplan_named_files_" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) +
       testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(NamedFiles, AreLookedForInTheFoldersAbove) {
  const std::string arguments = write("examples/train/sft.yaml",
                                      "per_device_train_batch_size: 2\n"
                                      "deepspeed: examples/ds_z3.json\nbf16: true\n");
  EXPECT_EQ(read_file(read_config(arguments)).setup.plan.zero_stage, 3);
  const std::string accelerate = write("examples/accelerate.yaml",
                                       "distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                                       "deepspeed_config:\n  deepspeed_config_file: ds_z3.json\n");
  EXPECT_EQ(read_file(read_config(accelerate)).setup.plan.zero_stage, 3);
}

TEST_F(NamedFiles, ThatAreNotThereAreRefusedAtTheirName) {
  const std::string arguments =
      write("examples/train/sft.yaml", "per_device_train_batch_size: 2\ndeepspeed: ds_z9.json\n");
  try {
    read_file(read_config(arguments));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              arguments +
                  ":2:12: /deepspeed: expected a file of DeepSpeed's configuration, got "
                  "\"ds_z9.json\", which is not there");
  }
  EXPECT_NE(error_of("x.yaml", "output_dir: o\ndeepspeed: true\n").find("the path of it"),
            std::string::npos);
}

TEST(AccelerateTraps, OtherDevicesAreDataParallel) {
  const Read file = read("a.yaml", "distributed_type: MULTI_XPU\nmixed_precision: 'no'\n");
  EXPECT_EQ(file.setup.plan.zero_stage, 0);
}

TEST(MegatronTraps, WhatIsNotKnownWhereOptionsMayStandIsSaid) {
  const Read behind_switch = read("run.sh", std::string(kOptions) + "$EXTRA");
  EXPECT_EQ(behind_switch.kind_of("--bf16"), "assumed");
  EXPECT_EQ(behind_switch.message_of("--bf16"),
            "on; \"$EXTRA\" behind it is not known here: no options are taken from it");
  const Read behind_value = read("run.sh", std::string(kOptions) + "--lr 1 $MORE");
  EXPECT_EQ(behind_value.kind_of("--bf16"), "");
  EXPECT_EQ(behind_value.message_of(""),
            "\"$MORE\" is not known here: no options are taken from it");
}

TEST(MegatronTraps, OptionsOfAnotherProgramAreNotErrors) {
  std::string text = kOptions;
  EXPECT_EQ(read("a.sh", text + "--temperature 1").kind_of("--temperature"), "error");
  text.replace(text.find("pretrain_gpt.py"), 15, "tools/generate.py");
  const Read file = read("a.sh", text + "--temperature 1 --global-batchsize 8");
  EXPECT_EQ(file.message_of("--temperature"),
            "1 of generate.py, no key of Megatron-Core 0.19.2: --temperature");
  EXPECT_EQ(file.kind_of("--global-batchsize"), "unknown");
}

TEST(MegatronTraps, WhatNoLongerGoesIsSaidWithWhatDoes) {
  const Read file = read("a.sh", std::string(kOptions) + "--checkpoint-activations --data-impl m");
  EXPECT_NE(file.message_of("--checkpoint-activations").find("--recompute-granularity full"),
            std::string::npos);
  EXPECT_EQ(file.kind_of("--data-impl"), "removed");
}

TEST(MegatronTraps, NumbersThatAScriptDoesNotHaveSayWhatToDo) {
  const std::string got = "run.sh:1:21: /arguments/--num-layers: expected a number, got ";
  for (const auto& [word, says] :
       {std::pair("$6", "\"$6\": an argument of the script; write the number in a copy"),
        std::pair("${12}", "\"${12}\": an argument of the script; write the number in a copy"),
        std::pair("$LAYERS",
                  "\"$LAYERS\": it is not set here; set it in a copy, or write the number"),
        std::pair("$((L * 2))",
                  "\"$((L * 2))\": it is not set here; set it in a copy, or write the number"),
        std::pair("`cat l`", "\"`cat l`\": no command is run; write the number in a copy"),
        std::pair("$(cat l)", "\"$(cat l)\": no command is run; write the number in a copy")})
    EXPECT_EQ(error_of("run.sh", std::string("run.py --num-layers ") + word +
                                     " --hidden-size 8 --num-attention-heads 1\n"),
              got + says);
}

TEST(MegatronTraps, TheForkOfDeepSpeedIsReadAsFarAsItIsTheSame) {
  const Read file =
      read("a.sh", std::string(kOptions) +
                       "--deepspeed --deepspeed_config ds.json --zero-stage 1 --num-experts 1 "
                       "--no-pipeline-parallel --checkpoint-activations --normalization rmsnorm "
                       "--position-embedding-type alibi");
  EXPECT_FALSE(file.is_broken());
  EXPECT_EQ(file.setup.plan.zero_stage, 1);
  EXPECT_TRUE(file.setup.plan.all_full());
  EXPECT_EQ(file.model.position, Position::kAlibi);
  EXPECT_EQ(file.model.norm, Norm::kRmsNorm);
  EXPECT_FALSE(file.model.experts);
}

TEST(MegatronTraps, ExpertsThatAreNotThere) {
  const std::string text = kOptions;
  EXPECT_EQ(
      read("a.sh", text + "--expert-model-parallel-size 4").kind_of("--expert-model-parallel-size"),
      "error");
  const Read file = read("a.sh", text + "--expert-tensor-parallel-size 1");
  EXPECT_EQ(file.kind_of("--expert-tensor-parallel-size"), "no_effect");
  EXPECT_FALSE(file.is_broken());
}

// [MegatronCore] allgather is the default.
TEST(MegatronTraps, ADispatcherIsOfExpertsOnSeveralRanks) {
  const std::string text = std::string(kOptions) + "--num-experts 8 ";
  const auto dispatcher = [&](const char* more) {
    return read("a.sh", text + more).setup.plan.dispatcher;
  };
  const std::string type = "--moe-token-dispatcher-type";
  EXPECT_EQ(dispatcher("--expert-model-parallel-size 8"), Dispatcher::kAllGather);
  EXPECT_EQ(dispatcher(""), Dispatcher::kAllToAll) << "nothing is exchanged";
  EXPECT_EQ(dispatcher((type + " alltoall --expert-model-parallel-size 8").c_str()),
            Dispatcher::kAllToAll);
  const Read flex = read("a.sh", text + type + " flex --expert-model-parallel-size 8");
  EXPECT_EQ(flex.setup.plan.dispatcher, Dispatcher::kDeepEp);
}

TEST(MegatronTraps, WhatIsBesideTheExchangeOfExperts) {
  const std::string text = std::string(kOptions) +
                           "--num-experts 8 --expert-model-parallel-size 8 "
                           "--moe-token-dispatcher-type alltoall --global-batch-size 16 ";
  const std::string layers = "--overlap-moe-expert-parallel-comm",
                    weights = "--delay-wgrad-compute", shared = "--moe-shared-expert-overlap",
                    has_shared =
                        " --disable-bias-linear --swiglu "
                        "--moe-shared-expert-intermediate-size 512 ";
  const auto overlap = [&](const std::string& more) {
    const Read file = read("a.sh", text + more);
    EXPECT_FALSE(file.is_broken()) << more;
    return file.setup.plan.overlap;
  };
  EXPECT_FALSE(overlap("").exchange);
  EXPECT_TRUE(overlap(layers).exchange);
  EXPECT_TRUE(overlap(layers + " " + weights).weight_gradients);
  EXPECT_TRUE(overlap("--overlap-dispatch-backward-with-experts-wgrad").weight_gradients);
  EXPECT_TRUE(overlap("").shared_expert) << "of which there is none";
  EXPECT_FALSE(overlap(has_shared).shared_expert);
  EXPECT_TRUE(overlap(has_shared + shared).shared_expert);
  EXPECT_EQ(read("a.sh", text + weights).kind_of(weights), "error");
  EXPECT_EQ(read("a.sh", text + shared).kind_of(shared), "no_effect");
  EXPECT_EQ(read("a.sh", text + has_shared + shared + " " + layers).kind_of(shared), "error");
  EXPECT_EQ(
      read("a.sh", std::string(kOptions) +
                       "--num-experts 8 --expert-model-parallel-size 8 --global-batch-size 16 " +
                       layers)
          .kind_of(layers),
      "error")
      << "all-gather is the default";
  EXPECT_EQ(read("a.sh", text + "--global-batch-size 8 " + layers).kind_of(layers), "no_effect");
  EXPECT_EQ(read("a.sh", text +
                             "--recompute-granularity full --recompute-method uniform "
                             "--recompute-num-layers 1 " +
                             layers)
                .kind_of(layers),
            "error");
  EXPECT_EQ(read("a.sh", std::string(kOptions) + "--num-experts 8 " + layers).kind_of(layers),
            "error");
}

TEST(MegatronTraps, ModulesOfExpertsNeedExperts) {
  const std::string modules = "--recompute-modules";
  const std::string text = std::string(kOptions) + "--recompute-granularity selective " + modules;
  const auto operators = [](const Read& file) { return file.setup.plan.recompute[0].operators; };
  const Read experts = read("a.sh", text + " moe layernorm --num-experts 8");
  EXPECT_EQ(operators(experts), (OperatorSet{LayerOperator::kNorm, LayerOperator::kExperts}));
  const Read dense = read("a.sh", text + " moe layernorm");
  EXPECT_EQ(dense.kind_of(modules), "no_effect");
  EXPECT_EQ(operators(dense), OperatorSet{LayerOperator::kNorm});
}

TEST(MegatronTraps, FormatsOfProductsAreTheirRecipes) {
  const auto plan_of = [](const std::string& more) {
    return read("a.sh", std::string(kOptions) + more).setup.plan;
  };
  EXPECT_EQ(plan_of("--fp8-format hybrid").kernel_set, "cuda.sm90.fp8");
  EXPECT_TRUE(plan_of("--fp8-format hybrid").low_precision.keeps_codes);
  EXPECT_EQ(plan_of("--fp8-format e4m3 --fp8-recipe blockwise").kernel_set, "cuda.sm90.fp8_block");
  EXPECT_FALSE(plan_of("").low_precision.keeps_codes);
  const Read both = read("a.sh", std::string(kOptions) + "--fp8-format hybrid --fp4-format e2m1");
  EXPECT_EQ(both.kind_of("--fp4-format"), "error");
}

TEST(MegatronTraps, StatesHaveTypesWhereTheOptimizerIsAwareOfThem) {
  const std::string options = std::string(kOptions) + "--use-distributed-optimizer ";
  const std::string aware = options + "--use-precision-aware-optimizer ";
  const std::string types = "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16";
  EXPECT_EQ(read("a.sh", aware + types).setup.plan.precision.moments, DType::kBf16);
  EXPECT_EQ(read("a.sh", aware).setup.plan.precision.moments, DType::kF32);
  EXPECT_EQ(read("a.sh", options + types).kind_of("--exp-avg-dtype"), "error");
  EXPECT_EQ(read("a.sh", options + types).setup.plan.precision.moments, DType::kF32);
  const Read one = read("a.sh", aware + "--exp-avg-dtype bf16");
  EXPECT_EQ(one.setup.plan.precision.moments, DType::kF32);
  EXPECT_EQ(one.kind_of("--exp-avg-dtype"), "not_modelled");
  EXPECT_EQ(read("a.sh", aware + "--main-grads-dtype bf16").setup.plan.precision.grad,
            DType::kBf16);
}

// Their buckets hold many of these small layers.
TEST(MegatronTraps, ExpertsAndMuonTakeALayerAtATime) {
  const std::string text = std::string(kOptions) + "--use-distributed-optimizer ";
  EXPECT_GT(read("a.sh", text).setup.plan.unit_layers(), 1);
  EXPECT_EQ(read("a.sh", text + "--optimizer muon").setup.plan.unit_layers(), 1);
  EXPECT_EQ(read("a.sh", text + "--num-experts 8 --expert-model-parallel-size 8")
                .setup.plan.unit_layers(),
            1);
}

TEST(MegatronTraps, LayersWithExpertsArePatterns) {
  const std::string text = std::string(kOptions) + "--num-experts 8 --moe-layer-freq ";
  EXPECT_EQ(read("a.sh", text + "'([0]*1+[1]*3)'").model.experts->dense_layers, 1);
  const Read turns = read("a.sh", text + "[0,1]*2");
  EXPECT_EQ(turns.model.experts->dense_layers, 1);
  EXPECT_EQ(turns.model.experts->every, 2);
  for (const char* broken : {"([0]*x", "[1]*99", "[1,1,0,1]", "[0]*4"})
    EXPECT_NE(error_of("a.sh", text + broken).find("/arguments/--moe-layer-freq: expected"),
              std::string::npos)
        << broken;
}

TEST(MegatronTraps, BothFormatsAreOneError) {
  const Read file = read("a.sh", std::string(kOptions) + "--fp16");
  EXPECT_EQ(file.kind_of("--fp16"), "error");
  EXPECT_FALSE(file.setup.plan.loss_scaling);
}

TEST(MegatronTraps, ConditionsAreTold) {
  const Read file = read("a.sh", "if [ -n \"$X\" ]; then\n Y=1\nfi\n" + std::string(kOptions));
  ASSERT_FALSE(file.findings.empty());
  EXPECT_EQ(file.findings.back().place, "a.sh:1:1");
  EXPECT_NE(file.findings.back().message.find("first branch"), std::string::npos);
}

TEST(TorchtitanTraps, KeysOfEarlierVersionsAreSaidWithTheirNewNames) {
  const Read file =
      read("t.toml", "[model]\nname = \"llama3\"\n[parallelism]\n[training]\ncompile = true\n");
  EXPECT_EQ(file.kind_of("training.compile"), "removed");
  EXPECT_NE(file.message_of("training.compile").find("compile.enable"), std::string::npos);
}

TEST(TorchtitanTraps, AModuleOfTheUsersAddsKeys) {
  const std::string text = "[parallelism]\n[training]\nimg_size = 256\n[job]\n";
  EXPECT_EQ(read("t.toml", text).kind_of("training.img_size"), "error");
  const Read file = read("t.toml", text + "custom_config_module = \"my.module\"\n");
  EXPECT_EQ(file.kind_of("training.img_size"), "assumed");
}

TEST(YamlTraps, OfAKeyThatIsThereTwiceTheLastCounts) {
  const Read file = read("m.yaml",
                         "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 512\n"
                         "  --num-attention-heads: 8\n  --bf16: true\n  --num-layers: 2\n");
  EXPECT_EQ(file.model.layers, 2);
  EXPECT_EQ(file.kind_of("--num-layers"), "contradicts");
  EXPECT_EQ(file.findings.back().place, "m.yaml:6:3");
}

}  // namespace
}  // namespace zplan
