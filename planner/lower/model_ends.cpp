#include "planner/lower/model_ends.h"

namespace zplan {
namespace {

constexpr Lane kLane = Lane::kCompute;
constexpr std::int32_t kHostTokenSlots = 2;  // load the next batch while this one is copied

}  // namespace

ModelEnds::ModelEnds(Stage& stage, Parameters& parameters, Gradients& gradients)
    : s_(stage), parameters_(parameters), gradients_(gradients) {
  const Shape batch{s_.b(), s_.s() + 1};
  if (s_.is_first() || s_.is_last()) {
    host_tokens_ = input("tokens.host", Tier::kCpu, batch, DType::kI32, kHostTokenSlots);
    tokens_ = input("tokens", Tier::kGpu, batch, DType::kI32, s_.in_flight + 1);
    host_tokens_.slot = tokens_.slot = {0, 1, 0};
  }
  if (!s_.is_last()) return;
  loss_ = input("loss", Tier::kGpu, {1}, DType::kF64);
  host_loss_ = input("loss.host", Tier::kCpu, {1}, DType::kF64);
}

View ModelEnds::input(const char* name, Tier tier, Shape shape, DType dtype, std::int32_t slots) {
  const BufferId id = s_.out.add({.name = name,
                                  .slot_size = size_of(dtype) * shape.elements(),
                                  .slots = slots,
                                  .tier = tier,
                                  .category = Category::kInput,
                                  .dtype = dtype,
                                  .persistent = true});
  return view_of(id, dtype, shape);
}

View ModelEnds::activation(const char* name, Shape shape, DType dtype) {
  const BufferId id = s_.body.get({.name = name,
                                   .slot_size = size_of(dtype) * shape.elements(),
                                   .category = Category::kActivations,
                                   .dtype = dtype});
  return view_of(id, dtype, shape);
}

void ModelEnds::begin_step() {
  if (s_.is_last())
    s_.out.kernel({Phase::kBegin, Part::kLoss, Action::kZero}, kLane, KernelId::kFillZero,
                  {write(loss_)});
}

void ModelEnds::load_batch() {
  s_.out.kernel({Phase::kForward, Part::kBatch, Action::kCompute}, Lane::kCpu, KernelId::kLoadBatch,
                {write(host_tokens_)}, {s_.dp(), s_.plan.batch.global_batch});
  s_.out.copy({Phase::kForward, Part::kBatch, Action::kUpload}, host_tokens_, tokens_);
}

void ModelEnds::embed(const View& x) {
  const auto token_at = parameters_.fetch(
      Phase::kForward, s_.layout.unit_of(Param::kTokenEmbedding), Part::kEmbedding, {});
  const auto position_at = parameters_.fetch(
      Phase::kForward, s_.layout.unit_of(Param::kPositionEmbedding), Part::kPosition, {});
  View out = x;
  out.shape = {s_.b(), s_.s(), s_.h()};
  s_.out.kernel({Phase::kForward, Part::kEmbedding, Action::kCompute}, kLane,
                KernelId::kEmbeddingForward,
                {read(tokens_), read(parameters_.view(token_at, Param::kTokenEmbedding)),
                 read(parameters_.view(position_at, Param::kPositionEmbedding)), write(out)});
}

void ModelEnds::head_forward(const View& x) {
  const Param head = s_.layout.head();
  const std::int64_t t = s_.tokens();
  norm_ = activation("final.norm", {t, s_.h()}, s_.compute());
  mean_ = activation("final.mean", {t}, s_.kernels.statistics);
  rstd_ = activation("final.rstd", {t}, s_.kernels.statistics);
  logits_ = activation("logits", {t, s_.layout.padded_vocab}, s_.compute());
  norm_at_ = parameters_.fetch(Phase::kForward, s_.layout.unit_of(Param::kFinalNormGain),
                               Part::kFinalNorm, {});
  s_.out.kernel({Phase::kForward, Part::kFinalNorm, Action::kCompute}, kLane,
                KernelId::kLayerNormForward,
                {read(x), read(parameters_.view(*norm_at_, Param::kFinalNormGain)),
                 read(parameters_.view(*norm_at_, Param::kFinalNormBias)), write(norm_),
                 write(mean_), write(rstd_)});
  head_at_ = parameters_.fetch(Phase::kForward, s_.layout.unit_of(head), Part::kHead, {});
  s_.out.kernel(
      {Phase::kForward, Part::kHead, Action::kCompute}, kLane, KernelId::kHeadForward,
      {read(norm_), read(parameters_.view(*head_at_, head)), write(logits_), s_.workspace});
  s_.out.kernel({Phase::kForward, Part::kLoss, Action::kCompute}, kLane, KernelId::kCrossEntropy,
                {update(logits_), read(tokens_), update(loss_)},
                {s_.model.vocab, s_.plan.batch.global_batch * s_.s()});
}

void ModelEnds::head_backward(const View& x, const View& dx, bool last_micro) {
  const Param head = s_.layout.head();
  const View dnorm = activation("d.final_norm", {s_.tokens(), s_.h()}, s_.compute());
  const auto open = gradients_.open(s_.layout.unit_of(head), {});
  s_.out.kernel({Phase::kBackward, Part::kHead, Action::kWeightGradient}, kLane,
                KernelId::kHeadWeightGradient,
                {read(logits_), read(norm_), gradients_.view(open, head), s_.workspace});
  s_.out.kernel(
      {Phase::kBackward, Part::kHead, Action::kInputGradient}, kLane, KernelId::kHeadInputGradient,
      {read(logits_), read(parameters_.view(*head_at_, head)), write(dnorm), s_.workspace});
  // A tied embedding on this stage gets its look-up's gradient on top before it is reduced.
  tied_open_.reset();
  if (s_.layout.tied && s_.is_first()) {
    tied_open_ = open;
  } else {
    gradients_.close(open, last_micro);
  }
  const auto norm = gradients_.open(s_.layout.unit_of(Param::kFinalNormGain), {});
  s_.out.kernel({Phase::kBackward, Part::kFinalNorm, Action::kInputGradient}, kLane,
                KernelId::kLayerNormBackward,
                {read(dnorm), read(x), read(mean_), read(rstd_),
                 read(parameters_.view(*norm_at_, Param::kFinalNormGain)), write(dx),
                 gradients_.view(norm, Param::kFinalNormGain),
                 gradients_.view(norm, Param::kFinalNormBias), s_.workspace});
  gradients_.close(norm, last_micro);
}

void ModelEnds::embed_backward(const View& dx, bool last_micro) {
  const auto token =
      tied_open_ ? *tied_open_ : gradients_.open(s_.layout.unit_of(Param::kTokenEmbedding), {});
  const auto position = gradients_.open(s_.layout.unit_of(Param::kPositionEmbedding), {});
  View dtable = gradients_.view(token, Param::kTokenEmbedding);
  if (tied_open_) dtable.access = Access::kUpdate;
  View in = dx;
  in.shape = {s_.b(), s_.s(), s_.h()};
  s_.out.kernel(
      {Phase::kBackward, Part::kEmbedding, Action::kWeightGradient}, kLane,
      KernelId::kEmbeddingBackward,
      {read(tokens_), read(in), dtable, gradients_.view(position, Param::kPositionEmbedding)});
  gradients_.close(token, last_micro);
  gradients_.close(position, last_micro);
}

View ModelEnds::finish_loss() {
  if (s_.dp() > 1)
    s_.out.collective({Phase::kEnd, Part::kLoss, Action::kReduce}, Lane::kCommReduce,
                      CollectiveKind::kAllReduce, GroupKind::kData, loss_, loss_);
  s_.out.copy({Phase::kEnd, Part::kLoss, Action::kDownload}, loss_, host_loss_);
  return host_loss_;
}

}  // namespace zplan
