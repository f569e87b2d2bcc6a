// What the forward of a layer leaves for its backward in another tier: the results of some
// operators go there together when the layer's forward has ended and are brought back, a layer
// ahead, when its backward begins [Huang20], [Rhu16]. Forward and backward see them in rings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/lower/blocks/value.h"
#include "planner/lower/declared.h"
#include "planner/lower/transfers.h"

namespace zplan {

// The values that a layer keeps in a tier, side by side in one piece.
struct AwayBuffers {
  AwayBuffers(const Values& values, const Replay& replay, Tier tier);

  Tier tier;
  DType dtype;
  std::vector<std::pair<Value, Bytes>> values;  // and where each begins
  std::int64_t elements = 0;

  Declared home() const;  // of a layer
  Declared ring() const;  // of those on their way, either way
  Part part() const { return tier == Tier::kCpu ? Part::kKeptOnCpu : Part::kKeptOnNvme; }
  void declare(const Replay& replay, const Declare& declare) const;
};

class KeptAway {
 public:
  // `slots`: layers and micro-batches that are in flight at once.
  KeptAway(Stage& stage, AwayBuffers buffers, std::int32_t slots, const std::string& prefix);

  // Of a loop over layers that this is the `layer`-th of.
  void show_forward(const Values& values, Ordinal layer, ValueViews& views);
  void send(const SlotExpr& home, Ordinal layer);
  void bring(const Values& values, const SlotExpr& home, Ordinal layer, ValueViews& views);

 private:
  void show(const Values& values, const View& together, ValueViews& views) const;
  View together(BufferId buffer, const SlotExpr& slot) const;
  View outgoing(Ordinal layer);

  Stage& s_;
  AwayBuffers buffers_;
  std::string prefix_;
  BufferId home_;
  Transfers transfers_;
};

}  // namespace zplan
