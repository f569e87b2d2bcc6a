#include "planner/cli/answer/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

struct Cited {
  std::string of, figure, value, source, ref;
};

std::vector<Cited> cited(const Answer& answer) {
  const ModelConfig& model = answer.model;
  std::vector<Cited> out{{model.name, "shape", "", "", model.source}};
  for (const auto& [field, source] : model.field_sources)
    out.push_back({model.name, field, "", "", source});
  for (const ValueSource& s : answer.cluster.node.sources)
    out.push_back({answer.cluster.node.name, s.pointer, s.value, s.source, s.ref});
  for (const ValueSource& s : answer.cluster.sources)
    out.push_back({answer.cluster.name, s.pointer, s.value, s.source, s.ref});
  return out;
}

// The keys in a text: "[Korthikanti22 Table 2]" names Korthikanti22.
void add_keys(const std::string& text, std::vector<std::string>& keys) {
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                 text[end] == '-' || text[end] == '_'))
      ++end;
    const std::string key = text.substr(at + 1, end - at - 1);
    if (key.size() < 3 || std::isalpha(static_cast<unsigned char>(key.front())) == 0) continue;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
}

std::string short_words(const std::vector<Cited>& all, const Answer& answer) {
  std::vector<std::string> keys;
  for (const Cited& one : all) add_keys(one.ref, keys);
  const auto of_kind = [&](std::string_view kind) {
    return std::count_if(all.begin(), all.end(),
                         [&](const Cited& one) { return one.source == kind; });
  };
  Sheet out;
  out.entry("Sources",
            "{}of {}'s figures {} measured, {} fitted, {} from datasheets, {} assumed "
            "(--sources)",
            {keys.empty() ? "" : fmt::format("{}; ", joined(keys, ", ")), answer.cluster.name,
             std::to_string(of_kind("measured")), std::to_string(of_kind("fitted")),
             std::to_string(of_kind("datasheet")), std::to_string(of_kind("assumed"))});
  return out.text();
}

}  // namespace

Value sources_value(const Answer& answer, bool whole) {
  const std::vector<Cited> all = cited(answer);
  Table table({"of: Sources of", "figure", "value", "source", "ref: reference"});
  for (const Cited& one : all)
    table.row({{"of", one.of},
               {"figure", one.figure},
               {"value", one.value},
               {"source", one.source},
               {"ref", one.ref}});
  return {table.json(), whole ? "\n" + table.text() : short_words(all, answer)};
}

}  // namespace zplan
