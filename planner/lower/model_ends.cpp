#include "planner/lower/model_ends.h"

#include <cmath>
#include <utility>

#include "planner/lower/blocks/linear.h"
#include "planner/lower/stretches.h"

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

HeadValues::HeadValues(const Decoder& model)
    : in_pieces(model.sizes().plan.head_chunks > 1),
      has_mean(model.final_norm().has_mean()),
      takes_input(CheckpointBuffers(model.sizes()).go_away()) {
  const Sizes& s = model.sizes();
  const std::int64_t piece = s.tokens() / s.plan.head_chunks, own = s.local_tokens();
  const DType dtype = s.compute(), statistics = s.kernels.statistics;
  input = {.name = "final.input", .shape = {own, s.h()}, .dtype = dtype};
  logits = {.name = "logits", .shape = {piece, model.head().width()}, .dtype = dtype};
  mean = {.name = "final.mean", .shape = {own}, .dtype = statistics};
  rstd = {.name = "final.rstd", .shape = {own}, .dtype = statistics};
  dinput = {.name = "d.final_norm", .shape = {s.tokens(), s.h()}, .dtype = dtype};
}

void HeadValues::declare(const Declare& declare) const {
  const auto add = [&](const ValueSpec& value, Per per, Lives lives = Lives::kHead) {
    declare(declared(value, 1, per, lives));
  };
  if (takes_input) add(input, Per::kHeadInFlight, Lives::kToHeadApart);
  add(logits, in_pieces ? Per::kLastStage : Per::kHeadInFlight);
  if (has_mean) add(mean, Per::kHeadInFlight);
  add(rstd, Per::kHeadInFlight);
  add(dinput, Per::kLastStage);
}

ModelEnds::ModelEnds(Stage& stage, const Decoder& model, Parameters& parameters,
                     Gradients& gradients, const View& scalars)
    : s_(stage),
      embedding_(model.embedding()),
      embedding_norm_(model.embedding_norm()),
      norm_(model.final_norm()),
      transform_(model.head_transform()),
      bias_(model.head_bias()),
      head_(model.head()),
      modules_(model.mtp()),
      modules_loss_(model.mtp_loss()),
      values_(model),
      embedding_pass_(stage, parameters, gradients),
      norm_pass_(stage, parameters, gradients),
      head_pass_(stage, parameters, gradients, Part::kHead),
      module_pass_(stage, parameters, gradients),
      further_pass_(stage, parameters, gradients, Part::kMtpEmbedding),
      ranks_(stage),
      scalars_(scalars),
      has_encoder_(model.encoder().has_value()),
      masked_(model.sees_both_ways()),
      logit_scale_(model.logit_scale()),
      outputs_(modules_.size() + 1) {
  module_pass_.keep_open(true);
  further_pass_.keep_open(true);
  for (const Chunk& chunk : s_.chunks) {
    if (loads_tokens(chunk)) tokens_ = loading("tokens", chunk);
    if (loads_targets(chunk)) targets_ = loading("targets", chunk);
    if (has_encoder_) encoder_tokens_ = loading("encoder.tokens", chunk);
    for (std::size_t i = 1; s_.is_last(chunk) && i < outputs_.size(); ++i)
      outputs_[i].tokens = loading("mtp" + std::to_string(i) + ".tokens", chunk);
  }
  if (!masked_ && s_.pair.empty()) targets_ = tokens_;
  if (!s_.is_last()) return;
  loss_ = input("loss", Tier::kGpu, {1}, DType::kF64);
  if (tiles() > 1) loss_again_ = input("loss.again", Tier::kGpu, {1}, DType::kF64);
  host_loss_ = input("loss.host", Tier::kCpu, {1}, DType::kF64);
}

View ModelEnds::input(const std::string& name, Tier tier, Shape shape, DType dtype,
                      std::int32_t slots) {
  const BufferId id = s_.out.add({.name = name,
                                  .slot_size = size_of(dtype) * shape.elements(),
                                  .slots = slots,
                                  .tier = tier,
                                  .category = Category::kInput,
                                  .dtype = dtype,
                                  .persistent = true});
  return view_of(id, dtype, shape);
}

ModelEnds::Loading ModelEnds::loading(const std::string& name, const Chunk& chunk) {
  const Shape batch{s_.stretches(), s_.stretch() + 1};
  Loading all{.host = input(name + ".host", Tier::kCpu, batch, DType::kI32, kHostTokenSlots),
              .device = input(name, Tier::kGpu, batch, DType::kI32, chunk.loaded)};
  all.host.slot = all.device.slot = {0, 1, 0};
  return all;
}

// From the forward to the backward of a micro-batch: within one body, or with a slot for each that
// is in flight.
View ModelEnds::kept(ValueSpec value) { return kept(std::move(value), s_.chunk().in_flight); }

View ModelEnds::kept(ValueSpec value, std::int32_t slots) {
  value.name = own_name(value.name);
  if (backward_follows()) return s_.transient(value.name, value.shape, value.dtype);
  const auto [at, is_new] = kept_.try_emplace(value.name);
  if (is_new) {
    const Declared each = declared(value, 1, Per::kHeadInFlight, Lives::kHead);
    const BufferId id = s_.out.add(each.times(slots));
    at->second = view_of(id, value.dtype, value.shape, {0, 1, 0});
  }
  return at->second;
}

void ModelEnds::begin_step() {
  if (!s_.is_last()) return;
  const Role role{Phase::kBegin, Part::kLoss, Action::kZero};
  s_.out.kernel(role, kLane, KernelId::kFillZero, {write(loss_)});
  if (tiles() == 1) return;
  s_.out.repeat({.count = 1, .var = Var::kTile, .first = 1},
                [&] { s_.out.kernel(role, kLane, KernelId::kFillZero, {write(loss_again_)}); });
}

// Of the first piece of the model, or of the last where another stage has that.
bool ModelEnds::loads_tokens(const Chunk& chunk) const {
  return s_.is_first(chunk) || (!masked_ && s_.is_last(chunk) && !s_.is_first());
}

// Apart from the tokens where these are masked or those of another replica.
bool ModelEnds::loads_targets(const Chunk& chunk) const {
  return (masked_ || !s_.pair.empty()) && s_.is_last(chunk);
}

void ModelEnds::load_batch() {
  if (loads_tokens(s_.chunk()))
    load(tokens_, Part::kBatch, Action::kCompute, masked_ ? Loaded::kMaskedInputs : Loaded::kText);
  if (loads_targets(s_.chunk()))
    load(targets_, Part::kLoss, Action::kChoose, masked_ ? Loaded::kMaskedTargets : Loaded::kText);
  if (has_encoder_)
    load(encoder_tokens_, Part::kEncoderTokens, Action::kCompute, Loaded::kMaskedInputs);
  for (s_.module = 1; s_.module <= s_.chunk().modules; ++s_.module)
    of_module(
        [&] { load(output().tokens, Part::kBatch, Action::kCompute, Loaded::kText, s_.module); });
  s_.module = 0;
}

void ModelEnds::load(const Loading& loading, Part part, Action action, Loaded loaded,
                     std::int64_t ahead) {
  const Stretches stretches(s_);
  stretches.each([&](std::int32_t i) {
    Attributes attributes{s_.plan.parallel.dp * s_.b(), s_.plan.batch.global_batch,
                          s_.first_sequence(), stretches.begin(i)};
    if (loaded != Loaded::kText) {
      attributes[4] = static_cast<std::int64_t>(loaded);
      attributes[5] = head_.vocabulary();
    }
    attributes[6] = ahead;
    s_.out.kernel({Phase::kForward, part, action}, Lane::kInput, KernelId::kLoadBatch,
                  {write(stretches.part(loading.host, i))}, attributes);
  });
  s_.out.copy({Phase::kForward, part, Action::kUpload}, loading.host, loading.device);
}

void ModelEnds::drop_embedding(const View& sum, const View& x) {
  embedding_mask_ = kept({.name = "embedding.mask", .shape = x.shape, .dtype = DType::kU8});
  s_.out.kernel({Phase::kForward, Part::kEmbedding, Action::kDrop}, kLane,
                KernelId::kDropoutForward, {read(sum), write(embedding_mask_), write(x)},
                s_.drawn_tokens());
}

void ModelEnds::normalise_embedding(const View& sum, const View& x) {
  const Shape rows{x.shape[0]};
  embedded_ = {
      .y = x,
      .mean = {},
      .rstd = kept({.name = "embedding.rstd", .shape = rows, .dtype = s_.kernels.statistics})};
  if (embedding_norm_->has_mean())
    embedded_.mean =
        kept({.name = "embedding.mean", .shape = rows, .dtype = s_.kernels.statistics});
  embedding_norm_->forward(embedding_pass_, sum, embedded_);
}

void ModelEnds::embed(const View& x) {
  const View last = s_.plan.dropout ? s_.transient("embedding.sum", x.shape, x.dtype) : x;
  if (embedding_norm_)
    embedding_sum_ = kept({.name = "embedding.unnormed", .shape = x.shape, .dtype = x.dtype});
  const View target = embedding_norm_ ? embedding_sum_ : last;
  View sum = target;
  if (s_.sequence_parallel())
    sum = s_.transient("embedding.partial", {s_.tokens(), s_.h()}, s_.compute());
  View out = sum;
  out.shape = {s_.stretches(), s_.stretch(), s_.h()};
  embedding_pass_.begin(Phase::kForward);
  embedding_.forward(embedding_pass_, tokens_.device, out);
  ranks_.sum_into(Phase::kForward, Part::kEmbedding, sum, target);
  if (embedding_norm_) normalise_embedding(target, last);
  if (s_.plan.dropout) drop_embedding(last, x);
}

// The ring of inputs that go away is written over before a later backward comes, and by modules.
View ModelEnds::layers_output(const Checkpoints& checkpoints) {
  const View x = s_.module > 0 ? checkpoints.module_output() : checkpoints.last_output();
  if (!checkpoints.go_away() || (is_last_module() && backward_follows())) return x;
  const View copy = kept_by_head(values_.input);
  s_.out.copy({Phase::kForward, Part::kFinalNorm, Action::kMove}, x, copy);
  return copy;
}

// The modules use the head as the model has fetched it.
void ModelEnds::head_forward(const Checkpoints& checkpoints) {
  if (s_.module == 0) {
    norm_pass_.begin(Phase::kForward);
    head_pass_.begin(Phase::kForward);
  }
  of_module([&] {
    Output& out = output();
    out.normed = kept_norm(norm(), "final");
    const bool whole = !values_.in_pieces;
    if (whole) out.logits = kept_by_head(values_.logits);
    out.x = layers_output(checkpoints);
    norm().forward(norm_pass(), out.x, out.normed);
    if (logit_scale_) scale(Phase::kForward, out.normed.y);
    out.head_input = out.normed.y;
    if (transform_) transform();
    if (!whole) return;
    const View all =
        ranks_.gathered(Phase::kForward, Part::kFinalNorm, out.head_input, "final.norm.gathered");
    logits_of(all);
    loss(targets());
  });
}

Normed ModelEnds::kept_norm(const NormBlock& norm, const std::string& name) {
  const std::int64_t tokens = s_.local_tokens();
  const auto statistics = [&](const char* which) {
    return kept_by_head({.name = name + which, .shape = {tokens}, .dtype = s_.kernels.statistics});
  };
  Normed result{
      .y = kept_by_head({.name = name + ".norm", .shape = {tokens, s_.h()}, .dtype = s_.compute()}),
      .mean = {},
      .rstd = {}};
  if (norm.has_mean()) result.mean = statistics(".mean");
  result.rstd = statistics(".rstd");
  return result;
}

void ModelEnds::transform() {
  const Shape rows{s_.local_tokens()}, all{s_.local_tokens(), s_.h()};
  const DType statistics = s_.kernels.statistics;
  transformed_ = {
      .dense = kept_by_head({.name = "head.dense", .shape = all, .dtype = s_.compute()}),
      .activated = kept_by_head({.name = "head.activated", .shape = all, .dtype = s_.compute()}),
      .normed = {.y = kept_by_head({.name = "head.norm", .shape = all, .dtype = s_.compute()}),
                 .mean = {},
                 .rstd = kept_by_head({.name = "head.rstd", .shape = rows, .dtype = statistics})}};
  if (transform_->has_mean())
    transformed_.normed.mean =
        kept_by_head({.name = "head.mean", .shape = rows, .dtype = statistics});
  transform_->forward(norm_pass_, output().normed.y, transformed_);
  output().head_input = transformed_.normed.y;
}

// From the gradient of what it gives to that of the final norm's result.
View ModelEnds::transform_backward(const View& dy) {
  const View dx = s_.transient("d.head_transform", dy.shape, dy.dtype);
  transform_->backward(norm_pass_, output().normed.y, transformed_, dy, dx);
  return dx;
}

void ModelEnds::logits_of(const View& x) {
  head_pass_.each_tile_apart(
      tiles(), [&](std::int32_t tile) { head_.forward(head_pass_, x, logits_of_tile(tile)); });
  if (bias_) bias_->add(norm_pass_, output().logits);
}

// From the nodes of the norm, as a second step.
void ModelEnds::scale(Phase phase, const View& x) {
  const Action action = phase == Phase::kForward ? Action::kCompute : Action::kInputGradient;
  s_.out.repeat({.count = 1, .var = Var::kTile, .first = 1}, [&] {
    s_.out.kernel({phase, Part::kFinalNorm, action}, kLane, KernelId::kScale, {update(x)},
                  *logit_scale_);
  });
}

// [T, Vp / tiles], of all its tokens before those of the next one.
View ModelEnds::logits_of_tile(std::int32_t tile) const {
  View v = output().logits;
  v.shape.dims[1] /= tiles();
  v.offset = v.offset + v.bytes() * tile;
  return v;
}

// Of kernels whose third one is the first token of what they are given.
Attributes ModelEnds::of_tile(Attributes attributes, std::int32_t tile) const {
  attributes[2].base += tile * (head_.width() / tiles());
  return attributes;
}

void ModelEnds::loss(const View& targets) {
  const Attribute first = s_.by_place(kTensorAxis, s_.tp() > 1 ? head_.width() : 0);
  const std::int64_t sequence = s_.plan.batch.sequence;
  const std::int64_t asked = masked_ ? masked_tokens(sequence) : sequence;
  const std::int64_t sequences = s_.plan.batch.global_batch / s_.plan.updates();
  // A share of the loss is a mean over so many more tokens.
  std::int64_t mean_of = sequences * asked;
  if (s_.module > 0)
    mean_of = std::llround(static_cast<double>(mean_of * s_.mtp_layers) / modules_loss_);
  const Attributes attributes{head_.vocabulary(), mean_of, first, head_.cap()};
  if (s_.tp() * tiles() > 1) return loss_of_pieces(targets, attributes);
  s_.out.kernel(forward(Part::kLoss), kLane, KernelId::kCrossEntropy,
                {update(output().logits), read(targets), update(loss_), read(scalars_)},
                attributes);
}

// Of the ranks' and tiles' pieces of the vocabulary: statistics of each, then from those of all
// what each is to become.
void ModelEnds::loss_of_pieces(const View& targets, const Attributes& attributes) {
  const DType dtype = s_.kernels.statistics;
  const std::int64_t tokens = output().logits.shape[0];
  const View own = s_.transient("loss.statistics", {tiles() * tokens, kLossStatistics}, dtype);
  Attributes counted = attributes;
  counted[1] = 0;
  head_pass_.each_tile_apart(tiles(), [&](std::int32_t tile) {
    s_.out.kernel({Phase::kForward, Part::kLoss, Action::kReduce}, kLane,
                  KernelId::kCrossEntropyStatistics,
                  {read(logits_of_tile(tile)), read(targets), write(rows(own, tile, tiles()))},
                  of_tile(counted, tile));
  });
  View all = own;
  all.shape = {s_.tp() * tiles(), tokens, kLossStatistics};
  if (s_.tp() > 1) {
    all = s_.transient("loss.gathered", all.shape, dtype);
    s_.out.collective({Phase::kForward, Part::kLoss, Action::kGatherRanks}, Lane::kCommTensor,
                      CollectiveKind::kAllGather, s_.tensor_group(), own, all);
  }
  head_pass_.each_tile_apart(tiles(), [&](std::int32_t tile) {
    s_.out.kernel(forward(Part::kLoss), kLane, KernelId::kCrossEntropyParallel,
                  {update(logits_of_tile(tile)), read(targets), read(all),
                   update(tile == 0 ? loss_ : loss_again_), read(scalars_)},
                  of_tile(attributes, tile));
  });
}

// Between the passes of other micro-batches gathered parameters are forgotten.
void ModelEnds::begin_backward(bool last_micro) {
  for (UnitPass* pass :
       {&embedding_pass_, &norm_pass_, &head_pass_, &module_pass_, &further_pass_}) {
    pass->set_last(last_micro);
    if (backward_follows()) {
      pass->enter(Phase::kBackward);
    } else {
      pass->begin(Phase::kBackward);
    }
  }
}

// A module adds its part of the gradient of what it reads.
void ModelEnds::head_backward(const View& dx) {
  of_module([&] {
    const Output& own = output();
    const View all =
        ranks_.gathered(Phase::kBackward, Part::kFinalNorm, own.head_input, "final.norm.gathered");
    View dnorm = head_gradient(all);
    if (transform_) dnorm = transform_backward(dnorm);
    if (logit_scale_) scale(Phase::kBackward, dnorm);
    if (!is_last_module()) {
      const View& more = outputs_[static_cast<std::size_t>(s_.module) + 1].hidden_gradient;
      s_.out.kernel({Phase::kBackward, Part::kMtpHidden, Action::kAccumulate}, kLane,
                    KernelId::kResidualAdd, {read(dnorm), read(more), write(dnorm)});
    }
    norm().backward(norm_pass(), dnorm, own.x, own.normed, write(dx));
  });
}

View ModelEnds::head_gradient(const View& x) {
  const ValueSpec& dinput = values_.dinput;
  const View dx = s_.transient(own_name(dinput.name), dinput.shape, dinput.dtype);
  if (tiles() > 1) {
    head_backward_by_tiles(x, dx);
    return ranks_.summed(Phase::kBackward, Part::kFinalNorm, dx, "d.final_norm.sum");
  }
  const bool trains = head_pass_.trains(head_.weight());
  const View dhead = trains ? head_pass_.gradient(head_.weight()) : View{};
  if (values_.in_pieces) {
    head_by_pieces(x, dhead, dx);
  } else {
    const View& logits = output().logits;
    if (trains) head_.weight_backward(head_pass_, x, logits, dhead);
    if (bias_) bias_->backward(norm_pass_, logits, true);
    head_.input_backward(head_pass_, logits, dx);
  }
  if (bias_) bias_->end(norm_pass_);
  close_head();
  return ranks_.summed(Phase::kBackward, Part::kFinalNorm, dx, "d.final_norm.sum");
}

// Once the modules and the model have given theirs. A tied embedding of this stage gets its
// look-up's gradient on top before it is reduced: in this pass, or in a later one.
void ModelEnds::close_head() {
  const bool trains = head_pass_.trains(head_.weight());
  if (s_.module > 0) {
    if (trains) head_pass_.add_to(head_.weight());
    return;
  }
  if (head_.is_tied() && s_.has_ends_apart()) head_pass_.set_last(false);
  if (trains && head_.is_tied() && s_.is_first() && !s_.has_ends_apart()) {
    embedding_pass_.adopt(head_pass_.release(head_.weight()));
  } else {
    head_pass_.done(head_.weight());
  }
}

// A tied embedding of this stage adds its look-up's gradient to the reduced ones, tile by tile, and
// is what these wait for.
void ModelEnds::head_backward_by_tiles(const View& x, const View& dx) {
  const bool trains = head_pass_.trains(head_.weight());
  if (head_.is_tied() && s_.is_first()) head_pass_.set_last(false);
  head_pass_.each_tile_apart(tiles(), [&](std::int32_t tile) {
    const View logits = logits_of_tile(tile);
    if (trains) head_.weight_backward(head_pass_, x, logits, head_pass_.gradient(head_.weight()));
    const View own = tile == 0 ? dx : s_.transient("d.final_norm.tile", dx.shape, dx.dtype);
    head_.input_backward(head_pass_, logits, own);
    head_pass_.add_tile(Part::kFinalNorm, own, dx);
    head_pass_.done(head_.weight());
  });
}

void ModelEnds::head_by_pieces(const View& x, const View& dhead, const View& dx) {
  const std::int32_t pieces = s_.plan.head_chunks;
  // Before the first piece, for all.
  head_pass_.parameter(head_.weight());
  if (bias_) bias_->fetch(norm_pass_);
  View& logits = output().logits;
  logits = s_.transient(own_name(values_.logits.name), values_.logits.shape, values_.logits.dtype);
  for (std::int32_t i = 0; i < pieces; ++i) {
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = i}, [&] {
      const View own = rows(x, i, pieces);
      enter_head(Phase::kForward);
      logits_of(own);
      loss(targets_of(i));
      enter_head(Phase::kBackward);
      if (head_pass_.trains(head_.weight()))
        head_.weight_backward(head_pass_, own, logits, i == 0 ? dhead : update(dhead));
      if (bias_) bias_->backward(norm_pass_, logits, i == 0);
      head_.input_backward(head_pass_, logits, rows(dx, i, pieces));
    });
  }
}

// Some stretches, or a part of one: the last token is the target of the one before.
View ModelEnds::targets_of(std::int32_t piece) const {
  const std::int32_t pieces = s_.plan.head_chunks;
  if (s_.stretches() % pieces == 0) return rows(targets(), piece, pieces);
  const std::int64_t parts = pieces / s_.stretches(), length = s_.stretch() / parts;
  View v = targets();
  v.shape = {1, length + 1};
  v.offset = size_of(v.dtype) * (piece / parts * (s_.stretch() + 1) + piece % parts * length);
  return v;
}

void ModelEnds::embed_backward(const View& dx, bool last_micro) {
  if (!embedding_pass_.trains(embedding_.token())) return;
  embedding_pass_.set_last(last_micro);
  embedding_pass_.enter(Phase::kBackward);
  // Opened before its gradient is made ready.
  if (tiles() == 1) embedding_pass_.gradient(embedding_.token());
  View own = dx;
  if (s_.plan.dropout) {
    own = s_.transient("d.added", dx.shape, dx.dtype);
    s_.out.kernel({Phase::kBackward, Part::kEmbedding, Action::kDrop}, kLane,
                  KernelId::kDropoutBackward, {read(dx), read(embedding_mask_), write(own)});
  }
  if (embedding_norm_) {
    const View dsum = s_.transient("d.embedding", dx.shape, dx.dtype);
    embedding_norm_->backward(embedding_pass_, own, embedding_sum_, embedded_, write(dsum));
    own = dsum;
  }
  View in = ranks_.gathered(Phase::kBackward, Part::kEmbedding, own, "d.gathered");
  in.shape = {s_.stretches(), s_.stretch(), s_.h()};
  embedding_.backward(embedding_pass_, tokens_.device, in);
}

// A loop of one layer: the numbers of its nodes are those of that layer.
void ModelEnds::of_module(const std::function<void()>& emit) {
  if (s_.module == 0) return emit();
  s_.out.repeat({.count = 1, .var = Var::kLayer, .first = s_.chunk().layer_of(s_.module)}, emit);
}

void ModelEnds::module_forward(const Checkpoints& checkpoints) {
  if (s_.module == 1) {
    module_pass_.begin(Phase::kForward);
    further_pass_.begin(Phase::kForward);
  }
  of_module([&] {
    Output& own = output();
    own.embedding =
        kept({.name = "embedding", .shape = {s_.local_tokens(), s_.h()}, .dtype = s_.compute()});
    embed_module(own.embedding);
    own.embedded = kept_norm(module().embedding_norm, "embedded");
    own.hidden = kept_norm(module().hidden_norm, "hidden");
    module().embedding_norm.forward(module_pass_, own.embedding, own.embedded);
    module().hidden_norm.forward(module_pass_, before().normed.y, own.hidden);
    project(checkpoints.module_input());
  });
}

void ModelEnds::embed_module(const View& x) {
  View sum = x;
  if (s_.sequence_parallel())
    sum = s_.transient(own_name("embedding.partial"), {s_.tokens(), s_.h()}, s_.compute());
  View out = sum;
  out.shape = {s_.stretches(), s_.stretch(), s_.h()};
  embedding_.forward(further_pass_, output().tokens.device, out);
  ranks_.sum_into(Phase::kForward, Part::kEmbedding, sum, x);
}

// Returns the rows of the matrix or its gradient that multiply the embedding, 0, or what the module
// before gives, 1.
View ModelEnds::half(View projection, std::int32_t which) const {
  return rows(std::move(projection), which, 2);
}

// The second one's nodes are told apart as a tile.
void ModelEnds::each_half(const std::function<void(std::int32_t)>& emit) {
  emit(0);
  s_.out.repeat({.count = 1, .var = Var::kTile, .first = 1}, [&] { emit(1); });
}

View ModelEnds::rounded(Action action, const View& x) {
  return rounded_operand(module_pass_, Part::kMtpProjection, action, x);
}

// The sum of two products is the product of both inputs side by side.
void ModelEnds::project(const View& x) {
  const Output& own = output();
  const View matrix = module_pass_.parameter(module().projection);
  each_half([&](std::int32_t which) {
    const View in = rounded(Action::kRoundInput, which == 0 ? own.embedded.y : own.hidden.y);
    const View weight = rounded(Action::kRoundWeight, half(matrix, which));
    module_pass_.kernel(
        Part::kMtpProjection, KernelId::kMatmulForward,
        {read(in), weight, which == 0 ? write(x) : update(x), module_pass_.workspace()});
  });
}

void ModelEnds::module_backward(const View& dx) {
  of_module([&] {
    project_backward(dx);
    if (s_.module == 1) close_modules();
  });
}

// Goes from the gradient of the layer's input to those of the embedding and of what the module
// before gives.
void ModelEnds::project_backward(const View& dx) {
  Output& own = output();
  const Param projection = module().projection;
  const View matrix = module_pass_.parameter(projection);
  const bool trains = module_pass_.trains(projection);
  const View gradient = trains ? module_pass_.gradient(projection) : View{};
  View inputs[2];
  each_half([&](std::int32_t which) {
    const View& in = which == 0 ? own.embedded.y : own.hidden.y;
    const View dy = rounded(Action::kRoundGradient, dx);
    if (trains)
      module_pass_.kernel(Part::kMtpProjection, Action::kWeightGradient,
                          KernelId::kMatmulWeightGradient,
                          {read(rounded(Action::kRoundInput, in)), read(dy), half(gradient, which),
                           module_pass_.workspace()});
    inputs[which] =
        s_.transient(own_name(which == 0 ? "d.embedded" : "d.hidden"), in.shape, in.dtype);
    module_pass_.kernel(Part::kMtpProjection, KernelId::kLinearInputGradient,
                        {read(dy), rounded(Action::kRoundWeight, half(matrix, which)),
                         write(inputs[which]), module_pass_.workspace()});
  });
  const View dembedding = s_.transient(own_name("d.embedding"), dx.shape, dx.dtype);
  own.hidden_gradient = s_.transient(own_name("d.before"), dx.shape, dx.dtype);
  module().embedding_norm.backward(module_pass_, inputs[0], own.embedding, own.embedded,
                                   write(dembedding));
  module().hidden_norm.backward(module_pass_, inputs[1], before().normed.y, own.hidden,
                                write(own.hidden_gradient));
  embed_module_backward(dembedding);
}

// Into the gradient of a tied head, which is open, or of a table of its own.
void ModelEnds::embed_module_backward(const View& dx) {
  const Param table = embedding_.token();
  if (!further_pass_.trains(table)) return;
  UnitPass& pass = head_.is_tied() ? head_pass_ : further_pass_;
  View in = ranks_.gathered(Phase::kBackward, Part::kEmbedding, dx, "d.gathered");
  in.shape = {s_.stretches(), s_.stretch(), s_.h()};
  head_pass_.keep_open(true);
  embedding_.backward(pass, output().tokens.device, in);
  head_pass_.keep_open(false);
  pass.add_to(table);
}

// All modules have given their gradients. That of the model's look-up is added to the table's where
// this stage has both.
void ModelEnds::close_modules() {
  module_pass_.close(module().projection);
  const Param table = embedding_.token();
  if (head_.is_tied() || !further_pass_.trains(table)) return;
  if (s_.is_first()) return embedding_pass_.adopt(further_pass_.release(table));
  further_pass_.close(table);
}

View ModelEnds::finish_loss() {
  if (s_.replicas() > 1)
    s_.out.collective({Phase::kEnd, Part::kLoss, Action::kReduce}, Lane::kCommReduce,
                      CollectiveKind::kAllReduce, s_.replica_group(), loss_, loss_);
  s_.out.copy({Phase::kEnd, Part::kLoss, Action::kDownload}, loss_, host_loss_);
  return host_loss_;
}

}  // namespace zplan
