#include "planner/lower/pipeline.h"

#include "planner/core/error.h"
#include "planner/program/schedule/fold.h"

namespace zplan {
namespace {

class LoopEmitter {
 public:
  LoopEmitter(Stage& stage, const MicroStep& step) : s_(stage), step_(step) {}

  void loop(const PassLoop& loop, bool relative) {
    s_.out.repeat({loop.count, Var::kMicro, loop.first, loop.step, relative}, [&] {
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
    if (pass.micro == 0) return body(pass);
    s_.out.repeat({.count = 1, .var = Var::kMicro, .first = pass.micro, .relative = true},
                  [&] { body(pass); });
  }

  void body(const Pass& pass) {
    switch (pass.kind) {
      case PassKind::kForward:
        return step_.forward();
      case PassKind::kBackward:
        return step_.backward(pass.apart);
      case PassKind::kInputBackward:
      case PassKind::kWeightBackward:
        ZPLAN_ASSERT(false);  // the orders that a plan names have backward in one pass
    }
  }

  Stage& s_;
  const MicroStep& step_;
};

}  // namespace

void emit_schedule(Stage& stage, const PassOrder& order, const MicroStep& step) {
  LoopEmitter emitter(stage, step);
  for (const PassLoop& loop : fold(order)) emitter.loop(loop, false);
}

}  // namespace zplan
