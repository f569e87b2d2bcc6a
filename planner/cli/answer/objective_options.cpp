#include "planner/cli/answer/objective_options.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kPercent = 100;

// Beside which objective alone an option means something.
void require(const PlanCommand& command, bool given, std::string_view option, Objective what) {
  if (given && command.objective.what != what)
    throw_bad_input(fmt::format("{}: expected --objective {} beside it, got {}", option, name(what),
                                name(command.objective.what)));
}

}  // namespace

double above_zero(std::string_view option, const std::string& word, std::string_view example,
                  std::initializer_list<std::pair<std::string_view, double>> units) {
  const auto number = number_with(word, units);
  if (!number)
    throw_bad_input(fmt::format("{}: expected a number above 0 such as {}, got {}", option, example,
                                in_quotes(word)));
  return *number;
}

void add_tokens(Syntax& syntax, const std::string& help, double& tokens) {
  syntax.parsed("--tokens", "N", help, [&tokens](const std::string& word) {
    tokens = above_zero("--tokens", word, "300B",
                        {{"", 1}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}});
  });
}

void add_price(Syntax& syntax, const std::string& help, double& price) {
  syntax.parsed("--price", "P/h", help, [&price](const std::string& word) {
    price = above_zero("--price", word, "2.5/h", {{"", 1}, {"/h", 1}});
  });
}

void add_objective(Syntax& syntax, PlanCommand& command) {
  ObjectiveQuestion& question = command.objective;
  std::vector<std::string> words(std::begin(kObjectiveNames), std::end(kObjectiveNames));
  syntax.choice("--objective", "What the best plan is (zplan plan --help explains each) [fastest]",
                words, [&question](std::size_t i) { question.what = static_cast<Objective>(i); });
  syntax.parsed(
      "--within", "SHARE", "With most-headroom: slowdown against the fastest plan at most [10%]",
      [&question](const std::string& word) {
        question.within = above_zero("--within", word, "10%", {{"%", 1 / kPercent}, {"", 1}});
      });
  add_tokens(syntax, "Tokens of the whole run, as 300B: days and GPU-hours", command.tokens);
  add_price(syntax, "Price of a GPU-hour in any currency: what the run costs", command.price);
}

void require_cheapest(const PlanCommand& command) {
  require(command, command.price >= 0, "--price", Objective::kCheapest);
  require(command, command.tokens > 0, "--tokens", Objective::kCheapest);
}

void check_objective(PlanCommand& command) {
  ObjectiveQuestion& question = command.objective;
  require(command, question.within >= 0, "--within", Objective::kMostHeadroom);
  const bool finds_gpus =
      question.what == Objective::kCheapest || question.what == Objective::kFewestGpus;
  if (finds_gpus && command.pins.ranks > 0)
    throw_bad_input(fmt::format("--gpus: expected none beside --objective {}, which finds it",
                                name(question.what)));
  const bool seeks_what_fits = question.what != Objective::kFastest;
  if (command.ignore_capacity && seeks_what_fits)
    throw_bad_input(fmt::format("--ignore-capacity: expected --objective fastest, got {}",
                                name(question.what)));
  if (question.what == Objective::kLongestSequence && command.pins.has("/batch/sequence"))
    throw_bad_input("--seq: expected none beside --objective longest-sequence, which finds it");
  if (question.what != Objective::kCheapest) return;
  question.price = command.price;
  question.tokens = command.tokens;
}

}  // namespace zplan
