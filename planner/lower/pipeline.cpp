#include "planner/lower/pipeline.h"

#include "planner/program/schedule/fold.h"

namespace zplan {
namespace {

class LoopEmitter {
 public:
  LoopEmitter(ProgramBuilder& out, const EmitPass& emit, const EmitBoth& emit_both)
      : out_(out), emit_(emit), emit_both_(emit_both) {}

  void loop(const PassLoop& loop, bool relative) {
    out_.repeat({loop.count, Var::kMicro, loop.first, loop.step, relative}, [&] {
      for (std::size_t i = 0; i < loop.body.size(); ++i) {
        if (const auto* inner = std::get_if<PassLoop>(&loop.body[i])) {
          this->loop(*inner, true);
          continue;
        }
        const Pass& pass = std::get<Pass>(loop.body[i]);
        if (pass.beside) {
          emit_both_(pass, std::get<Pass>(loop.body[++i]));
        } else {
          at_micro(out_, pass.micro, [&] { emit_(pass); });
        }
      }
    });
  }

 private:
  ProgramBuilder& out_;
  const EmitPass& emit_;
  const EmitBoth& emit_both_;
};

}  // namespace

void at_micro(ProgramBuilder& out, std::int32_t ahead, const std::function<void()>& emit) {
  if (ahead == 0) return emit();
  out.repeat({.count = 1, .var = Var::kMicro, .first = ahead, .relative = true}, emit);
}

void emit_passes(ProgramBuilder& out, const PassOrder& order, const EmitPass& emit,
                 const EmitBoth& emit_both) {
  LoopEmitter emitter(out, emit, emit_both);
  for (const PassLoop& loop : fold(order)) emitter.loop(loop, false);
}

}  // namespace zplan
