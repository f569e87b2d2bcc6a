// Keys of how the work is cut over ranks, of experts on them, of what runs beside what, and of what
// lives off the GPU.
#include "planner/validate/record_refusals.h"
#include "planner/validate/run_key_rows.h"

namespace zplan {
namespace {

using namespace rows;
using enum RunKeyKind;
using enum RunKeyUse;

template <auto Member>
RunKey of_parallel(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::parallel, Member>(pointer, row);
}
template <auto Member>
RunKey of_experts(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::experts, Member>(pointer, row);
}
template <auto Member>
RunKey of_offload(std::string_view pointer, std::string_view meaning) {
  return bound<&RunRecord::offload, Member>(
      pointer, {.meaning = meaning, .example = R"("cpu")", .words = "gpu|cpu|nvme"});
}

// Facts of an exchange of experts come to nothing where there is none.
bool has_no_exchange(const RunRecord& run, std::string_view /*value*/) {
  return !exchanges_experts(run);
}

bool shards(const RunParallel& parallel) {
  const std::int64_t replicas = std::int64_t{parallel.dp} * parallel.cp.value_or(1);
  return replicas > 1 && parallel.zero_stage.value_or(0) > 0;
}

// This says what runs beside what. The plan has `planned`; the other value refuses the record.
RunKey beside(std::string_view pointer, bool planned, std::string_view told,
              std::string_view meaning, bool (*idle)(const RunRecord&, std::string_view)) {
  return fact(pointer, kFlag, kUnmodelled,
              {.meaning = meaning,
               .example = planned ? "false" : "true",
               .plain = planned ? "true" : "false",
               .told = told,
               .idle = idle});
}
RunKey aside(std::string_view pointer, RunKeyKind kind, std::string_view told,
             std::string_view meaning, std::string_view example, std::string_view plain,
             bool (*idle)(const RunRecord&, std::string_view) = nullptr) {
  return fact(pointer, kind, kAside,
              {.meaning = meaning,
               .example = example,
               .least = 0,
               .plain = plain,
               .told = told,
               .idle = idle});
}

std::vector<RunKey> rank_keys() {
  return {
      of_parallel<&RunParallel::dp>("/parallel/dp",
                                    {.meaning = "data parallel ranks; tp x pp x cp x dp GPUs",
                                     .example = "4",
                                     .required = true,
                                     .shown = true}),
      of_parallel<&RunParallel::tp>(
          "/parallel/tp",
          {.meaning = "tensor parallel ranks", .example = "2", .required = true, .shown = true}),
      of_parallel<&RunParallel::sequence_parallel>(
          "/parallel/sequence_parallel",
          {.meaning = "what is outside of tensor parallel regions is cut over them, too",
           .example = "true",
           .shown = true}),
      of_parallel<&RunParallel::pp>(
          "/parallel/pp",
          {.meaning = "pipeline stages", .example = "1", .required = true, .shown = true}),
      of_parallel<&RunParallel::cp>("/parallel/cp",
                                    {.meaning = "context parallel ranks", .example = "2"}),
      of_parallel<&RunParallel::cp_communication>(
          "/parallel/cp_communication",
          {.meaning = "what they send: keys and values in rings (ring, p2p), heads for tokens "
                      "(ulysses, a2a), both (a2a+p2p, with ring), or all keys (all_gather)",
           .example = R"("ulysses")",
           .words = "ring|p2p|ulysses|a2a|a2a+p2p|all_gather",
           .told = "all_gather=context parallelism by all-gather",
           .idle = [](const RunRecord& run,
                      std::string_view) { return run.parallel.cp.value_or(1) == 1; }}),
      of_parallel<&RunParallel::ring>(
          "/parallel/ring",
          {.meaning = "context parallel ranks of a ring, where not all", .example = "1"}),
  };
}

std::vector<RunKey> shard_keys() {
  return {
      of_parallel<&RunParallel::zero_stage>(
          "/parallel/zero_stage", {.meaning = "0 to 3; FULL_SHARD 3, SHARD_GRAD_OP 2, Megatron's "
                                              "distributed optimizer 1",
                                   .example = "1",
                                   .least = 0,
                                   .most = 3,
                                   .shown = true}),
      of_parallel<&RunParallel::shard_group>(
          "/parallel/shard_group",
          {.meaning = "GPUs that share one copy of what ZeRO shards [dp]", .example = "2"}),
      of_parallel<&RunParallel::optimizer_instances>(
          "/parallel/optimizer_instances",
          {.meaning = "copies of it: replicas / shard_group", .example = "2"}),
      of_parallel<&RunParallel::parameter_shard_group>(
          "/parallel/parameter_shard_group",
          {.meaning = "GPUs that share one copy of the parameters, where fewer", .example = "2"}),
      of_parallel<&RunParallel::secondary_shard_group>(
          "/parallel/secondary_shard_group",
          {.meaning = "GPUs with a second copy of them, from which backward gathers",
           .example = "2"}),
      of_parallel<&RunParallel::reshard_after_forward>(
          "/parallel/reshard_after_forward",
          {.meaning = "false: what forward gathered stays for backward, as with ZeRO 2",
           .example = "false"}),
      of_parallel<&RunParallel::gather_unit>("/parallel/gather_unit",
                                             {.meaning = "parameters that are gathered at once",
                                              .example = R"("operator")",
                                              .words = "layer|operator"}),
      of_parallel<&RunParallel::prefetch>(
          "/parallel/prefetch",
          {.meaning = "such units gathered ahead [1]", .example = "2", .least = 0, .most = 64}),
      of_parallel<&RunParallel::order>(
          "/parallel/order", {.meaning = "which ranks are neighbours after tensor parallel ones",
                              .example = R"("pipeline_first")",
                              .words = "data_first|pipeline_first"}),
      fact("/parallel/sharding_software", kText, kAside,
           {.meaning = "megatron_fsdp, fsdp1 .., beside that of the profile",
            .example = R"("megatron_fsdp")",
            .told = "shards as the software of the profile has them",
            .idle = [](const RunRecord& run, std::string_view) { return !shards(run.parallel); }}),
  };
}

std::vector<RunKey> pipeline_keys() {
  return {
      of_parallel<&RunParallel::schedule>(
          "/pipeline/schedule",
          {.meaning = "order of micro-batches",
           .example = R"("1f1b")",
           .words = "1f1b|gpipe|interleaved|zb-v|zb-h1|dualpipe-v|dualpipe|pipedream-2bw|pipedream",
           .spellings = "interleaved_1f1b=interleaved|zbv_zero_bubble=zb-v|"
                        "zero_bubble_v=zb-v|zero_bubble_h1=zb-h1"}),
      of_parallel<&RunParallel::interleave>(
          "/pipeline/virtual_stages", {.meaning = "model chunks of a stage [1]", .example = "2"}),
      of_parallel<&RunParallel::stage_layers>(
          "/pipeline/stage_layers",
          {.meaning = "layers of each model chunk, in the model's order [equal]",
           .example = "[17, 15]",
           .least = 0}),
      of_parallel<&RunParallel::ends_count_as_layers>(
          "/pipeline/ends_count_as_layers",
          {.meaning = "embedding and loss each take the place of a layer", .example = "true"}),
      of_parallel<&RunParallel::flushes>(
          "/pipeline/flushes",
          {.meaning = "times that the pipeline runs empty in a step, as where gradients are "
                      "accumulated over whole runs of it [1]",
           .example = "4"}),
      fact("/pipeline/layout", kText, kPlan,
           {.meaning = "as Megatron-LM writes it: E embedding, t a layer, L the loss, | between "
                       "model chunks, (..)*n; it says stage_layers",
            .example = R"("Et*17|t*15L")"}),
  };
}

std::vector<RunKey> expert_keys() {
  return {
      of_parallel<&RunParallel::ep>(
          "/parallel/ep",
          {.meaning = "ranks that each have a part of the experts", .example = "4"}),
      of_experts<&RunExperts::tp>(
          "/experts/tp",
          {.meaning = "tensor parallel ranks that cut each expert: 1 or tp", .example = "1"}),
      of_experts<&RunExperts::dp>(
          "/experts/dp", {.use = kChecked,
                          .meaning = "copies of each expert: GPUs / (pp x ep x experts/tp)",
                          .example = "1"}),
      of_experts<&RunExperts::dispatcher>(
          "/experts/dispatcher",
          {.meaning = "what brings tokens to experts on other ranks",
           .example = R"("deepep")",
           .words = "alltoall|allgather|deepep|hybridep|nccl_ep|flex|mori|pplx",
           .spellings = "a2a=alltoall"}),
      of_experts<&RunExperts::routing>(
          "/experts/routing",
          {.meaning = "balanced: forced, each expert has as many tokens; random: nearly so; "
                      "trained: by the router, with the usual imbalance where none is stated; "
                      "unknown: refused, as all "
                      "experts of zplan.runs/1, which has no key for it",
           .example = R"("balanced")",
           .words = "balanced|trained|random|unknown",
           .told = "unknown=experts whose routing nobody states"}),
      of_experts<&RunExperts::imbalance>("/experts/imbalance",
                                         {.meaning = "work of the busiest rank, over the mean",
                                          .example = "1.3",
                                          .least = 1,
                                          .most = 1024}),
      of_experts<&RunExperts::capacity_factor>(
          "/experts/capacity_factor",
          {.meaning = "tokens that an expert takes at most, over the mean",
           .example = "1.25",
           .least = kAboveZero,
           .most = 1024}),
      of_experts<&RunExperts::dropless>("/experts/dropless",
                                        {.use = kChecked,
                                         .meaning = "no token is dropped; false: capacity_factor",
                                         .example = "true"}),
      of_experts<&RunExperts::communication_sms>(
          "/experts/communication_sms",
          {.meaning = "multiprocessors that the dispatcher's kernels keep",
           .example = "32",
           .least = 0,
           .most = 1024,
           .idle = has_no_exchange}),
  };
}

std::vector<RunKey> expert_kernel_keys() {
  return {
      aside("/experts/grouped_gemm", kFlag, "experts one after the other",
            "the products of all experts are one kernel", "false", "true"),
      of_experts<&RunExperts::fused_mlp>(
          "/experts/fused_mlp",
          {.meaning = "product, activation and casts of all experts are one kernel",
           .example = "true"}),
      aside("/experts/permute_fused", kFlag, "tokens permuted by a fused kernel",
            "tokens are sorted by expert in one kernel, or as they are sent", "true", "false"),
      aside("/experts/router_type", kText, "the router's scores in another type",
            "element type of the router's scores", R"("fp64")", R"("fp32")"),
      fact("/experts/rank_capacity", kNumber, kAside,
           {.meaning = "rows that a rank has room for, over the mean, where buffers are fixed",
            .example = "1.5",
            .least = kAboveZero,
            .plain = "1",
            .told = "buffers of experts larger than the rows that come"}),
      aside("/experts/paged_stash", kFlag, "activations of experts in pages",
            "activations of experts are kept in pages of such buffers", "true", "false"),
      fact("/experts/shard_group", kCount, kUnmodelled,
           {.meaning = "ranks that the states of an expert are sharded over, of those with copies",
            .example = "1",
            .told = "experts sharded over fewer ranks than have copies",
            .idle =
                [](const RunRecord& run, std::string_view value) {
                  return value == std::to_string(copies_of_experts(run));
                }}),
      fact("/experts/in_nvlink_domain", kFlag, kChecked,
           {.meaning = "experts are exchanged by the peer link alone", .example = "true"}),
  };
}

std::vector<RunKey> overlap_keys() {
  return {
      of_parallel<&RunParallel::overlap_grad_reduce>(
          "/overlap/grad_reduce",
          {.meaning = "gradients are reduced beside backward", .example = "true", .shown = true}),
      of_parallel<&RunParallel::overlap_param_gather>(
          "/overlap/param_gather",
          {.meaning = "parameters are gathered beside compute", .example = "true", .shown = true}),
      of_parallel<&RunParallel::tp_comm_overlap>(
          "/overlap/tensor_parallel",
          {.meaning = "collectives of tensor parallel ranks run beside products",
           .example = "false",
           .shown = true}),
      of_parallel<&RunParallel::overlap_update>(
          "/overlap/update",
          {.meaning = "the host updates layers beside the backward of others", .example = "true"}),
      of_parallel<&RunParallel::overlap_exchange>(
          "/overlap/exchange",
          {.meaning = "tokens are exchanged between experts beside the work of another micro-batch",
           .example = "true"}),
      of_parallel<&RunParallel::overlap_weight_gradients>(
          "/overlap/weight_gradients",
          {.meaning = "weight gradients are put off so that the exchange runs beside them",
           .example = "true"}),
      of_parallel<&RunParallel::overlap_shared_expert>(
          "/overlap/shared_expert",
          {.meaning = "the shared expert runs beside the exchange", .example = "true"}),
      beside("/overlap/context_parallel", true, "context parallel ranks that wait for keys",
             "rings send beside attention",
             [](const RunRecord& run, std::string_view) { return ring_of(run.parallel) == 1; }),
      beside("/overlap/pipeline", true, "stages that wait for what they send",
             "stages send and receive beside compute",
             [](const RunRecord& run, std::string_view) { return run.parallel.pp == 1; }),
  };
}

std::vector<RunKey> offload_keys() {
  return {
      of_offload<&RunOffload::params>("/offload/params",
                                      "offload device of parameters between uses"),
      of_offload<&RunOffload::grads>("/offload/grads", "offload device of gradients"),
      of_offload<&RunOffload::optimizer>(
          "/offload/optimizer",
          "offload device of optimizer states, which decides where the update runs"),
      of_offload<&RunOffload::activations>("/offload/activations",
                                           "offload device of layers' inputs"),
      bound<&RunRecord::offload, &RunOffload::activation_modules>(
          "/offload/activation_modules",
          {.meaning = "whose results go to the CPU until backward, where not layer_inputs",
           .example = R"(["moe_act"])",
           .words = kLayerModules}),
      bound<&RunRecord::offload, &RunOffload::states>(
          "/offload/states", {.meaning = "states on the CPU that the GPU fetches for its update",
                              .example = R"(["moment1"])",
                              .words = "master|moment1|moment2"}),
      bound<&RunRecord::offload, &RunOffload::delayed_update>(
          "/offload/delayed_update",
          {.meaning = "the host updates beside the next step, which uses older parameters",
           .example = "true"}),
  };
}

}  // namespace

std::vector<RunKey> parallel_keys() {
  return together({rank_keys(), shard_keys(), pipeline_keys(), expert_keys(), expert_kernel_keys(),
                   overlap_keys(), offload_keys()});
}

}  // namespace zplan
