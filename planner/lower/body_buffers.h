// Buffers that live within one emitted body (the forward or the backward of a micro-batch). A body
// may be emitted several times (warm-up, steady state, last micro-batch); each emission has buffers
// of its own, so that none is held from one body to the next and placement can overlay them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "planner/lower/program_builder.h"

namespace zplan {

class BodyBuffers {
 public:
  explicit BodyBuffers(ProgramBuilder& out) : out_(out) {}

  void next_body();
  // Ends a layer whose next one is of another kind: what has one slot is made anew, rings stay.
  void next_layer();
  // Goes over to the buffers of another body that is emitted in turns with this one, and back.
  void take_turns() { std::swap(current_, other_); }
  // Begins two such bodies.
  void next_bodies();
  // Calls `iteration`; what it uses for the first time, and in one slot only, is its own: what
  // comes after it in the body has buffers of the same names apart, that can overlay it.
  void apart(const std::function<void()>& iteration);
  // The buffer of this name in the current body; made on first use, as large as any use asks. Names
  // of later bodies carry the number of the emission.
  BufferId get(Buffer buffer);

 private:
  ProgramBuilder& out_;
  std::map<std::string, BufferId> current_, other_;
  std::map<std::string, int> emissions_;
};

}  // namespace zplan
