// Blocks emitted by themselves: every parameter, gradient and value is a buffer of its own that is
// there already, so that a test sees the nodes of the blocks alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/lower/blocks/decoder.h"
#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/ranks.h"
#include "planner/program/job/names.h"

namespace zplan::testing_support {

class BlockPass : public LayerPass {
 public:
  BlockPass(Stage& stage, const ParamTable& params, const Values& values)
      : LayerPass(stage), params_(params) {
    for (const ValueSpec& value : values.specs())
      views_.push_back(s_.transient(value.name, value.shape, value.dtype));
  }
  using Emission::enter;

  std::vector<View> scales(Param) override { return {}; }
  View parameter(Param param) override { return read(view("", param)); }
  View gradient(Param param) override { return write(view("grad.", param)); }
  void done(Param param) override { closed.push_back(params_.spec(param).name); }
  bool emits(OperatorSet) const override { return true; }
  bool replays_selectively() const override { return false; }
  std::int64_t layer() const override { return 0; }
  bool are_together(Param, Param) const override { return true; }
  View handed(Part part, const char* name, const Shape& shape, bool) override {
    if (backward_part() == Backward::kWhole) return scratch(name, shape);
    return scratch("handed." + std::string(zplan::name(part)), shape);
  }
  void take_gradient(Part part, Param param, bool is_bias) override {
    kernel(part, is_bias ? Action::kBiasGradient : Action::kWeightGradient, KernelId::kAccumulate,
           {update(view("grad.", param))});
  }
  void each_tile(const std::vector<Use>&, const std::function<void()>& emit) override { emit(); }

  std::vector<std::string> closed;  // parameters whose gradients were said to be done

 private:
  View view(const char* prefix, Param param) {
    const ParamSpec& spec = params_.spec(param);
    return s_.transient(prefix + spec.name, spec.stored, s_.compute());
  }

  const ParamTable& params_;
};

// A stage with all layers of a model, and what was emitted on it.
class BlockBench {
 public:
  BlockBench(const Plan& plan, const ModelConfig& model)
      : plan_(plan),
        decoder(model, plan_, find_kernel_set(plan_.kernel_set)),
        mesh_(mesh_of(plan_)),
        layout_(make_layout(decoder.params(), plan_, mesh_)),
        body_(out_),
        stage{{plan_, find_kernel_set(plan_.kernel_set), model.hidden, model.layers,
               plan_.rank_sequence()},
              mesh_,
              layout_,
              out_,
              body_,
              pieces_} {
    stage.chunks = {{.layers = static_cast<std::int32_t>(model.layers)}};
    stage.workspace = stage.transient("workspace", {1}, DType::kF32);
  }

  // "backward.qkv.weight_gradient linear_weight_gradient x w grad.b": operands by their buffers,
  // "=" before what is written, "+" before what is updated.
  std::vector<std::string> take() {
    const Program program = out_.finish_unordered();
    std::vector<std::string> lines;
    for (const Node& node : program.nodes) {
      std::string line = name(node.role);
      if (node.kind == OpKind::kKernel) line += " " + std::string(name(node.kernel));
      for (const View& view : program.operands(node)) {
        const std::string& buffer = program.buffers[view.buffer].name;
        if (buffer == "workspace") continue;
        line += view.access == Access::kWrite ? " =" : view.access == Access::kUpdate ? " +" : " ";
        line += buffer;
      }
      lines.push_back(line);
    }
    return lines;
  }

 private:
  Plan plan_;

 public:
  Decoder decoder;

 private:
  Mesh mesh_;
  Layout layout_;
  ProgramBuilder out_;
  BodyBuffers body_;
  ChunkMap pieces_ = looped_chunks(1, 1);

 public:
  Stage stage;
};

}  // namespace zplan::testing_support
