// Fits the rates of stacks to published step times and writes them into the profiles.
//
//   zplan_fit RUNS.jsonl CONSTANTS.json [--profiles hwprofiles] [--leave-out GROUP] [--most N]
//             [--rounds N] [--threads N]
//
// Without --profiles the values are printed only. With --leave-out the group takes no part: rates
// that nothing else determines stay at what is usual for them; what is printed then is the error of
// that group, blind. Same data, same constants, byte for byte.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "planner/core/error.h"
#include "tests/fit/least_squares.h"

namespace zplan::fit {
namespace {

struct Arguments {
  std::string runs, constants, profiles, left_out;
  std::size_t most = 160;
  Options options;
};

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
      out.left_out = value;
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

// Three digits: more would claim what was not measured.
std::string written(double value, bool seconds) {
  if (!seconds) return fmt::format("{:.3g}", value);
  return value < 1e-3 ? fmt::format("\"{:.3g} us\"", value * 1e6)
                      : fmt::format("\"{:.3g} ms\"", value * 1e3);
}

// Replaces the line of a value, or adds one behind `head`, both sought from `from` on.
std::string with_value(const std::string& text, std::size_t from, const std::string& head,
                       const std::string& key, const std::string& value) {
  const std::size_t at = text.find(key, from);
  if (at != text.npos) {
    const std::size_t end = text.find('\n', at);
    const bool more = text[end - 1] == ',';
    return text.substr(0, at) + key + value + (more ? "," : "") + text.substr(end);
  }
  const std::size_t behind = text.find(head, from) + head.size();
  const bool empty = text.compare(behind, 3, "  }") == 0;
  return text.substr(0, behind) + key + value + (empty ? "\n" : ",\n") + text.substr(behind);
}

// A profile's value says its uncertainty in words, where a stack's has a member for it.
std::string sourced(const Free& free, double value, double uncertainty, const std::string& groups) {
  const bool stack = free.rate != nullptr;
  return fmt::format(
      "{{\"value\": {}, {}\"source\": \"fitted\", \"ref\": \"step times of {}{} [RunFit]\"}}",
      written(value, free.seconds),
      stack ? fmt::format("\"uncertainty\": {:.2g}, ", uncertainty) : "", groups,
      stack ? "" : fmt::format(", +- {:.2g}", uncertainty));
}

// The groups whose runs determine a value.
std::string groups_of(const Problem& problem, const Free& free) {
  std::string groups;
  for (const Sample& sample : problem.samples) {
    if (!free.concerns(sample) ||
        (", " + groups + ",").find(", " + sample.group + ",") != groups.npos)
      continue;
    groups += (groups.empty() ? "" : ", ") + sample.group;
  }
  return groups;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (text.str().empty()) throw_bad_input(path + ": cannot be read");
  return text.str();
}

// Into FOLDER/stacks/STACK.json and FOLDER/hardware/systems.json.
void write_profiles(const Problem& problem, const Solution& solution, const std::string& folder) {
  for (std::size_t k = problem.free.size(); k-- > 0;) {
    const Free& free = problem.free[k];
    const std::string groups = groups_of(problem, free);
    if (groups.empty()) continue;
    const bool stack = free.rate != nullptr;
    const std::string path = stack ? fmt::format("{}/stacks/{}.json", folder, free.owner)
                                   : folder + "/hardware/systems.json";
    const std::string text = text_of(path);
    const std::size_t from = stack ? 0 : text.find(fmt::format("\"id\": \"{}\"", free.owner));
    const std::string head = stack ? "\"rates\": {\n" : ",\n";
    const std::string key = fmt::format("{}\"{}\": ", stack ? "    " : "      ", free.key());
    std::ofstream(path) << with_value(
        text, from, head, key, sourced(free, solution.values[k], solution.uncertainty[k], groups));
  }
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

// From what is usual, whatever the profiles say now: the answer depends on the data alone.
std::vector<double> start_of(const Problem& problem) {
  std::vector<double> start;
  for (const Free& free : problem.free) start.push_back(free.usual);
  return start;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const RunFile file = read_runs(arguments.runs);
  const Problem problem = make_problem(read_constants(arguments.constants), file.runs,
                                       arguments.most, arguments.left_out);
  const Solution solution =
      solve(problem, start_of(problem), arguments.options,
            [](int round, double sum) { fmt::print(stderr, "round {}: {:.2f}\n", round, sum); });
  for (std::size_t k = 0; k < problem.free.size(); ++k)
    fmt::print("{:36} {:>12}  +- {:.2g}\n", problem.free[k].owner + "." + problem.free[k].key(),
               written(solution.values[k], problem.free[k].seconds), solution.uncertainty[k]);
  if (arguments.left_out.empty()) {
    print_errors(problem, solution.values);
  } else {
    std::vector<RunRecord> blind;
    for (const RunRecord& record : file.runs)
      if (record.group == arguments.left_out) blind.push_back(record);
    print_errors(make_problem(problem.free, blind, blind.size(), ""), solution.values);
  }
  if (!arguments.profiles.empty()) write_profiles(problem, solution, arguments.profiles);
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
