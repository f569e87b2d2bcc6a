// What the blocks outside the layers are emitted through: each unit is fetched before its first use
// in a pass, its gradients are open until its block is done with them.
#pragma once

#include <map>
#include <optional>

#include "planner/lower/blocks/emission.h"
#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"

namespace zplan {

class UnitPass : public Emission {
 public:
  // `part` is the part of the model in the roles of what is fetched; left out, it is the unit's.
  UnitPass(Stage& stage, Parameters& parameters, Gradients& gradients,
           std::optional<Part> part = std::nullopt)
      : Emission(stage), parameters_(parameters), gradients_(gradients), part_(part) {}

  // Begins a phase in which no unit is at hand yet.
  void begin(Phase phase);
  using Emission::enter;  // what is at hand stays
  void set_last(bool last_micro) { last_micro_ = last_micro; }
  // Gradients stay open when a block is done with them, since others add to them: close() ends
  // that.
  void keep_open(bool keep) { keeps_open_ = keep; }

  View parameter(Param param) override;
  std::vector<View> scales(Param param) override;
  View gradient(Param param) override;
  void done(Param param) override;
  void close(Param param);
  void close_all();

  // Hands the open gradients of a parameter over: another block adds to them.
  Gradients::Open release(Param param);
  void adopt(Gradients::Open open);
  // Makes the next write of the gradient add to it.
  void add_to(Param param) { adopt(release(param)); }

 private:
  void begin_tile() override { resident_.clear(); }
  // Uses of the ring of a unit that comes in tiles.
  Ordinal ordinal(UnitIndex unit) const {
    return {.per_tile = s_.layout.units[unit].tiles > 1 ? 1 : 0};
  }

  Parameters& parameters_;
  Gradients& gradients_;
  std::optional<Part> part_;
  bool last_micro_ = false;
  bool keeps_open_ = false;
  std::map<UnitIndex, Parameters::Resident> resident_;
  std::map<UnitIndex, Gradients::Open> open_;
};

}  // namespace zplan
