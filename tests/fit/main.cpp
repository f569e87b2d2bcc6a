// Fits the rates of stacks to published step times and writes them into the profiles.
//
//   zplan_fit RUNS.jsonl CONSTANTS.json [--profiles hwprofiles] [--leave-out STACK,STACK..]
//             [--most N] [--blind FILE] [--rounds N] [--threads N]
//
// Without --profiles the values are printed only. With --leave-out no run of these stacks takes
// part: rates that nothing else determines stay at what is usual for them; what is printed then are
// the errors of those runs by group, blind, and with --blind each of them is written as JSON. Same
// data, same constants, byte for byte.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "planner/core/error.h"
#include "tests/fit/blind.h"
#include "tests/fit/least_squares.h"
#include "tests/fit/profiles.h"
#include "tests/fit/survey.h"

namespace zplan::fit {
namespace {

struct Arguments {
  std::string runs, constants, profiles, blind;
  std::set<std::string> left_out;  // stacks
  std::size_t most = 160;
  Options options;
};

std::set<std::string> words_of(const std::string& list) {
  std::set<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.insert(word);
  return words;
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  std::vector<std::string> plain;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      plain.push_back(word);
      continue;
    }
    if (i + 1 == argc) throw_bad_input(word + ": expected a value, got none");
    const std::string value = argv[++i];
    if (word == "--profiles") {
      out.profiles = value;
    } else if (word == "--leave-out") {
      out.left_out = words_of(value);
    } else if (word == "--blind") {
      out.blind = value;
    } else if (word == "--most") {
      out.most = std::stoul(value);
    } else if (word == "--rounds") {
      out.options.rounds = std::stoi(value);
    } else if (word == "--threads") {
      out.options.threads = std::stoi(value);
    } else {
      throw_bad_input("unknown option " + word);
    }
  }
  if (plain.size() != 2) throw_bad_input("expected two files, runs and constants");
  out.runs = plain[0];
  out.constants = plain[1];
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw_bad_input(path + ": cannot be written");
}

struct GroupError {
  double absolute = 0, signed_sum = 0;
  int runs = 0;
};

void print_errors(const Problem& problem, const std::vector<double>& values) {
  std::map<std::string, GroupError> groups;
  for (const Sample& sample : problem.samples) {
    const double error = std::exp(log_error(sample, problem.free, values)) - 1;
    GroupError& group = groups[sample.group];
    group.absolute += std::abs(error);
    group.signed_sum += error;
    ++group.runs;
  }
  for (const auto& [name, group] : groups)
    fmt::print("{:20} {:4} runs  mean {:5.1f} %  bias {:+5.1f} %\n", name, group.runs,
               100 * group.absolute / group.runs, 100 * group.signed_sum / group.runs);
}

std::vector<Problem> by_group(Problem problem) {
  std::map<std::string, Problem> groups;
  for (Sample& sample : problem.samples)
    groups.try_emplace(sample.group, Problem{problem.free, {}})
        .first->second.samples.push_back(std::move(sample));
  std::vector<Problem> all;
  for (auto& [name, group] : groups) all.push_back(std::move(group));
  return all;
}

// From what is usual, whatever the profiles say now: the answer depends on the data alone.
std::vector<double> start_of(const Problem& problem) {
  std::vector<double> start;
  for (const Free& free : problem.free) start.push_back(free.usual);
  return start;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const RunFile file = read_runs(arguments.runs);
  const std::set<std::string>& left_out = arguments.left_out;
  const Problem problem =
      make_problem(read_constants(arguments.constants), file.runs, arguments.most,
                   [&](const std::string& stack) { return !left_out.contains(stack); });
  const Solution solution =
      solve(problem, start_of(problem), arguments.options,
            [](int round, double sum) { fmt::print(stderr, "round {}: {:.2f}\n", round, sum); });
  for (std::size_t k = 0; k < problem.free.size(); ++k)
    fmt::print("{:36} {:>12}  +- {:.2g}\n", problem.free[k].owner + "." + problem.free[k].key(),
               written(solution.values[k], problem.free[k].seconds), solution.uncertainty(k));
  if (left_out.empty()) {
    print_errors(problem, solution.values);
  } else {
    Problem blind =
        make_problem(problem.free, file.runs, file.runs.size(),
                     [&](const std::string& stack) { return left_out.contains(stack); });
    print_errors(blind, solution.values);
    std::vector<BlindRun> runs;
    for (const Problem& group : by_group(std::move(blind)))
      std::ranges::move(foretell(problem, solution, group), std::back_inserter(runs));
    if (!arguments.blind.empty()) write_text(arguments.blind, to_json(runs));
  }
  if (!arguments.profiles.empty()) {
    write_profiles(problem, solution, arguments.profiles);
    const Problem all = make_problem(problem.free, file.runs, file.runs.size(), {});
    write_text(arguments.profiles + "/measured/runs.json", to_json(survey(all, solution)));
  }
  return 0;
}

}  // namespace
}  // namespace zplan::fit

int main(int argc, char** argv) {
  try {
    return zplan::fit::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "zplan_fit: {}\n", error.what());
    return 2;
  }
}
