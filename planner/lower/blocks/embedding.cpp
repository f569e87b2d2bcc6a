#include "planner/lower/blocks/embedding.h"

#include <utility>

#include "planner/lower/stretches.h"

namespace zplan {
namespace {

// Of all positions, or of their gradient, the rows of a stretch x [b, s, h] that begins there.
View rows_of(const View& x, View all, const Attribute& begin) {
  all.shape = {x.shape[1], x.shape[2]};
  const std::int64_t row = all.bytes().value / x.shape[1];
  all.offset = all.offset + Bytes{begin.base * row};
  for (std::size_t a = 0; a < begin.steps.size(); ++a) all.strides[a] = begin.steps[a] * row;
  return all;
}

// Rows of other ranks' tokens, and of none, are zero here.
View cleared_for(Emission& to, const View& x, const View& all) {
  if (x.shape[1] == all.shape[0] || all.access == Access::kUpdate) return all;
  to.kernel(Part::kPosition, Action::kWeightGradient, KernelId::kFillZero, {all});
  return update(all);
}

// A table that is looked up.
ParamSpec table_of(const Maker& maker, std::string name, const Shape& published,
                   const Shape& stored) {
  return {std::move(name), published, stored, Init::kNormal, maker.naming.std().usual, true};
}

Param add_table(Maker& maker, std::string name, const Shape& published, const Shape& stored,
                const Split& split = {}) {
  ParamSpec spec = table_of(maker, std::move(name), published, stored);
  spec.split = split;
  return maker.params.add(std::move(spec));
}

}  // namespace

Param Vocabulary::table(Maker& maker, std::string_view tensor) const {
  ParamSpec spec =
      table_of(maker, maker.naming.of(tensor, ".weight"), {tokens, maker.h()}, {padded, maker.h()});
  spec.split = {Split::Kind::kRows, {}};
  spec.tiles = tiles;
  return maker.params.add(std::move(spec));
}

Embedding::Embedding(Maker& maker, const Vocabulary& vocabulary, const EmbeddingSize& shape,
                     Held held)
    : squared_scale_(shape.squared_scale),
      unused_(shape.unused),
      piece_(maker.tp() > 1 ? vocabulary.padded / maker.tp() : 0),
      tiles_(vocabulary.tiles),
      tile_(vocabulary.padded / maker.tp() / vocabulary.tiles),
      is_last_(!shape.shares_table),
      relative_(shape.relative) {
  maker.params.begin("embedding", Part::kEmbedding, held);
  token_ = vocabulary.table(maker, "token");
  add_positions(maker, shape, Part::kPosition, "position");
}

Embedding::Embedding(Maker& maker, const Embedding& decoder, const EmbeddingSize& shape)
    : squared_scale_(shape.squared_scale),
      unused_(shape.unused),
      piece_(decoder.piece_),
      token_(decoder.token_),
      relative_(shape.relative) {
  add_positions(maker, shape, Part::kEncoderPosition, "encoder_position");
}

void Embedding::add_positions(Maker& maker, const EmbeddingSize& shape, Part part,
                              const std::string& tensor) {
  if (relative_.buckets > 0) add_relative(maker, part, tensor);
  if (shape.positions == 0) return;
  maker.params.begin(tensor, part, Held::kFirstStage);
  if (shape.segments > 0) {
    segment_ = ceil_div(maker.plan.batch.sequence, shape.segments);
    const Shape rows{shape.segments, maker.h()};
    segments_ = add_table(maker, maker.naming.of(tensor, ".segments.weight"), rows, rows);
  }
  position_ =
      add_table(maker, maker.naming.of(tensor, ".weight"), {shape.positions + unused_, maker.h()},
                {maker.plan.batch.sequence + unused_, maker.h()});
}

void Embedding::add_relative(Maker& maker, Part part, const std::string& tensor) {
  part_ = part;
  bias_ = {relative_.heads / maker.tp(), 2 * maker.s() - 1};
  statistics_ = maker.kernels.statistics;
  maker.params.begin(tensor, part, Held::kFirstStage);
  const Shape shape{relative_.buckets, relative_.heads};
  buckets_ = add_table(maker, maker.naming.of(tensor, ".relative.weight"), shape, shape,
                       {Split::Kind::kColumns, {relative_.heads}});
}

// For the layers that follow.
void Embedding::begin_bias(Emission& to) const {
  const std::string name(zplan::name(part_));
  const View bias = to.scratch(name + ".bias", bias_, statistics_);
  const View gradient = to.scratch("d." + name + ".bias", bias_, statistics_);
  to.kernel(part_, KernelId::kRelativePositions, {to.parameter(buckets_), write(bias)},
            relative_attributes());
  to.kernel(part_, Action::kZero, KernelId::kFillZero, {write(gradient)});
  to.position_biases().push_back({bias, gradient});
}

// After their backward.
void Embedding::end_bias(Emission& to) const {
  to.kernel(part_, Action::kWeightGradient, KernelId::kRelativePositionsGradient,
            {read(to.position_biases().back().gradient), to.gradient(buckets_)},
            relative_attributes());
  to.position_biases().pop_back();
  to.done(buckets_);
}

Attributes Embedding::attributes(const Emission& to, std::int32_t tile) const {
  Attribute first = to.by_place(kTensorAxis, piece_);
  first.base += tile * tile_;
  return {first, squared_scale_};
}

Attributes Embedding::segment_attributes(const Emission& to, const Stretches& stretches,
                                         std::int32_t i) const {
  return {segment_, to.by_place(kTensorAxis, piece_), stretches.begin(i)};
}

// Of a stretch, behind those that no token has.
Attribute Embedding::first_row(const Stretches& stretches, std::int32_t i) const {
  Attribute first = stretches.begin(i);
  first.base += unused_;
  return first;
}

void Embedding::forward(Emission& to, const View& tokens, const View& out) const {
  if (tiles_ == 1) to.parameter(token_);  // ahead of the others
  const View positions = position_ ? to.parameter(position_) : View{};
  to.each_tile_apart(tiles_, [&](std::int32_t tile) {
    const View own = tile == 0 ? out : to.scratch("embedding.tile", out.shape);
    look_up(to, tile, tokens, own, tile == 0 ? positions : View{});
    to.add_tile(Part::kEmbedding, own, out);
  });
  if (buckets_) begin_bias(to);
}

// Positions and segments go with the first tile.
void Embedding::look_up(Emission& to, std::int32_t tile, const View& tokens, const View& out,
                        const View& positions) const {
  const View table = to.parameter(token_);
  const Stretches stretches = to.stretches();
  stretches.each([&](std::int32_t i) {
    const View in = read(stretches.part(tokens, i)), x = write(stretches.part(out, i));
    if (position_ && tile == 0) {
      to.kernel(Part::kEmbedding, KernelId::kEmbeddingForward,
                {in, table, x, rows_of(x, positions, first_row(stretches, i))},
                attributes(to, tile));
    } else {
      to.kernel(Part::kEmbedding, KernelId::kEmbeddingForward, {in, table, x},
                attributes(to, tile));
    }
    if (segments_ && tile == 0)
      to.kernel(part_, KernelId::kSegmentForward, {update(x), to.parameter(segments_)},
                segment_attributes(to, stretches, i));
  });
}

void Embedding::backward(Emission& to, const View& tokens, const View& dout) const {
  if (tiles_ == 1) to.gradient(token_);
  View positions;
  if (position_) positions = cleared_for(to, dout, to.gradient(position_));
  to.each_tile_apart(tiles_, [&](std::int32_t tile) {
    add_gradients(to, tile, tokens, dout, positions);
    if (is_last_) to.done(token_);
  });
  if (position_) to.done(position_);
  if (buckets_) end_bias(to);
}

void Embedding::add_gradients(Emission& to, std::int32_t tile, const View& tokens, const View& dout,
                              const View& positions) const {
  const View table = to.gradient(token_);
  const Stretches stretches = to.stretches();
  stretches.each([&](std::int32_t i) {
    const View in = read(stretches.part(tokens, i)), dx = read(stretches.part(dout, i));
    const View dtable = i == 0 ? table : update(table);
    if (position_ && tile == 0) {
      to.kernel(Part::kEmbedding, Action::kWeightGradient, KernelId::kEmbeddingBackward,
                {in, dx, dtable, rows_of(dx, positions, first_row(stretches, i)), to.workspace()},
                attributes(to, tile));
    } else {
      to.kernel(Part::kEmbedding, Action::kWeightGradient, KernelId::kEmbeddingBackward,
                {in, dx, dtable, to.workspace()}, attributes(to, tile));
    }
    if (segments_ && tile == 0) {
      const View rows = to.gradient(segments_);
      to.kernel(part_, Action::kBiasGradient, KernelId::kSegmentBackward,
                {dx, i == 0 ? rows : update(rows)}, segment_attributes(to, stretches, i));
    }
  });
}

}  // namespace zplan
