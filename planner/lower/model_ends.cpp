#include "planner/lower/model_ends.h"

namespace zplan {
namespace {

constexpr Lane kLane = Lane::kCompute;
constexpr std::int32_t kHostTokenSlots = 2;  // load the next batch while this one is copied
constexpr std::int64_t kLossStatistics = 3;  // of cross_entropy_statistics

Role forward(Part part) { return {Phase::kForward, part, Action::kCompute}; }

// One of so many equal pieces of the rows.
View rows(View all, std::int32_t piece, std::int32_t pieces) {
  all.shape.dims[0] /= pieces;
  all.offset = all.offset + all.bytes() * piece;
  return all;
}

}  // namespace

ModelEnds::ModelEnds(Stage& stage, Parameters& parameters, Gradients& gradients,
                     Checkpoints& checkpoints, const View& scalars)
    : s_(stage),
      parameters_(parameters),
      gradients_(gradients),
      checkpoints_(checkpoints),
      ranks_(stage),
      scalars_(scalars) {
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

// From the forward to the backward of a micro-batch: within one body, or with a slot for each that
// is in flight.
View ModelEnds::kept(const char* name, Shape shape, DType dtype) {
  if (s_.in_flight == 1) return s_.transient(name, shape, dtype);
  const auto [at, is_new] = kept_.try_emplace(name);
  if (is_new) {
    const BufferId id = s_.out.add({.name = name,
                                    .slot_size = size_of(dtype) * shape.elements(),
                                    .slots = s_.in_flight,
                                    .category = Category::kActivations,
                                    .dtype = dtype});
    at->second = view_of(id, dtype, shape, {0, 1, 0});
  }
  return at->second;
}

View ModelEnds::parameter(Phase phase, Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  return read(parameters_.view(parameters_.fetch(phase, unit, s_.layout.part[unit], {}), param));
}

// The first token of the rank's piece of the vocabulary.
Attribute ModelEnds::first_of_piece() const {
  return {0, s_.mesh.steps_over(s_.tensor_group().axes, vocabulary_piece())};
}

void ModelEnds::begin_step() {
  if (s_.is_last())
    s_.out.kernel({Phase::kBegin, Part::kLoss, Action::kZero}, kLane, KernelId::kFillZero,
                  {write(loss_)});
}

void ModelEnds::load_batch() {
  s_.out.kernel(forward(Part::kBatch), Lane::kInput, KernelId::kLoadBatch, {write(host_tokens_)},
                {s_.dp() * s_.b(),
                 s_.plan.batch.global_batch,
                 {0, s_.mesh.steps_over(s_.data_group().axes, s_.b())}});
  s_.out.copy({Phase::kForward, Part::kBatch, Action::kUpload}, host_tokens_, tokens_);
}

void ModelEnds::drop_embedding(const View& sum, const View& x) {
  embedding_mask_ = kept("embedding.mask", x.shape, DType::kU8);
  s_.out.kernel({Phase::kForward, Part::kEmbedding, Action::kDrop}, kLane,
                KernelId::kDropoutForward, {read(sum), write(embedding_mask_), write(x)});
}

void ModelEnds::embed(const View& x) {
  const View target = s_.plan.dropout ? s_.transient("embedding.sum", x.shape, x.dtype) : x;
  View sum = target;
  if (s_.sequence_parallel())
    sum = s_.transient("embedding.partial", {s_.tokens(), s_.h()}, s_.compute());
  View out = sum;
  out.shape = {s_.b(), s_.s(), s_.h()};
  const View table = parameter(Phase::kForward, Param::kTokenEmbedding);
  const Attributes attributes{first_of_piece()};
  if (s_.layout.has(Param::kPositionEmbedding)) {
    s_.out.kernel(
        forward(Part::kEmbedding), kLane, KernelId::kEmbeddingForward,
        {read(tokens_), table, write(out), parameter(Phase::kForward, Param::kPositionEmbedding)},
        attributes);
  } else {
    s_.out.kernel(forward(Part::kEmbedding), kLane, KernelId::kEmbeddingForward,
                  {read(tokens_), table, write(out)}, attributes);
  }
  ranks_.sum_into(Phase::kForward, Part::kEmbedding, sum, target);
  if (s_.plan.dropout) drop_embedding(target, x);
}

// The ring of inputs that go away is written over before a later backward comes.
View ModelEnds::layers_output() {
  const View x = checkpoints_.input_of(s_.first_layer + s_.layers);
  if (!checkpoints_.go_away() || s_.in_flight == 1) return x;
  const View copy = kept("final.input", x.shape, x.dtype);
  s_.out.copy({Phase::kForward, Part::kFinalNorm, Action::kMove}, x, copy);
  return copy;
}

void ModelEnds::final_norm(const View& x) {
  norm_at_ = parameters_.fetch(Phase::kForward, s_.layout.unit_of(Param::kFinalNormGain),
                               Part::kFinalNorm, {});
  const View gain = read(parameters_.view(*norm_at_, Param::kFinalNormGain));
  if (s_.model.norm == Norm::kRmsNorm) {
    s_.out.kernel(forward(Part::kFinalNorm), kLane, KernelId::kRmsNormForward,
                  {read(x), gain, write(norm_), write(rstd_)});
  } else {
    s_.out.kernel(forward(Part::kFinalNorm), kLane, KernelId::kLayerNormForward,
                  {read(x), gain, read(parameters_.view(*norm_at_, Param::kFinalNormBias)),
                   write(norm_), write(mean_), write(rstd_)});
  }
}

void ModelEnds::head_forward() {
  const Param head = s_.layout.head();
  const std::int64_t local = s_.local_tokens();
  norm_ = kept("final.norm", {local, s_.h()}, s_.compute());
  if (s_.model.norm == Norm::kLayerNorm) mean_ = kept("final.mean", {local}, s_.kernels.statistics);
  rstd_ = kept("final.rstd", {local}, s_.kernels.statistics);
  const bool whole = s_.plan.head_chunks == 1;
  if (whole) logits_ = kept("logits", {s_.tokens(), vocabulary()}, s_.compute());
  x_ = layers_output();
  final_norm(x_);
  if (!whole) return;
  const View all = ranks_.gathered(Phase::kForward, Part::kFinalNorm, norm_, "final.norm.gathered");
  head_at_ = parameters_.fetch(Phase::kForward, s_.layout.unit_of(head), Part::kHead, {});
  head_product(all);
  loss(tokens_);
}

void ModelEnds::head_product(const View& x) {
  const View weight = read(parameters_.view(*head_at_, s_.layout.head()));
  s_.out.kernel(forward(Part::kHead), kLane, KernelId::kHeadForward,
                {read(x), weight, write(logits_), s_.workspace});
}

void ModelEnds::loss(const View& tokens) {
  const Attributes attributes{s_.model.vocab, s_.plan.batch.global_batch * s_.s(),
                              first_of_piece()};
  if (s_.tp() == 1) {
    s_.out.kernel(forward(Part::kLoss), kLane, KernelId::kCrossEntropy,
                  {update(logits_), read(tokens), update(loss_), read(scalars_)}, attributes);
    return;
  }
  const DType dtype = s_.kernels.statistics;
  const View own = s_.transient("loss.statistics", {logits_.shape[0], kLossStatistics}, dtype);
  const View all =
      s_.transient("loss.gathered", {s_.tp(), logits_.shape[0], kLossStatistics}, dtype);
  s_.out.kernel({Phase::kForward, Part::kLoss, Action::kReduce}, kLane,
                KernelId::kCrossEntropyStatistics, {read(logits_), read(tokens), write(own)},
                {s_.model.vocab, 0, first_of_piece()});
  s_.out.collective({Phase::kForward, Part::kLoss, Action::kGatherRanks}, Lane::kCommTensor,
                    CollectiveKind::kAllGather, s_.tensor_group(), own, all);
  s_.out.kernel(forward(Part::kLoss), kLane, KernelId::kCrossEntropyParallel,
                {update(logits_), read(tokens), read(all), update(loss_), read(scalars_)},
                attributes);
}

void ModelEnds::head_backward(const View& dx, bool last_micro) {
  const View all =
      ranks_.gathered(Phase::kBackward, Part::kFinalNorm, norm_, "final.norm.gathered");
  const View sum = head_gradient(all, last_micro);
  // Between the passes of other micro-batches gathered parameters are forgotten.
  if (s_.in_flight > 1)
    norm_at_ = parameters_.fetch(Phase::kBackward, s_.layout.unit_of(Param::kFinalNormGain),
                                 Part::kFinalNorm, {});
  norm_backward(sum, dx, last_micro);
}

View ModelEnds::head_gradient(const View& x, bool last_micro) {
  const UnitIndex unit = s_.layout.unit_of(s_.layout.head());
  const View dx = s_.transient("d.final_norm", {s_.tokens(), s_.h()}, s_.compute());
  const auto open = gradients_.open(unit, {});
  const View dhead = gradients_.view(open, s_.layout.head());
  const auto fetch = [&] { head_at_ = parameters_.fetch(Phase::kBackward, unit, Part::kHead, {}); };
  if (s_.plan.head_chunks > 1) {
    fetch();
    head_by_pieces(x, dhead, dx);
  } else {
    head_weight_gradient(x, dhead);
    if (s_.in_flight > 1) fetch();
    head_input_gradient(dx);
  }
  // A tied embedding on this stage gets its look-up's gradient on top before it is reduced.
  tied_open_.reset();
  if (s_.layout.tied && s_.is_first()) {
    tied_open_ = open;
  } else {
    gradients_.close(open, last_micro);
  }
  return ranks_.summed(Phase::kBackward, Part::kFinalNorm, dx, "d.final_norm.sum");
}

void ModelEnds::head_by_pieces(const View& x, const View& dhead, const View& dx) {
  const std::int32_t pieces = s_.plan.head_chunks;
  logits_ = s_.transient("logits", {s_.tokens() / pieces, vocabulary()}, s_.compute());
  for (std::int32_t i = 0; i < pieces; ++i) {
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = i}, [&] {
      const View own = rows(x, i, pieces);
      head_product(own);
      loss(tokens_of(i));
      head_weight_gradient(own, i == 0 ? dhead : update(dhead));
      head_input_gradient(rows(dx, i, pieces));
    });
  }
}

void ModelEnds::head_weight_gradient(const View& x, const View& dhead) {
  s_.out.kernel({Phase::kBackward, Part::kHead, Action::kWeightGradient}, kLane,
                KernelId::kHeadWeightGradient, {read(logits_), read(x), dhead, s_.workspace});
}

void ModelEnds::head_input_gradient(const View& dx) {
  const View weight = read(parameters_.view(*head_at_, s_.layout.head()));
  s_.out.kernel({Phase::kBackward, Part::kHead, Action::kInputGradient}, kLane,
                KernelId::kHeadInputGradient, {read(logits_), weight, write(dx), s_.workspace});
}

// [b / n, s + 1], or [1, s b / n + 1] of a sequence: the last one is the target of the one before.
View ModelEnds::tokens_of(std::int32_t piece) const {
  const std::int32_t pieces = s_.plan.head_chunks;
  if (s_.b() % pieces == 0) return rows(tokens_, piece, pieces);
  const std::int64_t parts = pieces / s_.b(), length = s_.s() / parts;
  View v = tokens_;
  v.shape = {1, length + 1};
  v.offset = size_of(v.dtype) * (piece / parts * (s_.s() + 1) + piece % parts * length);
  return v;
}

void ModelEnds::norm_backward(const View& dy, const View& dx, bool last_micro) {
  const auto open = gradients_.open(s_.layout.unit_of(Param::kFinalNormGain), {});
  const Role role{Phase::kBackward, Part::kFinalNorm, Action::kInputGradient};
  const View gain = read(parameters_.view(*norm_at_, Param::kFinalNormGain));
  const View dgain = gradients_.view(open, Param::kFinalNormGain);
  if (s_.model.norm == Norm::kRmsNorm) {
    s_.out.kernel(role, kLane, KernelId::kRmsNormBackward,
                  {read(dy), read(x_), read(rstd_), gain, write(dx), dgain, s_.workspace});
  } else {
    s_.out.kernel(role, kLane, KernelId::kLayerNormBackward,
                  {read(dy), read(x_), read(mean_), read(rstd_), gain, write(dx), dgain,
                   gradients_.view(open, Param::kFinalNormBias), s_.workspace});
  }
  gradients_.close(open, last_micro);
}

void ModelEnds::embed_backward(const View& dx, bool last_micro) {
  const auto token =
      tied_open_ ? *tied_open_ : gradients_.open(s_.layout.unit_of(Param::kTokenEmbedding), {});
  View dtable = gradients_.view(token, Param::kTokenEmbedding);
  if (tied_open_) dtable.access = Access::kUpdate;
  View own = dx;
  if (s_.plan.dropout) {
    own = s_.transient("d.added", dx.shape, dx.dtype);
    s_.out.kernel({Phase::kBackward, Part::kEmbedding, Action::kDrop}, kLane,
                  KernelId::kDropoutBackward, {read(dx), read(embedding_mask_), write(own)});
  }
  View in = ranks_.gathered(Phase::kBackward, Part::kEmbedding, own, "d.gathered");
  in.shape = {s_.b(), s_.s(), s_.h()};
  const Role role{Phase::kBackward, Part::kEmbedding, Action::kWeightGradient};
  const Attributes attributes{first_of_piece()};
  if (!s_.layout.has(Param::kPositionEmbedding)) {
    s_.out.kernel(role, kLane, KernelId::kEmbeddingBackward, {read(tokens_), read(in), dtable},
                  attributes);
    gradients_.close(token, last_micro);
    return;
  }
  const auto position = gradients_.open(s_.layout.unit_of(Param::kPositionEmbedding), {});
  s_.out.kernel(
      role, kLane, KernelId::kEmbeddingBackward,
      {read(tokens_), read(in), dtable, gradients_.view(position, Param::kPositionEmbedding)},
      attributes);
  gradients_.close(token, last_micro);
  gradients_.close(position, last_micro);
}

View ModelEnds::finish_loss() {
  if (s_.dp() > 1)
    s_.out.collective({Phase::kEnd, Part::kLoss, Action::kReduce}, Lane::kCommReduce,
                      CollectiveKind::kAllReduce, s_.data_group(), loss_, loss_);
  s_.out.copy({Phase::kEnd, Part::kLoss, Action::kDownload}, loss_, host_loss_);
  return host_loss_;
}

}  // namespace zplan
