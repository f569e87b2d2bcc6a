// How the answers word things: numbers, plans and clusters as people of the field say them.
// Deterministic; never read back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace zplan {

inline constexpr std::size_t kScreenWidth = 100;

std::string grouped(std::int64_t number);  // "25,600"
// "585 s (9.75 min)", "12,600 s (3.50 h)"; short times as format_seconds has them.
std::string duration_words(Seconds time);
std::string percent(double share);                            // "34.5 %"
std::string tflops(double value);                             // "43.2"
std::string count_of(std::int64_t n, std::string_view noun);  // "1 step", "2 steps"

// "gpu" is one GPU's, "cpu" and "nvme" are a node's: "GPU memory per GPU", "CPU memory per node".
std::string tier_words(Tier tier);

// "12.0 GiB of GPU memory per GPU needed, 10.0 GiB there"
std::string shortage(const Infeasible& why);
// shortage, and where it is, what is large, and what would help; one line.
std::string full_reason(const Infeasible& why);

// "layer", "4 layers", "operator in 2 tiles"
std::string gather_words(const Gather& gather);

// "parameters and gradients on GPU, optimizer states on CPU"; of a state with two homes those "of
// 25 % of the layers" and "other optimizer states".
std::string placement_words(const Plan& plan);
// "full recomputation", "full recomputation of 12 layers, then no of 20"
std::string recompute_words(const Plan& plan);
// The choices, a line each.
std::vector<std::string> plan_lines(const Plan& plan);
// With what the experts of a model take: rows, what of them is padding, what is dropped.
std::vector<std::string> plan_lines(const Plan& plan, const ModelConfig& model);

// "; with nvme 50.0 GB/s", of what was changed by --set; or nothing
std::string changes_words(const Cluster& cluster);

// "32 nodes of 16 V100-SXM3-32GB: 512 GPUs"
std::string cluster_words(const Cluster& cluster);

// Names the decisions that another plan has otherwise, but for the slack that it fits with:
// "zero_stage 2".
std::vector<std::string> changed_decisions(const Plan& plan, const Plan& other);

// A word as a shell takes it back, quoted where needed.
std::string shell_word(const std::string& word);
// Such words, with a space before each.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace zplan
