// Fits the rates of stacks to published step times and writes them into hwprofiles/stacks.
//
//   zplan_fit RUNS.jsonl CONSTANTS.json [--stacks FOLDER] [--leave-out GROUP] [--most N]
//             [--rounds N] [--threads N]
//
// Without --stacks the values are printed only. With --leave-out the group takes no part: rates
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
  std::string runs, constants, stacks, left_out;
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
    if (word == "--stacks") {
      out.stacks = value;
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

// Replaces the line of a rate, or adds one at the front of the rates.
std::string with_rate(const std::string& text, const Free& free, double value, double uncertainty,
                      const std::string& groups) {
  const std::string key = fmt::format("    \"{}\": {{", free.rate->name);
  const std::string line = fmt::format(
      "{}\"value\": {}, \"uncertainty\": {:.2g}, \"source\": \"fitted\", \"ref\": \"step times of "
      "{} [RunFit]\"}}",
      key, written(value, free.rate->seconds), uncertainty, groups);
  if (const std::size_t at = text.find(key); at != text.npos) {
    const std::size_t end = text.find('\n', at);
    const bool more = text[end - 1] == ',';
    return text.substr(0, at) + line + (more ? "," : "") + text.substr(end);
  }
  const std::string head = "\"rates\": {\n";
  const std::size_t at = text.find(head) + head.size();
  const bool empty = text.compare(at, 3, "  }") == 0;
  return text.substr(0, at) + line + (empty ? "\n" : ",\n") + text.substr(at);
}

// The groups whose runs determine a stack.
std::map<std::string, std::string> groups_of(const Problem& problem) {
  std::map<std::string, std::string> result;
  for (const Sample& sample : problem.samples) {
    std::string& groups = result[sample.stack];
    if (("," + groups + ",").find("," + sample.group + ",") != std::string::npos) continue;
    groups += (groups.empty() ? "" : ",") + sample.group;
  }
  return result;
}

void write_stacks(const Problem& problem, const Solution& solution, const std::string& folder) {
  auto groups = groups_of(problem);
  for (auto& [stack, names] : groups) {
    for (std::size_t at = 0; (at = names.find(',', at)) != names.npos; at += 2)
      names.insert(at + 1, " ");
    const std::string path = folder + "/" + stack + ".json";
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    std::string edited = text.str();
    for (std::size_t k = problem.free.size(); k-- > 0;) {
      if (problem.free[k].stack != stack) continue;
      edited =
          with_rate(edited, problem.free[k], solution.values[k], solution.uncertainty[k], names);
    }
    std::ofstream(path) << edited;
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

// From the catalogue where the group takes part; else from what is usual.
std::vector<double> start_of(const Problem& problem, bool blind) {
  std::vector<double> start;
  for (const Free& free : problem.free) {
    const double known = load_stack(free.stack).rates.*free.rate->member;
    start.push_back(blind || known <= 0 ? free.usual : known);
  }
  return start;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const RunFile file = read_runs(arguments.runs);
  const Problem problem = make_problem(read_constants(arguments.constants), file.runs,
                                       arguments.most, arguments.left_out);
  const Solution solution =
      solve(problem, start_of(problem, !arguments.left_out.empty()), arguments.options,
            [](int round, double sum) { fmt::print(stderr, "round {}: {:.2f}\n", round, sum); });
  for (std::size_t k = 0; k < problem.free.size(); ++k)
    fmt::print("{:36} {:>12}  +- {:.2g}\n", problem.free[k].name(),
               written(solution.values[k], problem.free[k].rate->seconds), solution.uncertainty[k]);
  if (arguments.left_out.empty()) {
    print_errors(problem, solution.values);
  } else {
    std::vector<RunRecord> blind;
    for (const RunRecord& record : file.runs)
      if (record.group == arguments.left_out) blind.push_back(record);
    print_errors(make_problem(problem.free, blind, blind.size(), ""), solution.values);
  }
  if (!arguments.stacks.empty()) write_stacks(problem, solution, arguments.stacks);
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
