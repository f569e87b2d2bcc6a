#include "exec/cuda/attention_graph.h"

#include <cmath>
#include <exception>
#include <optional>
#include <vector>

#include "exec/cuda/attention_pieces.h"

namespace zplan::exec::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The tensors of a piece of `whole`, dimensions in cuDNN's order [b, heads, s, d].
class Operands {
 public:
  Operands(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece)
      : graph_(graph), whole_(whole), piece_(piece) {}

  // Some heads of a [b, s, row] array: how many, and elements of each.
  struct Heads {
    std::int64_t count, size, row;
  };
  Heads queries() const { return {piece_.heads, whole_.head_dim, whole_.columns()}; }
  Heads keys() const { return {piece_.kv_heads, whole_.head_dim, whole_.columns()}; }
  Heads values() const { return {piece_.kv_heads, whole_.value_dim, whole_.columns()}; }
  Heads out() const { return {piece_.heads, whole_.value_dim, whole_.heads * whole_.value_dim}; }

  std::vector<std::int64_t> dims(const Heads& heads) const {
    return {piece_.batch, heads.count, piece_.sequence, heads.size};
  }
  std::vector<std::int64_t> strides(const Heads& heads) const {
    return {whole_.sequence * heads.row, heads.size, heads.row, 1};
  }
  // lse[b, a, s] has one column. Pieces of one sequence hold fewer heads: theirs is packed as well.
  std::vector<std::int64_t> lse_dims() const {
    return {piece_.batch, piece_.heads, piece_.sequence, 1};
  }
  std::vector<std::int64_t> lse_strides() const {
    return {piece_.heads * piece_.sequence, piece_.sequence, 1, 1};
  }

  Tensor make(AttentionOperand id, const Heads& heads) {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_uid(id).set_dim(dims(heads)).set_stride(strides(heads)));
  }
  Tensor make_lse() {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(kLse)
                             .set_dim(lse_dims())
                             .set_stride(lse_strides())
                             .set_data_type(fe::DataType_t::FLOAT));
  }
  void result(const Tensor& tensor, AttentionOperand id, const Heads& heads) const {
    tensor->set_output(true).set_uid(id).set_dim(dims(heads)).set_stride(strides(heads));
  }

 private:
  fe::graph::Graph& graph_;
  AttentionShape whole_, piece_;
};

void add_forward(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece,
                 float scale) {
  Operands operands(graph, whole, piece);
  auto [out, lse] =
      graph.sdpa(operands.make(kQ, operands.queries()), operands.make(kK, operands.keys()),
                 operands.make(kV, operands.values()),
                 fe::graph::SDPA_attributes()
                     .set_name("attention_forward")
                     .set_generate_stats(true)
                     .set_causal_mask(true)
                     .set_attn_scale(scale));
  operands.result(out, kOut, operands.out());
  lse->set_output(true)
      .set_uid(kLse)
      .set_dim(operands.lse_dims())
      .set_stride(operands.lse_strides())
      .set_data_type(fe::DataType_t::FLOAT);
}

void add_backward(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece,
                  float scale) {
  Operands operands(graph, whole, piece);
  auto [dq, dk, dv] =
      graph.sdpa_backward(operands.make(kQ, operands.queries()), operands.make(kK, operands.keys()),
                          operands.make(kV, operands.values()), operands.make(kOut, operands.out()),
                          operands.make(kDout, operands.out()), operands.make_lse(),
                          fe::graph::SDPA_backward_attributes()
                              .set_name("attention_backward")
                              .set_causal_mask(true)
                              .set_attn_scale(scale));
  operands.result(dq, kDq, operands.queries());
  operands.result(dk, kDk, operands.keys());
  operands.result(dv, kDv, operands.values());
}

void describe(fe::graph::Graph& graph, const AttentionKey& key, const AttentionShape& piece) {
  const bool is_bf16 = key.type == DType::kBf16;
  graph.set_io_data_type(is_bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const float scale = 1.0f / std::sqrt(static_cast<float>(piece.head_dim));
  const auto add = key.pass == AttentionPass::kForward ? add_forward : add_backward;
  add(graph, key.shape, piece, scale);
}

// Why there is no plan; nothing when it was built.
std::optional<std::string> try_build(AttentionGraph& plan, const GraphBuild& build) {
  try {
    fe::error_t result = build(plan.graph);
    if (result.is_bad()) return result.get_message();
    plan.workspace = {plan.graph.get_workspace_size()};
    return std::nullopt;
  } catch (const std::exception& error) {  // of the frontend's older layers
    return error.what();
  }
}

}  // namespace

std::unique_ptr<AttentionGraph> plan_attention(const AttentionKey& key, Bytes scratch,
                                               const GraphBuild& build, std::string& why_not) {
  for (const AttentionShape& piece : pieces_of(key.shape)) {
    auto plan = std::make_unique<AttentionGraph>();
    plan->piece = piece;
    describe(plan->graph, key, piece);
    if (const auto refusal = try_build(*plan, build)) {
      why_not = "cuDNN: " + *refusal;
      return nullptr;
    }
    if (plan->workspace <= scratch) return plan;
  }
  why_not = "cuDNN needs more scratch";
  return nullptr;
}

}  // namespace zplan::exec::cuda
