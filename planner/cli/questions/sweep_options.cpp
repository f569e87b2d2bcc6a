#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_spelling.h"
#include "hwprofiles/quantities.h"
#include "planner/cli/answer/objective_options.h"
#include "planner/cli/frame/completion.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using Arguments = std::vector<std::string>;

std::vector<DescribedOption> question_options() {
  const Command table = parse_plan({std::string(kDescribe)});
  return read_description("plan", std::get<ShowText>(table).text).options;
}

// An option of the question that an axis of a sweep gives values to.
struct AxisOption {
  std::string name;  // "tp"
  bool is_switch = false;
};

// Also understood.
constexpr std::pair<std::string_view, std::string_view> kAxisWords[] = {{"batch", "global-batch"},
                                                                        {"sequence", "seq"}};

// Those that pin something, and what is planned for where.
std::vector<AxisOption> axis_options() {
  std::vector<AxisOption> options;
  for (const DescribedOption& option : question_options()) {
    const std::string name = option.name().substr(2);
    constexpr std::string_view kUsual[] = {"model", "cluster",      "stack",
                                           "gpus",  "global-batch", "seq"};
    const bool is_usual = std::find(std::begin(kUsual), std::end(kUsual), name) != std::end(kUsual);
    const bool pins = option.group == kPinsGroup && !name.starts_with("no-");
    if (is_usual || pins) options.push_back({name, option.type.empty()});
  }
  return options;
}

[[noreturn]] void fail_unknown_axis(const std::string& name,
                                    const std::vector<AxisOption>& options) {
  std::vector<std::string> names;
  for (const auto& [word, option] : kAxisWords) names.emplace_back(word);
  for (const AxisOption& option : options) names.push_back(option.name);
  for (const HardwareQuantity& quantity : hardware_quantities()) names.emplace_back(quantity.name);
  throw_bad_input(fmt::format("--over: unknown axis {}{}", in_quotes(name),
                              nearest_or_page(name, names, "zplan sweep --help")));
}

// What would be typed for one value of an axis.
Arguments axis_arguments(const std::string& name, const std::string& value,
                         const std::vector<AxisOption>& options) {
  const auto* const word = std::find_if(std::begin(kAxisWords), std::end(kAxisWords),
                                        [&](const auto& pair) { return pair.first == name; });
  const std::string wanted(word == std::end(kAxisWords) ? name : word->second);
  const auto option = std::find_if(options.begin(), options.end(),
                                   [&](const AxisOption& o) { return o.name == wanted; });
  if (option == options.end()) {
    if (is_quantity(name)) return {"--set", fmt::format("{}={}", name, value)};
    fail_unknown_axis(name, options);
  }
  if (!option->is_switch) return {"--" + wanted, value};
  if (value != "yes" && value != "no")
    throw_bad_input(fmt::format("--over: {}: expected yes or no, got {}", name, in_quotes(value)));
  if (value == "yes") return {"--" + wanted};
  const std::vector<DescribedOption> all = question_options();
  const bool has_back = std::any_of(all.begin(), all.end(), [&](const DescribedOption& o) {
    return o.name() == "--no-" + wanted;
  });
  return has_back ? Arguments{"--no-" + wanted} : Arguments{};
}

// Of the arguments of a sweep those of each of its questions.
Arguments question_arguments(const Arguments& arguments) {
  Arguments kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--over") ++i;  // and its value
    if (!word.starts_with("--over") && word != "--json" && word != "--csv") kept.push_back(word);
  }
  return kept;
}

// The name of a GPU alone stands for its whole nodes where an axis says how many: gpus=16 of H100
// are 16xH100, nodes=2 two nodes of 8.
void take_whole_nodes(const std::vector<GridAxis>& axes, const std::vector<std::string>& point,
                      PlanCommand& question) {
  const VariedName base = split_settings(question.cluster);
  const std::string node = looks_like_path(base.plain) ? "" : whole_node_of(base.plain);
  if (node.empty()) return;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].name == "nodes") question.cluster = with_settings(node, base.settings);
    if (axes[axis].name != "gpus") continue;
    question.cluster = with_settings(fmt::format("{}x{}", point[axis], base.plain), base.settings);
    question.pins.ranks = 0;
  }
}

void add_questions(SweepCommand& command, const Arguments& arguments) {
  const std::vector<AxisOption> options = axis_options();
  const Arguments common = question_arguments(arguments);
  for (std::vector<std::string>& point : grid_points(command.axes)) {
    Arguments typed = common;
    for (std::size_t axis = 0; axis < point.size(); ++axis)
      for (std::string& word : axis_arguments(command.axes[axis].name, point[axis], options))
        typed.push_back(std::move(word));
    PlanCommand question = std::get<PlanCommand>(parse_plan(typed));
    take_whole_nodes(command.axes, point, question);
    parse_changes(question.changes);
    command.questions.push_back({std::move(point), std::move(question)});
  }
}

// Without --objective cheapest a price counts for the run of --tokens alone.
void require_tokens(const PlanCommand& question) {
  const bool is_of_step = question.objective.what == Objective::kCheapest;
  if (question.price >= 0 && question.tokens <= 0 && !is_of_step)
    throw_bad_input("--price: expected --tokens beside it, as in --tokens 300B");
}

}  // namespace

Command parse_sweep(const Arguments& arguments) {
  SweepCommand command;
  PlanCommand question;  // read for the help, and for what is wrong with it
  std::vector<std::string> over;
  PinOptions pins;
  Syntax syntax(
      "Find a plan for every point of a grid: nodes, batches, models, pinned choices, hardware",
      "zplan sweep --model M --cluster C --over AXIS=VALUES [--over ..] [options]",
      "\nAn axis is nodes, gpus, batch, sequence, model, cluster, stack, an option that pins a\n"
      "decision (zplan help pins: tp, zero, micro-batch ..; of a switch yes and no) or a quantity\n"
      "of the hardware (zplan clusters C shows them). Values: 1,2,8 or 1..64, which doubles, or\n"
      "10..40:10.\n"
      "\nExamples:\n"
      "  ./zplan sweep --model 10B --cluster dgx2 --over nodes=1..4\n"
      "  ./zplan sweep --model gpt2-1.5b --cluster dgx2 --over batch=128..512 --over zero=1..3:1\n"
      "  ./zplan sweep --model llama3-8b --cluster rtx4090-12ssd --over pcie=16..64GB/s --csv\n");
  add_question(syntax, pins, question);
  add_objective(syntax, question);
  syntax.texts("--over", over, "AXIS=VALUES",
               "An axis of the grid; repeated, the last varies first");
  add_effort(syntax, question);
  syntax.flag("--csv", command.csv, "Print a line per question, with commas");
  syntax.flag("--json", command.json, "Print JSON (zplan.sweep/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (over.empty())
    throw_bad_input(
        "expected an axis, as in: zplan sweep --model 10B --cluster dgx2 --over "
        "nodes=1..4");
  if (command.csv && command.json) throw_bad_input("--csv and --json contradict each other");
  for (const std::string& axis : over) command.axes.push_back(parse_axis(axis));
  const auto has = [&](std::string_view name) {
    return std::any_of(command.axes.begin(), command.axes.end(),
                       [&](const GridAxis& axis) { return axis.name == name; });
  };
  if (has("model") && question.model.empty()) question.model = "as the axis says";
  if (has("cluster") && question.cluster.empty()) question.cluster = "as the axis says";
  require_both(question, "zplan sweep --over nodes=1..4");
  require_tokens(question);
  add_questions(command, arguments);
  return command;
}

}  // namespace zplan
