// What comes before the first layer and after the last: batches, embeddings; final norm, output
// head, loss. The loss is the mean over the tokens of the global batch; the output head is the
// token embedding when they are tied.
#pragma once

#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"

namespace zplan {

class ModelEnds {
 public:
  ModelEnds(Stage& stage, Parameters& parameters, Gradients& gradients);

  void begin_step();
  // Tokens of the micro-batch: loaded on the host, copied to the device.
  void load_batch();
  void embed(const View& x);         // x [T, h], first stage
  void head_forward(const View& x);  // x [T, h], last stage; ends with the loss
  void head_backward(const View& x, const View& dx, bool last_micro);
  void embed_backward(const View& dx, bool last_micro);
  // Sums the loss over the replicas and brings it to the host, last stage.
  View finish_loss();

 private:
  View input(const char* name, Tier tier, Shape shape, DType dtype, std::int32_t slots = 1);
  View activation(const char* name, Shape shape, DType dtype);

  Stage& s_;
  Parameters& parameters_;
  Gradients& gradients_;
  View host_tokens_, tokens_;  // [b, s+1] i32
  // From head_forward to the head_backward of the same micro-batch.
  View norm_, mean_, rstd_;  // final LayerNorm
  View logits_;              // [T, Vp], then their gradient
  View loss_, host_loss_;    // [1] f64
  std::optional<Parameters::Resident> norm_at_, head_at_;
  std::optional<Gradients::Open> tied_open_;
};

}  // namespace zplan
