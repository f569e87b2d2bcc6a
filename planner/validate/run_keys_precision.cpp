// Keys of element types, of the optimizer, of what is trained and of what is recomputed.
#include "planner/validate/run_key_rows.h"

namespace zplan {
namespace {

using namespace rows;
using enum RunKeyKind;
using enum RunKeyUse;

constexpr std::string_view kTypes = "fp32|bf16|fp16|fp8|int8|fp64";
constexpr std::string_view kTypeSpellings =
    "float32=fp32|float=fp32|bfloat16=bf16|float16=fp16|half=fp16|float8=fp8|float64=fp64";

template <auto Member>
RunKey of_precision(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::precision, Member>(pointer, row);
}
template <auto Member>
RunKey type_of(std::string_view pointer, std::string_view meaning, std::string_view example) {
  return of_precision<Member>(
      pointer,
      {.meaning = meaning, .example = example, .words = kTypes, .spellings = kTypeSpellings});
}
RunKey in_fp8(std::string_view pointer, std::string_view told, std::string_view meaning) {
  return fact(pointer, kFlag, kFlagged,
              {.meaning = meaning, .example = "true", .plain = "false", .told = told});
}

std::vector<RunKey> type_keys() {
  return {
      of_precision<&RunPrecision::compute>(
          "/precision/compute",
          {.meaning = "products of layers: bf16, fp16, fp32, fp8, mxfp8 ..",
           .example = R"("bf16")",
           .spellings = "bf16|fp16|fp32|fp8|mxfp8|nvfp4|float32=fp32|bfloat16=bf16|"
                        "float16=fp16|half=fp16|float8=fp8|fp8_hybrid=fp8",
           .required = true,
           .shown = true}),
      of_precision<&RunPrecision::param_bytes>(
          "/precision/param_bytes",
          {.meaning = "bytes per parameter, before sharding: what the step reads",
           .example = "2",
           .least = kAboveZero}),
      of_precision<&RunPrecision::grad_bytes>(
          "/precision/grad_bytes", {.meaning = "of its gradient", .example = "4", .least = 0}),
      of_precision<&RunPrecision::optimizer_bytes_per_param>(
          "/precision/optimizer_bytes_per_param",
          {.meaning = "of all else: master, moments, copies of gradients",
           .example = "12",
           .least = 0}),
      type_of<&RunPrecision::params>("/precision/params", "parameters between steps", R"("fp32")"),
      type_of<&RunPrecision::gradients>("/precision/gradients",
                                        "gradients of a step as they are added up", R"("bf16")"),
      type_of<&RunPrecision::reduction>("/precision/reduction",
                                        "gradients as they are reduced over ranks", R"("bf16")"),
      type_of<&RunPrecision::master>("/precision/master", "master copy of the optimizer",
                                     R"("bf16")"),
      type_of<&RunPrecision::moments>("/precision/moments", "moments of the optimizer",
                                      R"("bf16")"),
      of_precision<&RunPrecision::loss_scaling>(
          "/precision/loss_scaling", {.meaning = "the loss is scaled", .example = "true"}),
      of_precision<&RunPrecision::fp8_recipe>(
          "/precision/fp8/recipe",
          {.meaning = "scales: of the tensor, delayed or current (tensorwise); rowwise; blockwise; "
                      "mxfp8 ..",
           .example = R"("rowwise")",
           .words = "tensorwise|delayed|current|rowwise|blockwise|mxfp8|mxfp4|nvfp4",
           .spellings = "per_tensor=tensorwise|delayed_scaling=delayed|current_scaling=current|"
                        "float8_current_scaling=current|dynamic=current|per_row=rowwise|"
                        "rowwise_with_gw_hp=rowwise|block=blockwise|block_scaling=blockwise|"
                        "float8_block_scaling=blockwise|subchannel=blockwise|1x128=blockwise|"
                        "mxfp8_block_scaling=mxfp8|nvfp4_block_scaling=nvfp4",
           .told = "mxfp4=products in mxfp4"}),
      of_precision<&RunPrecision::fp8_weights>(
          "/precision/fp8/weights",
          {.meaning = "parameters are kept in fp8 alone between steps", .example = "true"}),
      of_precision<&RunPrecision::fp8_gathers>(
          "/precision/fp8/gathers",
          {.meaning = "parameters are kept in fp8 and gathered so", .example = "true"}),
      of_precision<&RunPrecision::fp8_activations>(
          "/precision/fp8/activations",
          {.meaning = "inputs of products are kept in fp8 for backward", .example = "true"}),
      in_fp8("/precision/fp8/attention", "attention in 16 bits instead of fp8",
             "attention computes in fp8"),
      in_fp8("/precision/fp8/lm_head", "the output head in 16 bits instead of fp8",
             "the output head computes in fp8"),
      in_fp8("/precision/fp8/dispatch", "tokens go to their experts in 16 bits instead of fp8",
             "tokens go to their experts in fp8"),
      fact("/precision/fp8/layers_in_bf16", kCount, kFlagged,
           {.meaning = "layers, first and last ones, whose products stay in bf16",
            .example = "2",
            .least = 0,
            .plain = "0",
            .told = "all layers in fp8, and none in bf16"}),
  };
}

std::vector<RunKey> optimizer_keys() {
  return {
      bound<&RunRecord::optimizer, &RunOptimizer::kind>(
          "/optimizer/kind",
          {
              .meaning =
                  "what updates matrices: adamw, sgd, sgd-momentum, adamw-8bit, muon, adafactor ..",
              .example = R"("sgd")",
              .spellings =
                  "adamw|adamw-8bit|sgd|sgd-momentum|muon|adafactor|adam=adamw|fused_adam=adamw|"
                  "fused_adamw=adamw|distributed_fused_adam=adamw|adamw_torch=adamw|"
                  "adamw_torch_fused=adamw|adamw_hf=adamw|adamw_apex_fused=adamw|"
                  "paged_adamw=adamw|paged_adamw_32bit=adamw|cpu_adam=adamw|"
                  "deepspeed_cpu_adam=adamw|adamw_bnb_8bit=adamw-8bit|adam_8bit=adamw-8bit|"
                  "paged_adamw_8bit=adamw-8bit|dist_muon=muon|momentum=sgd-momentum",
          }),
      bound<&RunRecord::optimizer, &RunOptimizer::block>(
          "/optimizer/block",
          {.meaning = "parameters that share a scale of 8-bit moments [256]", .example = "512"}),
      bound<&RunRecord::optimizer, &RunOptimizer::precision_aware>(
          "/optimizer/precision_aware",
          {.meaning = "false: it copies 16-bit gradients to the type of its moments at each step",
           .example = "false"}),
      bound<&RunRecord::optimizer, &RunOptimizer::clip>(
          "/optimizer/clip",
          {.meaning = "gradients are clipped by their norm", .example = "false"}),
      bound<&RunRecord::optimizer, &RunOptimizer::cpu_fraction>(
          "/optimizer/cpu_fraction",
          {.meaning = "of its states that are on the CPU, with their update",
           .example = "0.5",
           .least = 0,
           .most = 1}),
  };
}

std::vector<RunKey> trained_keys() {
  return {
      bound<&RunRecord::trained, &RunTrained::what>(
          "/trained/what", {.meaning = "all parameters, those of layers, or factors of LoRA",
                            .example = R"("layers")",
                            .words = "all|layers|lora"}),
      bound<&RunRecord::trained, &RunTrained::lora_rank>(
          "/trained/lora/rank", {.meaning = "width of its factors", .example = "16"}),
      bound<&RunRecord::trained, &RunTrained::lora_alpha>(
          "/trained/lora/alpha", {.meaning = "alpha / rank is their scale", .example = "32"}),
      bound<&RunRecord::trained, &RunTrained::lora_targets>(
          "/trained/lora/targets",
          {.meaning = "matrices that have factors: a group of them or each by name",
           .example = R"(["q", "k", "v"])",
           .words = "all|attention|mlp|qkv|q|k|v|o|gate|up|fc1|down",
           .spellings = "all_linear=all|linear_qkv=qkv|q_proj=q|k_proj=k|v_proj=v|o_proj=o|"
                        "out_proj=o|linear_proj=o|gate_proj=gate|up_proj=up|gate_up_proj=fc1|"
                        "linear_fc1=fc1|down_proj=down|linear_fc2=down|fc2=down"}),
      // [derived] A set of rank r has r (d + k) elements for a matrix of d k: 0.8 % of it at rank
      // 16 and d = k = 4096. What is not trained has no gradients or optimizer states, nor work.
      fact("/trained/lora/adapters_held", kCount, kFlagged,
           {.meaning = "sets of factors on the GPU, of which one is trained",
            .example = "4",
            .plain = "1",
            .told = "memory of the factors of LoRA that are not trained is left out"}),
      bound<&RunRecord::trained, &RunTrained::frozen>(
          "/trained/frozen", {.meaning = "parts that are not trained",
                              .example = R"(["embeddings", "final_norm", "head"])",
                              .words = "embeddings|final_norm|head|layers|router|experts|vision"}),
      bound<&RunRecord::trained, &RunTrained::base>(
          "/trained/quantized_base",
          {.meaning = "format of frozen matrices; double: scales of 8 bits",
           .example = R"("nf4")",
           .words = "none|nf4|nf4-double|fp4|fp4-double|int8",
           .spellings = "bnb_4bit=nf4|int4=nf4|4bit=nf4|8bit=int8|llm_int8=int8",
           .plain = R"("none")",
           .told = "int8=frozen parameters of 8 bits"}),
      bound<&RunRecord::trained, &RunTrained::lora_saved>(
          "/trained/lora/saved", {.meaning = "what is trained in full beside the factors",
                                  .example = R"("both")",
                                  .words = "none|embedding|head|both"}),
      bound<&RunRecord::trained, &RunTrained::objective>(
          "/trained/objective",
          {.meaning =
               "what the loss is; rl: with the entropy of all words, the trainer's step alone",
           .example = R"("rl")",
           .words = "pretrain|sft|rl|dpo|distill",
           .told = "dpo=a reference model beside that which is trained|"
                   "distill=a teacher beside the model that is trained"}),
      fact("/trained/method", kText, kPlan,
           {.meaning = "its name",
            .example = R"("GRPO")",
            .spellings = "dora|adalora|loha|lokr|vera|galore|lisa|badam|apollo|oft|ia3",
            .told = "dora=DoRA|adalora=AdaLoRA|"
                    "loha=LoHa|lokr=LoKr|vera=VeRA|galore=GaLore|lisa=LISA|badam=BAdam|"
                    "apollo=APOLLO|oft=OFT|ia3=IA3"}),
  };
}

std::vector<RunKey> recompute_keys() {
  return {
      bound<&RunRecord::recompute>(
          "/recompute/mode",
          {.meaning = "activation recomputation: selective is the core of attention or what the "
                      "software means by it; automatic: the software chose",
           .example = R"("full")",
           .words = "none|selective|full|automatic",
           .shown = true}),
      bound<&RunRecord::recomputed, &RunRecompute::modules>(
          "/recompute/modules",
          {.meaning = "what is recomputed, operator by operator or module by module",
           .example = R"(["mlp"])",
           .words = kLayerModules}),
      bound<&RunRecord::recomputed, &RunRecompute::layers>(
          "/recompute/layers",
          {.meaning = "layers that are recomputed, the first ones [all]", .example = "5"}),
      bound<&RunRecord::recomputed, &RunRecompute::layers_per_checkpoint>(
          "/recompute/layers_per_checkpoint",
          {.meaning = "layers recomputed from one checkpoint [1]", .example = "2"}),
      bound<&RunRecord::recomputed, &RunRecompute::partitioned>(
          "/recompute/partitioned",
          {.meaning = "checkpoints are cut over tensor parallel ranks", .example = "true"}),
      bound<&RunRecord::recompute_detail>(
          "/recompute/detail",
          {.use = kStatement, .meaning = "text of the source", .example = R"("all layers")"}),
  };
}

}  // namespace

std::vector<RunKey> precision_keys() {
  return together({type_keys(), optimizer_keys(), trained_keys(), recompute_keys()});
}

}  // namespace zplan
