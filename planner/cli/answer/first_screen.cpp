#include "planner/cli/answer/first_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "planner/certainty/kind.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/split_output.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/cost/goodput.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/software/choice.h"

namespace zplan {
namespace {

// [assumed] where --tokens does not say how many: of a model, of factors of LoRA.
constexpr double kUsualTokens = 1e12, kUsualTuningTokens = 1e8;
constexpr double kDaysPerYear = 365.25;

// "1T", "2.5B"
std::string tokens_words(double tokens) {
  constexpr std::pair<double, std::string_view> kUnits[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [unit, letter] : kUnits)
    if (tokens >= unit) return fmt::format("{:.3g}{}", tokens / unit, letter);
  return fmt::format("{:.3g}", tokens);
}

double tokens_of(const PlanCommand& command) {
  if (command.tokens > 0) return command.tokens;
  return command.pins.values().train.has_lora() ? kUsualTuningTokens : kUsualTokens;
}

double tokens_per_step(const Answer& answer) {
  return static_cast<double>(answer.global_batch) * static_cast<double>(answer.sequence);
}

double tokens_per_second(const Answer& answer, Seconds step) {
  return tokens_per_step(answer) / step.value;
}

// Three digits at least: "1,154", "6.00".
std::string rate_words(double rate) {
  return rate >= 100 ? grouped(std::llround(rate)) : fmt::format("{:#.3g}", rate);
}

// "78 days", "10.1 years", "5.2 hours"
std::string long_time(double seconds) {
  const double days = seconds / kSecondsPerDay;
  if (days >= 2 * kDaysPerYear) return fmt::format("{:.3g} years", days / kDaysPerYear);
  if (days >= 2) return fmt::format("{} days", rate_words(days));
  return fmt::format("{:.3g} hours", seconds / kSecondsPerHour);
}

std::int64_t ranks_of(const Answer& answer) { return answer.best->planned.plan.parallel.ranks(); }

bool runs_on_cpu(const Answer& answer) {
  return find_kernel_set(answer.best->planned.plan.kernel_set).runs_on == RunsOn::kCpu;
}

std::string_view worker_of(const Answer& answer) { return runs_on_cpu(answer) ? "worker" : "GPU"; }

double run_seconds(const Answer& answer, const PlanCommand& command, Seconds step) {
  return tokens_of(command) / tokens_per_second(answer, step);
}

// Adds a text behind its label; lines after the first stand below it.
void entry(std::string& out, std::string_view label, const std::string& text) {
  if (text.empty()) return;
  Sheet line;
  line.entry(label, "{}", {text});
  out += line.text();
}

// Adds a command behind its label; a line that goes on ends as the shell takes it.
void command_entry(std::string& out, std::string_view label, const std::string& command) {
  std::string lines = wrap(command, kScreenWidth - 2, kLabelWidth, kLabelWidth);
  for (std::size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 3)
    lines.insert(at, " \\");
  out += fmt::format("{:<{}}{}\n", label, kLabelWidth, lines);
}

// "39.1..61.9 s", "9.28 s..14.5 min"
std::string interval_words(const TimeInterval& interval) {
  const std::string high = format_seconds(interval.high);
  const std::string unit = high.substr(high.rfind(' '));
  std::string low = format_seconds(interval.low);
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return fmt::format("{}..{}", low, high);
}

std::string software_table(const Answer& answer, const PlanCommand& command) {
  const std::string tokens = tokens_words(tokens_of(command)) + " tokens";
  Table table({{"with", "with"},
               {"step", "step"},
               {"interval", "80 % within"},
               {"each", fmt::format("per {}", worker_of(answer))},
               {"mfu", "MFU"},
               {"run", tokens},
               {"basis", "on " + short_device(answer.cluster.node.device.name)}});
  const double ranks = static_cast<double>(ranks_of(answer));
  for (const SoftwareLine& line : answer.software) {
    const double rate = tokens_per_second(answer, line.step);
    const std::string interval = line.interval ? interval_words(*line.interval) : "";
    table.words_row({line.title, format_seconds(line.step), interval, rate_words(rate / ranks),
                     line.mfu > 0 ? percent(line.mfu) : "",
                     long_time(run_seconds(answer, command, line.step)), line.runs});
  }
  return table.text(kIndent);
}

// Says how many GPU-hours the run takes, and what they cost where the price is given.
std::string run_words(const Answer& answer, const PlanCommand& command) {
  const double seconds = run_seconds(answer, command, answer.best->time.sim.period);
  const double hours = seconds / kSecondsPerHour * static_cast<double>(ranks_of(answer));
  std::string words =
      fmt::format("{} tokens{} at {} a second take {} and {} {}-hours",
                  tokens_words(tokens_of(command)), command.tokens > 0 ? "" : " (--tokens)",
                  rate_words(tokens_per_second(answer, answer.best->time.sim.period)),
                  long_time(seconds), grouped(std::llround(hours)), worker_of(answer));
  if (command.price > 0)
    words += fmt::format(", {} at {:g} an hour", grouped(std::llround(hours * command.price)),
                         command.price);
  return words;
}

// The share of runs that need more than there is; nothing where the software does not state what
// it holds.
std::optional<double> chance_of_running_out(const StackMemoryUse& use, const TierUse& gpu) {
  constexpr double kDeviations = 1.645;  // of the bound (search/stack_memory_use.h)
  const double sd =
      static_cast<double>(use.device.bound.value - use.device.central.value) / kDeviations;
  if (sd <= 0) return std::nullopt;
  const double room = static_cast<double>(gpu.capacity.value - use.device.central.value);
  return std::erfc(room / sd / std::numbers::sqrt2) / 2;
}

std::string chance_words(double chance) {
  constexpr double kLeastSaid = 0.001;
  if (chance < kLeastSaid) return "runs out in under 0.1 % of runs";
  return fmt::format("runs out in {:.2g} % of runs", 100 * chance);
}

// "45.5", "1,382"
std::string gib(Bytes size) {
  const double gib = static_cast<double>(size.value) / 0x1p30;
  return gib >= 100 ? grouped(std::llround(gib)) : fmt::format("{:.1f}", gib);
}

// The three categories that take most of what is expected, and the rest, "activations 43.0,
// parameters 17.2, optimizer 6.0, other 2.1".
std::string largest_categories(const TierUse& use, Bytes expected) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::pair<Bytes, Category>> sizes;
  for (std::size_t i = 0; i < use.by_category.size(); ++i)
    if (use.by_category[i].value > 0)
      sizes.emplace_back(use.by_category[i], static_cast<Category>(i));
  std::ranges::stable_sort(sizes, [](const auto& a, const auto& b) { return a.first > b.first; });
  sizes.resize(std::min(sizes.size(), kMostNamed));
  std::vector<std::string> words;
  Bytes rest = expected;
  for (const auto& [size, category] : sizes) {
    words.push_back(fmt::format("{} {}", name(category), gib(size)));
    rest = rest - size;
  }
  constexpr std::int64_t kLeastShare = 20;  // of what is expected
  if (rest.value > expected.value / kLeastShare) words.push_back("other " + gib(rest));
  return joined(words, ", ");
}

bool holds_states(const TierUse& use) {
  for (const Category category :
       {Category::kOptimizer, Category::kParameters, Category::kGradients, Category::kActivations})
    if (use.by_category[static_cast<std::size_t>(category)].value > 0) return true;
  return false;
}

// Says what is expected of the fullest GPU, or of the host where no GPU works.
std::string expected_words(const Answer& answer) {
  const MemoryPrediction& memory = answer.best->memory;
  const TierUse& gpu = memory.use[static_cast<std::size_t>(Tier::kGpu)];
  const TierUse& cpu = memory.use[static_cast<std::size_t>(Tier::kCpu)];
  if (gpu.capacity.value == 0)
    return fmt::format("{} of {} GiB per node: {}", gib(cpu.peak), gib(cpu.capacity),
                       largest_categories(cpu, cpu.peak));
  const bool is_stated = answer.cluster.memory.given;
  const Bytes expected = is_stated ? memory.stack.device.central : gpu.peak + gpu.reserve;
  std::string words =
      fmt::format("{} of {} GiB per GPU expected", gib(expected), gib(gpu.capacity));
  const auto chance =
      is_stated ? chance_of_running_out(memory.stack, gpu) : std::optional<double>();
  if (chance) words += fmt::format(" ({})", chance_words(*chance));
  return words + ": " + largest_categories(gpu, expected);
}

std::string memory_words(const Answer& answer) {
  const MemoryPrediction& memory = answer.best->memory;
  std::string words = expected_words(answer);
  const bool has_gpu = memory.use[static_cast<std::size_t>(Tier::kGpu)].capacity.value > 0;
  for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
    const TierUse& use = memory.use[static_cast<std::size_t>(tier)];
    if (has_gpu && holds_states(use))
      words += fmt::format("; {} of {} GiB of {} per node", gib(use.peak), gib(use.available()),
                           tier == Tier::kCpu ? "CPU memory" : "NVMe");
  }
  const StackProfile& software = answer.evidence.stack;
  if (has_gpu && !answer.cluster.memory.given && !is_ideal(software))
    words += fmt::format("; as zplan places it: {} does not state its memory", software.title);
  return words;
}

// The greatest parts of the step, "matrix products 74 %, attention 16 %".
std::string time_words(const Answer& answer) {
  constexpr double kLeastSaid = 0.01;
  constexpr std::size_t kMostNamed = 5;
  const sim::StepSplit& split = answer.best->time.split;
  std::vector<std::pair<double, std::string>> parts;
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    if (split.share(use) >= kLeastSaid)
      parts.emplace_back(split.share(use), std::string(sim::name(use)));
  }
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  parts.resize(std::min(parts.size(), kMostNamed));
  std::vector<std::string> words;
  for (const auto& [share, part] : parts)
    words.push_back(fmt::format("{} {:.0f} %", part, 100 * share));
  return joined(words, ", ");
}

// "26 % faster (212 s a step) with --optimizer cpu"
std::string faster_words(double gain, Seconds step, const Plan& plan, const Plan& other) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> changes = changed_decisions(plan, other);
  const bool more = changes.size() > kMostNamed;
  changes.resize(std::min(changes.size(), kMostNamed));
  return fmt::format("{} faster ({} a step) with {}{}", percent(gain), format_seconds(step),
                     joined(changes, ", "), more ? " .." : "");
}

// Names the fastest plan found, where a simpler one is recommended, and a faster one of a kind that
// the software was never measured with.
std::string passed_over(const Answer& answer) {
  constexpr double kWorthSaying = 0.001;
  const SearchResult& search = answer.search;
  if (!search.best) return "";
  const auto gain_of = [&](Seconds step) { return search.best->step->value / step.value - 1; };
  std::vector<std::string> words;
  if (search.fastest && gain_of(*search.fastest->step) >= kWorthSaying)
    words.push_back(faster_words(gain_of(*search.fastest->step), *search.fastest->step,
                                 search.best->plan, search.fastest->plan));
  if (answer.beyond)
    words.push_back(
        fmt::format("{} faster ({} a step) with --only {}, which no run of {} was "
                    "measured with",
                    percent(gain_of(answer.beyond->step)), format_seconds(answer.beyond->step),
                    answer.unmeasured, software_title(answer.evidence.stack)));
  return joined(words, "; ");
}

// "PyTorch FSDP 2025 has a plan of its own, from a brief search (--for fsdp)"
std::string other_words(const SoftwareLine& other) {
  const std::vector<std::string> names = typed_names(load_stack(other.profile), stack_catalogue());
  return fmt::format("{} has a plan of its own, from a brief search (--for {})", other.title,
                     names.front());
}

std::string assumed_words(const Answer& answer, const PlanCommand& command) {
  std::vector<std::string> all;
  const auto given = [&](std::string_view pointer) { return command.pins.has(pointer); };
  if (!given("/batch/global_batch") || !given("/batch/sequence"))
    all.push_back(fmt::format(
        "{} of {} tokens (--global-batch, --seq)",
        answer.global_batch == 1 ? "1 sequence" : grouped(answer.global_batch) + " sequences",
        grouped(answer.sequence)));
  if (answer.has_chosen_software)
    all.push_back(fmt::format("{} trains (--for)", software_title(answer.evidence.stack)));
  if (answer.other) all.push_back(other_words(*answer.other));
  const std::vector<std::string>& cluster = answer.cluster.understood;
  all.insert(all.end(), cluster.begin(), cluster.end());
  all.insert(all.end(), answer.assumed.begin(), answer.assumed.end());
  all.insert(all.end(), answer.left_out.begin(), answer.left_out.end());
  return joined(all, "; ");
}

// "no measured run with tensor parallelism, on more than 16 devices"
std::string doubts(const Answer& answer) {
  const std::string& profile = answer.evidence.stack.name;
  const std::string of_it = fmt::format("no run of {} ", profile);
  std::vector<std::string> unmeasured, others;
  for (const std::string& one : answer.best->time.certainty.unknown) {
    if (one == of_it + "was ever measured")
      others.emplace_back("its rates were fitted to no run of it");
    else if (one.starts_with(of_it))
      unmeasured.push_back(one.substr(of_it.size()));
    else
      others.push_back(one);
  }
  const std::string& attention = answer.best->time.attention;
  if (!attention.empty()) others.push_back(attention);
  if (!answer.not_said.empty()) others.push_back(answer.not_said);
  if (!unmeasured.empty())
    others.insert(others.begin(), "its rates were fitted to no run " + joined(unmeasured, ", "));
  return joined(others, "; ");
}

// Says what the search has shown, by this cost model.
std::string proven_words(const Answer& answer) {
  const SearchStats& stats = answer.search.stats;
  const std::string without =
      answer.unmeasured.empty()
          ? ""
          : fmt::format(" without {}", answer.unmeasured == "nvme" ? "NVMe" : answer.unmeasured);
  const std::string plans =
      fmt::format("{} plans{}{}", grouped(stats.space),
                  answer.pins.software ? " that it can run" : " of the space", without);
  const std::string than = answer.search.fastest ? " than the fastest found" : "";
  if (stats.gap <= 0) return fmt::format("by this model none of {} is faster{}", plans, than);
  const std::string gap = percent_at_most(stats.gap);
  return stats.gap <= kProvenGap
             ? fmt::format("by this model none of {} is over {} faster{}", plans, gap, than)
             : fmt::format("others of {} could take up to {} less time{}", plans, gap, than);
}

std::string proof_words(const Answer& answer) {
  const std::vector<std::string> left_out = left_out_of_space(answer);
  const std::string words = proven_words(answer);
  return left_out.empty() ? words
                          : fmt::format("{}; outside the space: {}", words, joined(left_out, ", "));
}

std::string next_words(const Answer& answer, const PlanCommand& command) {
  const std::string& target = answer.evidence.stack.target;
  const bool is_written = !command.output.empty();
  const std::string file = is_written ? shell_word(command.output) : "plan.json";
  std::string out;
  if (is_written)
    command_entry(out, "Next", fmt::format("./zplan simulate {} --trace trace.json", file));
  else
    command_entry(out, "Next",
                  fmt::format("./zplan plan{} -o {}", shell_words(command.arguments), file));
  const std::string_view drives = family_of(answer.best->planned.plan).nvme ? " --nvme-dir ." : "";
  if (runs_on_cpu(answer))
    command_entry(out, "", fmt::format("./zplan run {} --steps 10 --check{}", file, drives));
  else if (!target.empty())
    command_entry(out, "", fmt::format("./zplan export {} --to {} -o run", file, target));
  entry(out, "", "the same with --details for all that is known");
  return out;
}

std::string schedule_words(const Plan& plan) {
  if (plan.schedule == Schedule::kOneForwardOneBackward) return "";
  const std::int32_t chunks = plan.pieces() / plan.parallel.pp;
  return chunks > 1 ? fmt::format(" ({}, {} chunks)", name(plan.schedule), chunks)
                    : fmt::format(" ({})", name(plan.schedule));
}

// "LoRA of rank 8 on all matrices, base in nf4"
std::string lora_words(const TrainedChoice& train) {
  const std::string base =
      train.base == BaseType::kCompute ? "" : fmt::format(", base in {}", name(train.base));
  return fmt::format("LoRA of rank {} on {} matrices{}", train.rank, name(train.targets), base);
}

// "ZeRO-3, tensor 2, data 256; micro-batch 5, 2 accumulation steps; full recomputation; fp16"
std::string plan_words(const Plan& plan, const Cluster& cluster) {
  const Parallel& shape = plan.parallel;
  std::vector<std::string> parts;
  if (plan.zero_stage > 0 || shape.dp > 1) parts.push_back(fmt::format("ZeRO-{}", plan.zero_stage));
  const auto add = [&](std::string_view what, std::int32_t ranks, const std::string& more) {
    if (ranks > 1) parts.push_back(fmt::format("{} {}{}", what, ranks, more));
  };
  add("tensor", shape.tp, shape.sequence_parallel ? " with sequence parallelism" : "");
  add("context", shape.cp, "");
  add("pipeline", shape.pp, schedule_words(plan));
  add("experts over", shape.ep, "");
  add("data", shape.dp, "");
  if (parts.empty()) parts.emplace_back("one replica");
  if (plan.train.has_lora()) parts.insert(parts.begin(), lora_words(plan.train));
  return fmt::format("{}; micro-batch {}, {}; {}; {}", joined(parts, ", "), plan.batch.micro_batch,
                     count_of(plan.micro_steps(), "accumulation step"), recompute_words(plan),
                     kind_of(plan, cluster).format);
}

std::string plan_entries(const Answer& answer) {
  const Plan& plan = answer.best->planned.plan;
  std::string out;
  entry(out, "Plan", plan_words(plan, answer.cluster));
  const Family family = family_of(plan);
  if (family.cpu || family.nvme) entry(out, "", placement_words(plan));
  return out;
}

std::string misfit_screen(const Answer& answer, const PlanCommand& command) {
  std::string out;
  const std::optional<Candidate>& closest = answer.search.closest;
  if (closest && !closest->infeasible->smallest_change.empty())
    entry(out, "Would fit", closest->infeasible->smallest_change);
  entry(out, "Cluster", fmt::format("{}: {}", answer.cluster.name, cluster_words(answer.cluster)));
  entry(out, "Space",
        fmt::format("{} were looked at; none fits", count_of(answer.search.stats.space, "plan")));
  command_entry(out, "Next",
                fmt::format("./zplan need --model {} --tokens {} --within 90d",
                            shell_word(command.model), tokens_words(tokens_of(command))));
  command_entry(out, "", fmt::format("./zplan max --cluster {}", shell_word(command.cluster)));
  command_entry(out, "", fmt::format("./zplan plan{} --details", shell_words(command.arguments)));
  return out;
}

}  // namespace

std::string headline(const Answer& answer) {
  if (!answer.best) return "No: " + misfit_line(answer);
  const TimePrediction& time = answer.best->time;
  const double each =
      tokens_per_second(answer, time.sim.period) / static_cast<double>(ranks_of(answer));
  const std::string how = fmt::format(
      "{} a step, {} tokens/s per {}{}", duration_words(time.sim.period), rate_words(each),
      worker_of(answer),
      time.throughput.mfu > 0 ? fmt::format(", {} MFU", percent(time.throughput.mfu)) : "");
  if (!fits(answer))
    return fmt::format("No: {}; the closest plan, capacity ignored, would take {}",
                       misfit_line(answer), how);
  std::string line =
      fmt::format("Yes: {} trains{} on {} ({}): {}", answer.model.name,
                  answer.best->planned.plan.train.has_lora() ? " with LoRA" : "",
                  answer.cluster.name, count_of(ranks_of(answer), worker_of(answer)), how);
  if (const auto& best = time.certainty.exceeded)
    line +=
        fmt::format("; above the best ever measured on {}, {}", best->device, percent(best->mfu));
  const Objective asked = answer.objective.question.what;
  if (asked != Objective::kFastest)
    line += fmt::format("; {}: {}", name(asked),
                        objective_value(answer.objective, *objective_step(answer)));
  return line;
}

std::string first_screen(const Answer& answer, const PlanCommand& command) {
  std::string out = paragraph(headline(answer));
  if (!answer.best) return out + misfit_screen(answer, command);
  out += software_table(answer, command);
  out += plan_entries(answer);
  entry(out, "Memory", memory_words(answer));
  entry(out, "Time", time_words(answer));
  entry(out, "Run", run_words(answer, command));
  entry(out, "Faster", passed_over(answer));
  entry(out, "Proof", proof_words(answer));
  entry(out, "Doubts", doubts(answer));
  entry(out, "Assumed", assumed_words(answer, command));
  return out + next_words(answer, command);
}

Value software_value(const Answer& answer) {
  return each(answer.software, [&](const SoftwareLine& line) {
    return Sheet{{"software", line.profile.empty() ? Value(nullptr) : Value(line.profile)},
                 {"title", line.title},
                 {"step_s", line.step},
                 {"low_s", line.interval ? Value(line.interval->low) : nullptr},
                 {"high_s", line.interval ? Value(line.interval->high) : nullptr},
                 {"tokens_per_s", tokens_per_second(answer, line.step)},
                 {"mfu", line.mfu},
                 {"basis", line.basis},
                 {"plan", line.plan ? as_json(to_json(*line.plan)) : Value(nullptr)}};
  });
}

}  // namespace zplan
