#include "planner/cli/doctor/doctor.h"
#include "planner/cli/frame/table.h"

namespace zplan {
namespace {

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

Sheet findings_sheet(const HostFindings& findings) {
  Table table(
      {{"item", "item"}, {"presence", ""}, {"found", "found"}, {"needed_for", "needed for"}});
  std::string todo;
  for (const HostFinding& f : findings) {
    table.row({{"item", f.item},
               {"presence", word(f.presence)},
               {"found", f.found},
               {"needed_for", f.use},
               {"advice", f.advice}});
    if (!f.advice.empty()) todo += paragraph(f.item + ": " + f.advice, 2);
  }
  Sheet out("zplan.doctor/1");
  out.table("findings", table);
  if (!todo.empty()) out.print("\nWhat to do, if you need it:\n" + todo);
  return out;
}

}  // namespace zplan
