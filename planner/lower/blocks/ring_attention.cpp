#include "planner/lower/blocks/ring_attention.h"

#include <string>

#include "planner/lower/blocks/attention_core.h"
#include "planner/lower/context_axis.h"

namespace zplan {
namespace {

constexpr const char* kBlocks = "keys";
constexpr const char* kGradients = "d.keys";

View flat(View view) { return view.shape = {view.shape.elements()}, view; }

}  // namespace

RingAttention::RingAttention(const LayerMaker& m, const Heads& heads)
    : ranks_(m.plan.parallel.ring),
      batch_(m.b()),
      sequence_(m.s()),
      kv_heads_(heads.keys),
      first_(heads.queries * heads.size),
      width_(heads.width() - first_),
      columns_(heads.width()),
      sum_(m.kernels.statistics),
      compute_(m.compute()) {}

View RingAttention::block(LayerPass& to, const char* name, std::int32_t turn) const {
  return to.scratch(std::string(name) + "." + std::to_string(turn % 2),
                    {batch_ * sequence_, width_});
}

View RingAttention::by_group(View block) const {
  block.shape = {batch_, sequence_, kv_heads_, width_ / kv_heads_};
  return block;
}

View RingAttention::rows(View qkv) const {
  qkv.shape = {batch_ * sequence_, columns_};
  return qkv;
}

void RingAttention::take(LayerPass& to, const View& qkv) const {
  to.kernel(Part::kKeys, Action::kPack, KernelId::kTakeColumns,
            {read(rows(qkv)), write(block(to, kBlocks, 0))}, {first_});
}

void RingAttention::pass_on(LayerPass& to, std::int32_t step) const {
  if (step + 1 < ranks_)
    to.shift(Part::kKeys, kRingAxis, block(to, kBlocks, step), block(to, kBlocks, step + 1));
}

// Not negative where the block is of a rank before this one.
Attribute RingAttention::earlier(const LayerPass& to, std::int32_t step) const {
  return {-step, to.by_place(kRingAxis, 1).steps};
}

void RingAttention::forward(LayerPass& to, const View& qkv, const View& out,
                            const View& lse) const {
  take(to, qkv);
  const bool widens = sum_ != compute_;
  const View sum = widens ? to.scratch("attention.sum", out.shape, sum_) : out;
  to.step(0, [&] {
    pass_on(to, 0);
    to.kernel(Part::kAttention, KernelId::kAttentionForward,
              {read(qkv), write(out), write(lse), to.workspace()});
    if (widens)
      to.kernel(Part::kAttention, Action::kCast, KernelId::kCast,
                {read(flat(out)), write(flat(sum))});
  });
  for (std::int32_t i = 1; i < ranks_; ++i)
    to.step(i, [&] {
      pass_on(to, i);
      to.kernel(Part::kAttention, KernelId::kBlockAttentionForward,
                {read(qkv), read(by_group(block(to, kBlocks, i))), update(sum), update(lse),
                 to.workspace()},
                {earlier(to, i)});
      if (widens && i + 1 == ranks_)
        to.kernel(Part::kAttention, Action::kCast, KernelId::kCast,
                  {read(flat(sum)), write(flat(out))});
    });
}

void RingAttention::backward(LayerPass& to, const View& dout, const View& qkv, const View& out,
                             const View& lse, const View& dqkv) const {
  take(to, qkv);
  to.step(0, [&] {
    pass_on(to, 0);
    to.kernel(Part::kAttention, KernelId::kAttentionBackward,
              {read(dout), read(qkv), read(out), read(lse), write(dqkv), to.workspace()});
  });
  for (std::int32_t i = 1; i < ranks_; ++i)
    to.step(i, [&] {
      pass_on(to, i);
      const View sum = block(to, kGradients, i), next = block(to, kGradients, i + 1);
      const View own = i == 1 ? sum : to.scratch("d.keys.own", sum.shape);
      to.kernel(Part::kAttention, KernelId::kBlockAttentionBackward,
                {read(dout), read(qkv), read(by_group(block(to, kBlocks, i))), read(out), read(lse),
                 update(dqkv), write(by_group(own)), to.workspace()},
                {earlier(to, i)});
      if (i > 1)
        to.kernel(Part::kKeyGradients, Action::kAccumulate, KernelId::kAccumulate,
                  {read(flat(own)), update(flat(sum))});
      to.shift(Part::kKeyGradients, kRingAxis, sum, next);
    });
  to.kernel(Part::kKeyGradients, Action::kUnpack, KernelId::kAddColumns,
            {read(block(to, kGradients, ranks_)), update(rows(dqkv))}, {first_});
}

}  // namespace zplan
