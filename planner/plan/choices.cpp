#include "planner/plan/choices.h"

#include <fmt/format.h>

#include "planner/core/error.h"

namespace zplan {

const Decision& decision(std::string_view pointer) {
  const Decision* const row = std::find_if(std::begin(kChoices), std::end(kChoices),
                                           [&](const Decision& d) { return d.pointer == pointer; });
  ZPLAN_ASSERT(row != std::end(kChoices));
  return *row;
}

std::string ranks_words(const Plan& plan) {
  std::string words;
  for (const Decision& row : kChoices) {
    if (!row.counts_ranks || (row.optional && row.is_plain(plan))) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : " x ", row.word(),
                         std::get<std::int64_t>(row.field.get(plan)));
  }
  return words;
}

std::vector<std::string_view> words_of(const OperatorSet& operators) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < kWordsOf<LayerOperator>.size(); ++i)
    if (operators.has(static_cast<LayerOperator>(i))) words.push_back(kWordsOf<LayerOperator>[i]);
  return words;
}

std::optional<RecomputeRun> recompute_from_words(std::string_view text) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    if (text == name(mode)) return RecomputeRun{mode};
  RecomputeRun run{Recompute::kOperators};
  const auto& known = kWordsOf<LayerOperator>;
  while (true) {
    const std::size_t end = text.find('+');
    const auto word = std::find(known.begin(), known.end(), text.substr(0, end));
    if (word == known.end()) return std::nullopt;
    run.operators.add(static_cast<LayerOperator>(word - known.begin()));
    if (end == text.npos) return run;
    text.remove_prefix(end + 1);
  }
}

bool Decision::is_plain(const Plan& plan) const { return field.get(plan) == plain(); }

Setting Decision::plain() const {
  static const Plan kUnchanged;
  return field.get(kUnchanged);
}

std::string_view name(Recompute recompute) {
  return kWordsOf<Recompute>[static_cast<std::size_t>(recompute)];
}
std::string_view name(LayerOperator op) {
  return kWordsOf<LayerOperator>[static_cast<std::size_t>(op)];
}
std::string_view name(Schedule schedule) {
  return kWordsOf<Schedule>[static_cast<std::size_t>(schedule)];
}
std::string_view name(LaunchMode launch) {
  return kWordsOf<LaunchMode>[static_cast<std::size_t>(launch)];
}

std::string_view name(RankOrder order) {
  return kWordsOf<RankOrder>[static_cast<std::size_t>(order)];
}

std::string_view name(GradientCast cast) {
  return kWordsOf<GradientCast>[static_cast<std::size_t>(cast)];
}

}  // namespace zplan
