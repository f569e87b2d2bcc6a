#include "planner/cli/frame/schemas.h"

#include <fmt/format.h>

#include "planner/cli/frame/embedded_schemas.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/validate/run_form.h"

namespace zplan {
namespace {

// This word names the schema of training runs, which derives from a table (run_keys.h).
constexpr std::string_view kRunsWord = "runs";

// Returns what the schema says of itself, as "zplan.cluster/2".
std::string tag_of(const EmbeddedFile& file) {
  const std::string_view begin = "\"$id\": \"";
  const std::size_t at = file.text.find(begin) + begin.size();
  return std::string(file.text.substr(at, file.text.find('"', at) - at));
}

}  // namespace

std::vector<std::string> schema_tags() {
  std::vector<std::string> tags;
  for (const EmbeddedFile& file : embedded_schemas()) tags.push_back(tag_of(file));
  tags.emplace_back(kRunTag);
  return tags;
}

std::string schema_text(std::string_view name) {
  std::vector<std::string> words;
  for (const EmbeddedFile& file : embedded_schemas()) {
    if (name == tag_of(file) || name == file.stem()) return std::string(file.text);
    words.emplace_back(file.stem());
  }
  if (name == kRunTag || name == kRunsWord) return run_schema();
  words.emplace_back(kRunsWord);
  throw_bad_input(fmt::format("unknown schema {}{}", in_quotes(name),
                              nearest_or_page(name, words, "zplan schema")));
}

}  // namespace zplan
