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

namespace {

// Where an operator's result is, after its word.
struct OperatorPlace {
  OperatorSet RecomputeRun::*set;
  std::string_view word;
};
constexpr OperatorPlace kPlaces[] = {{&RecomputeRun::operators, ""},
                                     {&RecomputeRun::on_cpu, "@cpu"},
                                     {&RecomputeRun::on_nvme, "@nvme"}};

}  // namespace

std::vector<std::string> words_of(const RecomputeRun& run) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kWordsOf<LayerOperator>.size(); ++i)
    for (const OperatorPlace& place : kPlaces)
      if ((run.*place.set).has(static_cast<LayerOperator>(i)))
        words.push_back(fmt::format("{}{}", kWordsOf<LayerOperator>[i], place.word));
  return words;
}

bool add_word(RecomputeRun& run, std::string_view word) {
  const auto& known = kWordsOf<LayerOperator>;
  const std::size_t end = std::min(word.find('@'), word.size());
  const auto at = std::find(known.begin(), known.end(), word.substr(0, end));
  const auto place =
      std::find_if(std::begin(kPlaces), std::end(kPlaces),
                   [&](const OperatorPlace& p) { return p.word == word.substr(end); });
  if (at == known.end() || place == std::end(kPlaces)) return false;
  const auto op = static_cast<LayerOperator>(at - known.begin());
  if ((run.operators | run.on_cpu | run.on_nvme).has(op)) return false;
  (run.*place->set).add(op);
  return true;
}

std::optional<RecomputeRun> recompute_from_words(std::string_view text) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    if (text == name(mode)) return RecomputeRun{mode};
  RecomputeRun run{Recompute::kOperators};
  while (true) {
    const std::size_t end = text.find('+');
    if (!add_word(run, text.substr(0, end))) return std::nullopt;
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
std::string_view name(Dispatcher dispatcher) {
  return kWordsOf<Dispatcher>[static_cast<std::size_t>(dispatcher)];
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
