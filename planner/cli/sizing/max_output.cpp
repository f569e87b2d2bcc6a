#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "models/model_formulas.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/sizing/max_answer.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string size_words(const ModelConfig& model) {
  return format_count(static_cast<double>(parameter_count(model)));
}

// "dgx2", "dgx2, 4 of its 16 GPUs,"
std::string where_words(const MaxAnswer& answer) {
  const Cluster& cluster = answer.cluster;
  if (answer.ranks == cluster.devices()) return cluster.name;
  return fmt::format("{}, {} of its {} GPUs,", cluster.name, answer.ranks, cluster.devices());
}

const FamilyMost* largest_of(const MaxAnswer& answer) {
  const FamilyMost* most = nullptr;
  for (const FamilyMost& row : answer.families) {
    if (!row.largest.model) continue;
    const bool more = most == nullptr ||
                      parameter_count(*row.largest.model) > parameter_count(*most->largest.model);
    if (more) most = &row;
  }
  return most;
}

// What the next model of the ladder lacks.
std::string limit_words(const LargestModel& found) {
  if (!found.refused.empty()) return "has no plan here";
  if (found.interrupted) return "interrupted: may be larger";
  if (!found.misfit) return "the ladder ends";
  const Infeasible& why = *found.misfit;
  auto [needed, available] = format_apart(why.needed, why.available);
  const std::size_t unit = needed.find(' ');
  if (available.ends_with(needed.substr(unit))) needed.resize(unit);
  return fmt::format("{} {} of {}", name(why.tier), needed, available);
}

Sheet family_facts(const FamilyMost& row) {
  const LargestModel& found = row.largest;
  Sheet facts({{"family", row.family->key}, {"words", row.family->words}});
  const bool fits = found.model.has_value();
  facts.facts(
      {{"parameters",
        fits ? right({static_cast<double>(parameter_count(*found.model)), size_words(*found.model)})
             : right({nullptr, "none"})},
       {"layers", fits ? Value(found.model->layers) : Value()},
       {"hidden", fits ? Value(found.model->hidden) : Value()},
       {"heads", fits ? Value(found.model->heads) : Value()},
       {"shape", only_words(fits ? fmt::format("{}x{}", found.model->layers, found.model->hidden)
                                 : std::string("-"))},
       {"dp", fits ? Value(found.plan->parallel.dp) : right("-")},
       {"tp", fits ? Value(found.plan->parallel.tp) : right("-")},
       {"pp", fits ? Value(found.plan->parallel.pp) : right("-")},
       {"step_s", row.step ? Value(*row.step) : right({nullptr, "-"})},
       {"plan", fits ? as_json(to_json(*found.plan)) : Value()},
       {"next_layers", found.next ? Value(found.next->layers) : Value()},
       {"next_hidden", found.next ? Value(found.next->hidden) : Value()},
       {"limit", limit_words(found)},
       {"limit_tier", found.misfit ? Value(name(found.misfit->tier)) : Value()},
       {"limit_needed_bytes", found.misfit ? Value(found.misfit->needed) : Value()},
       {"limit_available_bytes", found.misfit ? Value(found.misfit->available) : Value()},
       {"limit_is_bound", found.misfit ? Value(found.misfit->is_bound()) : Value()},
       {"refused", found.refused.empty() ? Value() : Value(found.refused)},
       {"ladder_steps", found.steps},
       {"complete", !found.interrupted}});
  return facts;
}

// "Interrupted after 3 of 10 families; so far: ", of those that were finished; else nothing.
std::string interrupted_words(const MaxAnswer& answer) {
  if (!answer.interrupted) return "";
  const auto done = std::ranges::count_if(
      answer.families, [](const FamilyMost& row) { return !row.largest.interrupted; });
  return fmt::format("Interrupted after {} of {} families; so far: ", done, answer.asked);
}

// How long that takes, since memory alone decides the size: ", 40.0 min for 1,024 tokens".
std::string pace_words(const MaxAnswer& answer, const FamilyMost& row) {
  if (!row.step) return "";
  return fmt::format(", {} for {} tokens", duration_words(*row.step),
                     grouped(answer.global_batch * answer.sequence));
}

std::string verdict_of(const MaxAnswer& answer) {
  const FamilyMost* most = largest_of(answer);
  if (most == nullptr)
    return fmt::format("{} trains no model of the ladder in any family", where_words(answer));
  return fmt::format(
      "{} trains up to {} parameters{}: {}; {}", where_words(answer),
      size_words(*most->largest.model), pace_words(answer, *most), most->family->words,
      most->largest.misfit ? fmt::format("next {} runs out", tier_words(most->largest.misfit->tier))
                           : limit_words(most->largest));
}

void say_rule(Sheet& out, const MaxAnswer& answer) {
  out.print("\n");
  out.print(paragraph(
      "Shape by size: hidden size of the smallest published model that is as large (2,048 to 2B, "
      "2,304 to 4B, 3,072 to 8B, 4,096 to 15B [Ren21 Table 3], 8,192 to 100B, 18,432 to 0.5T, "
      "25,600 to 1T, 49,152 to 5T, 65,536 to 10T, 90,112 to 20T [Rajbhandari21 Table 1], then "
      "163,840 [Rajbhandari21 Fig.2a]), as many layers as the size takes, MLP 4 h, 50,257 tokens.",
      kIndent));
  out.print(
      paragraph(fmt::format("Every layer recomputed, micro-batch {}, {} of {} tokens a step: what "
                            "needs least memory, not what is fastest (zplan plan finds that).",
                            answer.micro_batch, count_of(answer.global_batch, "sequence"),
                            grouped(answer.sequence)),
                kIndent));
  out.print(paragraph(
      "Exact: the model shown fits as placed, one layer more (or the next width) fits in no plan "
      "of the family; that what is smaller fits, too, is assumed. Step: that very plan, simulated.",
      kIndent));
}

}  // namespace

Sheet max_sheet(const MaxAnswer& answer) {
  Sheet out("zplan.max/1");
  const FamilyMost* most = largest_of(answer);
  out.facts({{"cluster", answer.cluster.name},
             {"largest_parameters",
              most == nullptr ? Value()
                              : Value(static_cast<double>(parameter_count(*most->largest.model)))},
             {"largest_family", most == nullptr ? Value() : Value(most->family->key)},
             {"ranks", answer.ranks},
             {"global_batch", answer.global_batch},
             {"micro_batch", answer.micro_batch},
             {"sequence", answer.sequence},
             {"stand_in", answer.stand_in.empty() ? Value() : Value(answer.stand_in)},
             {"complete", !answer.interrupted}});
  out.print(paragraph(interrupted_words(answer) + verdict_of(answer)));
  if (!answer.stand_in.empty()) out.print(paragraph("Memory is " + answer.stand_in));
  out.print("\n");
  Table table({"words: family", "parameters: largest", "shape: layers x h", "dp", "tp", "pp",
               "step_s: step", "limit: the next lacks"});
  for (const FamilyMost& row : answer.families) table.row(family_facts(row));
  out.table("families", table, kIndent);
  say_rule(out, answer);
  return out;
}

}  // namespace zplan
