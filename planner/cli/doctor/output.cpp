#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/cli/doctor/doctor.h"
#include "planner/cli/frame/table.h"

namespace zplan {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 2;

std::string word(Presence presence) {
  switch (presence) {
    case Presence::kYes:
      return "yes";
    case Presence::kPartly:
      return "partly";
    case Presence::kNo:
      return "no";
  }
  return "";
}

}  // namespace

std::string findings_text(const Findings& findings) {
  Table table({Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft},
              {"item", "", "found", "needed for"});
  std::string todo;
  for (const Finding& f : findings) {
    table.row({f.item, word(f.presence), f.found, f.use});
    if (f.advice.empty()) continue;
    const std::string start = std::string(kIndent, ' ') + f.item + ": ";
    todo += start + wrap(f.advice, kWidth, 2 * kIndent, start.size()) + "\n";
  }
  return table.text() + (todo.empty() ? "" : "\nWhat to do, if you need it:\n" + todo);
}

std::string findings_json(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema", "zplan.doctor/1"}, {"findings", Json::array()}};
  for (const Finding& f : findings) {
    out["findings"].push_back({{"item", f.item},
                               {"presence", word(f.presence)},
                               {"found", f.found},
                               {"needed_for", f.use},
                               {"advice", f.advice}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan
