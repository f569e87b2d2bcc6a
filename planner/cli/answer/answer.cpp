#include "planner/cli/answer/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/quantities.h"
#include "models/model_formulas.h"
#include "planner/certainty/kind.h"
#include "planner/cli/answer/exact_times.h"
#include "planner/cli/answer/plan_worlds.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/expert_load.h"
#include "planner/cli/predict/measured_use.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hub_cache.h"
#include "planner/foreign/model_file.h"
#include "planner/plan/choice_text.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/device_kernels.h"
#include "planner/search/outside_space.h"
#include "planner/software/choice.h"
#include "planner/software/software_plans.h"

namespace zplan {
namespace {

// Plans that are simulated whatever they cost, and of a brief search.
constexpr std::int64_t kUsualSimulations = 12, kBriefSimulations = 3;
// A brief search does one part in so many.
constexpr std::int64_t kBriefShare = 8;
constexpr std::int64_t kMillion = 1'000'000;

using Clock = std::chrono::steady_clock;

bool is_over(Seconds allowed, Clock::time_point begin) {
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  return allowed.value >= 0 && elapsed.count() > allowed.value;
}

std::string progress_line(const SearchStats& stats) {
  return fmt::format("searching: {} plans, {} lowered, {} simulated", grouped(stats.space),
                     grouped(stats.visited), grouped(stats.simulated));
}

// `simulated`: what is known of it.
FoundPlan examine(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
                  const Evidence& evidence, std::optional<sim::SimResult> simulated) {
  FoundPlan found{.planned = build_job(plan, model), .memory = {}, .time = {}};
  found.memory = predict_memory(found.planned, cluster, evidence);
  found.time = simulated ? prediction_of(found.planned, cluster, evidence, *std::move(simulated))
                         : predict_time(found.planned, cluster, evidence);
  found.time.experts = expert_load(found.planned, cluster);
  return found;
}

// Plans name files as they were typed, so that other commands find them again.
void keep_paths(Plan& plan, const PlanCommand& command, bool foreign_model) {
  const bool is_path = looks_like_path(command.model);
  const bool is_of_catalogue = !foreign_model && is_hub_name(command.model);
  if ((is_path && !is_of_catalogue) || foreign_model)
    plan.model = (is_path ? "" : "./") + command.model;
  if (looks_like_path(split_settings(command.cluster).plain))
    plan.hardware = with_settings(command.cluster, command.changes);
}

// What is assumed of a foreign model, but for what was given.
std::vector<std::string> not_given(const std::vector<Assumption>& assumed, const Pins& pins) {
  std::vector<std::string> sentences;
  for (const Assumption& one : assumed)
    if (one.pointer.empty() || !pins.has(one.pointer)) sentences.push_back(one.sentence);
  return sentences;
}

// Says that a sequence has rotary positions that the weights were not trained on; empty: it has
// none.
std::string beyond_positions(const ModelConfig& model, std::int64_t sequence) {
  if (model.position != Position::kRope || model.trained_positions == 0 ||
      sequence <= model.trained_positions)
    return "";
  return fmt::format(
      "sequence {} is beyond the {} positions that the weights of {} were trained on; rotary "
      "positions go on, and step and memory are as predicted",
      grouped(sequence), grouped(model.trained_positions), model.name);
}

// The share of a GPU that is to be left free.
double headroom_of(const PlanCommand& command, const Cluster& cluster) {
  if (!command.most_gpu_memory) return command.headroom;
  const Bytes reserve = cluster.node.device.reserve();
  if (*command.most_gpu_memory <= reserve)
    throw_bad_input(
        fmt::format("--max-gpu-memory: expected more than {}, the reserve of each GPU "
                    "of {} for context and communicators, got {}",
                    format_bytes(reserve), cluster.name, format_bytes(*command.most_gpu_memory)));
  const double share = static_cast<double>(command.most_gpu_memory->value) /
                       static_cast<double>(cluster.node.device.memory.value);
  return std::max(command.headroom, 1 - share);
}

std::vector<Constraint> constraints_of(const PlanCommand& command) {
  std::vector<Constraint> constraints;
  for (const std::string& typed : command.only) constraints.push_back(Constraint::only(typed));
  for (const std::string& typed : command.never) constraints.push_back(Constraint::never(typed));
  return constraints;
}

// Of the constraints, and the limit on GPU memory, the first without which a plan fits.
std::string relaxing(const PlanCommand& command, const Pins& pins, const Answer& answer) {
  const auto has_answer = [&](const Pins& others, const Cluster& cluster) {
    const SearchOptions options{.threads = command.threads, .max_simulated = 1};
    const Evaluator evaluator = make_evaluator(answer.model, cluster);
    return search(answer.model, cluster, others, evaluator, options).best.has_value();
  };
  for (std::size_t i = 0; i < pins.constraints.size(); ++i) {
    Pins others = pins;
    others.constraints.erase(others.constraints.begin() + static_cast<std::ptrdiff_t>(i));
    if (has_answer(others, answer.cluster)) return pins.constraints[i].option();
  }
  if (!command.most_gpu_memory) return "";
  Cluster cluster = answer.cluster;
  cluster.headroom = command.headroom;
  return has_answer(pins, cluster) ? "--max-gpu-memory" : "";
}

// A profile names its kernel set freely; only here is it known which there are.
void require_kernel_set(const PlanCommand& command, const Cluster& cluster) {
  const std::string pinned = command.pins.get("/kernel_set", std::string());
  if (!pinned.empty()) return require_on_device(pinned, cluster.node);
  try {
    find_kernel_set(cluster.node.device.kernel_set);
  } catch (const Error& error) {
    throw_bad_input(
        fmt::format("node {}: /device/kernel_set: {}", cluster.node.name, error.what()));
  }
}

// In millions of operations.
std::int64_t budget_of(const PlanCommand& command) {
  if (command.simulations) return 0;
  return command.budget.value_or(command.time.value < 0 ? kUsualBudget : kMostBudget);
}

// What the pins ask of the software and its files cannot say is taken as the user says it, and
// told. Where its profile has no such plans either, a software that nobody asked for is none:
// CannotRun.
std::string take_word_for(const StackProfile& software, bool is_asked, const Pins& asked,
                          const ModelConfig& model, const Cluster& cluster, Pins& pins) {
  const auto runs_some = [&](std::string& why) {
    try {
      enumerate(model, cluster, pins);
      return true;
    } catch (const CannotRun& error) {
      why = error.what();
      return false;
    }
  };
  std::string why, again;
  if (runs_some(why)) return "";
  pins.software = plans_of(software, model, cluster, asked, Pinned::kUsersWord);
  if (runs_some(again)) return why;
  if (!is_asked) throw CannotRun(why);
  pins.software.reset();
  return why;
}

constexpr Seconds kAny{std::numeric_limits<double>::infinity()};

// How much is looked at.
struct Effort {
  Seconds below = kAny;   // plans that do not take less do not matter
  bool is_brief = false;  // no variants, and a part of the usual simulations
  std::string without{};  // a kind of plans that is left out, as --not names it; empty: none
};

// Answers with the software that the command names, without a name with our own executor. `asked`
// says whether the user named it.
Answer answer_for(const PlanCommand& typed, bool asked, const Effort& effort = {}) {
  const auto begin = Clock::now();
  const InterruptGuard guard;
  PlanCommand command = typed;
  NamedModel named = load_named_model(command.model);
  const bool is_foreign = !named.folder.empty();
  Answer answer{.model = std::move(named.model),
                .cluster = load_cluster(command.cluster),
                .objective = {},
                .search = {},
                .best = {},
                .relaxing = {},
                .anchors = {},
                .memory_calibration = {},
                .evidence = {},
                .pins = {},
                .elapsed = {},
                .assumed = not_given(named.assumed, command.pins),
                .left_out = std::move(named.left_out)};
  answer.cluster.headroom = headroom_of(command, answer.cluster);
  pin_product_format(answer.cluster.node, command.pins);
  require_kernel_set(command, answer.cluster);
  StackUse use = find_stack_use(command.stack, command.anchor, &answer.cluster);
  command.pins.constraints = constraints_of(command);
  learn_measured_of_question(command, command.pins, answer.model, answer.cluster, use);
  const Pins typed_pins = command.pins;
  const bool is_pinned = !pinned_option(typed_pins).empty() || !typed_pins.constraints.empty();
  answer.unmeasured = effort.without;
  if (!effort.without.empty())
    command.pins.constraints.push_back(Constraint::never(effort.without));
  plan_for_software(use, answer.model, answer.cluster, command.pins);
  if (is_pinned && !command.must_be_said && command.pins.software)
    answer.not_said = take_word_for(use.evidence.stack, asked, typed_pins, answer.model,
                                    answer.cluster, command.pins);
  answer.cluster = varied(std::move(answer.cluster), command.changes);
  answer.global_batch = command.pins.get("/batch/global_batch", answer.model.global_batch);
  Progress progress;
  const SearchOptions options{
      .threads = command.threads,
      .exhaustive = command.exhaustive,
      .variants = !effort.is_brief,
      .max_simulated =
          command.simulations.value_or(effort.is_brief ? kBriefSimulations : kUsualSimulations),
      .min_operations = budget_of(command) * kMillion / (effort.is_brief ? kBriefShare : 1),
      .first_operations = kUsualBudget * kMillion,
      .below = effort.below,
      .progress = [&](const SearchStats& stats) { progress.show(progress_line(stats)); },
      .stop = [&] { return InterruptGuard::interrupted() || is_over(command.time, begin); }};
  const QuestionRun run{
      .threads = command.threads,
      .progress = [&](const std::string& line) { progress.show("searching: " + line); },
      .stop = options.stop};
  PlanWorlds worlds(answer.cluster, use.evidence);
  Evaluator evaluator = make_evaluator(
      answer.model, answer.cluster,
      [&worlds](const Plan& plan, const sim::SimResult& found) { worlds.keep(plan, found); });
  answer.objective = settle_objective(command.objective, answer.model, answer.cluster, evaluator,
                                      options, run, command.pins);
  answer.sequence = command.pins.get("/batch/sequence", answer.model.sequence);
  if (const std::string remark = beyond_positions(answer.model, answer.sequence); !remark.empty())
    answer.assumed.push_back(remark);
  // What is to be cheap or on few GPUs is no dearer for being simple than the tie tolerance.
  if (command.objective.what == Objective::kFastest)
    evaluator.wins = [&worlds](const Plan& fastest, const Plan& other) {
      return worlds.wins(fastest, other);
    };
  ExactTimes exact(answer.model, answer.cluster);
  evaluator.simulate_exactly = [&exact](const Plan& plan) { return exact.simulate(plan); };
  answer.search = search(answer.model, answer.cluster, command.pins, evaluator, options);
  take_best(answer.objective, answer.model, answer.cluster, command.pins, evaluator, options,
            answer.search);
  if (!fits(answer) && asked) answer.relaxing = relaxing(command, command.pins, answer);
  const std::optional<Candidate>& chosen =
      command.ignore_capacity && answer.search.closest ? answer.search.closest : answer.search.best;
  if (chosen) {
    Plan plan = chosen->plan;
    keep_paths(plan, command, is_foreign);
    answer.best =
        examine(plan, answer.model, answer.cluster, use.evidence, exact.find(chosen->plan));
    answer.anchors = std::move(use.anchors);
    answer.memory_calibration = std::move(use.memory);
  }
  answer.calibration = std::move(use.calibration);
  answer.evidence = std::move(use.evidence);
  answer.pins = std::move(command.pins);
  progress.clear();
  if (command.timing) {
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    answer.elapsed = Seconds{elapsed.count()};
  }
  return answer;
}

bool has(const std::vector<std::string>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

// Returns the kind of plans that no run with these features speaks for, as --not names it; empty:
// none.
std::string unmeasured_kind(const std::vector<std::string>& features) {
  if (!has(features, kStatesOnCpu)) return "offload";
  return has(features, kStatesOnDrives) ? "" : "nvme";
}

// Answers if a plan fits and the software runs one of those that the pins leave.
std::optional<Answer> try_answer(const PlanCommand& command, bool asked, const Effort& effort) {
  try {
    Answer answer = answer_for(command, asked, effort);
    return fits(answer) ? std::optional(std::move(answer)) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return std::nullopt;
  }
}

// Answers with the software that was named, as if it had been chosen: plans of a kind that it was
// never measured with stand beside the answer where they are faster, and answer where nothing else
// fits.
Answer answer_for_named(const PlanCommand& typed) {
  const StackProfile software = load_stack(typed.stack);
  const Cluster cluster = load_cluster(typed.cluster);
  const std::string kind =
      is_ideal(software) ? "" : unmeasured_kind(measured_features(software, cluster));
  if (kind.empty()) return answer_for(typed, true);
  std::optional<Answer> answer = try_answer(typed, true, {.without = kind});
  if (!answer) return answer_for(typed, true);
  if (typed.objective.what != Objective::kFastest) return *std::move(answer);
  const Seconds limit = answer->best->time.sim.period * (1 - kTierTolerance);
  if (auto beyond = try_answer(typed, true, {.below = limit, .is_brief = true}))
    if (const Seconds found = beyond->best->time.sim.period; found < limit)
      answer->beyond = Simulated{beyond->best->planned.plan, found};
  return *std::move(answer);
}

// Asks for one software after the other, those that speak best for the question first: the first
// that answers at length, others briefly and, where one of them is faster, at length, too.
class MeasuredAnswer {
 public:
  explicit MeasuredAnswer(const PlanCommand& command) : command_(command) {
    const ModelConfig model = load_named_model(command.model).model;
    const Cluster cluster = load_cluster(command.cluster);
    require_kernel_set(command, cluster);
    ordered_ = software_for(cluster, parameter_count(model));
    trains_factors_ = command.pins.values().train.has_lora();
    if (trains_factors_) prefer_hugging_face();
  }

  // Returns nothing if no software that was measured has a plan that fits.
  std::optional<Answer> find() {
    std::vector<Answer> found = with_measured_kinds();
    if (found.empty()) found = with_any_kind();
    if (found.empty()) return std::nullopt;
    if (found.size() == 1) return std::move(found.front());
    if (rank(found.back()) < rank(found.front())) {
      answer_at_length(found.back());
      std::swap(found.back(), found.front());
    }
    SoftwareLine line = software_line(found.back());
    line.plan = std::move(found.back().best->planned.plan);
    found.front().other = std::move(line);
    return std::move(found.front());
  }

 private:
  static constexpr std::size_t kListed = 2;  // the faster one is the answer
  static constexpr std::size_t kMostTried = 5;

  static Seconds step(const Answer& answer) { return answer.best->time.sim.period; }
  // Orders answers: first those of plans of kinds that were measured, then by what is asked for,
  // the least first, then by step.
  std::tuple<bool, double, Seconds> rank(const Answer& answer) const {
    const auto [value, time] = asked_for(answer);
    return {!is_measured(answer), value, time};
  }
  std::pair<double, Seconds> asked_for(const Answer& answer) const {
    const auto ranks = static_cast<double>(answer.best->planned.plan.parallel.ranks());
    switch (command_.objective.what) {
      case Objective::kCheapest:
        return {ranks * step(answer).value, step(answer)};
      case Objective::kFewestGpus:
        return {ranks, step(answer)};
      case Objective::kLongestSequence:
        return {-static_cast<double>(answer.sequence), step(answer)};
      case Objective::kFastest:
      case Objective::kMostHeadroom:  // of a step about as fast
        break;
    }
    return {0, step(answer)};
  }

  bool is_measured(const Answer& answer) const {
    const std::string kind = unmeasured_kind(software_of(answer).features);
    return kind.empty() || Constraint::never(kind).allows(answer.best->planned.plan);
  }

  const MeasuredSoftware& software_of(const Answer& answer) const {
    return *std::ranges::find(ordered_, answer.evidence.stack.name,
                              [](const MeasuredSoftware& s) { return s.profile.name; });
  }

  void answer_at_length(Answer& brief) const {
    if (auto full = ask(software_of(brief), {.without = brief.unmeasured}))
      brief = *std::move(full);
  }

  // Answers of plans of kinds that the software was measured with: of the first two that have one.
  std::vector<Answer> with_measured_kinds() {
    std::vector<Answer> found;
    std::size_t asked = 0;
    for (const MeasuredSoftware& software : ordered_) {
      if (asked == kMostTried || found.size() == kListed || InterruptGuard::interrupted()) break;
      if (!found.empty() && trains_factors_) break;
      if (!found.empty() && !(software.on_generation && software.of_scale)) continue;
      ++asked;
      auto answer = ask(
          software, {.is_brief = !found.empty(), .without = unmeasured_kind(software.features)});
      if (answer) found.push_back(*std::move(answer));
    }
    return found;
  }

  // Answers of plans of any kind; software that was measured with states on the CPU is asked first.
  std::vector<Answer> with_any_kind() {
    if (!trains_factors_)
      std::ranges::stable_sort(ordered_, {}, [](const MeasuredSoftware& software) {
        return !(software.on_generation && has(software.features, kStatesOnCpu));
      });
    std::vector<Answer> found;
    for (const MeasuredSoftware& software : first_of(kMostTried)) {
      if (InterruptGuard::interrupted() || found.size() == kListed) break;
      if (!found.empty() && (trains_factors_ || !software.on_generation)) break;
      if (auto answer = ask(software, {.is_brief = !found.empty()}))
        found.push_back(*std::move(answer));
    }
    return found;
  }

  std::span<const MeasuredSoftware> first_of(std::size_t count) const {
    return std::span(ordered_).first(std::min(count, ordered_.size()));
  }

  // Most who train factors of LoRA do it with PEFT in the Trainer [assumed].
  void prefer_hugging_face() {
    std::ranges::stable_sort(ordered_, {}, [](const MeasuredSoftware& software) {
      return software.profile.target != "hf";
    });
  }

  std::optional<Answer> ask(const MeasuredSoftware& software, const Effort& effort) const {
    PlanCommand command = command_;
    command.stack = software.profile.name;
    std::optional<Answer> answer = try_answer(command, false, effort);
    if (answer) answer->has_chosen_software = true;
    return answer;
  }

  const PlanCommand& command_;
  std::vector<MeasuredSoftware> ordered_;
  bool trains_factors_ = false;
};

}  // namespace

namespace {

Answer answer_as_typed(const PlanCommand& typed) {
  const bool names_software = !typed.stack.empty() || !typed.anchor.empty();
  if (!names_software)
    if (std::optional<Answer> answer = MeasuredAnswer(typed).find()) return *std::move(answer);
  return typed.stack.empty() ? answer_for(typed, true) : answer_for_named(typed);
}

// The model's batch where nobody gave another, and the GPUs that it is cut over.
struct ModelBatch {
  std::int64_t sequences = 0, gpus = 0;
  bool is_divided() const { return sequences < gpus || sequences % gpus == 0; }
  std::int64_t nearest() const { return (sequences + gpus / 2) / gpus * gpus; }
};

std::optional<ModelBatch> usual_batch(const PlanCommand& typed) {
  if (typed.pins.has("/batch/global_batch")) return std::nullopt;
  return ModelBatch{
      load_named_model(typed.model).model.global_batch,
      typed.pins.ranks > 0 ? typed.pins.ranks : load_cluster(typed.cluster).devices()};
}

}  // namespace

Answer find_answer(const PlanCommand& typed) {
  const InterruptGuard guard;
  try {
    return answer_as_typed(typed);
  } catch (const CannotRun&) {  // which may be for a batch that nobody asked for
    const std::optional<ModelBatch> batch = usual_batch(typed);
    if (!batch || batch->is_divided()) throw;
    PlanCommand divided = typed;
    pin_choice(divided.pins, "/batch/global_batch", std::to_string(batch->nearest()));
    Answer answer = answer_as_typed(divided);
    answer.assumed.push_back(fmt::format("{} GPUs do not divide the model's batch of {}",
                                         grouped(batch->gpus), grouped(batch->sequences)));
    return answer;
  }
}

PlanCommand with_software_of(PlanCommand question, const Answer& answer) {
  const bool names_software = !question.stack.empty() || !question.anchor.empty();
  if (!names_software) question.stack = answer.evidence.stack.name;
  return question;
}

std::optional<ObjectiveStep> objective_step(const Answer& answer) {
  if (!fits(answer)) return std::nullopt;
  const Plan& plan = answer.best->planned.plan;
  const TierUse& gpu = answer.best->memory.use[static_cast<std::size_t>(Tier::kGpu)];
  return ObjectiveStep{.step = answer.best->time.sim.period,
                       .ranks = plan.parallel.ranks(),
                       .tokens = plan.batch.global_batch * plan.batch.sequence,
                       .on_cpu = find_kernel_set(plan.kernel_set).runs_on == RunsOn::kCpu,
                       .gpu_free = gpu.fits() ? gpu.available() - gpu.peak : Bytes{0}};
}

std::string misfit_line(const Answer& answer) {
  const std::optional<Candidate>& closest = answer.search.closest;
  return fmt::format("{} does not fit on {}: {}", answer.model.name, answer.cluster.name,
                     closest ? fmt::format("the closest of {} ({}): {}",
                                           count_of(answer.search.stats.space, "plan"),
                                           name(family_of(closest->plan)),
                                           full_reason(*closest->infeasible))
                             : "no plan of the space does") +
         (answer.relaxing.empty() ? "" : fmt::format("; without {} a plan fits", answer.relaxing));
}

std::vector<std::string> left_out_of_space(const Answer& answer) {
  const Pins& pins = answer.pins;
  const std::int64_t devices = pins.ranks > 0 ? pins.ranks : answer.cluster.devices();
  std::vector<std::string> left_out;
  const std::string_view context =
      context_left_out(answer.sequence, answer.global_batch, devices, pins);
  if (!context.empty()) left_out.emplace_back(context);
  const bool has_pipelines =
      std::ranges::any_of(answer.search.rejected,
                          [](const Rejected& row) { return row.family.pipeline; }) ||
      (answer.best && answer.best->planned.plan.parallel.pp > 1);
  if (has_pipelines && !pins.has("/parallel/schedule") && !pins.has("/parallel/chunks"))
    left_out.emplace_back("schedules but 1F1B, tried on the best");
  return left_out;
}

std::string tier_reason(const Answer& answer) {
  if (!answer.search.best || answer.objective.headroom) return "";  // which likes slower tiers
  const Family own = family_of(answer.search.best->plan);
  const Tier farthest = own.nvme ? Tier::kNvme : own.cpu ? Tier::kCpu : Tier::kGpu;
  if (farthest == Tier::kGpu) return "";
  const Infeasible* least = nullptr;
  for (const Rejected& line : answer.search.rejected) {
    const bool without = farthest == Tier::kNvme ? !line.family.nvme : !line.family.cpu;
    if (!without || (farthest == Tier::kCpu && line.family.nvme)) continue;
    if (!line.best.infeasible) return "";  // would fit
    const Infeasible& why = *line.best.infeasible;
    if (least == nullptr || why.overload() < least->overload()) least = &why;
  }
  if (least == nullptr) return "";
  return fmt::format("only with {}; without it {}", farthest == Tier::kNvme ? "NVMe" : "CPU memory",
                     shortage(*least));
}

}  // namespace zplan
