// How predictions are shown, shared by the answers of plan and simulate: for people, and as JSON
// texts that their answers embed. Bytes, seconds and flop/s are plain numbers in JSON.
#pragma once

#include <string>

#include "planner/cli/predict/prediction.h"

namespace zplan {

// {"gpu": {"peak_bytes", "capacity_bytes", "reserve_bytes", "by_category", "gaps_bytes"},
//  "cpu", "nvme", "classes": [..]}
std::string memory_json(const MemoryPrediction& memory);
// {"stage", "live_bytes", "allocated_bytes", "reserved_bytes", "shown_bytes", ..}
std::string stack_memory_json(const StackMemoryUse& use);
// {"tier", "needed_bytes", "available_bytes", "peak_op", "largest", "smallest_change"}
std::string infeasible_json(const Infeasible& why);
// {"step_s", "interval": {"share", "low_s", "high_s"}, "rests_on", "unknown", "exceeds",
// "first_step_s", "tokens_per_s", .., "limited_by", "limits", "split"}
std::string time_json(const TimePrediction& time);

// Lines that start with `indent` spaces. Of each tier up to `categories` are named, the largest.
std::string memory_text(const MemoryPrediction& memory, std::size_t indent,
                        std::size_t categories = 4);
// What a caching allocator makes of it, expected and bound, beside the slab.
std::string stack_memory_text(const StackMemoryUse& use, std::size_t indent);
std::string placement_text(const MemoryReport& report, std::size_t indent);
// What each tier lacks and what is in it, a paragraph each; empty when all fits.
std::string over_text(const MemoryPrediction& memory);
std::string time_text(const TimePrediction& time, std::size_t indent);
// What the interval of a time rests on: what no run speaks for, and whether any was ever so fast.
std::string certainty_text(const Certainty& certainty);
std::string limits_text(const TimePrediction& time);  // "compute 81.2 %, ..", the greatest shares

}  // namespace zplan
