// This brings tokens to the experts that they chose, and what these give back: a way for each
// Dispatcher of a plan (plan.h). With one rank in the expert group nothing leaves the rank.
//
//   all-to-all   rows [g, r, h] of all tokens, a part to each of g ranks; back the same way, and
//   the
//                sum of a token's rows where it came from [Lepikhin20 sec 3.2]
//   all-gather   all tokens of the group [g T, h] to each of its ranks, which takes rows of its own
//                experts; back as each rank's part of the sums, reduced and scattered
//                [MegatronCore transformer/moe/token_dispatcher.py]
//
// Ranks find the rows of their experts in parts by the rank that the tokens are of, in both ways in
// the same places.
#pragma once

#include <memory>

#include "planner/lower/blocks/router.h"

namespace zplan {

class TokenDispatch {
 public:
  virtual ~TokenDispatch() = default;

  // Brings x [T, h] to received [g, r, h], rows of the rank's experts; counts() tells how many.
  virtual void dispatch(LayerPass& to, const Router& router, const View& x,
                        const View& received) const = 0;
  virtual View counts(const LayerPass& to, const Router& router) const = 0;  // [g, E / g]
  // Returns where the experts leave their rows, if `returned` [g, r, h] is kept for backward.
  virtual View given(LayerPass& to, const View& returned) const = 0;
  // Sums these rows times the router's weights in `sum` [T, h], which is written or updated.
  virtual void combine(LayerPass& to, const Router& router, const View& given, const View& returned,
                       const View& sum) const = 0;
  // Takes dy [T, h] to the gradients of `given`, dgiven [g, r, h], and of the weights [T, k].
  virtual void combine_backward(LayerPass& to, const Router& router, const View& dy,
                                const View& returned, const View& dgiven,
                                const View& dweights) const = 0;
  // Takes the gradient of `received` to dx [T, h].
  virtual void dispatch_backward(LayerPass& to, const Router& router, const View& dreceived,
                                 const View& dx) const = 0;
};

// `width`: h.
std::unique_ptr<TokenDispatch> make_dispatch(LayerMaker& maker, const ExpertRows& rows,
                                             const Router& router, std::int64_t width);

}  // namespace zplan
