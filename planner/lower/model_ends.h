// What comes before the first layer and after the last: batches, embeddings; final norm, output
// head, loss. The loss is the mean over the tokens of the global batch; the output head is the
// token embedding when they are tied.
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
#pragma once

#include <map>
#include <string>

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
  // Of the last chunk's output; ends with the loss.
  void head_forward(const Checkpoints& checkpoints);
  void head_backward(const View& dx, bool last_micro);
  void embed_backward(const View& dx, bool last_micro);
  // What an encoder reads: the tokens of the micro-batch, masked [Lewis20 sec 2.2].
  const View& encoder_tokens() const { return encoder_tokens_.device; }
  // The gradients of the token embedding, to which the encoder's look-up adds.
  Gradients::Open release_tokens() { return embedding_pass_.release(embedding_.token()); }
  // Sums the loss over the replicas and brings it to the host, last stage.
  View finish_loss();

 private:
  View input(const char* name, Tier tier, Shape shape, DType dtype, std::int32_t slots = 1);
  View kept(const ValueSpec& value);
  View kept(const ValueSpec& value, std::int32_t slots);
  // What the head leaves. Of two micro-batches in turns the backward of one comes to the head before
  // the forward of the other.
  View kept_by_head(const ValueSpec& value) {
    return kept(value, s_.chunk().in_turns ? 1 : s_.chunk().in_flight);
  }
  // What a rank loads on the host and copies to the device.
  struct Loading {
    View host, device;  // [b, s+1] i32, of each stretch
  };
  Loading loading(const char* name, const Chunk& chunk);
  void load(const Loading& loading, Part part, Action action, Loaded loaded);
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
  void head_backward_by_tiles(const View& x, const View& dx);
  void head_by_pieces(const View& x, const View& dhead, const View& dx);
  View targets_of(std::int32_t piece) const;

  Stage& s_;
  const Embedding& embedding_;
  const std::optional<NormBlock>& embedding_norm_;
  const NormBlock& norm_;
  const std::optional<HeadTransform>& transform_;
  const Head& head_;
  const HeadValues values_;
  UnitPass embedding_pass_, norm_pass_, head_pass_;
  TensorParallel ranks_;
  View scalars_;
  bool has_encoder_;
  bool masked_;  // the loss is that of masked tokens, else of the next ones
  bool scales_logits_;
  Loading encoder_tokens_;
  Loading tokens_, targets_;  // targets are the next token each, often the same
  // From head_forward to the head_backward of the same micro-batch; a slot for each in flight.
  View embedding_mask_;  // [T, h] of their dropout
  View embedding_sum_;   // [T, h] before their norm
  Normed embedded_;      // by it
  View x_;               // [T, h] output of the layers
  Normed normed_;        // by the final norm
  HeadTransform::Result transformed_;
  View head_input_;        // [T, h] of the rank's tokens
  View logits_;            // [T, Vp]
  View loss_, host_loss_;  // [1] f64
  View loss_again_;        // the same [1] f64, which each tile after the first counts too
  std::map<std::string, View> kept_;
};

}  // namespace zplan
