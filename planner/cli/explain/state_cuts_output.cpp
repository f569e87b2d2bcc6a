#include "planner/cli/explain/state_cuts_output.h"

#include <fmt/format.h>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"

namespace zplan {
namespace {

std::string homes_words(const StatePlacement& homes) {
  return fmt::format("parameters {}, gradients {}, optimizer states {}", name(homes.params),
                     name(homes.grads), name(homes.optimizer));
}

Value bytes_each(double bytes) { return right({bytes, fmt::format("{:.2f} B", bytes)}); }

Value saving_of(const StateCut& cut, double all) {
  if (cut.kept == 0) return right({nullptr, "all"});
  return right({all / cut.kept, fmt::format("{:.2f} x", all / cut.kept)});
}

Table cuts_table(const std::vector<StateCut>& cuts, const StateCut* least) {
  Table table({"params: parameters", "grads: gradients", "optimizer", "crosses", "kept: on the GPU",
               "saving", "remark:"});
  for (const StateCut& cut : cuts) {
    const bool is_plan = cut.refused.empty();
    const char* remark = &cut == least ? "least traffic, then most saved" : "";
    table.row({{"params", name(cut.homes.params)},
               {"grads", name(cut.homes.grads)},
               {"optimizer", name(cut.homes.optimizer)},
               {"crosses", is_plan ? bytes_each(cut.crosses) : right({nullptr, "-"})},
               {"kept", is_plan ? bytes_each(cut.kept) : right({nullptr, "-"})},
               {"saving", is_plan ? saving_of(cut, cuts.front().kept) : right({nullptr, "-"})},
               {"remark", {cut.refused, is_plan ? remark : cut.refused}}});
  }
  return table;
}

}  // namespace

Sheet state_cuts_sheet(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const std::vector<StateCut> cuts = state_cuts(plan, model, cluster);
  const StateCut* least = least_traffic(cuts);
  Sheet out("zplan.state_cuts/1");
  out.fact("least_traffic", nullptr);
  if (least != nullptr) {
    out.fact("least_traffic", Sheet{{"params", name(least->homes.params)},
                                    {"grads", name(least->homes.grads)},
                                    {"optimizer", name(least->homes.optimizer)},
                                    {"crosses", least->crosses},
                                    {"kept", least->kept}});
    out.print(paragraph(fmt::format(
        "With states off the GPU least traffic between GPU and CPU, then most saved: {}: {:.2f} B "
        "per parameter cross in a step and {:.2f} of {:.2f} B stay on the GPU",
        homes_words(least->homes), least->crosses, least->kept, cuts.front().kept)));
  }
  out.heading("States of a parameter by home");
  out.table("cuts", cuts_table(cuts, least), kIndent);
  out.say(
      "counted from the Job of each: one GPU, one micro-step, otherwise as the plan; what crosses "
      "is both ways. ZeRO-Offload's choice [Ren21 sec 3] by counting",
      kIndent);
  return out;
}

}  // namespace zplan
