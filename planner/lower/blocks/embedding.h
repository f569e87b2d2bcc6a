// The sum of what a token and, where positions are learned, its position are looked up as. With
// tensor parallelism each rank has a piece of the vocabulary, whose look-ups are to be summed
// [Shoeybi19 sec 3].
//
// With memory-centric tiling [Rajbhandari21 sec 5.1.3] what a rank has of the vocabulary comes in
// tiles of equally many tokens, each looked up in for itself.
//
// Where layers add to scores by the distance of key and query instead, the table of their stack is
// looked up here, too: once for a micro-batch, of every distance. Ranks have that of their heads.
#pragma once

#include "planner/lower/blocks/emission.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

// V, as the model has it and as stored: what is behind is never looked up.
struct Vocabulary {
  std::int64_t tokens = 0;
  std::int64_t padded = 0;
  std::int32_t tiles = 1;  // of each rank's piece

  // A table [V, h].
  Param table(Maker& maker, std::string_view tensor) const;
};

// Of biases of scores by distance [Raffel20 sec 2.1].
struct RelativeSize {
  std::int64_t buckets = 0;   // 0: there are none
  std::int64_t distance = 0;  // from which on all are in the last
  std::int64_t heads = 0;     // of the model
  bool both_ways = false;
};

struct EmbeddingSize {
  std::int64_t positions = 0;      // learned ones; 0: none
  std::int64_t unused = 0;         // rows before them that no token has
  std::int64_t squared_scale = 0;  // tokens are taken the root of it times; 0: once
  std::int64_t segments = 0;       // equal parts of a sequence, each with a vector
  bool shares_table = false;       // with another look-up, whose backward comes later
  RelativeSize relative{};
};

class Embedding {
 public:
  Embedding(Maker& maker, const Vocabulary& vocabulary, const EmbeddingSize& shape, Held held);
  // Of what an encoder reads: in the table of a decoder's, with positions of its own.
  Embedding(Maker& maker, const Embedding& decoder, const EmbeddingSize& shape);

  // Of the rank's tokens, stretch by stretch; out [b, s, h] of each.
  void forward(Emission& to, const View& tokens, const View& out) const;
  void backward(Emission& to, const View& tokens, const View& dout) const;

  Param token() const { return token_; }

 private:
  void add_positions(Maker& maker, const EmbeddingSize& shape, Part part,
                     const std::string& tensor);
  void add_relative(Maker& maker, Part part, const std::string& tensor);
  void begin_bias(Emission& to) const;
  void end_bias(Emission& to) const;
  void look_up(Emission& to, std::int32_t tile, const View& tokens, const View& out,
               const View& positions) const;
  void add_gradients(Emission& to, std::int32_t tile, const View& tokens, const View& dout,
                     const View& positions) const;
  Attributes attributes(const Emission& to, std::int32_t tile) const;
  Attributes relative_attributes() const { return {relative_.distance, relative_.both_ways}; }
  Attributes segment_attributes(const Emission& to, const Stretches& stretches,
                                std::int32_t i) const;
  Attribute first_row(const Stretches& stretches, std::int32_t i) const;

  std::int64_t squared_scale_, unused_;
  std::int64_t piece_ = 0;  // rows of a rank of several; 0: it has all
  std::int32_t tiles_ = 1;
  std::int64_t tile_ = 0;   // rows of one
  bool is_last_ = true;     // to add to the gradient of the table
  Param token_, position_;  // [V, h], [s, h]: the model's first positions, of a whole sequence
  RelativeSize relative_;
  Part part_ = Part::kPosition;  // of the positions
  Shape bias_;                   // [a, 2 s - 1], of the rank's heads
  DType statistics_ = DType::kF32;
  Param buckets_;             // [n, a], of the model
  std::int64_t segment_ = 0;  // tokens of one
  Param segments_;            // [n, h]
};

}  // namespace zplan
