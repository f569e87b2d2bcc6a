// This brings tokens to the experts that they chose, and what these give back: a way for each
// Dispatcher of a plan (plan.h). With one rank in the expert group nothing leaves the rank.
//
//   all-to-all   rows [g, r, h] of all tokens, a part to each of g ranks; back the same way, and
//                the sum of a token's rows where it came from [Lepikhin20 sec 3.2]
//   DeepEP,      the same operations of the Job. The rows of a token for experts of one node travel
//   HybridEP     to it once [DeepEP], [HybridEP]: an attribute of the exchange says so, by which
//                its time is counted; the executors send each row by itself
//   all-gather   all tokens of the group [g T, h] to each of its ranks, which takes rows of its own
//                experts; back as each rank's part of the sums, reduced and scattered
//                [MegatronCore transformer/moe/token_dispatcher.py]
//
// Ranks find the rows of their experts in parts by the rank that the tokens are of, in both ways in
// the same places: p parts, which are g or, where tensor parallel ranks cut the experts and each
// brings its own tokens, as many of each of these. Then a rank's rows go over the group as if it
// were alone, and what came to one of the tensor parallel ranks is gathered by all; what these give
// are parts of sums, which are reduced and scattered before they go back.
#pragma once

#include <functional>
#include <memory>

#include "planner/lower/blocks/router.h"

namespace zplan {

class TokenDispatch {
 public:
  virtual ~TokenDispatch() = default;

  // Brings x [T, h] to received [p, r, h], rows of the rank's experts; counts() tells how many.
  virtual void dispatch(LayerPass& to, const Router& router, const View& x,
                        const View& received) const = 0;
  virtual View counts(const LayerPass& to, const Router& router) const = 0;  // [p, E / g]
  // Returns the shape of the rows that come back and are kept, `width` elements of each.
  virtual Shape returned(std::int64_t width) const = 0;
  // Returns where the experts leave their rows [p, r, h], if `returned` is kept for backward.
  virtual View given(LayerPass& to, const View& returned) const = 0;
  // Sums these rows times the router's weights in `sum` [T, h], which is written or updated.
  virtual void combine(LayerPass& to, const Router& router, const View& given, const View& returned,
                       const View& sum) const = 0;
  // Takes dy [T, h] to the gradients of `given`, dgiven [p, r, h], and of the weights [T, k].
  virtual void combine_backward(LayerPass& to, const Router& router, const View& dy,
                                const View& returned, const View& dgiven,
                                const View& dweights) const = 0;
  // Takes the gradient of `received` to dx [T, h]; `beside` emits what needs none of what is
  // exchanged on the way.
  virtual void dispatch_backward(LayerPass& to, const Router& router, const View& dreceived,
                                 const View& dx, const std::function<void()>& beside) const = 0;
};

// `width`: h.
std::unique_ptr<TokenDispatch> make_dispatch(LayerMaker& maker, const ExpertRows& rows,
                                             const Router& router, std::int64_t width);

}  // namespace zplan
