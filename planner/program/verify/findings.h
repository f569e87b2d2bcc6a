// The lines that verify collects for one rank class.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

class ClassFindings {
 public:
  explicit ClassFindings(std::int32_t stage) : stage_(stage) {}

  // Each text once. One broken edge shows in many instances, so there is a limit.
  void add(const std::string& text) {
    if (full() || !seen_.insert(text).second) return;
    lines_.push_back("stage " + std::to_string(stage_) + ": " + text);
  }
  bool empty() const { return lines_.empty(); }
  bool full() const { return lines_.size() >= kMost; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static constexpr std::size_t kMost = 20;
  std::int32_t stage_;
  std::set<std::string> seen_;
  std::vector<std::string> lines_;
};

// "forward.qkv.compute (node 12)": a node where no instance is meant.
inline std::string node_name(const Program& program, NodeIndex node) {
  return name(program.nodes[node].role) + " (node " + std::to_string(node) + ")";
}

}  // namespace zplan
