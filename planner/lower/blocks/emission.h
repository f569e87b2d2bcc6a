// What blocks are emitted through: the nodes of a pass, and the parameters and gradients at hand in
// it, whatever it takes to have them there.
#pragma once

#include <string>
#include <vector>

#include "planner/lower/choice_bias.h"
#include "planner/lower/stage.h"
#include "planner/lower/stretches.h"

namespace zplan {

// What of a backward is emitted: all of it, product by product; or apart, first the gradients of
// the inputs, later those of the weights.
enum class Backward : std::uint8_t { kWhole, kInput, kWeight };

class Emission {
 public:
  explicit Emission(Stage& stage) : s_(stage) {}
  virtual ~Emission() = default;
  Emission(const Emission&) = delete;
  Emission& operator=(const Emission&) = delete;

  // Emits a body for each tile of what is outside the layers, told apart by the number of the tile.
  template <typename Emit>
  void each_tile_apart(std::int32_t tiles, const Emit& emit) {
    if (tiles == 1) return emit(0);
    for (std::int32_t tile = 0; tile < tiles; ++tile)
      s_.out.repeat({.count = 1, .var = Var::kTile, .first = tile}, [&] {
        begin_tile();
        emit(tile);
      });
  }
  // Adds what a tile gives to the sum of those before it; the first one gives it there.
  void add_tile(Part part, const View& own, const View& sum) {
    if (own.buffer == sum.buffer) return;
    kernel(part, Action::kAccumulate, KernelId::kResidualAdd, {read(own), read(sum), write(sum)});
  }

  // Readable for the nodes that follow.
  virtual View parameter(Param param) = 0;
  // The scales of a matrix that is kept as codes and, where those have 8 bits, their constants.
  virtual std::vector<View> scales(Param param) = 0;
  // A matrix for a product: where it is kept as codes, what these stand for.
  View matrix(Part part, Param param) {
    const View kept = parameter(param);
    if (!s_.layout.is_coded(param)) return kept;
    const View whole = scratch("dequantised." + std::string(name(part)),
                               s_.layout.of(param, s_.unit_member()).shape);
    View elements = write(whole);
    elements.shape = {whole.shape.elements()};
    const std::vector<View> by = scales(param);
    const Attributes attributes{s_.plan.train.is_fp4() ? 1 : 0};
    if (by.size() == 1) {
      kernel(part, Action::kDequantise, KernelId::kDequantise, {kept, read(by[0]), elements},
             attributes);
    } else {
      kernel(part, Action::kDequantise, KernelId::kDequantiseDouble,
             {kept, read(by[0]), read(by[1]), elements}, attributes);
    }
    return read(whole);
  }
  // To be written by the next node; of a frozen parameter it is of no use.
  virtual View gradient(Param param) = 0;
  // No other node writes the gradient of the parameter.
  virtual void done(Param param) = 0;

  Phase phase() const { return phase_; }
  Backward backward_part() const { return backward_; }
  bool rounds_products() const { return s_.kernels.layer_products == LayerProducts::kRoundedToFp8; }
  bool rounds_whole() const { return s_.kernels.rounds_whole; }
  bool trains(Param param) const { return s_.layout.trains(param); }

  // In a backward.
  bool emits_inputs() const { return backward_ != Backward::kWeight; }
  bool emits_weights() const { return backward_ != Backward::kInput; }

  // On the compute lane.
  void kernel(Part part, KernelId id, std::initializer_list<View> operands,
              const Attributes& attributes = {}) {
    kernel(part, phase_ == Phase::kBackward ? Action::kInputGradient : Action::kCompute, id,
           operands, attributes);
  }
  void kernel(Part part, Action action, KernelId id, std::initializer_list<View> operands,
              const Attributes& attributes = {}) {
    s_.out.kernel({phase_, part, action}, Lane::kCompute, id, operands, attributes);
  }
  void move(Part part, const View& from, const View& to) {
    s_.out.copy({phase_, part, Action::kMove}, from, to);
  }
  View scratch(const std::string& name, const Shape& shape) {
    return scratch(name, shape, s_.compute());
  }
  View scratch(const std::string& name, const Shape& shape, DType dtype) {
    return s_.transient(name, shape, dtype);
  }
  bool is_on_cpu() const { return s_.kernels.runs_on == RunsOn::kCpu; }
  DType statistics() const { return s_.kernels.statistics; }
  // Returns the shape of what a rank has of a parameter, as kernels see it.
  const Shape& shape_of(Param param) const { return s_.layout.of(param, s_.unit_member()).shape; }
  Attribute by_place(std::string_view axis, std::int64_t step) const {
    return s_.by_place(axis, step);
  }
  // As in stage.h.
  Attributes drawn_sequences() const { return s_.drawn_sequences(); }
  Attributes drawn_tokens() const { return s_.drawn_tokens(); }
  View workspace() const { return s_.workspace; }
  Stretches stretches() const { return Stretches(s_); }
  View expert_sums() const { return s_.expert_sums; }
  View scalars() const { return s_.scalars; }
  // [1, E] f64
  View choice_loads(Param bias) const {
    return loads_of(s_, s_.layout.unit_of(bias, s_.unit_member()), s_.unit_member());
  }
  View encoded() const { return read(s_.encoded); }
  View encoded_gradient() const { return update(s_.encoded_gradient); }
  std::vector<PositionBias>& position_biases() { return s_.position_biases; }
  View position_bias() const { return read(s_.position_biases.back().bias); }
  View position_bias_gradient() const { return update(s_.position_biases.back().gradient); }

 protected:
  // What is at hand is of another tile.
  virtual void begin_tile() {}
  void enter(Phase phase, Backward backward = Backward::kWhole) {
    phase_ = phase;
    backward_ = backward;
  }

  // Where kernels that give several gradients write that of a frozen parameter.
  View unused_gradient(Param param, DType dtype) {
    return write(s_.transient("unused.gradient" + std::to_string(param.index()),
                              s_.layout.of(param, s_.unit_member()).shape, dtype));
  }

  Stage& s_;

 private:
  Phase phase_ = Phase::kForward;
  Backward backward_ = Backward::kWhole;
};

}  // namespace zplan
