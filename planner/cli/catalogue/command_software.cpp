// The software that plans are made for: its names, what its plans are exported as, and which of its
// runs were measured and predicted, on which devices, how well.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hwprofiles/software_runs.h"
#include "hwprofiles/stack.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/text.h"
#include "planner/software/choice.h"

namespace zplan {
namespace {

Sheet runs_sheet(const SoftwareRuns& runs) {
  return {{"device", runs.device},
          {"runs", runs.runs},
          {"fitted", runs.fitted},
          {"most_devices", runs.most_devices},
          {"within", {runs.within, fmt::format("{:.0f} %", 100 * runs.within)}},
          {"formats", runs.formats},
          {"features", runs.features}};
}

std::vector<SoftwareRuns> runs_of(const StackProfile& profile) {
  std::vector<SoftwareRuns> found;
  for (SoftwareRuns& runs : load_software_runs())
    if (runs.software == profile.name) found.push_back(std::move(runs));
  return found;
}

Sheet profile_sheet(const StackProfile& profile, const std::vector<StackProfile>& all) {
  const std::vector<SoftwareRuns> runs = runs_of(profile);
  std::vector<std::string> devices;
  int count = 0;
  for (const SoftwareRuns& one : runs) {
    count += one.runs;
    devices.push_back(
        fmt::format("{} {} ({:.0f} %)", one.runs, short_device(one.device), 100 * one.within));
  }
  return {{"profile", profile.name},
          {"names", joined(typed_names(profile, all), ", ")},
          {"title", software_title(profile)},
          {"exported_as", profile.target.empty() ? Value(nullptr) : Value(profile.target)},
          {"states_memory", profile.memory.given},
          {"description", profile.description},
          {"runs", count},
          {"measured", {each(runs, runs_sheet), joined(devices, ", ")}}};
}

Sheet list_sheet(const std::vector<StackProfile>& all) {
  Table table({{"names", "--for"},
               {"title", "software"},
               {"exported_as", "export --to"},
               {"runs", "runs predicted"}});
  for (const StackProfile& profile : all) {
    const Sheet facts = profile_sheet(profile, all);
    table.row(facts);
    const std::string& devices = facts["measured"].words;
    if (!devices.empty()) table.below(paragraph(devices, 4));
  }
  Sheet out("zplan.software/1");
  out.table("software", table);
  out.print(
      "\nBelow each: its runs by device, and how far 8 of 10 predictions were off at most. "
      "zplan software\nNAME shows one. A year takes an older profile: --for megatron@2022. "
      "Without "
      "--for\na question is answered for the software that speaks best for such plans.\n");
  return out;
}

Sheet detail_sheet(const StackProfile& profile, const std::vector<StackProfile>& all) {
  const Sheet facts = profile_sheet(profile, all);
  Sheet out("zplan.software/1");
  out.fact("software", each(std::vector{facts}, [](const Sheet& one) { return one; }));
  out.say("{}: {}", {facts["title"].words, profile.description});
  out.say("--for {}, profile {}", {facts["names"].words, profile.name}, 2);
  if (!profile.target.empty())
    out.say("plans: what zplan export --to {} can say", {profile.target}, 2);
  for (const std::string& text : profile.expressed.only) out.say("plans: only {}", {text}, 2);
  for (const std::string& text : profile.expressed.never) out.say("plans: none with {}", {text}, 2);
  out.say("memory: {}",
          {profile.memory.given ? "stated" : "not stated; zplan's own placement counts"}, 2);
  Table table({"device",
               "runs",
               {"fitted", "of them fitted"},
               {"most_devices", "most GPUs"},
               {"within", "8 of 10 within"}});
  for (const SoftwareRuns& runs : runs_of(profile)) table.row(runs_sheet(runs));
  out.print("\n" + table.text(2));
  return out;
}

}  // namespace

ExitCode execute(const SoftwareCommand& command) {
  const std::vector<StackProfile> all = stack_catalogue();
  write_answer(command.name.empty() ? list_sheet(all) : detail_sheet(load_stack(command.name), all),
               command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
