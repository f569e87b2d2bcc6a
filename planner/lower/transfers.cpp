#include "planner/lower/transfers.h"

namespace zplan {
Tier Transfers::tier_of(const View& v) const { return s_.out.buffer(v.buffer).tier; }

View Transfers::slot_of(const Ring& ring, const char* suffix, Tier tier, const View& like,
                        Ordinal ordinal) {
  const BufferId id = s_.body.get({.name = ring.name + suffix,
                                   .slot_size = ring.slot_size,
                                   .slots = ring.slots,
                                   .tier = tier,
                                   .category = ring.category,
                                   .dtype = like.dtype});
  return view_of(id, like.dtype, like.shape, ordinal.slot());
}

void Transfers::copy(Phase phase, Part part, const Ring& ring, const View& from, const View& to) {
  Action action = tier_of(to) == Tier::kGpu ? ring.upload : ring.download;
  if (tier_of(from) == Tier::kNvme) action = ring.read;
  if (tier_of(to) == Tier::kNvme) action = ring.write;
  s_.out.copy({phase, part, action}, from, to);
}

View Transfers::bring(Phase phase, Part part, View home, Tier to, const Ring& ring,
                      Ordinal ordinal) {
  if (tier_of(home) == Tier::kNvme && to != Tier::kNvme) {
    const View staged = slot_of(ring, ".read", Tier::kCpu, home, ordinal);
    copy(phase, part, ring, home, staged);
    home = staged;
  }
  if (tier_of(home) == to) return home;
  const View result = slot_of(ring, ".near", to, home, ordinal);
  copy(phase, part, ring, home, result);
  return result;
}

View Transfers::outbox(const View& home, Tier at, const Ring& ring, Ordinal ordinal) {
  if (tier_of(home) == at) return home;
  return slot_of(ring, ".out", at, home, ordinal);
}

void Transfers::send(Phase phase, Part part, View from, const View& home, const Ring& ring,
                     Ordinal ordinal) {
  const Tier target = tier_of(home);
  if (tier_of(from) == target) return;
  if (tier_of(from) == Tier::kGpu && target == Tier::kNvme) {
    const View staged = slot_of(ring, ".write", Tier::kCpu, from, ordinal);
    copy(phase, part, ring, from, staged);
    from = staged;
  }
  copy(phase, part, ring, from, home);
}

}  // namespace zplan
