// Multi-head latent attention [DeepSeek24 sec 2.1]: keys and values of all heads are products of
// one short latent vector of a token, and so are queries where they have one; norms stand before
// these products. Each key ends with a part that carries the position and that all heads share.
//
//   query    q = (norm(x W_dq) or x) W_uq, by head [nope | rope]      Eq.12-14, 16
//   latent   c = norm(x W_dkv), shared part k_r = x W_kr              Eq.9, 15
//   keys     [c W_uk | k_r] and values c W_uv, W_uk and W_uv by head side by side in one matrix
//
// The ropes are rotated; scores are divided by the root of nope + rope. Tensor parallel ranks and
// tiles cut what is by head; the latents and k_r are of all of them and computed alike on each
// rank, so that gradients of the matrices before them are summed over the ranks. An indexer may
// choose the keys that a query sees (indexer.h).
#pragma once

#include <optional>

#include "models/model_config.h"
#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/exchanged_core.h"
#include "planner/lower/blocks/indexer.h"
#include "planner/lower/blocks/norm.h"

namespace zplan {

// A latent before and after its norm.
class Latent {
 public:
  Latent(LayerMaker& maker, Part down, Part norm, const std::string& name, std::int64_t rank,
         std::int64_t epsilon);

  void down(LayerPass& to, const View& x) const;
  void normalise(LayerPass& to) const;
  // What tiles add the gradient of the normalised latent to, [T, rank].
  View gradient(LayerPass& to) const { return to.scratch_tokens(gradient_name_.c_str(), rank_); }
  void clear_gradient(LayerPass& to) const { to.clear_for_tiles(norm_.part(), gradient(to)); }
  // From that gradient; adds to dx or, as its access says, writes it.
  void backward(LayerPass& to, const View& x, const View& dx) const;

  const View& normed(const LayerPass& to) const { return to[normed_]; }

 private:
  Normed result(const LayerPass& to) const { return {to[normed_], {}, to[rstd_]}; }

  std::int64_t rank_;
  std::string gradient_name_;
  Linear down_;  // [h, rank]
  NormBlock norm_;
  Value latent_, normed_, rstd_;  // [T, rank], [T, rank], [T]
};

class LatentAttention : public Body {
 public:
  LatentAttention(LayerMaker& maker, const ModelConfig& model);

  std::vector<Use> uses() const override { return {query_up_.use(), projection_.linear.use()}; }
  BodyResult result() const override { return projection_; }
  bool reads_input(const LayerPass& to) const override;
  void forward_before_tiles(LayerPass& to, const View& x) const override;
  void forward(LayerPass& to, const View& x) const override;
  void backward_before_tiles(LayerPass& to) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;
  void backward_after_tiles(LayerPass& to, const View& x, const View& dx) const override;

 private:
  View by_head(View of, std::int64_t width) const;  // [T, a width] as [b, s, a, width]
  View shared(View rope) const;                     // [T, r] as [b, s, r]
  View rope_gradient(LayerPass& to) const;

  std::int64_t stretches_, stretch_;  // b, s of each
  std::int64_t rope_, theta_;         // r; 0: the ropes are not rotated
  std::int64_t keys_values_;          // of a head in the product that gives them: nope + v
  Heads heads_;                       // of one tile of one rank
  std::optional<Latent> query_;
  Latent key_value_;
  Linear key_rope_;     // [h, r]
  Value key_rope_out_;  // [T, r], not rotated
  std::optional<Indexer> indexer_;
  Linear query_up_, key_up_;  // by head
  ExchangedCore core_;
  LastProduct projection_;  // [a v, h]
};

}  // namespace zplan
