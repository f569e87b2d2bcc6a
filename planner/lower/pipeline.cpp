#include "planner/lower/pipeline.h"

#include "planner/program/schedule/fold.h"

namespace zplan {
namespace {

class LoopEmitter {
 public:
  LoopEmitter(ProgramBuilder& out, const std::function<void(const Pass&)>& emit)
      : out_(out), emit_(emit) {}

  void loop(const PassLoop& loop, bool relative) {
    out_.repeat({loop.count, Var::kMicro, loop.first, loop.step, relative}, [&] {
      for (const LoopEntry& entry : loop.body) {
        if (const auto* inner = std::get_if<PassLoop>(&entry)) {
          this->loop(*inner, true);
        } else {
          pass(std::get<Pass>(entry));
        }
      }
    });
  }

 private:
  void pass(const Pass& pass) {
    if (pass.micro == 0) return emit_(pass);
    out_.repeat({.count = 1, .var = Var::kMicro, .first = pass.micro, .relative = true},
                [&] { emit_(pass); });
  }

  ProgramBuilder& out_;
  const std::function<void(const Pass&)>& emit_;
};

}  // namespace

void emit_passes(ProgramBuilder& out, const PassOrder& order,
                 const std::function<void(const Pass&)>& emit) {
  LoopEmitter emitter(out, emit);
  for (const PassLoop& loop : fold(order)) emitter.loop(loop, false);
}

}  // namespace zplan
