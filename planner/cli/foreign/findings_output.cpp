#include "planner/cli/foreign/findings_output.h"

#include <fmt/format.h>

#include "planner/cli/frame/table.h"

namespace zplan {

void say_findings(Sheet& out, std::string_view title, const Setup& setup, bool has_places) {
  std::vector<Column> columns = {"kind", "key", "message"};
  if (has_places) columns.insert(columns.begin() + 1, "place");
  Table table(std::move(columns));
  for (const Finding& finding : setup.findings)
    table.row({{"kind", name(finding.trouble)},
               {"place", finding.place},
               {"key", finding.key},
               {"message", finding.message}});
  if (!setup.findings.empty()) out.print(fmt::format("\n{}\n", title));
  out.table("findings", table, kIndent);
}

}  // namespace zplan
