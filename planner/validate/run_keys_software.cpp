// Keys of the software, of its kernels and of batches.
#include "planner/validate/run_key_rows.h"

namespace zplan {
namespace {

using namespace rows;
using enum RunKeyKind;
using enum RunKeyUse;

template <auto Member>
RunKey of_software(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::software, Member>(pointer, row);
}
template <auto Member>
RunKey of_kernels(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::kernels, Member>(pointer, row);
}

std::vector<RunKey> launch_keys() {
  return {
      of_software<&RunSoftware::name>(
          "/software/name", {.meaning = "the trainer, or a profile of zplan's by its name",
                             .example = R"("Megatron-LM")",
                             .shown = true}),
      of_software<&RunSoftware::libraries>(
          "/software/libraries", {.meaning = "what trains below it, where the trainer has no "
                                             "profile",
                                  .example = R"(["FSDP"])"}),
      fact("/software/version", kText, kStatement,
           {.meaning = "release, commit or container",
            .example = R"("core_v0.15.0")",
            .shown = true}),
      of_software<&RunSoftware::cuda_graphs>(
          "/software/cuda_graphs",
          {.meaning = "steps or layers are launched as CUDA graphs", .example = "true"}),
      of_software<&RunSoftware::graphed_modules>(
          "/software/graphed_modules",
          {.meaning = "modules in graphs, where not all are",
           .example = R"(["attn"])",
           .words = "layer|attn|mlp|moe|moe_router|moe_preprocess|mamba|head|embedding"}),
      of_software<&RunSoftware::compiled>(
          "/software/compiled", {.meaning = "layers through torch.compile", .example = "true"}),
      of_software<&RunSoftware::eager_loss>(
          "/software/eager_loss",
          {.meaning = "the loss stands outside of what is compiled", .example = "true"}),
      of_software<&RunSoftware::foreach_update>(
          "/software/foreach_update",
          {.meaning = "each operation of the optimizer is a kernel over all parameters",
           .example = "true"}),
      of_software<&RunSoftware::dense_mask>(
          "/software/dense_mask",
          {.meaning = "fused attention gets its mask as a tensor", .example = "true"}),
      of_software<&RunSoftware::fp8_rows>(
          "/software/fp8_rows",
          {.meaning = "operands in fp8 have a scale for each row", .example = "true"}),
      fact("/software/deterministic", kFlag, kPlan,
           {.meaning =
                "kernels in an order that is the same each time: memory is compared, time not",
            .example = "true"}),
  };
}

std::vector<RunKey> kernel_keys() {
  return {
      of_kernels<&RunKernels::attention>(
          "/kernels/attention",
          {.meaning = "kernels of attention; unfused, eager and math store the scores",
           .example = R"("unfused")",
           .words = "fused|flash|flash_2|flash_3|flash_4|cudnn|te|sdpa|flex|triton|xformers|aiter|"
                    "splash|unfused|eager|math",
           .spellings =
               "flash_attention=flash|flash_attn=flash|fa=flash|flash_attention_2=flash_2|"
               "fa2=flash_2|flash_attention_3=flash_3|fa3=flash_3|flash_attention_4=flash_4|"
               "fa4=flash_4|flex_attention=flex|transformer_engine=te|splash_attention=splash",
           .shown = true}),
      of_kernels<&RunKernels::fused_norm>("/kernels/fused_norm",
                                          {.meaning = "a norm is one kernel", .example = "true"}),
      of_kernels<&RunKernels::fused_activation>(
          "/kernels/fused_activation",
          {.meaning = "SwiGLU, GeGLU or GELU is one kernel", .example = "true"}),
      of_kernels<&RunKernels::fused_rope>(
          "/kernels/fused_rope", {.meaning = "rotary positions are one kernel", .example = "true"}),
      of_kernels<&RunKernels::cross_entropy>(
          "/kernels/cross_entropy",
          {.meaning = "the loss: operators of PyTorch, these compiled, one kernel over logits, or "
                      "one with the output head, which never stores all logits",
           .example = R"("fused")",
           .words = "eager|compiled|fused|linear",
           .spellings = "native=eager|torch=eager|te=fused|liger=fused|fused_linear=linear|"
                        "liger_fused_linear=linear|linear_cross_entropy=linear|"
                        "cut_cross_entropy=linear"}),
      of_kernels<&RunKernels::head_chunks>(
          "/kernels/head_chunks",
          {.meaning = "pieces that output head and loss are worked off in [1]", .example = "4"}),
      of_kernels<&RunKernels::head_chunk_tokens>(
          "/kernels/head_chunk_tokens",
          {.meaning = "or the tokens of one such piece", .example = "2048"}),
      of_kernels<&RunKernels::sums_gradients>(
          "/kernels/sums_gradients",
          {.meaning = "products add weight gradients to those of earlier micro-batches",
           .example = "false"}),
      of_kernels<&RunKernels::attention_backward_pieces>(
          "/kernels/attention_backward_pieces",
          {.use = kFlagged,
           .meaning = "attention's backward is worked off in so many pieces; planned as one",
           .example = "2",
           .plain = "1",
           .told = "attention's backward in one piece"}),
  };
}

std::vector<RunKey> batch_keys() {
  return {
      bound<&RunRecord::micro_batch>(
          "/micro_batch", {.meaning = "sequences per data parallel rank and gradient accumulation "
                                      "step",
                           .example = "1",
                           .shown = true}),
      bound<&RunRecord::global_batch>(
          "/global_batch",
          {.meaning = "sequences per optimizer step", .example = "64", .shown = true}),
      bound<&RunRecord::sequences, &RunSequences::packed>(
          "/sequences/packed",
          {.use = kFlagged,
           .meaning = "a sequence is several documents, which attention keeps apart",
           .example = "true",
           .plain = "false",
           .told = "documents of unknown length: attention over whole sequences",
           .idle = [](const RunRecord& run,
                      std::string_view) { return run.sequences.document_tokens.has_value(); }}),
      bound<&RunRecord::sequences, &RunSequences::document_tokens>(
          "/sequences/document_tokens",
          {.meaning = "tokens of the mean document", .example = "1024"}),
      fact("/sequences/data", kText, kStatement,
           {.meaning = "what they are of", .example = R"("mock data")"}),
  };
}

}  // namespace

std::vector<RunKey> software_keys() {
  return together({launch_keys(), kernel_keys(), batch_keys()});
}

}  // namespace zplan
