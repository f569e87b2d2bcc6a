// A record of zplan.runs/2 that is in order, and others made of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "planner/validate/runs.h"

namespace zplan {

using Json = nlohmann::ordered_json;

// A small model on one node of 8 H100.
inline Json base() {
  return Json::parse(R"({"schema": "zplan.runs/2", "id": "a", "group": "a", "source": "somebody",
    "hardware": {"device": "h100_sxm5_80gb", "gpus_per_node": 8, "nodes": 1, "gpus": 8},
    "model": {"name": "m", "family": "llama", "layers": 8, "hidden": 1024, "heads": 8,
      "kv_heads": 8, "ffn": 4096, "gated_ffn": true, "vocab": 32000, "seq": 2048,
      "position": "rope", "norm": "rmsnorm", "tied_embeddings": false},
    "parallel": {"dp": 4, "tp": 2, "sequence_parallel": true, "pp": 1, "zero_stage": 1},
    "precision": {"compute": "bf16"},
    "software": {"name": "Megatron-LM"},
    "micro_batch": 2, "global_batch": 32, "measured": {"step_time_s": 1, "memory_gib": 9}})");
}

inline Json with(Json record, std::initializer_list<std::pair<const char*, Json>> changes) {
  for (const auto& [pointer, value] : changes) {
    const Json::json_pointer at{pointer};
    if (value.is_null()) {
      record[at.parent_pointer()].erase(at.back());
    } else {
      record[at] = value;
    }
  }
  return record;
}

inline std::optional<RunRecord> read(const Json& record) {
  RunFile file = parse_runs(record.dump(), "runs");
  if (file.runs.empty()) return std::nullopt;
  return file.runs.front();
}

inline std::string complaint(const Json& record) {
  const RunFile file = parse_runs(record.dump(), "runs");
  return file.malformed.empty() ? "" : file.malformed.front();
}

}  // namespace zplan
