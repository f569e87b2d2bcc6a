// Where what the forward of a layer leaves for its backward stays: the values of its blocks.
//
// Recompute none: every value of every layer and micro-batch in flight stays on the GPU.
// Selective: all but the probabilities of attention, which backward computes again from queries and
// keys [Korthikanti22 sec 5]. Full: only the layer inputs stay (checkpoints.h); backward replays
// the whole layer, or the layers that have one checkpoint together, into buffers of so many layers
// [Chen16], [Narayanan21 sec 3.5]. By operator: what the
// named ones give is replayed before the layer's backward, from what is kept or was replayed before
// it. What operators give can stay in another tier instead (kept_away.h). A fused attention keeps
// its log-sum-exp instead of the probabilities [Dao22].
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/lower/blocks/value.h"
#include "planner/lower/declared.h"
#include "planner/lower/kept_away.h"
#include "planner/lower/stage.h"

namespace zplan {

// The other tier that one of the values stays in. Statistics of rows and masks, which are small,
// have none.
std::optional<Tier> away_tier(const Values& values, const ValueSpec& spec, const Replay& replay);

// What the layers of a kind have of values that are replayed so, in some layers at least.
void declare(const Values& values, const Replay& replay, std::int32_t tiles,
             const Declare& declare);

class Activations {
 public:
  // The values of one kind of layer in a segment of a chunk. There are `kinds` kinds, whose buffers
  // `prefix` tells apart.
  Activations(Stage& stage, const Values& values, const Chunk& chunk, const Segment& segment,
              std::size_t kinds, const std::string& prefix);

  // What forward writes; with recomputation it does not outlive the layer.
  ValueViews forward();
  // Sends what stays in another tier there, when the layer's forward has ended.
  void save();
  // What backward reads: the same without recomputation, else what the replay writes, if asked
  // again where layers are replayed together. Brings what stays in another tier.
  ValueViews replay();
  // Where the replayed layer output goes; nobody reads it.
  View replay_output() const;
  // What the first part of a backward leaves for the second.
  View handed(const ValueSpec& spec);

 private:
  std::int32_t layers_together() const { return s_.unit_layers() / kinds_; }
  std::int32_t layers() const { return segment_.units * layers_together(); }  // of the kind
  bool shares_places() const { return s_.shares_places(chunk_, segment_); }
  // These have a place of their own for what stays.
  std::int32_t kept_layers() const {
    return shares_places() ? layers() + layers_together() : layers() * chunk_.in_flight;
  }
  std::int32_t tiles(const ValueSpec& spec) const { return spec.tiled ? s_.tiles() : 1; }
  // A buffer with a slot for each layer of the kind, tile and micro-batch in flight, and its view.
  BufferId add(const ValueSpec& spec, std::int32_t layers) const;
  View slot_of(BufferId buffer, const ValueSpec& spec) const;
  // The how-many-th layer of the kind the surrounding loop comes to.
  Ordinal up() const;
  Ordinal down() const;
  SlotExpr home_slot() const;
  View within_body(const std::string& prefix, const ValueSpec& spec) const;
  ValueViews views(const std::string& prefix, bool forward) const;
  // Calls with each value: first what all backwards read, then what only some do, then the rest.
  void by_life(const std::function<void(Value, const ValueSpec&)>& visit) const;

  Stage& s_;
  const Values& values_;
  const Chunk& chunk_;
  const Segment& segment_;
  std::int32_t kinds_;
  std::string prefix_;
  std::vector<BufferId> kept_;  // by index of the value; one that does not stay here has none
  std::vector<KeptAway> away_;
  std::map<std::string, BufferId> handed_;
};

}  // namespace zplan
