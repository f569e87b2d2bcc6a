#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/sensitivity/sensitivity.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kTold = 0.1;      // change that prices are told for
constexpr double kNothing = 1e-5;  // of the step: as good as no change

// What a price is per.
struct PriceUnit {
  double size = 1;
  std::string_view name;
};
PriceUnit price_unit(QuantityUnit unit) {
  constexpr PriceUnit kUnits[] = {{1073741824.0, "GiB"}, {1e9, "GB/s"}, {1e12, "TFLOP/s"},
                                  {1e-6, "us"},          {1, "one"},    {1, "1"}};
  return kUnits[static_cast<std::size_t>(unit)];
}

// "-1.24 ms"
std::string signed_seconds(Seconds time) {
  if (time.value == 0) return "0 s";
  return (time.value < 0 ? "-" : "+") + format_seconds({std::abs(time.value)});
}

Value signed_value(Seconds time) { return right({Value(time.value), signed_seconds(time)}); }

bool is_hidden(const ShadowPrice& price, Seconds step) {
  const double most =
      std::max(std::abs(price.saved(kTold).value), std::abs(price.lost(kTold).value));
  return most < kNothing * step.value;
}

std::string kink_words(const HardwareQuantity& quantity, const Kink& kink, double value) {
  std::string words =
      fmt::format("kink between {} and {}", quantity_words(quantity, value * kink.from),
                  quantity_words(quantity, value * kink.to));
  if (!kink.less.empty()) words += fmt::format(", less on {}", kink.less);
  if (!kink.more.empty()) words += fmt::format(", more on {}", kink.more);
  return words;
}

Value kink_value(const std::optional<Kink>& kink) {
  if (!kink) return nullptr;
  Sheet out{{"from", kink->from}, {"to", kink->to}, {"less", kink->less}, {"more", kink->more}};
  return out;
}

Value check_value(const std::optional<PriceSide>& side) {
  if (!side || !side->check) return nullptr;
  const PriceCheck& check = *side->check;
  return Sheet{{"factor", check.factor},
               {"predicted_s", check.predicted.value},
               {"simulated_s", check.simulated.value},
               {"agrees", !check.kink},
               {"kink", kink_value(check.kink)}};
}

Sheet price_facts(const ShadowPrice& price, Seconds step) {
  const PriceUnit unit = price_unit(price.quantity->unit);
  const Seconds saved = price.saved(kTold), lost = price.lost(kTold);
  const Seconds per{price.per_unit() * unit.size};
  const bool bends = price.bends_here(step);
  return {{"quantity", price.quantity->name},
          {"value", only_words(right(quantity_words(*price.quantity, price.value)))},
          {"has", price.value},
          {"saved_s", right(saved)},
          {"saved_share", right(share(saved.value / step.value))},
          {"lost_s", right(lost)},
          {"price_s",
           right({Value(per.value), fmt::format("{} per {}", signed_seconds(per), unit.name)})},
          {"per", unit.name},
          {"per_size", unit.size},
          {"critical_share", right(share(price.critical_share))},
          {"bends_here", Value(Value(bends), bends ? "bends here" : "")},
          {"better", check_value(price.better)},
          {"worse", check_value(price.worse)}};
}

Table price_table(const PlanPrices& prices) {
  const Seconds step = prices.found.step.period;
  Table table({"quantity", "value: has", "saved_s: 10 % better", "saved_share: of the step",
               "lost_s: 10 % worse", "price_s: price", "critical_share: of its path",
               Column("bends_here", "")});
  for (const ShadowPrice& price : prices.found.prices)
    table.row(price_facts(price, step), !is_hidden(price, step));
  return table;
}

void add_check(Table& table, const ShadowPrice& price, const PriceSide& side) {
  if (!side.check) return;
  const PriceCheck& check = *side.check;
  table.words_row(
      {std::string(price.quantity->name),
       right(fmt::format("{}{:.1f} %", check.factor > 1 ? "+" : "", 100 * (check.factor - 1))),
       signed_value(check.predicted), signed_value(check.simulated),
       check.kink ? kink_words(*price.quantity, *check.kink, price.value) : "agrees"});
}

struct Checked {
  int all = 0, kinks = 0;
};
Checked count_checks(const Sensitivity& found) {
  Checked count;
  for (const ShadowPrice& price : found.prices) {
    for (const std::optional<PriceSide>* side : {&price.better, &price.worse}) {
      if (!*side || !(*side)->check) continue;
      ++count.all;
      count.kinks += (*side)->check->kink ? 1 : 0;
    }
  }
  return count;
}

void say_checks(const PlanPrices& prices, Sheet& out) {
  if (!prices.is_checked) return;
  const Checked count = count_checks(prices.found);
  Table table({"quantity", "change", "predicted", "simulated", Column("said", "")});
  for (const ShadowPrice& price : prices.found.prices) {
    if (is_hidden(price, prices.found.step.period) &&
        !(price.better && price.better->check && price.better->check->kink))
      continue;
    if (price.better) add_check(table, price, *price.better);
    if (price.worse) add_check(table, price, *price.worse);
  }
  out.say("\n{} simulated changes of 5 %: {} as predicted, {} beyond a kink",
          {std::to_string(count.all), std::to_string(count.all - count.kinks),
           std::to_string(count.kinks)});
  out.print(table.text(kIndent));
}

std::string names(const std::vector<std::string_view>& list) { return joined(list, ", "); }

std::vector<std::string_view> untouched(const Sensitivity& found) {
  std::vector<std::string_view> list;
  for (const HardwareQuantity* quantity : found.untouched) list.push_back(quantity->name);
  return list;
}

std::vector<std::string_view> hidden(const Sensitivity& found) {
  std::vector<std::string_view> list;
  for (const ShadowPrice& price : found.prices)
    if (is_hidden(price, found.step.period)) list.push_back(price.quantity->name);
  return list;
}

std::string tier_said(const TierQuestion& tier) {
  if (tier.step)
    return fmt::format("5 % more: another plan, {} a step; it lacks {}", format_seconds(*tier.step),
                       format_bytes(tier.missing));
  if (tier.is_asked)
    return fmt::format("5 % more: {} finds no faster plan",
                       tier.is_short ? "a short search" : "the search");
  return "a question of the plan: zplan what-if --set " + std::string(tier.quantity) + "=x1.05";
}

Table tier_table(const PlanPrices& prices) {
  Table table({"tier", "peak_bytes: taken", "available_bytes: there", Column("said", "")});
  for (const TierQuestion& tier : prices.tiers) {
    table.row({{"tier", tier.quantity},
               {"peak_bytes", right(tier.use.peak)},
               {"available_bytes", right(tier.use.available())},
               {"asked", tier.is_asked},
               {"step_s", tier.step},
               {"missing_bytes", tier.missing},
               {"said", only_words(tier_said(tier))}});
  }
  return table;
}

std::string verdict(const PlanPrices& prices) {
  const Seconds step = prices.found.step.period;
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> best;
  for (const ShadowPrice& price : prices.found.prices) {
    const double saved = price.saved(kTold).value;
    if (best.size() >= kNamed || saved < 0.001 * step.value) break;
    best.push_back(fmt::format("{} {} ({})", price.quantity->name, format_seconds({saved}),
                               percent(saved / step.value)));
  }
  const std::string begin = prices.found.is_stopped ? "Stopped early: of what was looked at, " : "";
  if (best.empty())
    return begin +
           fmt::format("no single quantity shortens the {} of a step", format_seconds(step));
  return begin + fmt::format("10 % better saves most of the {} of a step: {}", format_seconds(step),
                             joined(best, ", "));
}

}  // namespace

Sheet prices_sheet(const PlanPrices& prices) {
  const Sensitivity& found = prices.found;
  Sheet out("zplan.sensitivity/1");
  out.facts({{"verdict", verdict(prices)},
             {"model", prices.chosen.planned.model.name},
             {"cluster", prices.chosen.cluster.name},
             {"fingerprint", prices.chosen.planned.fingerprint},
             {"step_s", found.step.period},
             {"steady", found.step.steady},
             {"limited_by", found.step.limited_by},
             {"stopped", found.is_stopped},
             {"method", "simulated 1 % changes"}});
  out.print(verdict(prices) + "\n\n");
  out.table("prices", price_table(prices), kIndent);
  say_checks(prices, out);
  out.facts({{"hidden",
              [&] {
                Value list = empty_array();
                for (const std::string_view name : hidden(found)) list.append(name);
                return list;
              }()},
             {"untouched", [&] {
                Value list = empty_array();
                for (const std::string_view name : untouched(found)) list.append(name);
                return list;
              }()}});
  out.print("\n");
  if (!hidden(found).empty())
    out.print(paragraph(fmt::format("Hidden behind others: {}", names(hidden(found)))));
  if (!untouched(found).empty())
    out.print(paragraph(fmt::format("No operation depends on: {}", names(untouched(found)))));
  out.print("\n");
  out.table("tiers", tier_table(prices), kIndent);
  out.print(paragraph(
      "\nPrices are slopes of the simulated step, from changes of 1 % (of cores: one); of rates in "
      "the time per byte. Beside them the share of the step that passes on its critical path in "
      "what the quantity sets; both differ where transfers share links or the path changes."));
  return out;
}

}  // namespace zplan
