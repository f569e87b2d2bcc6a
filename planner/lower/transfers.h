// Moves pieces of states between tiers through rings, so that the next can be on its way while one
// is used. NVMe is reached through the host.
#pragma once

#include "planner/lower/declared.h"
#include "planner/lower/stage.h"

namespace zplan {

struct Ring {
  std::string name;
  Bytes slot_size;  // of the largest piece that goes through it
  std::int32_t slots = 1;
  Category category = Category::kGathered;
  Action read = Action::kRead;  // from NVMe, and to it
  Action write = Action::kWrite;
  Action upload = Action::kUpload;  // from the host to the GPU, and back
  Action download = Action::kDownload;
};

// One through which what a declared buffer has slots for goes.
inline Ring ring_of(std::string name, const Declared& like) {
  return {std::move(name), like.buffer.slot_size, like.buffer.slots, like.buffer.category};
}

class Transfers {
 public:
  explicit Transfers(Stage& stage) : s_(stage) {}

  // A copy of `home` in tier `to`, dense; home itself where that is its tier.
  View bring(Phase phase, Part part, View home, Tier to, const Ring& ring, Ordinal ordinal);
  // Where something on its way home can be written in tier `at`: home itself in its own tier.
  View outbox(const View& home, Tier at, const Ring& ring, Ordinal ordinal);
  // Sends it on; nothing where it is home.
  void send(Phase phase, Part part, View from, const View& home, const Ring& ring, Ordinal ordinal);
  Tier tier_of(const View& v) const;

 private:
  View slot_of(const Ring& ring, const char* suffix, Tier tier, const View& like, Ordinal ordinal);
  void copy(Phase phase, Part part, const Ring& ring, const View& from, const View& to);

  Stage& s_;
};

}  // namespace zplan
