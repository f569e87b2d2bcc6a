// What comes before the first layer of an encoder and after its last: the look-up of its tokens and
// the norm of its output, which every layer of the decoder reads. Backward adds up what these give
// of its gradient and goes through the encoder when that of the decoder has ended. All of it is on
// one stage, and of one micro-batch at a time.
#pragma once

#include "planner/lower/blocks/decoder.h"
#include "planner/lower/declared.h"
#include "planner/lower/tensor_parallel.h"
#include "planner/lower/unit_pass.h"

namespace zplan {

// What is there from the end of the encoder's forward to its backward.
struct EncoderValues {
  explicit EncoderValues(const Decoder& model);

  ValueSpec input;                // of the norm
  ValueSpec encoded, mean, rstd;  // by it, of the rank's tokens
  ValueSpec gathered;             // the same of all tokens, where ranks have parts of them
  ValueSpec gradient;             // of that, which the layers of the decoder add to
  bool has_mean, in_parts;

  void declare(const Declare& declare) const;
};

class EncoderEnds {
 public:
  EncoderEnds(Stage& stage, const Decoder& model, Parameters& parameters, Gradients& gradients);

  std::int32_t layers() const { return encoder_.layers; }
  void embed(const View& tokens, const View& x);  // x [T, h] of the rank's tokens
  // Normalises the output of its layers [T, h], which need not stay, for those of the decoder.
  void finish(const View& output);
  // Before the backward of the decoder's layers.
  void begin_backward(bool last_micro);
  // After it: dx [T, h] becomes the gradient of the layers' output.
  void backward(const View& dx);
  // `table`: the gradients of the token embedding, as the decoder leaves them.
  void embed_backward(const View& tokens, const View& dx, Gradients::Open table);

 private:
  View transient(const ValueSpec& value) {
    return s_.transient(value.name, value.shape, value.dtype);
  }
  void apart(const std::function<void()>& emit);

  Stage& s_;
  const Encoder& encoder_;
  const EncoderValues values_;
  UnitPass embedding_pass_, norm_pass_;
  TensorParallel ranks_;
  View input_;
  Normed normed_;
};

}  // namespace zplan
