// An indexer beside latent attention, which chooses the keys that a query sees, and its own loss
// [DeepSeek25b sec 2.1] (models/model_config.h). All tensor parallel ranks compute its scores
// alike. Of its loss each has what its heads give, so that gradients are summed over the ranks, as
// those of latents are. What it reads gets no gradient. Where it is not trained it only chooses.
#pragma once

#include "models/model_config.h"
#include "planner/lower/blocks/linear.h"
#include "planner/lower/blocks/norm.h"
#include "planner/lower/blocks/rope.h"

namespace zplan {

class Indexer {
 public:
  Indexer(LayerMaker& maker, const ModelConfig& model);

  Value chosen() const { return chosen_; }  // [b, s, i] i32, in the order of tokens
  bool learns(LayerPass& to) const { return to.trains(query_.weight()); }

  // Chooses from tokens x [T, h] and the latent of queries [T, q].
  void forward(LayerPass& to, const View& x, const View& latent) const;
  // Returns where tiles add what heads give the chosen keys, [b, s, i].
  View given(LayerPass& to) const;
  void clear_given(LayerPass& to) const { to.clear_for_tiles(Part::kIndex, given(to)); }
  void backward(LayerPass& to, const View& x, const View& latent) const;

 private:
  Value value(LayerMaker& maker, const char* name, std::int64_t width) const;
  View queries(View all) const;   // [T, n e] as [b, s, n, e]
  View by_token(View all) const;  // [T, w] as [b, s, w]
  View one_head(View all) const;  // [T, e] as [b, s, 1, e]
  Normed normed(const LayerPass& to) const { return {to[keys_], to[mean_], to[rstd_]}; }
  void gradients(LayerPass& to, const View& dq, const View& dk, const View& dweights) const;

  std::int64_t b_, s_, heads_, size_, chosen_keys_;
  std::int64_t attention_heads_, ranks_, global_tokens_;
  Rope query_rope_, key_rope_;
  Linear query_, key_, weights_;  // [q, n e], [h, e], [h, n]
  NormBlock norm_;
  Value queries_out_, key_out_, weights_out_;  // [T, n e], [T, e] before its norm, [T, n]
  Value keys_, mean_, rstd_;                   // [T, e], [T], [T]
  Value chosen_;
};

}  // namespace zplan
