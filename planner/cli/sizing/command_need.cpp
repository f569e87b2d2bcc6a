// `zplan need`: the fewest nodes of each kind that train a model, in time where one is asked for.
// JSON schema "zplan.need/1".
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_spelling.h"
#include "hwprofiles/node_file.h"
#include "hwprofiles/quantities.h"
#include "models/model_formulas.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/cli/sizing/goodput_answer.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/foreign/model_file.h"
#include "planner/lower/lower.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/group_floors.h"
#include "planner/search/questions/fewest_nodes.h"
#include "planner/software/choice.h"

namespace zplan {
namespace {

constexpr std::int64_t kSimulations = 8;  // for each count of nodes
constexpr double kHoursPerDay = 24;

struct NeedRow {
  Cluster kind;
  StackProfile software;
  FewestNodes fewest;
  std::optional<GoodputAnswer> goodput;  // of what was found; of the closest otherwise
};

// [assumed] What is older, V100 and before, nobody sells or rents out any more.
constexpr int kOldestCapability = 80;
constexpr std::int64_t kMostGpus = 32'768;

// At the fastest format of its products.
FlopsPerSecond peak_of(const DeviceProfile& device) {
  FlopsPerSecond peak{};
  for (const auto& [format, rate] : device.peaks) peak = std::max(peak, rate);
  return peak;
}

// Of the catalogue those with GPUs that one can buy or rent today, those with the fastest GPUs
// first: the fewest of them do, so that they are answered soonest.
std::vector<std::string> usual_kinds() {
  std::vector<HwProfile> nodes = node_catalogue();
  std::erase_if(nodes, [](const HwProfile& node) {
    const std::string& kernels = node.device.kernel_set;
    return !kernels.starts_with("cuda.") || find_kernel_set(kernels).capability < kOldestCapability;
  });
  std::ranges::stable_sort(nodes, std::ranges::greater{},
                           [](const HwProfile& node) { return peak_of(node.device).value; });
  std::vector<std::string> kinds;
  for (const HwProfile& node : nodes) kinds.push_back(node.name);
  return kinds;
}

// The name of a GPU alone stands for its whole node.
Cluster load_kind(const std::string& typed) {
  const VariedName name = split_settings(typed);
  const std::string node = looks_like_path(name.plain) ? "" : whole_node_of(name.plain);
  if (node.empty()) return load_cluster(typed);
  Cluster kind = load_cluster(with_settings(node, name.settings));
  if (to_lower(name.plain) != node)
    kind.understood = {fmt::format("{} is counted in whole nodes: {} with {}", visible(typed), node,
                                   count_of(kind.node.devices_per_node, "GPU"))};
  return kind;
}

// The kinds asked for, or the usual ones.
std::vector<Cluster> kinds_of(const NeedCommand& command) {
  std::vector<Cluster> kinds;
  for (const std::string& name : command.kinds) kinds.push_back(load_kind(name));
  if (kinds.empty()) {
    for (const std::string& name : usual_kinds()) kinds.push_back(load_cluster(name));
  }
  for (Cluster& kind : kinds) kind = varied(std::move(kind), command.question.changes);
  return kinds;
}

std::string kind_name(const Cluster& kind) {
  return with_settings(kind.node.name, split_settings(kind.name).settings);
}

Cluster with_nodes(Cluster kind, std::int64_t nodes) {
  kind.nodes = static_cast<int>(nodes);
  const std::string plain =
      nodes == 1 ? kind.node.name : fmt::format("{}x{}", kind.node.name, nodes);
  kind.name = with_settings(plain, split_settings(kind.name).settings);
  return kind;
}

// Of a kind; one where nodes do not meet.
std::int64_t most_nodes(const HwProfile& node, const NeedCommand& command) {
  if (node.topology.nics() == 0) return 1;
  return command.most_nodes.value_or(std::max<std::int64_t>(1, kMostGpus / node.devices_per_node));
}

class Need {
 public:
  Need(const NeedCommand& command, const ModelConfig& model) : command_(command), model_(model) {}

  // Returns what one node takes at the peak of its GPUs; zero where the model has no such bound.
  Seconds least_time_of_node(const Cluster& kind) {
    Cluster node = with_nodes(kind, 1);
    Pins pins = command_.question.pins;
    use_ = software_of(kind);
    plan_for_software(use_, model_, node, pins);
    return least_time(node, pins);
  }

  NeedRow row(const Cluster& kind) {
    use_ = software_of(kind);
    NeedRow row{.kind = kind, .software = use_.evidence.stack, .fewest = {}, .goodput = {}};
    const std::int64_t most = most_nodes(kind.node, command_);
    floors_ = make_floors(with_nodes(kind, most));
    std::int64_t& alike = found_[{kind.node.device.name, kind.node.devices_per_node}];
    row.fewest = fewest_nodes(
        most, [&](std::int64_t nodes) { return try_nodes(kind, nodes); },
        InterruptGuard::interrupted, alike);
    if (row.fewest.found) alike = row.fewest.found->nodes;
    const NodeCount& count = row.fewest.found ? *row.fewest.found : row.fewest.closest;
    if (count.best) row.goodput = known_.at(count.nodes);
    known_.clear();
    return row;
  }

 private:
  // The software of --for; without one that which zplan plan asks first for such GPUs, if it ever
  // ran on more than one.
  StackUse software_of(const Cluster& kind) const {
    const PlanCommand& question = command_.question;
    std::string name = question.stack;
    if (name.empty() && question.anchor.empty())
      for (const MeasuredSoftware& software :
           software_for(with_nodes(kind, 1), parameter_count(model_)))
        if (name.empty() && software.on_generation && software.most_devices > 1)
          name = software.profile.name;
    return find_stack_use(name, question.anchor, &kind);
  }

  NodeCount try_nodes(const Cluster& kind, std::int64_t nodes) {
    progress_.show(fmt::format("sizing: {} of {}", count_of(nodes, "node"), kind_name(kind)));
    NodeCount count{.nodes = nodes, .best = {}, .why = {}, .good = false};
    Cluster cluster = with_nodes(kind, nodes);
    cluster.headroom = command_.question.headroom;
    Pins pins = command_.question.pins;
    plan_for_software(use_, model_, cluster, pins);
    if (const Seconds least = least_time(cluster, pins); is_too_long(least)) {
      count.why =
          fmt::format("{} at the peak of {}", run_words(least), count_of(cluster.devices(), "GPU"));
      count.too_slow = true;
      return count;
    }
    try {
      find_best(cluster, pins, count);
    } catch (const Error& error) {  // the batch does not divide into so many
      if (error.code() != ExitCode::kBadInput) throw;
      count.why = error.what();
    }
    if (count.best) {
      const GoodputAnswer& goodput =
          known_.insert_or_assign(nodes, goodput_of(kind, count)).first->second;
      count.good = goodput.ends() && !is_too_long(goodput.time());
      count.too_slow = !count.good;
      count.time = goodput.ends() ? goodput.time() : Seconds{};
      if (!count.good)
        count.why =
            fmt::format("{} with {}", run_words(goodput), count_of(cluster.devices(), "GPU"));
    }
    return count;
  }

  // Only where the floors of the space do not say that each plan takes too long.
  void find_best(const Cluster& cluster, const Pins& pins, NodeCount& count) const {
    if (const Seconds least = least_time_of_plans(cluster, pins); is_too_long(least)) {
      count.why = fmt::format("{} by the bounds of plans for {}", run_words(least),
                              count_of(cluster.devices(), "GPU"));
      count.too_slow = true;
      return;
    }
    const SearchOptions options{.threads = command_.question.threads,
                                .max_simulated = kSimulations,
                                .stop = InterruptGuard::interrupted};
    const Evaluator evaluator = make_evaluator(model_, cluster);
    SearchResult found = search(model_, cluster, pins, evaluator, options);
    count.best = std::move(found.best);
    if (!count.best)
      count.why = found.closest ? shortage(*found.closest->infeasible) : "no plan fits";
  }

  // Floors rest on kernels and on how ranks that work on a layer together meet, and what fits on
  // the memory of the nodes used: with more nodes beside them these stay what they are.
  Evaluator make_floors(Cluster largest) const {
    Pins pins = command_.question.pins;
    largest.headroom = command_.question.headroom;
    plan_for_software(use_, model_, largest, pins);
    return make_evaluator(model_, largest);
  }

  // Of all that is to be trained on; zero where no plan fits or it may be in time.
  Seconds least_time_of_plans(const Cluster& cluster, const Pins& pins) const {
    if (command_.within.value < 0) return {};
    const auto batch = pins.get<std::int64_t>("/batch/global_batch", model_.global_batch);
    const auto sequence = pins.get<std::int64_t>("/batch/sequence", model_.sequence);
    const double steps = command_.tokens / static_cast<double>(batch * sequence);
    const Seconds enough = command_.within / steps;
    const auto floor =
        least_floor(model_, cluster, pins, floors_, command_.question.threads, enough);
    return floor && !(*floor < enough) ? *floor * steps : Seconds{};
  }

  bool is_too_long(Seconds time) const {
    return command_.within.value >= 0 && time > command_.within;
  }

  // The peak in the format of the products, where the kernels name one; else the highest.
  static double product_peak(const Cluster& cluster, const Pins& pins) {
    const DeviceProfile& device = cluster.node.device;
    const KernelSet& kernels = find_kernel_set(pins.get("/kernel_set", device.kernel_set));
    const std::string_view format = kernels.compute == DType::kBf16  ? "bf16"
                                    : kernels.compute == DType::kF16 ? "fp16"
                                                                     : "";
    const auto peak = device.peaks.find(format);
    const bool is_known = kernels.layer_products == LayerProducts::kAsStored;
    return (is_known && peak != device.peaks.end() ? peak->second : peak_of(device)).value;
  }

  // [derived] Each element of a matrix takes part in three products of two flop per token, at the
  // peak of the device. Of models whose elements do so for every token.
  Seconds least_time(const Cluster& cluster, const Pins& pins) const {
    constexpr double kFlops = 6;
    if (model_.experts || model_.encoder_layers > 0 || model_.has_pattern() ||
        pins.has("/train/what"))
      return {0};
    const double peak = product_peak(cluster, pins) * cluster.devices();
    const auto elements = static_cast<double>(matmul_parameter_count(model_));
    return {kFlops * elements * command_.tokens / peak};
  }

  GoodputAnswer goodput_of(const Cluster& kind, const NodeCount& count) const {
    const Job job = lower(count.best->plan, model_);
    return find_goodput(job, static_cast<double>(parameter_count(model_)), model_.vocab,
                        with_nodes(kind, count.nodes), *count.best->step, command_.tokens,
                        command_.failures);
  }

  const NeedCommand& command_;
  const ModelConfig& model_;
  StackUse use_;
  Evaluator floors_;  // of plans on any number of nodes of the kind at hand
  Progress progress_;
  std::map<std::int64_t, GoodputAnswer> known_;  // of the kind at hand, by nodes
  // Nodes of the last kind with as many of these devices, to begin with.
  std::map<std::pair<std::string, int>, std::int64_t> found_;
};

// On stderr, as soon as it is known: the other kinds may take a while.
void tell(const NeedRow& row) {
  if (row.fewest.found)
    complain(fmt::format("sizing: {}: {}, {}", kind_name(row.kind),
                         count_of(row.fewest.found->nodes, "node"), run_words(*row.goodput)));
}

// Says on stderr, before any search, what the peak of the GPUs alone asks for.
void tell_bounds(const std::vector<Cluster>& kinds, const NeedCommand& command, Need& need) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> bounds;
  for (const Cluster& kind : kinds) {
    if (bounds.size() == kMostNamed) break;
    const Seconds least = need.least_time_of_node(kind);
    if (least.value <= 0) return;
    const double nodes = std::ceil(least.value / command.within.value);
    bounds.push_back(command.within.value < 0
                         ? fmt::format("{} with one {}", run_words(least), kind_name(kind))
                         : fmt::format("{} {}", grouped(std::llround(nodes)), kind_name(kind)));
  }
  const std::string_view more = kinds.size() > kMostNamed ? " .." : "";
  complain(command.within.value < 0
               ? fmt::format("sizing: at the peak of the GPUs it takes at least {}{}",
                             joined(bounds, ", "), more)
               : fmt::format("sizing: at the peak of the GPUs {} take at least so many nodes: {}{}",
                             run_words(command.within), joined(bounds, ", "), more));
}

// Why no count that was tried is enough.
std::string why_not(const NeedRow& row) {
  const FewestNodes& fewest = row.fewest;
  if (!fewest.interrupted) return fewest.closest.why;
  return fmt::format("interrupted; {}: {}", count_of(fewest.closest.nodes, "node"),
                     fewest.closest.why);
}

Sheet facts_of(const NeedRow& row, const NeedCommand& command) {
  const bool found = row.fewest.found.has_value();
  const NodeCount& count = found ? *row.fewest.found : row.fewest.closest;
  const bool known = count.best && row.goodput && row.goodput->ends();
  const double days = known ? row.goodput->days() : 0;
  const double hours = known ? row.goodput->device_hours() : 0;
  const RunningCost cost = running_cost(command.running, row.kind.node);
  const std::optional<double> money = cost.money(hours);
  const std::optional<double> energy =
      cost.megawatt_hours(days * kHoursPerDay * static_cast<double>(count.nodes));
  const auto when = [](bool is_known, Value value) {
    return is_known ? right(std::move(value)) : right({nullptr, "-"});
  };
  return Sheet(
      {{"kind", kind_name(row.kind)},
       {"software", row.software.name},
       {"found", found},
       {"nodes", found ? Value(count.nodes) : right({nullptr, "-"})},
       {"gpus",
        found ? Value(count.nodes * row.kind.node.devices_per_node) : right({nullptr, "-"})},
       {"family", count.best ? Value(name(family_of(count.best->plan))) : Value("-")},
       {"step_s", when(known, count.best && count.best->step ? Value(*count.best->step) : Value())},
       {"days", when(known, {days, run_words(Seconds{days * kSecondsPerDay})})},
       {"effective_share", when(known, share(known ? row.goodput->goodput.effective : 0))},
       {"gpu_hours", when(known, {hours, amount_words(hours)})},
       {"money", when(known && money, {money.value_or(0), amount_words(money.value_or(0))})},
       {"energy_mwh", when(known && energy, number("{:.3g}", energy.value_or(0)))},
       {"node_watts", cost.watts},
       {"power_source", cost.watts ? Value(cost.watts_source) : Value()},
       {"gpu_hour_price", cost.price},
       {"tried_counts", row.fewest.tried},
       {"why_not", found ? Value() : Value(why_not(row))},
       {"plan", count.best ? as_json(to_json(count.best->plan)) : Value()}});
}

// "up to 1,024 nodes", as given, or as many as make the most GPUs.
std::string limit_words(const NeedCommand& command) {
  return fmt::format("up to {}", command.most_nodes ? count_of(*command.most_nodes, "node")
                                                    : count_of(kMostGpus, "GPU"));
}

std::string verdict_of(const std::vector<NeedRow>& rows, const NeedCommand& command) {
  const NeedRow* least = nullptr;
  const auto gpus = [](const NeedRow& row) {
    return row.fewest.found->nodes * row.kind.node.devices_per_node;
  };
  for (const NeedRow& row : rows)
    if (row.fewest.found && (least == nullptr || gpus(row) < gpus(*least))) least = &row;
  if (least == nullptr)
    return fmt::format(
        "Found no kind of node that trains it{} with {}",
        command.within.value >= 0 ? fmt::format(" --within {}", run_words(command.within)) : "",
        limit_words(command));
  return fmt::format("{} of {} ({}): {}", count_of(least->fewest.found->nodes, "node"),
                     kind_name(least->kind), count_of(gpus(*least), "GPU"),
                     run_words(*least->goodput));
}

std::vector<std::string> softwares_of(const std::vector<NeedRow>& rows) {
  std::vector<std::string> titles;
  for (const NeedRow& row : rows)
    if (const std::string title = software_title(row.software);
        std::ranges::find(titles, title) == titles.end())
      titles.push_back(title);
  return titles;
}

// Says what the counts rest on beside the model.
std::string basis_of(const std::vector<NeedRow>& rows, const NeedCommand& command) {
  std::vector<std::string> parts;
  const bool is_asked = !command.question.stack.empty() || !command.question.anchor.empty();
  parts.push_back(fmt::format("Software: {}{}", joined(softwares_of(rows), ", "),
                              is_asked ? "" : ", as measured on such GPUs (--for)"));
  if (command.within.value < 0)
    parts.emplace_back("no deadline, so the fewest nodes on which a plan fits (--within 60d)");
  for (const NeedRow& row : rows)
    for (const std::string& one : row.kind.understood) parts.push_back(one);
  return joined(parts, "; ");
}

// Says of each kind that is not enough why.
void print_misfits(Sheet& out, const std::vector<NeedRow>& rows) {
  for (const NeedRow& row : rows)
    if (!row.fewest.found)
      out.print(paragraph(fmt::format("{}: {}", kind_name(row.kind), why_not(row)), kIndent));
}

// "dgx-h100, dgx-h200: 10.2 kW a node (..)", of the kinds that are enough.
void print_power(Sheet& out, const std::vector<NeedRow>& rows, const NeedCommand& command) {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const NeedRow& row : rows) {
    const std::string power = power_words(running_cost(command.running, row.kind.node));
    if (power.empty() || !row.fewest.found) continue;
    auto same = std::ranges::find(all, power, &decltype(all)::value_type::first);
    if (same == all.end()) same = all.insert(all.end(), {power, {}});
    same->second.push_back(kind_name(row.kind));
  }
  for (const auto& [power, kinds] : all)
    out.print(paragraph(fmt::format("{}: {}", joined(kinds, ", "), power), kIndent));
}

// "Interrupted after 3 of 28 kinds of nodes, so far: "; nothing where all were tried.
std::string interrupted_words(const std::vector<NeedRow>& rows, std::size_t kinds, bool complete) {
  if (complete) return "";
  const std::size_t done = rows.size() - (rows.back().fewest.interrupted ? 1 : 0);
  return fmt::format("Interrupted after {} of {}; so far: ", done, count_of(kinds, "kind"));
}

// With `kinds` to try.
Sheet need_sheet(const std::vector<NeedRow>& rows, const NeedCommand& command, std::size_t kinds,
                 bool complete) {
  Sheet out("zplan.need/1");
  out.facts(
      {{"model", command.question.model},
       {"tokens", command.tokens},
       {"within_s", command.within.value >= 0 ? Value(command.within) : Value()},
       {"gpu_hour_price", command.running.price >= 0 ? Value(command.running.price) : Value()},
       {"node_watts",
        command.running.node_watts >= 0 ? Value(command.running.node_watts) : Value()},
       {"complete", complete}});
  out.print(interrupted_words(rows, kinds, complete) + verdict_of(rows, command) + "\n");
  out.print(paragraph(basis_of(rows, command)) + "\n");
  std::vector<Column> columns{"kind",
                              "nodes",
                              "gpus: GPUs",
                              "days: takes",
                              "effective_share: useful",
                              "gpu_hours: GPU-hours",
                              "money",
                              "energy_mwh: MWh"};
  if (softwares_of(rows).size() > 1) columns.emplace_back("software");
  columns.emplace_back("family: plan");
  Table table(std::move(columns));
  for (const NeedRow& row : rows) table.row(facts_of(row, command), row.fewest.found.has_value());
  out.table("kinds", table, kIndent);
  print_misfits(out, rows);
  out.print("\n");
  out.print(paragraph(
      fmt::format("Counts tried: powers of two, as long as twice the nodes are at least 10 % "
                  "faster, then eighths between the last that is too few and the first that is "
                  "enough. Each is searched with {} simulated plans, unless bounds say that all "
                  "take too long, so fewer nodes may do with a longer search. Times count failures "
                  "and checkpoints as zplan goodput. Energy: nodes x --node-power throughout, else "
                  "the most that a node draws.",
                  kSimulations),
      kIndent));
  print_power(out, rows, command);
  return out;
}

}  // namespace

ExitCode execute(const NeedCommand& command) {
  const NamedModel named = load_named_model(command.question.model);
  const ModelConfig& model = named.model;
  tell_left_out(model.name, named.left_out);
  std::vector<NeedRow> rows;
  std::vector<Cluster> kinds;
  {
    const InterruptGuard guard;
    Need need(command, model);
    kinds = kinds_of(command);
    tell_bounds(kinds, command, need);
    for (const Cluster& kind : kinds) {
      rows.push_back(need.row(kind));
      tell(rows.back());
      if (InterruptGuard::interrupted()) break;
    }
  }
  const bool complete = !InterruptGuard::interrupted();
  write_answer(need_sheet(rows, command, kinds.size(), complete), command.question.json);
  if (!complete) return ExitCode::kInterrupted;
  const bool any = std::any_of(rows.begin(), rows.end(),
                               [](const NeedRow& row) { return row.fewest.found.has_value(); });
  return any ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
