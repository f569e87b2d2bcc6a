// Keys of the model: what layers are made of.
#include <algorithm>

#include "planner/validate/run_key_rows.h"

namespace zplan {
namespace {

using namespace rows;
using enum RunKeyKind;
using enum RunKeyUse;

template <auto Member>
RunKey of_model(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::model, Member>(pointer, row);
}
template <auto Member>
RunKey of_routed(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::model, &RunModel::routed, Member>(pointer, row);
}
template <auto Member>
RunKey of_latent(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::model, &RunModel::latent, Member>(pointer, row);
}
template <auto Member>
RunKey of_mixers(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::model, &RunModel::mixers, Member>(pointer, row);
}
template <auto Member>
RunKey of_window(std::string_view pointer, RunKey row) {
  return bound<&RunRecord::model, &RunModel::window, Member>(pointer, row);
}

RunKey unmodelled(std::string_view pointer, RunKeyKind kind, std::string_view told,
                  std::string_view meaning, std::string_view example,
                  std::string_view plain = "false") {
  return fact(pointer, kind, kUnmodelled,
              {.meaning = meaning, .example = example, .least = 0, .plain = plain, .told = told});
}

constexpr std::string_view kSparse = "compressed sparse attention";
constexpr std::string_view kMtp = "multi-token prediction";

std::vector<RunKey> size_keys() {
  return {
      of_model<&RunModel::name>(
          "/model/name",
          {.meaning = "as printed", .example = R"("Llama-3-8B")", .required = true, .shown = true}),
      of_model<&RunModel::family>("/model/family", {.use = kPlan,
                                                    .meaning = "llama, gpt, moe ..; mpt: no biases",
                                                    .example = R"("llama")",
                                                    .spellings = "bert|roberta|modernbert|t5|vlm",
                                                    .required = true,
                                                    .shown = true,
                                                    .told = "bert=attention to later tokens|"
                                                            "roberta=attention to later tokens|"
                                                            "modernbert=attention to later tokens|"
                                                            "t5=encoders|vlm=vision towers"}),
      of_model<&RunModel::layers>(
          "/model/layers", {.meaning = "layers", .example = "32", .required = true, .shown = true}),
      of_model<&RunModel::hidden>(
          "/model/hidden",
          {.meaning = "width of the residual", .example = "4096", .required = true, .shown = true}),
      of_model<&RunModel::heads>("/model/heads",
                                 {.meaning = "attention heads", .example = "32", .shown = true}),
      of_model<&RunModel::kv_heads>("/model/kv_heads",
                                    {.meaning = "key-value heads", .example = "8", .shown = true}),
      of_model<&RunModel::head_dim>("/model/head_dim",
                                    {.meaning = "elements of a head", .example = "64"}),
      of_model<&RunModel::ffn>("/model/ffn", {.meaning = "width of the dense MLP; absent where "
                                                         "every layer has experts",
                                              .example = "14336",
                                              .shown = true}),
      of_model<&RunModel::gated_ffn>("/model/gated_ffn",
                                     {.meaning = "three matrices of an MLP, as SwiGLU",
                                      .example = "true",
                                      .required = true,
                                      .shown = true}),
      of_model<&RunModel::activation>(
          "/model/activation",
          {.meaning = "of the MLP, of its gate where it is gated; clamped_swiglu is gpt-oss's",
           .example = R"("silu")",
           .words =
               "gelu|gelu_tanh|quick_gelu|silu|swiglu|clamped_swiglu|geglu|relu|reglu|squared_relu",
           .shown = true}),
      of_model<&RunModel::vocab>("/model/vocab", {.meaning = "words, without padding",
                                                  .example = "128256",
                                                  .required = true,
                                                  .shown = true}),
      of_model<&RunModel::padded_vocab>(
          "/model/padded_vocab",
          {.meaning = "rows of the embedding with padding", .example = "131072"}),
      of_model<&RunModel::seq>(
          "/model/seq",
          {.meaning = "tokens of a sequence", .example = "8192", .required = true, .shown = true}),
      of_model<&RunModel::params>("/model/params", {.use = kStatement,
                                                    .meaning = "parameters as printed",
                                                    .example = "8.03e9",
                                                    .least = 1,
                                                    .most = 1e18}),
  };
}

std::vector<RunKey> layer_keys() {
  return {
      of_model<&RunModel::tied_embeddings>(
          "/model/tied_embeddings",
          {.meaning = "input and output share weights", .example = "false", .shown = true}),
      of_model<&RunModel::position>(
          "/model/position",
          {.meaning = "learned, rope, alibi or none",
           .example = R"("rope")",
           .spellings = "learned|rope|alibi|none|rotary=rope|rotary_embedding=rope|nope=none|"
                        "absolute=learned|learned_absolute=learned",
           .shown = true}),
      of_model<&RunModel::rope_theta>("/model/rope_theta",
                                      {.meaning = "base of rotary angles", .example = "500000"}),
      of_model<&RunModel::rotary_fraction>("/model/rotary_fraction",
                                           {.meaning = "of a head's elements that turn",
                                            .example = "0.5",
                                            .least = 1e-3,
                                            .most = 1}),
      of_model<&RunModel::norm>("/model/norm", {.meaning = "layernorm or rmsnorm",
                                                .example = R"("rmsnorm")",
                                                .spellings = "layernorm|rmsnorm",
                                                .shown = true}),
      of_model<&RunModel::biases>("/model/biases", {.meaning = "which linear layers have biases",
                                                    .example = R"("qkv")",
                                                    .words = "none|qkv|all"}),
      of_model<&RunModel::qk_norm>(
          "/model/qk_norm",
          {.meaning = "a norm of each head's queries and keys", .example = "true"}),
      of_model<&RunModel::dropout>("/model/dropout",
                                   {.meaning = "trained with dropout", .example = "true"}),
      of_model<&RunModel::parallel_residual>(
          "/model/parallel_residual",
          {.meaning = "both branches of a layer read its input, each through a norm or both one",
           .example = R"("two_norms")",
           .words = "none|two_norms|one_norm"}),
      of_model<&RunModel::post_norms>(
          "/model/post_norms",
          {.meaning = "a norm of what each branch gives, too", .example = "true"}),
      of_model<&RunModel::embedding_norm>(
          "/model/embedding_norm", {.meaning = "a norm of the embeddings", .example = "true"}),
      of_model<&RunModel::scaled_embedding>(
          "/model/scaled_embedding",
          {.meaning = "embeddings are taken sqrt(hidden) times", .example = "true"}),
      of_model<&RunModel::attention_sinks>(
          "/model/attention_sinks",
          {.meaning = "a score of each head that no key has", .example = "true"}),
      of_model<&RunModel::attention_cap>(
          "/model/attention_cap",
          {.meaning = "c of scores c tanh(x / c)", .example = "50", .least = 1}),
      of_model<&RunModel::logit_cap>(
          "/model/logit_cap", {.meaning = "the same of logits", .example = "30", .least = 1}),
  };
}

std::vector<RunKey> window_keys() {
  return {
      of_window<&RunWindow::tokens>(
          "/model/window/tokens",
          {.meaning = "last tokens that a query sees, its own among them", .example = "128"}),
      of_window<&RunWindow::window_layers>(
          "/model/window/window_layers",
          {.meaning = "layers in turn that have the window [1]", .example = "5"}),
      of_window<&RunWindow::full_layers>(
          "/model/window/full_layers",
          {.meaning = "layers behind them that see all [0]", .example = "1", .least = 0}),
  };
}

std::vector<RunKey> latent_keys() {
  return {
      of_latent<&RunLatent::key_value_rank>(
          "/model/mla/key_value_rank",
          {.meaning = "multi-head latent attention: width of the latent of keys and values",
           .example = "512"}),
      of_latent<&RunLatent::query_rank>(
          "/model/mla/query_rank",
          {.meaning = "width of that of queries; 0: none [0]", .example = "1536", .least = 0}),
      of_latent<&RunLatent::nope_size>(
          "/model/mla/nope_size",
          {.meaning = "elements of a head without position", .example = "128"}),
      of_latent<&RunLatent::rope_size>(
          "/model/mla/rope_size", {.meaning = "elements of a head with position", .example = "64"}),
      of_latent<&RunLatent::value_size>(
          "/model/mla/value_size", {.meaning = "elements of a head's values", .example = "96"}),
      of_latent<&RunLatent::index_heads>(
          "/model/mla/index_heads",
          {.meaning = "heads of an indexer that chooses keys; none: there is no indexer",
           .example = "64"}),
      of_latent<&RunLatent::index_head_size>(
          "/model/mla/index_head_size", {.meaning = "elements of one of them", .example = "128"}),
      of_latent<&RunLatent::index_keys>(
          "/model/mla/index_keys",
          {.meaning = "keys that it chooses for a query", .example = "2048"}),
  };
}

std::vector<RunKey> routed_keys() {
  return {
      of_model<&RunModel::experts>("/model/experts/count",
                                   {.meaning = "experts of a layer", .example = "64"}),
      of_model<&RunModel::top_k>("/model/experts/top_k",
                                 {.meaning = "experts of a token", .example = "4"}),
      of_model<&RunModel::expert_ffn>("/model/experts/ffn",
                                      {.meaning = "width of one expert", .example = "1408"}),
      of_model<&RunModel::shared_expert_ffn>(
          "/model/experts/shared_ffn",
          {.meaning = "width of what all tokens go through, of all shared experts together",
           .example = "2816"}),
      of_model<&RunModel::moe_layers>("/model/experts/layers",
                                      {.meaning = "layers that have experts", .example = "31"}),
      of_routed<&RunExpertModel::dense_layers>(
          "/model/experts/dense_layers",
          {.meaning = "first layers with an MLP instead", .example = "1", .least = 0}),
      of_routed<&RunExpertModel::every>(
          "/model/experts/every",
          {.meaning = "every so-many-th of the others has experts [1]", .example = "2"}),
  };
}

std::vector<RunKey> routing_keys() {
  return {
      of_routed<&RunExpertModel::scores>("/model/experts/scores",
                                         {.meaning = "scores of the router",
                                          .example = R"("sigmoid")",
                                          .words = "softmax|sigmoid"}),
      of_routed<&RunExpertModel::renormalised>(
          "/model/experts/renormalised",
          {.meaning = "the weights of the chosen ones sum to 1 [true]", .example = "false"}),
      of_routed<&RunExpertModel::scale>(
          "/model/experts/scale",
          {.meaning = "factor of the weights [1]", .example = "2.5", .least = kAboveZero}),
      of_routed<&RunExpertModel::groups>(
          "/model/experts/groups",
          {.meaning = "groups that experts are chosen by [1]", .example = "8"}),
      of_routed<&RunExpertModel::groups_per_token>(
          "/model/experts/groups_per_token",
          {.meaning = "groups that a token goes to [all]", .example = "4"}),
      of_routed<&RunExpertModel::load_balancing>(
          "/model/experts/load_balancing",
          {.meaning = "what keeps the loads even: a loss or a bias of the scores",
           .example = R"("aux_loss")",
           .words = "none|aux_loss|seq_aux_loss|global_aux_loss|bias|sinkhorn"}),
      of_routed<&RunExpertModel::balance>(
          "/model/experts/balance",
          {.meaning = "coefficient of that loss", .example = "0.001", .least = 0}),
      of_routed<&RunExpertModel::selection_bias>(
          "/model/experts/selection_bias",
          {.meaning = "a bias of the scores that experts are chosen by", .example = "true"}),
      of_routed<&RunExpertModel::bias_rate>(
          "/model/experts/bias_rate",
          {.meaning = "by which it moves each step", .example = "0.001", .least = 0}),
      of_routed<&RunExpertModel::shared_gate>(
          "/model/experts/shared_gate",
          {.meaning = "what the shared expert gives is multiplied by a score of the token",
           .example = "true"}),
      of_routed<&RunExpertModel::latent>(
          "/model/experts/latent_size",
          {.meaning = "width that experts read and write, where it is not hidden",
           .example = "1024"}),
      unmodelled("/model/experts/hash_routed_layers", kCount, "routing by hashes",
                 "layers whose experts the token's number chooses", "3", "0"),
  };
}

// Layers that have attention, where mixers are stated.
std::int64_t attention_layers(const RunModel& model) {
  const RunMixers& m = model.mixers;
  if (m.pattern) return std::ranges::count(*m.pattern, '*');
  return m.kind ? model.layers / m.every.value_or(model.layers) : model.layers;
}

// Modules that predict further ahead, of which no plan has those of other layers; and which layers
// have which mixer.
std::vector<RunKey> mixer_keys() {
  return {
      of_model<&RunModel::mtp_layers>(
          "/model/mtp/layers",
          {.meaning = "modules that predict tokens further ahead", .example = "1", .least = 0}),
      fact("/model/mtp/pattern", kText, kUnmodelled,
           {.meaning = "their layers, as hybrid_pattern; usual: attention, then experts",
            .example = R"("M-")",
            .plain = R"("*E")",
            .told = kMtp}),
      fact("/model/mtp/repeated", kFlag, kFlagged,
           {.meaning = "one module for all of them",
            .example = "true",
            .plain = "false",
            .told = "each module of multi-token prediction with parameters of its own"}),
      of_mixers<&RunMixers::pattern>(
          "/model/hybrid_pattern",
          {.meaning = "a letter a layer: M Mamba-2, * attention, - MLP, E experts",
           .example = R"("M-*-")"}),
      fact("/model/attention_layers", kCount, kUnmodelled,
           {.meaning = "layers that have attention, where not all have",
            .example = "6",
            .least = 0,
            .told = "layers without attention",
            .idle =
                [](const RunRecord& run, std::string_view value) {
                  return value == std::to_string(attention_layers(run.model));
                }}),
  };
}

std::vector<RunKey> state_keys() {
  using M = RunMixers;
  return {
      of_mixers<&M::heads>("/model/mamba/heads",
                           {.meaning = "heads of a Mamba-2 layer", .example = "64"}),
      of_mixers<&M::head_dim>("/model/mamba/head_dim",
                              {.meaning = "elements of one", .example = "64"}),
      of_mixers<&M::groups>("/model/mamba/groups",
                            {.meaning = "groups of its state", .example = "8"}),
      of_mixers<&M::state>("/model/mamba/state",
                           {.meaning = "elements of the state", .example = "128"}),
      of_mixers<&M::conv>("/model/mamba/conv",
                          {.meaning = "width of its convolution [4]", .example = "4"}),
      of_mixers<&M::chunk>("/model/mamba/chunk",
                           {.meaning = "tokens of a block of its scan [256]", .example = "128"}),
      of_mixers<&M::kind>("/model/linear_attention/kind",
                          {.meaning = "gated_delta_net, kda ..",
                           .example = R"("gated_delta_net")",
                           .spellings = "gated_delta_net|kda|lightning",
                           .told = "kda=a delta net with a gate of each channel|"
                                   "lightning=lightning attention"}),
      of_mixers<&M::every>(
          "/model/linear_attention/every",
          {.meaning = "every so-many-th layer has softmax attention", .example = "4"}),
      of_mixers<&M::key_heads>("/model/linear_attention/key_heads",
                               {.meaning = "heads of keys", .example = "16"}),
      of_mixers<&M::key_dim>("/model/linear_attention/key_dim",
                             {.meaning = "elements of one", .example = "128"}),
      of_mixers<&M::value_heads>("/model/linear_attention/value_heads",
                                 {.meaning = "heads of values", .example = "32"}),
      of_mixers<&M::value_dim>("/model/linear_attention/value_dim",
                               {.meaning = "elements of one", .example = "128"}),
      of_mixers<&M::linear_conv>("/model/linear_attention/conv",
                                 {.meaning = "width of its convolution [4]", .example = "4"}),
      of_model<&RunModel::attention_gate>(
          "/model/attention_output_gate",
          {.meaning = "what attention gives is multiplied by a gate of the token",
           .example = "true"}),
  };
}

std::vector<RunKey> sparse_keys() {
  return {
      unmodelled("/model/sparse_attention/kind", kText, kSparse,
                 "attention to keys that an index chooses: dsa, csa, nsa ..", R"("csa")", ""),
      unmodelled("/model/sparse_attention/index_heads", kCount, kSparse, "heads of the index", "64",
                 "0"),
      unmodelled("/model/sparse_attention/index_head_dim", kCount, kSparse, "elements of one",
                 "128", "0"),
      unmodelled("/model/sparse_attention/index_top_k", kCount, kSparse,
                 "keys that a query attends to", "512", "0"),
      unmodelled("/model/sparse_attention/window", kCount, kSparse, "last tokens beside them",
                 "128", "0"),
      unmodelled("/model/sparse_attention/compress_ratios", kCounts, kSparse,
                 "tokens of a compressed key, by layer", "[4, 128]", ""),
      unmodelled("/model/sparse_attention/query_rank", kCount, kSparse,
                 "width of the latent of queries", "1024", "0"),
      unmodelled("/model/sparse_attention/rope_size", kCount, kSparse,
                 "elements of a head with position", "64", "0"),
      unmodelled("/model/sparse_attention/output_rank", kCount, kSparse,
                 "width of the latent of the output", "1024", "0"),
      unmodelled("/model/sparse_attention/output_groups", kCount, kSparse,
                 "groups of heads that have one", "8", "0"),
  };
}

std::vector<RunKey> tower_keys() {
  return {
      unmodelled("/model/hyper_connections", kCount, "hyper-connections",
                 "residual streams of a token", "4", "0|1"),
      unmodelled("/model/encoder_layers", kCount, "encoders", "layers of an encoder", "12", "0"),
      unmodelled("/model/vision_layers", kCount, "vision towers",
                 "layers of a model for images before this one", "27", "0"),
  };
}

}  // namespace

std::vector<RunKey> model_keys() {
  return together({size_keys(), layer_keys(), window_keys(), latent_keys(), routed_keys(),
                   routing_keys(), mixer_keys(), state_keys(), sparse_keys(), tower_keys()});
}

}  // namespace zplan
