// The scripts that a script reads by "source PATH" or ". PATH": files in its own folder or below
// it. What is not known of a path, the "$(dirname "$0")" of "$(dirname "$0")/conf/all.sh", is taken
// to be that folder; of one with BASH_SOURCE the folder of the script that has it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/json_document.h"
#include "planner/foreign/syntax/shell.h"

namespace zplan {

struct ReadScript {
  std::string place;  // "run.sh:3:8", where it is named
  std::string name;
  bool is_read = false;  // else it is not in the folder of the script
};

class ScriptFiles {
 public:
  // `script` by its path; it and this object outlive the sources.
  explicit ScriptFiles(const JsonDocument& script);

  // Throws Error where scripts read each other in a circle, and where they are too many.
  Sources sources();
  // Of those that were read, behind the script: base of its document.
  std::shared_ptr<const JsonDocument> documents() const;
  std::vector<ReadScript> found() && { return std::move(found_); }

 private:
  std::optional<SourcedText> open(const PlacedText& path);
  // The script of a place, and where in it that is.
  std::pair<const JsonDocument*, std::size_t> at(std::size_t place) const;
  std::size_t end_of_all() const;

  const JsonDocument& script_;
  std::vector<std::string> open_;  // paths, the script's first
  std::vector<std::shared_ptr<JsonDocument>> read_;
  std::vector<ReadScript> found_;
};

}  // namespace zplan
