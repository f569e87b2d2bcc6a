#include "planner/search/outside_space.h"

namespace zplan {
namespace {

// What is tuned, as knobs.h, nearer_homes.h and homes/homes.h turn it; of these the variants of a
// leaf have sharding groups, rank order and prefetch (variants.h).
constexpr OutsideSpace kTuned[] = {
    {"/parallel/schedule", "schedules of the pipeline other than 1F1B"},
    {"/parallel/stage_layers", "uneven stages"},
    {"/parallel/gpus", "devices of a node"},
    {"/placement/optimizer_near", "nearer optimizer states of some layers"},
    {"/placement/params_near", "nearer parameters of some layers"},
    {"/placement/grads_near", "nearer gradients of some layers"},
    {"/overlap/optimizer", "updates beside backward"},
    {"/recompute", "recompute that differs by layer"},
    {"/checkpoint_layers", "layers per checkpoint"},
    {"/experts/dispatcher", "tokens gathered for experts"},
};
constexpr std::string_view kHomesWords = "homes of kept tensors";

bool has_homes(const Plan& plan) {
  for (const RecomputeRun& run : plan.recompute)
    if (run.mode == Recompute::kOperators) return true;
  return false;
}

// Leaves recompute all layers alike, and no operators by name.
bool is_of_leaf(const Plan& plan, const Decision& row) {
  if (row.pointer == "/recompute") return plan.recompute.size() == 1 && !has_homes(plan);
  return row.is_plain(plan);
}

}  // namespace

std::vector<OutsideSpace> outside_space(const Plan& plan, const Pins& pins) {
  std::vector<OutsideSpace> outside;
  for (OutsideSpace one : kTuned) {
    const Decision& row = decision(one.pointer);
    const bool as_pinned =
        pins.has(one.pointer) && row.field.get(plan) == row.field.get(pins.values());
    if (as_pinned || is_of_leaf(plan, row)) continue;
    if (one.pointer == "/recompute" && has_homes(plan)) one.words = kHomesWords;
    outside.push_back(one);
  }
  return outside;
}

std::string_view context_left_out(std::int64_t sequence, std::int64_t sequences,
                                  std::int64_t devices, const Pins& pins) {
  const bool is_pinned = pins.has("/parallel/cp") || pins.has("/parallel/ring");
  if (is_pinned || devices == 1) return "";
  if (sequence >= kLongSequence) return "rings or context parallelism between nodes";
  return has_pairs(sequence, sequences, devices) ? "context parallel degrees above 2"
                                                 : "context parallelism";
}

std::string words_of(const std::vector<OutsideSpace>& outside) {
  std::string out;
  for (const OutsideSpace& one : outside) {
    if (!out.empty()) out += ", ";
    out += one.words;
  }
  return out;
}

}  // namespace zplan
