#include "planner/lower/blocks/token_dispatch.h"

#include "planner/lower/blocks/maker.h"

namespace zplan {
namespace {

// Rows go to the ranks that have their experts, if these are several.
class RowsSent : public TokenDispatch {
 public:
  RowsSent(LayerMaker& maker, const ExpertRows& rows) : is_exchanged_(rows.are_exchanged()) {
    if (is_exchanged_)
      received_counts_ = maker.values.add(
          {.name = "counts.received", .shape = rows.counts(), .dtype = DType::kI32});
  }

  void dispatch(LayerPass& to, const Router& router, const View& x,
                const View& received) const override {
    const View sent = is_exchanged_ ? to.scratch("experts.sent", received.shape) : received;
    to.kernel(Part::kDispatch, KernelId::kDispatchRows,
              {read(x), read(router.rows(to)), read(router.counts(to)), write(sent)});
    if (!is_exchanged_) return;
    to.exchange_rows(Part::kRouter, router.counts(to), to[received_counts_]);
    to.exchange_rows(Part::kDispatch, sent, received);
  }

  View counts(const LayerPass& to, const Router& router) const override {
    return is_exchanged_ ? to[received_counts_] : router.counts(to);
  }

  View given(LayerPass& to, const View& returned) const override {
    return is_exchanged_ ? to.scratch("experts.given", returned.shape) : returned;
  }

  void combine(LayerPass& to, const Router& router, const View& given, const View& returned,
               const View& sum) const override {
    if (is_exchanged_) to.exchange_rows(Part::kCombine, given, returned);
    to.kernel(Part::kCombine, KernelId::kCombineRows,
              {read(returned), read(router.rows(to)), sum, read(router.weights(to))});
  }

  void combine_backward(LayerPass& to, const Router& router, const View& dy, const View& returned,
                        const View& dgiven, const View& dweights) const override {
    const View drows = is_exchanged_ ? to.scratch("d.experts.returned", dgiven.shape) : dgiven;
    to.kernel(Part::kCombine, KernelId::kCombineRowsBackward,
              {read(dy), read(returned), read(router.rows(to)), read(router.weights(to)),
               read(router.counts(to)), write(drows), write(dweights)});
    if (is_exchanged_) to.exchange_rows(Part::kCombine, drows, dgiven);
  }

  void dispatch_backward(LayerPass& to, const Router& router, const View& dreceived,
                         const View& dx) const override {
    View drows = dreceived;
    if (is_exchanged_) {
      drows = to.scratch("d.experts.sent", dreceived.shape);
      to.exchange_rows(Part::kDispatch, dreceived, drows);
    }
    to.kernel(Part::kDispatch, KernelId::kCombineRows,
              {read(drows), read(router.rows(to)), write(dx)});
  }

 private:
  bool is_exchanged_;
  Value received_counts_;  // [g, E / g]
};

// Tokens come to all ranks of the group, which take the rows of their own experts.
class TokensGathered : public TokenDispatch {
 public:
  TokensGathered(LayerMaker& maker, const ExpertRows& rows, const Router& router,
                 std::int64_t width)
      : ranks_(rows.ranks),
        room_(rows.room),
        tokens_{rows.ranks * rows.tokens, width},
        chosen_{tokens_[0], router.chosen()[1]} {
    own_rows_ = maker.values.add({.name = "rows.own", .shape = chosen_, .dtype = DType::kI32});
    own_counts_ =
        maker.values.add({.name = "counts.own", .shape = rows.counts(), .dtype = DType::kI32});
    weights_ = maker.values.add({.name = "weights.all",
                                 .shape = chosen_,
                                 .dtype = maker.kernels.statistics,
                                 .in_backward = Read::kFirst});
  }

  void dispatch(LayerPass& to, const Router& router, const View& x,
                const View& received) const override {
    const View rows = to.scratch("rows.all", chosen_, DType::kI32);
    to.gather_rows(Part::kRouter, router.rows(to), rows);
    to.exchange_rows(Part::kRouter, router.counts(to), to[own_counts_]);
    to.gather_rows(Part::kCombine, router.weights(to), to[weights_]);
    to.kernel(Part::kRouter, Action::kUnpack, KernelId::kSelectRows,
              {read(rows), write(to[own_rows_])}, {ranks_, room_, to.place_among_experts()});
    const View all = to.scratch("experts.tokens", tokens_, x.dtype);
    to.gather_rows(Part::kDispatch, x, all);
    to.kernel(Part::kDispatch, KernelId::kDispatchRows,
              {read(all), read(to[own_rows_]), read(to[own_counts_]), write(received)});
  }

  View counts(const LayerPass& to, const Router&) const override { return to[own_counts_]; }

  View given(LayerPass&, const View& returned) const override { return returned; }

  void combine(LayerPass& to, const Router&, const View&, const View& returned,
               const View& sum) const override {
    const View parts = to.scratch("experts.parts", tokens_, sum.dtype);
    to.kernel(Part::kCombine, KernelId::kCombineRows,
              {read(returned), read(to[own_rows_]), write(parts), read(to[weights_])});
    if (sum.access != Access::kUpdate) return to.sum_rows(Part::kCombine, parts, sum);
    const View own = to.scratch("experts.own", sum.shape, sum.dtype);
    to.sum_rows(Part::kCombine, parts, own);
    to.kernel(Part::kCombine, Action::kAccumulate, KernelId::kResidualAdd,
              {read(sum), read(own), write(sum)});
  }

  void combine_backward(LayerPass& to, const Router&, const View& dy, const View& returned,
                        const View& dgiven, const View& dweights) const override {
    const View all = to.scratch("d.experts.tokens", tokens_, dy.dtype);
    const View all_weights = to.scratch("d.weights.all", chosen_, dweights.dtype);
    to.gather_rows(Part::kCombine, dy, all);
    to.kernel(Part::kCombine, KernelId::kCombineRowsBackward,
              {read(all), read(returned), read(to[own_rows_]), read(to[weights_]),
               read(to[own_counts_]), write(dgiven), write(all_weights)});
    to.sum_rows(Part::kRouter, all_weights, dweights);
  }

  void dispatch_backward(LayerPass& to, const Router&, const View& dreceived,
                         const View& dx) const override {
    const View parts = to.scratch("d.experts.parts", tokens_, dx.dtype);
    to.kernel(Part::kDispatch, KernelId::kCombineRows,
              {read(dreceived), read(to[own_rows_]), write(parts)});
    to.sum_rows(Part::kDispatch, parts, dx);
  }

 private:
  std::int64_t ranks_, room_;
  Shape tokens_, chosen_;                  // [g T, h], [g T, k]
  Value own_rows_, own_counts_, weights_;  // [g T, k], [g, E / g], [g T, k]
};

}  // namespace

std::unique_ptr<TokenDispatch> make_dispatch(LayerMaker& maker, const ExpertRows& rows,
                                             const Router& router, std::int64_t width) {
  if (rows.are_exchanged() && maker.plan.dispatcher == Dispatcher::kAllGather)
    return std::make_unique<TokensGathered>(maker, rows, router, width);
  return std::make_unique<RowsSent>(maker, rows);
}

}  // namespace zplan
