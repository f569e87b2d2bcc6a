// This emits a vision tower on the stage with the first layers, forward and backward: patches are
// loaded, go through the tower and its projectors, and what these give takes the place of the first
// tokens of each sequence. Its layers are ordinary ones of sizes of their own, which the stage has
// while they are emitted; with sequence parallelism ranks have parts of the patches between their
// joint work, and all of them before and behind the layers. A tower that is not trained goes
// forward only and keeps nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planner/lower/blocks/vision_tower.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/layer_run.h"
#include "planner/lower/unit_pass.h"

namespace zplan {

class TowerRun {
 public:
  TowerRun(Stage& stage, const VisionTower& tower, Parameters& parameters, Gradients& gradients,
           Optimizer& optimizer);

  // Loads the patches of the micro-batch, of all its images.
  void load();
  // Computes the rows of images from the patches.
  void forward();
  // Puts them among the tokens that were looked up, x [T, h] of the rank's.
  void put(const View& x);
  // Takes the gradient of these rows out of dx [T, h], which is zero there afterwards.
  void take(const View& dx);
  void backward(bool last_micro);

 private:
  using Steps = std::vector<ProjectorBlock>;

  View kept(ValueSpec value);
  Normed kept_norm(const std::string& name, const Shape& y, bool has_mean);
  void cast_pixels();
  void embed();
  View output_of_layers();
  View own_rows(View whole) const;
  void own_part_of(Role role, const View& whole, const View& own);
  void step(std::int32_t number, const std::function<void()>& emit);
  View project(std::size_t projector, const View& output);
  View project_backward(std::size_t projector, View dy);
  void layers_backward(View dx, bool last_micro);
  void add(Phase phase, std::size_t projector, const View& more, const View& sum);
  Attributes image_rows() const;
  bool trains_any() const { return tower_.is_trained || tower_.has_trained_projectors; }

  Stage& s_;
  const VisionTower& tower_;
  const Chunk chunk_;  // the tower's layers
  std::optional<Checkpoints> checkpoints_;
  std::vector<std::unique_ptr<LayerRun>> runs_;
  UnitPass embedding_pass_, projector_pass_;
  TensorParallel ranks_;
  bool keeps_ = true;                          // backward reads what is emitted
  View host_pixels_, loaded_pixels_, pixels_;  // [T, c]
  PatchEmbedding::Result embedded_;
  View output_;                                 // [T, h] of the layers
  std::vector<std::vector<Normed>> projected_;  // by each step of each projector
  View rows_, rows_gradient_;                   // [R, h] of the text model
  std::map<std::string, View> kept_;
};

}  // namespace zplan
