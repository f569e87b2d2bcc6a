#include "planner/plan/plan_question.h"

namespace zplan {
namespace {

bool is_name(const Decision& row) { return row.pointer == "/model" || row.pointer == "/hardware"; }

}  // namespace

Pins question_of(const Plan& plan) {
  Pins pins;
  for (const Decision& row : kChoices) {
    const bool is_given = row.varied == Varied::kNever || row.varied == Varied::kRecipe;
    if (!is_given || is_name(row)) continue;
    if (row.kept || !row.is_plain(plan)) pins.set_setting(row, row.field.get(plan));
  }
  return pins;
}

}  // namespace zplan
