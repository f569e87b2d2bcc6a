#include "planner/cli/answer/objective_options.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kPercent = 100;

double above_zero(std::string_view option, const std::string& word, std::string_view example,
                  std::initializer_list<std::pair<std::string_view, double>> units) {
  const auto number = number_with(word, units);
  if (!number)
    throw_bad_input(fmt::format("{}: expected a number above 0 such as {}, got {}", option, example,
                                in_quotes(word)));
  return *number;
}

// Beside which objective alone an option means something.
void require(const PlanCommand& command, bool given, std::string_view option, Objective what) {
  if (given && command.objective.what != what)
    throw_bad_input(fmt::format("{}: expected --objective {} beside it, got {}", option, name(what),
                                name(command.objective.what)));
}

}  // namespace

void add_objective(Syntax& syntax, PlanCommand& command) {
  ObjectiveQuestion& question = command.objective;
  std::vector<std::string> words(std::begin(kObjectiveNames), std::end(kObjectiveNames));
  syntax.choice("--objective", "What the best plan is (zplan plan --help explains each) [fastest]",
                words, [&question](std::size_t i) { question.what = static_cast<Objective>(i); });
  syntax.parsed(
      "--within", "SHARE",
      "With most-headroom: how much slower than the fastest a plan may be [10%]",
      [&question](const std::string& word) {
        question.within = above_zero("--within", word, "10%", {{"%", 1 / kPercent}, {"", 1}});
      });
  syntax.parsed("--price", "P/h", "With cheapest: of a GPU-hour, in any currency",
                [&question](const std::string& word) {
                  question.price = above_zero("--price", word, "2.5/h", {{"", 1}, {"/h", 1}});
                });
  syntax.parsed("--tokens", "N", "With cheapest: of the whole run, 300B, to say what it costs",
                [&question](const std::string& word) {
                  question.tokens =
                      above_zero("--tokens", word, "300B",
                                 {{"", 1}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}});
                });
}

void check_objective(const PlanCommand& command) {
  const ObjectiveQuestion& question = command.objective;
  require(command, question.within >= 0, "--within", Objective::kMostHeadroom);
  require(command, question.price >= 0, "--price", Objective::kCheapest);
  require(command, question.tokens > 0, "--tokens", Objective::kCheapest);
  const bool seeks_what_fits = question.what != Objective::kFastest;
  if (command.ignore_capacity && seeks_what_fits)
    throw_bad_input(fmt::format("--ignore-capacity: expected --objective fastest, got {}",
                                name(question.what)));
  if (question.what == Objective::kLongestSequence && command.pins.has("/batch/sequence"))
    throw_bad_input("--seq: expected none beside --objective longest-sequence, which finds it");
}

}  // namespace zplan
