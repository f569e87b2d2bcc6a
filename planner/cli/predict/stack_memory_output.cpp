#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/cli/frame/table.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json estimate(const MemoryEstimate& e) {
  return {{"expected_bytes", e.central.value}, {"bound_bytes", e.bound.value}};
}

}  // namespace

std::string stack_memory_json(const StackMemoryUse& use) {
  Json out = {{"stage", use.stage}};
  out["live_bytes"] = use.replay ? Json(use.replay->live.value) : Json();
  out["replayed_allocated_bytes"] = use.replay ? Json(use.replay->allocated.value) : Json();
  out["replayed_reserved_bytes"] = use.replay ? Json(use.replay->reserved.value) : Json();
  out["context_bytes"] = use.context.value;
  out["communicators"] = use.communicators;
  out["communicator_bytes"] = use.communicator_bytes.value;
  out["allocated"] = estimate(use.allocated);
  out["reserved"] = estimate(use.reserved);
  out["needed"] = estimate(use.device);
  out["shown"] = estimate(use.shown);
  return out.dump();
}

std::string stack_memory_text(const StackMemoryUse& use, std::size_t indent) {
  const std::string space(indent, ' ');
  std::string out =
      space + (use.replay ? fmt::format("replayed at stage {}: live {}, allocated {}, "
                                        "reserved {}\n",
                                        use.stage, format_bytes(use.replay->live),
                                        format_bytes(use.replay->allocated),
                                        format_bytes(use.replay->reserved))
                          : "not replayed: too many operations\n");
  Table table({Align::kLeft, Align::kRight, Align::kRight}, {"", "expected", "95 % below"});
  const auto row = [&](const char* name, const MemoryEstimate& e) {
    table.row({name, format_bytes(e.central), format_bytes(e.bound)});
  };
  row("allocator, in use", use.allocated);
  row("allocator, reserved", use.reserved);
  row("with context and communicators", use.device);
  row("nvidia-smi shows", use.shown);
  return out + table.text(indent);
}

}  // namespace zplan
