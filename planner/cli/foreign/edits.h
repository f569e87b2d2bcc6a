// What of a configuration of a user's is edited so that it says another plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/foreign/frameworks/framework.h"

namespace zplan {

enum class EditKind : std::uint8_t {
  kChange,  // the key is there
  kAdd,     // it is not
  kRemove,
  kScript,  // no key of the configuration: the training script is told
};
std::string_view name(EditKind kind);

struct KeyEdit {
  EditKind kind = EditKind::kChange;
  std::string key;            // by its dotted path
  std::string before, after;  // values as JSON; empty: the key is not there
  std::string place{};        // "ds.json:12:5", of the key, or of what it is added to
  std::string object{};       // that it is added to, by its path; empty: the file or the command
  std::string words{};        // "add overlap_comm = true to zero_optimization"
};

// `root`: the configuration, which comes to the plan `before`. Nothing where edits of the keys that
// it has, and of those that differ, do not make `after` of it.
std::optional<std::vector<KeyEdit>> edits_to(const Framework& framework, const JsonNode& root,
                                             const Surroundings& around, const Plan& before,
                                             const Plan& after);

}  // namespace zplan
