// The parameters of a model as its blocks state them, each named by a handle that its block keeps.
// They come in operators: what is gathered together where the gather unit is an operator. How
// operators become units, and where a rank has a parameter, is decided in layout.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/lower/blocks/handle.h"
#include "planner/plan/trained.h"
#include "planner/program/job/job.h"

namespace zplan {

struct ParamSpec {
  std::string name;  // Hugging Face name, "{}" for the layer
  Shape published;   // as the model has it
  Shape stored;      // as kernels see all pieces of it together; rows may be padded or left out
  Init init = Init::kZero;
  double std = 0;
  bool decay = false;
  Split split{};  // into pieces: of a layer's over ranks and tiles, of another's over ranks
  // Of one that is not split: each tensor parallel rank and tile gives a part of its gradient.
  bool summed = false;
  bool is_factor = false;  // of LoRA
  bool is_trained = true;
  bool is_coded = false;  // kept as 4-bit codes
  // Of the bias that a router's choice follows, in units of 1e-9: what moves it a step by the loads
  // of experts (choice_bias.h).
  std::int64_t balance_rate = 0;
  // Of one that is cut by columns: the dimension of `stored` that is cut, where it is not the last.
  std::optional<std::size_t> cut_dimension{};
  // An optimizer of matrices updates it as one if this is set, and it decays and is cut.
  bool is_matrix = true;
  // Of one outside the layers: what each rank has of it is worked off in so many.
  std::int32_t tiles = 1;
};

// Names a parameter; false: the model has none here.
using Param = Handle<ParamSpec>;

// The stages that have an operator's parameters.
enum class Held : std::uint8_t { kByLayer, kFirstStage, kLastStage, kBothEnds };

struct Operator {
  std::string name;  // of its unit: "embedding", of a layer "qkv"
  Part part;         // of the roles of its unit
  Held held = Held::kByLayer;
  std::size_t kind = 0;  // of the layers that have it
  bool experts = false;  // each rank of an expert group has an equal part of its rows
  std::vector<Param> params{};
};

// Layers that are made of equal blocks.
struct ParamKind {
  std::string name;
  LayerRange layers{};  // none: those that come in turn
};

class ParamTable {
 public:
  explicit ParamTable(TrainedChoice train = {}) : train_(train) {}

  // Parameters that are added next belong to this operator; one of a layer is of the kind that was
  // begun last. An operator to which nothing is added is none.
  void begin(std::string name, Part part, Held held = Held::kByLayer) {
    const std::size_t kind = held == Held::kByLayer ? kinds_.size() - 1 : 0;
    begun_ = Operator{std::move(name), part, held, kind};
  }
  void begin_experts(std::string name, Part part) {
    begin(std::move(name), part);
    begun_->experts = true;
  }
  // Parameters that are added next belong to a vision tower, to its projectors or to the model.
  enum class Tower : std::uint8_t { kNone, kTower, kProjector };
  void enter(Tower tower) { tower_ = tower; }
  bool is_in_tower() const { return tower_ != Tower::kNone; }
  // `layers`: that are of the kind; none: kinds come in turn.
  void begin_kind(std::string name, LayerRange layers = {}) {
    kinds_.push_back({std::move(name), layers});
  }
  Param add(ParamSpec spec) {
    if (begun_) operators_.push_back(*std::exchange(begun_, std::nullopt));
    const Param param(specs_.size());
    spec.is_trained = is_trained(spec);
    spec.is_coded = is_coded(spec);
    specs_.push_back(std::move(spec));
    operators_.back().params.push_back(param);
    return param;
  }

  const std::vector<ParamKind>& kinds() const { return kinds_; }  // of layers
  bool kinds_take_turns() const { return kinds_.front().layers.count == 0; }
  const std::vector<Operator>& operators() const { return operators_; }  // in forward order
  const ParamSpec& spec(Param param) const { return specs_[param.index()]; }
  std::size_t size() const { return specs_.size(); }

 private:
  bool is_trained(const ParamSpec& spec) const {
    if (tower_ == Tower::kTower) return train_.has_trained_tower();
    if (tower_ == Tower::kProjector) return train_.has_trained_projector();
    if (train_.what == Trained::kLora) return spec.is_factor || is_saved(operators_.back().part);
    return train_.what == Trained::kAll || operators_.back().held == Held::kByLayer;
  }

  bool is_saved(Part part) const {
    const LoraSaved saved = train_.saved;
    if (part == Part::kEmbedding)
      return saved == LoraSaved::kEmbedding || saved == LoraSaved::kBoth;
    if (part == Part::kHead) return saved == LoraSaved::kHead || saved == LoraSaved::kBoth;
    return false;
  }
  // A matrix of a layer that stays as it is. A router's is small, and what it chooses is fragile.
  bool is_coded(const ParamSpec& spec) const {
    const Operator& op = operators_.back();
    return train_.has_codes() && op.held == Held::kByLayer && spec.decay && spec.is_matrix &&
           !spec.is_trained && op.part != Part::kRouter;
  }

  TrainedChoice train_;
  std::vector<ParamKind> kinds_;
  std::vector<Operator> operators_;
  std::optional<Operator> begun_;
  Tower tower_ = Tower::kNone;
  std::vector<ParamSpec> specs_;
};

}  // namespace zplan
