#include "planner/lower/blocks/token_dispatch.h"

#include "planner/lower/blocks/maker.h"

namespace zplan {
namespace {

// Brings the numbers of rows that each part has for the experts of the rank. Steps tell what is
// gathered of tensor parallel ranks from other numbers of the router.
void bring_counts(LayerPass& to, const ExpertRows& rows, const View& sent, const View& counts) {
  if (rows.gathered == 1) return to.exchange_rows(Part::kRouter, sent, counts);
  const View arrived = to.scratch("counts.arrived", rows.sent_counts(), DType::kI32);
  to.exchange_rows(Part::kRouter, sent, arrived);
  to.step(2, [&] { to.gather_parts(Part::kRouter, arrived, counts); });
}

// Rows go to the ranks that have their experts, if these are several; where tensor parallel ranks
// cut experts and bring their own tokens, what came to one of them goes to all.
class RowsSent : public TokenDispatch {
 public:
  // `choices`: of a token, where its rows travel together (program.h); else none.
  RowsSent(LayerMaker& maker, const ExpertRows& rows, const Attributes& choices)
      : rows_(rows), choices_(choices) {
    if (rows.are_exchanged())
      received_counts_ = maker.values.add({.name = "counts.received",
                                           .shape = rows.counts(),
                                           .dtype = DType::kI32,
                                           .of = kOfExperts});
  }

  void dispatch(LayerPass& to, const Router& router, const View& x,
                const View& received) const override {
    const View sent = rows_.are_exchanged() ? scratch(to, "experts.sent", received) : received;
    to.kernel(Part::kDispatch, KernelId::kDispatchRows,
              {read(x), read(router.rows(to)), read(router.counts(to)), write(sent)});
    if (!rows_.are_exchanged()) return;
    bring_counts(to, rows_, router.counts(to), to[received_counts_]);
    bring(to, Part::kDispatch, sent, received, "experts.arrived");
    to.launched();
  }

  View counts(const LayerPass& to, const Router& router) const override {
    return rows_.are_exchanged() ? to[received_counts_] : router.counts(to);
  }

  View given(LayerPass& to, const View& returned) const override {
    if (!rows_.are_exchanged()) return returned;
    return to.scratch("experts.given", rows_.of(width_of(returned)), returned.dtype);
  }
  Shape returned(std::int64_t width) const override { return rows_.sent(width); }

  void combine(LayerPass& to, const Router& router, const View& given, const View& returned,
               const View& sum) const override {
    if (rows_.are_exchanged()) {
      take_back(to, Part::kCombine, given, returned, "experts.summed");
      to.launched();
    }
    to.kernel(Part::kCombine, KernelId::kCombineRows,
              {read(returned), read(router.rows(to)), sum, read(router.weights(to))});
  }

  void combine_backward(LayerPass& to, const Router& router, const View& dy, const View& returned,
                        const View& dgiven, const View& dweights) const override {
    const View drows = rows_.are_exchanged() ? scratch(to, "d.experts.returned", dgiven) : dgiven;
    to.kernel(Part::kCombine, KernelId::kCombineRowsBackward,
              {read(dy), read(returned), read(router.rows(to)), read(router.weights(to)),
               read(router.counts(to)), write(drows), write(dweights)});
    if (!rows_.are_exchanged()) return;
    bring(to, Part::kCombine, drows, dgiven, "d.experts.arrived");
    to.launched();
  }

  void dispatch_backward(LayerPass& to, const Router& router, const View& dreceived, const View& dx,
                         const std::function<void()>& beside) const override {
    View drows = dreceived;
    if (rows_.are_exchanged()) {
      drows = scratch(to, "d.experts.sent", dreceived);
      take_back(to, Part::kDispatch, dreceived, drows, "d.experts.summed");
    }
    beside();
    if (rows_.are_exchanged()) to.launched();
    to.kernel(Part::kDispatch, KernelId::kCombineRows,
              {read(drows), read(router.rows(to)), write(dx)});
  }

 private:
  static std::int64_t width_of(const View& rows) { return rows.shape[2]; }
  // Returns room for the rows of the rank's own tokens.
  View scratch(LayerPass& to, const char* name, const View& like) const {
    return to.scratch(name, rows_.sent(width_of(like)), like.dtype);
  }

  // Rows of the rank's tokens, to the ranks that have experts.
  void bring(LayerPass& to, Part part, const View& sent, const View& all, const char* name) const {
    if (rows_.gathered == 1) return to.exchange_rows(part, sent, all, choices_);
    const View arrived = scratch(to, name, sent);
    to.exchange_rows(part, sent, arrived, choices_);
    to.gather_parts(part, arrived, all);
  }
  // Takes what these give to the ranks of the tokens.
  void take_back(LayerPass& to, Part part, const View& all, const View& own,
                 const char* name) const {
    if (rows_.gathered == 1) return to.exchange_rows(part, all, own, choices_);
    const View summed = scratch(to, name, own);
    to.sum_parts(part, all, summed);
    to.exchange_rows(part, summed, own, choices_);
  }

  ExpertRows rows_;
  Attributes choices_;
  Value received_counts_;  // [p, E / g]
};

// Tokens come to all ranks of the group, which take the rows of their own experts. Where tensor
// parallel ranks cut these and bring their own tokens, the tokens of all of them come.
class TokensGathered : public TokenDispatch {
 public:
  TokensGathered(LayerMaker& maker, const ExpertRows& rows, const Router& router,
                 std::int64_t width)
      : rows_(rows),
        tokens_{rows.parts() * rows.tokens, width},
        chosen_{tokens_[0], router.chosen()[1]} {
    own_rows_ = maker.values.add(
        {.name = "rows.own", .shape = chosen_, .dtype = DType::kI32, .of = kOfExperts});
    own_counts_ = maker.values.add(
        {.name = "counts.own", .shape = rows.counts(), .dtype = DType::kI32, .of = kOfExperts});
    weights_ = maker.values.add({.name = "weights.all",
                                 .shape = chosen_,
                                 .dtype = maker.kernels.statistics,
                                 .of = kOfExperts,
                                 .in_backward = Read::kFirst});
  }

  void dispatch(LayerPass& to, const Router& router, const View& x,
                const View& received) const override {
    const View rows = to.scratch("rows.all", chosen_, DType::kI32);
    gather(to, Part::kRouter, router.rows(to), rows, "rows.group");
    bring_counts(to, rows_, router.counts(to), to[own_counts_]);
    gather(to, Part::kCombine, router.weights(to), to[weights_], "weights.group");
    to.kernel(Part::kRouter, Action::kUnpack, KernelId::kSelectRows,
              {read(rows), write(to[own_rows_])},
              {rows_.parts(), rows_.room, to.place_among_experts()});
    const View all = to.scratch("experts.tokens", tokens_, x.dtype);
    gather(to, Part::kDispatch, x, all, "experts.group");
    to.launched();
    to.kernel(Part::kDispatch, KernelId::kDispatchRows,
              {read(all), read(to[own_rows_]), read(to[own_counts_]), write(received)});
  }

  View counts(const LayerPass& to, const Router&) const override { return to[own_counts_]; }

  View given(LayerPass&, const View& returned) const override { return returned; }
  Shape returned(std::int64_t width) const override { return rows_.of(width); }

  void combine(LayerPass& to, const Router&, const View&, const View& returned,
               const View& sum) const override {
    const View parts = to.scratch("experts.parts", tokens_, sum.dtype);
    to.kernel(Part::kCombine, KernelId::kCombineRows,
              {read(returned), read(to[own_rows_]), write(parts), read(to[weights_])});
    if (sum.access != Access::kUpdate) {
      scatter(to, Part::kCombine, parts, sum, "experts.group.sum");
      return to.launched();
    }
    const View own = to.scratch("experts.own", sum.shape, sum.dtype);
    scatter(to, Part::kCombine, parts, own, "experts.group.sum");
    to.launched();
    to.kernel(Part::kCombine, Action::kAccumulate, KernelId::kResidualAdd,
              {read(sum), read(own), write(sum)});
  }

  void combine_backward(LayerPass& to, const Router&, const View& dy, const View& returned,
                        const View& dgiven, const View& dweights) const override {
    const View all = to.scratch("d.experts.tokens", tokens_, dy.dtype);
    const View all_weights = to.scratch("d.weights.all", chosen_, dweights.dtype);
    gather(to, Part::kCombine, dy, all, "d.experts.group");
    to.launched();
    to.kernel(Part::kCombine, KernelId::kCombineRowsBackward,
              {read(all), read(returned), read(to[own_rows_]), read(to[weights_]),
               read(to[own_counts_]), write(dgiven), write(all_weights)});
    scatter(to, Part::kRouter, all_weights, dweights, "d.weights.group");
  }

  void dispatch_backward(LayerPass& to, const Router&, const View& dreceived, const View& dx,
                         const std::function<void()>& beside) const override {
    const View parts = to.scratch("d.experts.parts", tokens_, dx.dtype);
    to.kernel(Part::kDispatch, KernelId::kCombineRows,
              {read(dreceived), read(to[own_rows_]), write(parts)});
    scatter(to, Part::kDispatch, parts, dx, "d.experts.group.sum");
    beside();
    to.launched();
  }

 private:
  // Returns room for what the tokens of the expert group alone have.
  View of_group(LayerPass& to, const char* name, const View& all) const {
    return to.scratch(name, {all.shape[0] / rows_.gathered, all.shape[1]}, all.dtype);
  }
  void gather(LayerPass& to, Part part, const View& own, const View& all, const char* name) const {
    if (rows_.gathered == 1) return to.gather_rows(part, own, all);
    const View group = of_group(to, name, all);
    to.gather_rows(part, own, group);
    to.step(1, [&] { to.gather_parts(part, group, all); });
  }
  void scatter(LayerPass& to, Part part, const View& all, const View& own, const char* name) const {
    if (rows_.gathered == 1) return to.sum_rows(part, all, own);
    const View group = of_group(to, name, all);
    to.sum_parts(part, all, group);
    to.sum_rows(part, group, own);
  }

  ExpertRows rows_;
  Shape tokens_, chosen_;                  // [p T, h], [p T, k]
  Value own_rows_, own_counts_, weights_;  // [p T, k], [p, E / g], [p T, k]
};

}  // namespace

std::unique_ptr<TokenDispatch> make_dispatch(LayerMaker& maker, const ExpertRows& rows,
                                             const Router& router, std::int64_t width) {
  if (rows.are_exchanged() && maker.plan.dispatcher == Dispatcher::kAllGather)
    return std::make_unique<TokensGathered>(maker, rows, router, width);
  const bool once = sends_tokens_once(maker.plan.dispatcher);
  return std::make_unique<RowsSent>(maker, rows, once ? router.choices() : Attributes{});
}

}  // namespace zplan
