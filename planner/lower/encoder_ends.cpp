#include "planner/lower/encoder_ends.h"

#include "planner/core/error.h"

namespace zplan {

EncoderValues::EncoderValues(const Decoder& model)
    : has_mean(model.encoder()->norm.has_mean()), in_parts(model.sizes().sequence_parallel()) {
  const Sizes& s = model.sizes();
  const Shape own{s.local_tokens(), s.h()}, all{s.tokens(), s.h()};
  const DType dtype = s.compute(), statistics = s.kernels.statistics;
  input = {.name = "encoder.output", .shape = own, .dtype = dtype};
  encoded = {.name = "encoded", .shape = own, .dtype = dtype};
  mean = {.name = "encoded.mean", .shape = {own[0]}, .dtype = statistics};
  rstd = {.name = "encoded.rstd", .shape = {own[0]}, .dtype = statistics};
  gathered = {.name = "encoded.gathered", .shape = all, .dtype = dtype};
  gradient = {.name = "d.encoded", .shape = all, .dtype = dtype};
}

void EncoderValues::declare(const Declare& declare) const {
  const auto add = [&](const ValueSpec& value, Lives lives) {
    declare(declared(value, 1, Per::kHeadInFlight, lives));
  };
  add(input, Lives::kToBackward);
  if (has_mean) add(mean, Lives::kToBackward);
  add(rstd, Lives::kToBackward);
  add(in_parts ? gathered : encoded, Lives::kToBackward);
  add(gradient, Lives::kInputs);
}

EncoderEnds::EncoderEnds(Stage& stage, const Decoder& model, Parameters& parameters,
                         Gradients& gradients)
    : s_(stage),
      encoder_(*model.encoder()),
      values_(model),
      embedding_pass_(stage, parameters, gradients),
      norm_pass_(stage, parameters, gradients),
      ranks_(stage) {
  ZPLAN_ASSERT(s_.chunks.size() == 1 && s_.chunks.front().in_flight == 1);
}

// From the nodes of the decoder's look-up, as a second step.
void EncoderEnds::apart(const std::function<void()>& emit) {
  s_.out.repeat({.count = 1, .var = Var::kTile, .first = 1}, emit);
}

void EncoderEnds::embed(const View& tokens, const View& x) {
  apart([&] {
    View sum = x;
    if (s_.sequence_parallel())
      sum = s_.transient("encoder.partial", {s_.tokens(), s_.h()}, s_.compute());
    View out = sum;
    out.shape = {s_.stretches(), s_.stretch(), s_.h()};
    embedding_pass_.begin(Phase::kForward);
    encoder_.embedding.forward(embedding_pass_, tokens, out);
    ranks_.sum_into(Phase::kForward, Part::kEmbedding, sum, x);
  });
}

void EncoderEnds::finish(const View& output) {
  input_ = transient(values_.input);
  s_.out.copy({Phase::kForward, Part::kEncoded, Action::kMove}, output, input_);
  normed_ = {.y = transient(values_.encoded), .mean = {}, .rstd = transient(values_.rstd)};
  if (values_.has_mean) normed_.mean = transient(values_.mean);
  norm_pass_.begin(Phase::kForward);
  encoder_.norm.forward(norm_pass_, input_, normed_);
  s_.encoded =
      ranks_.gathered(Phase::kForward, Part::kEncoded, normed_.y, values_.gathered.name.c_str());
}

void EncoderEnds::begin_backward(bool last_micro) {
  embedding_pass_.set_last(last_micro);
  norm_pass_.set_last(last_micro);
  s_.encoded_gradient = transient(values_.gradient);
  s_.out.kernel({Phase::kBackward, Part::kEncoded, Action::kZero}, Lane::kCompute,
                KernelId::kFillZero, {write(s_.encoded_gradient)});
}

void EncoderEnds::backward(const View& dx) {
  const View dy =
      ranks_.summed(Phase::kBackward, Part::kEncoded, s_.encoded_gradient, "d.encoded.sum");
  norm_pass_.begin(Phase::kBackward);
  encoder_.norm.backward(norm_pass_, dy, input_, normed_, write(dx));
}

void EncoderEnds::embed_backward(const View& tokens, const View& dx, Gradients::Open table) {
  embedding_pass_.begin(Phase::kBackward);
  embedding_pass_.adopt(table);
  apart([&] {
    View in = ranks_.gathered(Phase::kBackward, Part::kEmbedding, dx, "d.gathered");
    in.shape = {s_.stretches(), s_.stretch(), s_.h()};
    encoder_.embedding.backward(embedding_pass_, tokens, in);
  });
}

}  // namespace zplan
