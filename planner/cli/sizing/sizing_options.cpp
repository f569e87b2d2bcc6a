#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "hwprofiles/cluster_name.h"
#include "planner/cli/answer/objective_options.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/program/job/limits.h"
#include "planner/search/questions/size_family.h"

namespace zplan {
namespace {

using Arguments = std::vector<std::string>;

void add_failures(Syntax& syntax, double& tokens, FailureSettings& failures) {
  add_tokens(syntax, "Tokens of the whole run: 300B, 1.4T", tokens);
  syntax.duration("--gpu-mtbf", "Mean time until a GPU or its share of the rest fails [5.8y]",
                  failures.device_mtbf);
  syntax.duration("--restart", "From a failure until training goes on [10min]", failures.restart);
  syntax.parsed("--storage", "RATE", "Of checkpoints, shared by all nodes [their drives]",
                [&failures](const std::string& word) {
                  const auto rate = parse_bytes_per_second(word);
                  if (!rate || rate->value <= 0)
                    throw_bad_input(fmt::format("--storage: expected {}, got {}",
                                                kBytesPerSecondExpected, in_quotes(word)));
                  failures.storage = *rate;
                });
  syntax.parsed("--stragglers", "FACTOR", "By which slow nodes lengthen every step [1]",
                [&failures](const std::string& word) {
                  const auto factor = number_with(word, {{"", 1}});
                  if (!factor || *factor < 1)
                    throw_bad_input(fmt::format("--stragglers: expected a factor from 1, got {}",
                                                in_quotes(word)));
                  failures.stragglers = *factor;
                });
}

// What `zplan plan` is asked, too.
void add_sized(Syntax& syntax, PinOptions& pins, PlanCommand& question) {
  syntax.text("-m,--model", question.model, "M",
              "Model: a name (zplan models), a .json file, or a folder of Hugging Face");
  syntax.text("--for,--stack", question.stack, "S",
              "Whose software: megatron_core .. or a .json file [own]");
  pins.add("/batch/global_batch", syntax, question.pins);
  pins.add("/batch/sequence", syntax, question.pins);
}

void add_running(Syntax& syntax, RunningSettings& running) {
  add_price(syntax, "Price of a GPU-hour in any currency [the profile's, if any]", running.price);
  syntax.parsed("--node-power", "P", "That a node draws, in kW [the most that its profile states]",
                [&running](const std::string& word) {
                  constexpr double kWatts = 1000;
                  running.node_watts =
                      kWatts * above_zero("--node-power", word, "10kW", {{"", 1}, {"kW", 1}});
                });
}

template <typename Question>
void add_search(Syntax& syntax, Question& command) {
  command.threads = all_threads();
  add_threads(syntax, command.threads);
  add_headroom(syntax, command.headroom);
}

}  // namespace

Command parse_max(const Arguments& arguments) {
  MaxCommand command;
  PinOptions pins;
  Syntax syntax("Show the largest model that a cluster trains, by family of plans",
                "zplan max --cluster C [options]",
                "\nExamples:\n"
                "  ./zplan max --cluster dgx2\n"
                "  ./zplan max --cluster dgx2x32 --family 3d --family infinity-nvme-tp\n");
  syntax.text("-c,--cluster", command.cluster, "C",
              "16xH100, NODE or NODExCOUNT (zplan clusters), or a .json file");
  syntax.texts("--family", command.families, "F",
               "data-parallel, zero-1, zero-offload, infinity-nvme ..; repeated [all]");
  syntax.text("--for,--stack", command.stack, "S",
              "Whose software: megatron_core .. or a .json file [own]");
  std::vector<std::string> changes;
  add_changes(syntax, changes);
  add_gpus(syntax, command.pins, "--ranks,--gpus");
  pins.add("/batch/global_batch", syntax, command.pins);
  pins.add("/batch/micro_batch", syntax, command.pins);
  pins.add("/batch/sequence", syntax, command.pins);
  add_search(syntax, command);
  syntax.flag("--no-times", command.no_times, "Do not simulate the plans that are found");
  syntax.flag("--json", command.json, "Print JSON (zplan.max/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(command.pins);
  for (const std::string& family : command.families) find_size_family(family);
  if (command.cluster.empty())
    throw_bad_input("expected --cluster, as in: zplan max --cluster dgx2 (--help shows more)");
  command.cluster = with_settings(command.cluster, changes);
  return command;
}

Command parse_goodput(const Arguments& arguments) {
  GoodputCommand command;
  PinOptions pins;
  Syntax syntax(
      "Show how long a number of tokens takes with failures, checkpoints and restarts",
      "zplan goodput PLAN.json --tokens N [options], or zplan goodput --model M --cluster C ..",
      "\nExamples:\n"
      "  ./zplan goodput --model llama3-70b --cluster dgx-h100x16 --tokens 300B\n"
      "  ./zplan goodput plan.json --tokens 1T --storage 100GB/s --restart 15min\n"
      "  ./zplan goodput --published\n");
  add_source(syntax, pins, command.source);
  add_failures(syntax, command.tokens, command.failures);
  add_running(syntax, command.running);
  syntax.flag("--published", command.published, "Instead the 54 days of Llama 3 405B");
  syntax.flag("--json", command.json, "Print JSON (zplan.goodput/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  if (command.published) return command;
  require_one_source(command.source, "goodput");
  if (command.tokens <= 0) throw_bad_input("expected --tokens, as in: --tokens 300B");
  return command;
}

Command parse_need(const Arguments& arguments) {
  NeedCommand command;
  PlanCommand& question = command.question;
  PinOptions pins;
  Syntax syntax("Show the fewest nodes of each kind that train a model",
                "zplan need --model M --tokens N [options]",
                "\nExamples:\n"
                "  ./zplan need --model 10B --tokens 300B --within 30d --price 2.5/h\n"
                "  ./zplan need --model gpt2 --tokens 10B --cluster dgx2 --node-power 10kW\n");
  add_sized(syntax, pins, question);
  syntax.texts("-c,--cluster", command.kinds, "NODE",
               "Kind of node, or a GPU for its whole node; repeated [all NVIDIA since A100]");
  add_changes(syntax, question.changes);
  syntax.duration("--within",
                  "Days that it may take, 60d; without it the fewest nodes of --cluster",
                  command.within);
  add_running(syntax, command.running);
  constexpr std::int64_t kMost = 32'768;
  syntax.integer("--max-nodes", 1, kMost, "Nodes to try at most [32,768 GPUs]",
                 [&command](std::int64_t nodes) { command.most_nodes = nodes; });
  add_failures(syntax, command.tokens, command.failures);
  add_search(syntax, question);
  syntax.flag("--json", question.json, "Print JSON (zplan.need/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(question.pins);
  if (question.model.empty() || command.tokens <= 0)
    throw_bad_input("expected --model and --tokens, as in: zplan need --model 10B --tokens 300B");
  if (command.kinds.empty() && command.within.value < 0)
    throw_bad_input(
        "--within: expected the days of the run, as in --within 60d; without it the kind of node, "
        "as in --cluster H100, for the fewest on which a plan fits");
  return command;
}

}  // namespace zplan
