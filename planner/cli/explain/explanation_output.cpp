#include "planner/cli/explain/explanation_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cli/explain/unexplained.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr std::size_t kShown = 12;  // terms that people read

std::string value_words(double value, TermUnit unit) {
  switch (unit) {
    case TermUnit::kBytes:
      return (value < 0 ? "-" : "") + format_bytes(Bytes{std::llabs(std::llround(value))});
    case TermUnit::kSeconds:
      return duration_words(Seconds{value});
    case TermUnit::kFlops:
      return fmt::format("{:.4g} flop", value);
    case TermUnit::kTflops:
      return fmt::format("{:.4g} TFLOP/s", value);
    case TermUnit::kShare:
      return percent(value);
    case TermUnit::kPerSecond:
      return grouped(std::llround(value)) + "/s";
    case TermUnit::kFactor:
      return fmt::format("{:.4g}", value);
    case TermUnit::kNone:
      break;
  }
  return grouped(std::llround(value));
}

// As JSON says it.
std::string_view unit_name(TermUnit unit) {
  constexpr std::string_view kNames[] = {"count", "factor",  "bytes", "seconds",
                                         "flop",  "TFLOP/s", "share", "per second"};
  return kNames[static_cast<std::size_t>(unit)];
}

Sheet term_sheet(const Term& term) {
  return {{"name", term.name},
          {"value", {term.value, value_words(term.value, term.unit)}},
          {"unit", unit_name(term.unit)},
          {"source", term.source}};
}

// Whether a line has room for all of a term.
bool fits_line(const Term& term) {
  constexpr std::size_t kSignAndValue = 20;  // characters, and the gaps between columns
  return term.name.size() + term.source.size() + kSignAndValue <= kScreenWidth;
}

// Rows for people are the first ones; the rest is counted. Long sources stand below their terms.
Table terms_table(const std::vector<Term>& terms, std::string_view sign) {
  constexpr std::size_t kBelow = 8;
  const bool in_line = std::all_of(terms.begin(), terms.end(), fits_line);
  std::vector<Column> columns{"sign:", "value:", "name:"};
  if (in_line) columns.emplace_back("source:");
  Table table(std::move(columns));
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Sheet row = term_sheet(terms[i]);
    row.fact("sign", only_words(i == 0 && sign != "/" ? std::string_view() : sign));
    row.fact("value", right(row["value"]));
    table.row(row, i < kShown);
    if (!in_line && i < kShown) table.below(paragraph(terms[i].source, kBelow));
  }
  return table;
}

void add_terms(Sheet& out, std::string_view key, const std::vector<Term>& terms,
               std::string_view sign) {
  out.table(key, terms_table(terms, sign), 2);
  if (terms.size() <= kShown) return;
  double rest = sign == "x" ? 1 : 0;
  for (std::size_t i = kShown; i < terms.size(); ++i)
    rest = sign == "x" ? rest * terms[i].value : rest + terms[i].value;
  out.print(fmt::format("  and {} more: {}\n", terms.size() - kShown,
                        value_words(rest, terms.back().unit)));
}

Value rows_of(const std::vector<Term>& terms) { return each(terms, term_sheet); }

bool has_index(const Explanation& e) { return e.what.find('[') != std::string::npos; }

// With all of its terms.
Sheet row_of(const Explanation& e) {
  return {{"what", e.what},
          {"also", e.also},
          {"value", right({e.value, value_words(e.value, e.unit)})},
          {"unit", unit_name(e.unit)},
          {"formula", e.formula},
          {"combine", e.by == Combine::kSum ? "sum" : "quotient"},
          {"factor", e.factor},
          {"terms", rows_of(e.terms)},
          {"divisors", rows_of(e.divisors)},
          {"made_of", rows_of(e.made_of)}};
}

}  // namespace

Sheet explanation_sheet(const Explanation& e) {
  Sheet out("zplan.explanation/1");
  out.facts({{"what", e.what},
             {"value", {e.value, value_words(e.value, e.unit)}},
             {"unit", unit_name(e.unit)},
             {"formula", e.formula},
             {"combine", e.by == Combine::kSum ? "sum" : "quotient"},
             {"factor", e.factor}});
  out.say("{what} = {value}: {formula}");
  add_terms(out, "terms", e.terms, e.by == Combine::kSum ? "+" : "x");
  add_terms(out, "divisors", e.divisors, "/");
  if (!e.made_of.empty()) out.print("\nThe largest\n");
  add_terms(out, "made_of", e.made_of, "");
  return out;
}

Sheet explanations_sheet(const Explanations& all, const std::string& kernel_set) {
  Sheet out("zplan.explanations/1");
  out.fact("kernel_set", kernel_set);
  Table table({"what", "value", "formula"});
  std::size_t hidden = 0;
  for (const Explanation& e : all) {
    table.row(row_of(e), !has_index(e));
    hidden += has_index(e) ? 1 : 0;
  }
  Table without({"keys", "why"});
  for (const Unexplained& row : unexplained()) without.row({{"keys", row.keys}, {"why", row.why}});
  out.say("{} numbers of this plan can be explained: zplan explain .. WHAT",
          {grouped(static_cast<std::int64_t>(all.size()))});
  out.table("explanations", table);
  if (hidden > 0)
    out.say(
        "and {} of stages, lanes, links and other rows, by their index: "
        "memory.classes[0].gpu.slab_bytes",
        {grouped(static_cast<std::int64_t>(hidden))});
  out.print("\nKernel set\n");
  out.print(paragraph(kernel_set, 2));
  out.print("\nNot explained\n");
  out.table("without", without);
  return out;
}

}  // namespace zplan
