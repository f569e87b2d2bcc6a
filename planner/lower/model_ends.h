// This emits what comes before the first layer and after the last: batches, embeddings; final norm,
// output head, loss. The loss is the mean over the tokens of the global batch; the output head is
// the token embedding when they are tied.
//
// With tensor parallelism each rank has a piece of the vocabulary: look-ups are summed, the loss is
// taken from gathered statistics of all pieces [Shoeybi19 sec 3].
//
// With memory-centric tiling the head and the token embedding come in tiles of the vocabulary,
// which are worked off as tensor parallel ranks work theirs off, but one after the other: gathered
// for the logits, then again for the gradients, which are reduced tile by tile. Logits stay.
//
// A head worked off in several pieces of the tokens runs forward and backward, piece by piece, at
// the begin of backward.
//
// Modules of multi-token prediction [DeepSeek25 sec 2.2] stand behind the head of the model, on the
// stage that has it, each with its own tokens: those of the model, shifted. Forward goes through
// the model's head and the modules one after the other, backward the other way round. They look up
// in the model's table, of which that stage has a copy, and use its head: gradients of both stay
// open until all have added to theirs. What they emit is of the layer behind those of the model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planner/lower/blocks/decoder.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/declared.h"
#include "planner/lower/stage.h"
#include "planner/lower/tensor_parallel.h"
#include "planner/lower/unit_pass.h"
#include "planner/program/kernels/masked_tokens.h"

namespace zplan {

// What the output head and the loss leave for their backward.
struct HeadValues {
  explicit HeadValues(const Decoder& model);

  ValueSpec input;       // of the final norm, where the layers' output does not stay
  ValueSpec logits;      // of all tokens or a piece, then their gradient
  ValueSpec mean, rstd;  // of the final norm
  ValueSpec dinput;      // the gradient of the head's input
  bool in_pieces, has_mean, takes_input;

  void declare(const Declare& declare) const;
};

class ModelEnds {
 public:
  // `scalars`: the step scalars on the GPU.
  ModelEnds(Stage& stage, const Decoder& model, Parameters& parameters, Gradients& gradients,
            const View& scalars);

  void begin_step();
  // Tokens of the micro-batch, with the first chunk that needs them: loaded on the host, copied to
  // the device.
  void load_batch();
  void embed(const View& x);  // x [T, h] of the rank's tokens, first chunk
  // Goes from the last chunk's output, or that of a module, to the loss.
  void head_forward(const Checkpoints& checkpoints);
  // Comes first in a backward of the last chunk.
  void begin_backward(bool last_micro);
  void head_backward(const View& dx);
  // These emit what is ahead of the layer of the current module (Stage::module).
  void module_forward(const Checkpoints& checkpoints);
  void module_backward(const View& dx);
  void embed_backward(const View& dx, bool last_micro);
  // What an encoder reads: the tokens of the micro-batch, masked [Lewis20 sec 2.2].
  const View& encoder_tokens() const { return encoder_tokens_.device; }
  // The gradients of the token embedding, to which the encoder's look-up adds.
  Gradients::Open release_tokens() { return embedding_pass_.release(embedding_.token()); }
  // Sums the loss over the replicas and brings it to the host, last stage.
  View finish_loss();

 private:
  View input(const std::string& name, Tier tier, Shape shape, DType dtype, std::int32_t slots = 1);
  View kept(ValueSpec value);
  View kept(ValueSpec value, std::int32_t slots);
  // Keeps what the head leaves for its backward, in one slot where two micro-batches take turns:
  // the backward of one comes to the head before the forward of the other.
  View kept_by_head(ValueSpec value) {
    return kept(std::move(value), s_.chunk().in_turns ? 1 : s_.chunk().in_flight);
  }
  Normed kept_norm(const NormBlock& norm, const std::string& name);
  // What a rank loads on the host and copies to the device.
  struct Loading {
    View host, device;  // [b, s+1] i32, of each stretch
  };
  Loading loading(const std::string& name, const Chunk& chunk);
  void load(const Loading& loading, Part part, Action action, Loaded loaded,
            std::int64_t ahead = 0);
  bool loads_tokens(const Chunk& chunk) const;
  bool loads_targets(const Chunk& chunk) const;
  // Whether no other pass comes between the forward and the backward of a micro-batch.
  bool backward_follows() const { return s_.chunks.size() == 1 && s_.chunk().in_flight == 1; }
  View layers_output(const Checkpoints& checkpoints);
  void normalise_embedding(const View& sum, const View& x);
  void drop_embedding(const View& sum, const View& x);
  void loss(const View& targets);
  void loss_of_pieces(const View& targets, const Attributes& attributes);
  std::int32_t tiles() const { return head_.tiles(); }
  View logits_of_tile(std::int32_t tile) const;
  Attributes of_tile(Attributes attributes, std::int32_t tile) const;
  void scale(Phase phase, const View& x);  // of the head's input, or of its gradient
  void logits_of(const View& x);
  void enter_head(Phase phase) {
    for (UnitPass* pass : {&norm_pass_, &head_pass_}) pass->enter(phase);
  }
  void transform();
  View transform_backward(const View& dy);
  View head_gradient(const View& x);  // of its input, of the rank's tokens
  void close_head();
  void head_backward_by_tiles(const View& x, const View& dx);
  void head_by_pieces(const View& x, const View& dhead, const View& dx);
  View targets_of(std::int32_t piece) const;

  // These are of the current module, or of the model.
  struct Output;
  Output& output() { return outputs_[static_cast<std::size_t>(s_.module)]; }
  const Output& output() const { return outputs_[static_cast<std::size_t>(s_.module)]; }
  const Output& before() const { return outputs_[static_cast<std::size_t>(s_.module - 1)]; }
  const MtpModule& module() const { return modules_[static_cast<std::size_t>(s_.module - 1)]; }
  const NormBlock& norm() const { return s_.module == 0 ? norm_ : module().final_norm; }
  UnitPass& norm_pass() { return s_.module == 0 ? norm_pass_ : module_pass_; }
  const View& targets() const { return s_.module == 0 ? targets_.device : output().tokens.device; }
  bool is_last_module() const { return s_.module == std::ssize(modules_); }
  std::string own_name(const std::string& name) const {
    return s_.module == 0 ? name : "mtp" + std::to_string(s_.module) + "." + name;
  }
  // Emits nodes of a module, named by its layer.
  void of_module(const std::function<void()>& emit);
  void each_half(const std::function<void(std::int32_t)>& emit);
  View rounded(Action action, const View& x);
  View half(View projection, std::int32_t which) const;
  void embed_module(const View& x);
  void embed_module_backward(const View& dx);
  void project(const View& x);
  void project_backward(const View& dx);
  void close_modules();

  Stage& s_;
  const Embedding& embedding_;
  const std::optional<NormBlock>& embedding_norm_;
  const NormBlock& norm_;
  const std::optional<HeadTransform>& transform_;
  const std::optional<HeadBias>& bias_;
  const Head& head_;
  const std::vector<MtpModule>& modules_;
  double modules_loss_;
  const HeadValues values_;
  UnitPass embedding_pass_, norm_pass_, head_pass_;
  UnitPass module_pass_, further_pass_;  // of the modules' unit, and of their look-ups
  TensorParallel ranks_;
  View scalars_;
  bool has_encoder_;
  bool masked_;  // the loss is that of masked tokens, else of the next ones
  std::optional<Attributes> logit_scale_;
  Loading encoder_tokens_;
  Loading tokens_, targets_;  // targets are the next token each, often the same
  // From head_forward to the head_backward of the same micro-batch; a slot for each in flight.
  View embedding_mask_;  // [T, h] of their dropout
  View embedding_sum_;   // [T, h] before their norm
  Normed embedded_;      // by it
  HeadTransform::Result transformed_;
  struct Output {
    View x;           // [T, h] output of the layers
    Normed normed;    // by the final norm
    View head_input;  // [T, h] of the rank's tokens
    View logits;      // [T, Vp]
    // These belong to a module alone.
    Loading tokens;        // those of the model, shifted
    View embedding;        // [T, h] of the rank's tokens
    Normed embedded;       // by its norm
    Normed hidden;         // what the module before gives, normalised again
    View hidden_gradient;  // [T, h] of what the module before gives
  };
  std::vector<Output> outputs_;  // of the model and its modules
  View loss_, host_loss_;        // [1] f64
  View loss_again_;              // the same [1] f64, which each tile after the first counts too
  std::map<std::string, View> kept_;
};

}  // namespace zplan
