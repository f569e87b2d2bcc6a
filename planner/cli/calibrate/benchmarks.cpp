#include "planner/cli/calibrate/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"
#include "planner/program/job/names.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

constexpr double kShortMinutes = 2, kLongMinutes = 5;  // [assumed] with what it takes to set up
constexpr int kSteps = 10;

using Lines = std::vector<std::string>;
using Constants = std::vector<Constant>;

// An operation of a contender that stands for those that rest on the same constants.
struct Timed {
  const CostModel* model = nullptr;
  int stage = 0;
  const Node* node = nullptr;
  const OpCost* cost = nullptr;
  double seconds = 0;  // of a step that rest on the constant asked for

  const Program& program() const {
    return model->job().classes[static_cast<std::size_t>(stage)].program;
  }
  Demand demand() const { return demand_of(program(), *node); }
};

double elasticity(const Reliances& rests, Constant constant) {
  for (const Reliance& row : rests.rows())
    if (row.constant == constant) return std::abs(row.elasticity);
  return 0;
}

// Of the time of a lane the share that the compute lane does not hide.
double exposed_share(const sim::SimResult& sim, int stage, Lane lane) {
  for (const sim::LaneReport& row : sim.lanes)
    if (row.stage == stage && row.lane == lane && row.busy.value > 0)
      return row.exposed.value / row.busy.value;
  return 0;
}

class Operations {
 public:
  Operations(const std::vector<Rival>& rivals, const Cluster& cluster) : rivals_(rivals) {
    for (const Rival& rival : rivals) models_.emplace_back(rival.job, cluster);
  }

  // The operation that most time of a step rests on the constant by, of the first contender that
  // has one.
  std::optional<Timed> most(Constant constant) const {
    for (std::size_t i = 0; i < rivals_.size(); ++i) {
      const auto rests = [&](const Timed& op, std::int64_t times) {
        return elasticity(op.cost->rests, constant) * to_seconds(op.cost->alone).value *
               static_cast<double>(times);
      };
      if (auto found = greatest(i, rests)) return found;
    }
    return {};
  }

  // The same of the host's times.
  std::optional<Timed> most_launched(Constant constant) const {
    for (std::size_t i = 0; i < rivals_.size(); ++i) {
      const auto rests = [&](const Timed& op, std::int64_t times) {
        return elasticity(op.cost->launch_rests, constant) * to_seconds(op.cost->launch).value *
               static_cast<double>(times);
      };
      if (auto found = greatest(i, rests)) return found;
    }
    return {};
  }

  // The collective of all contenders that exposes most time by the constant.
  std::optional<Timed> most_exposed(Constant constant) const {
    std::optional<Timed> most;
    for (std::size_t i = 0; i < rivals_.size(); ++i) {
      const auto exposed = [&](const Timed& op, std::int64_t times) {
        if (op.node->kind != OpKind::kCollective) return 0.0;
        return exposed_share(rivals_[i].sim, op.stage, op.node->lane) *
               elasticity(op.cost->rests, constant) * to_seconds(op.cost->alone).value *
               static_cast<double>(times);
      };
      const auto found = greatest(i, exposed);
      if (found && (!most || found->seconds > most->seconds)) most = found;
    }
    return most;
  }

 private:
  template <typename Weight>
  std::optional<Timed> greatest(std::size_t rival, const Weight& weight) const {
    const CostModel& model = models_[rival];
    std::optional<Timed> most;
    for (int stage = 0; stage < static_cast<int>(model.job().classes.size()); ++stage) {
      Timed op{.model = &model, .stage = stage};
      const std::vector<std::int64_t> times = instances_per_step(op.program());
      for (std::size_t i = 0; i < times.size(); ++i) {
        op.node = &op.program().nodes[i];
        op.cost = &model.costs(stage)[i];
        op.seconds = weight(op, times[i]);
        if (op.seconds > (most ? most->seconds : 0)) most = op;
      }
    }
    return most;
  }

  const std::vector<Rival>& rivals_;
  std::deque<CostModel> models_;
};

Reading reading_of(const Reliances& rests, const Constants& told) {
  Reading reading{std::vector<double>(constant_count())};
  for (const Reliance& row : rests.rows())
    if (std::ranges::find(told, row.constant) != told.end())
      reading.reliances[row.constant] = row.elasticity;
  return reading;
}

Constants rates(std::initializer_list<double StackRates::*> members,
                std::initializer_list<HardwareTime> hardware) {
  Constants constants;
  for (double StackRates::*const member : members) constants.push_back(constant_of(member));
  for (const HardwareTime kind : hardware) constants.push_back(constant_of(kind));
  return constants;
}

std::string product_words(const Timed& op) {
  const Product product = op.demand().product;
  return fmt::format("matrix product [{}, {}] x [{}, {}] in {}", product.m, product.k, product.k,
                     product.n,
                     format_of(op.program(), *op.node, built_in_kernels(op.model->job())));
}

std::string attention_words(const Timed& op) {
  const Demand demand = op.demand();
  if (demand.kind != WorkKind::kAttention) return "products of scores and softmax of attention";
  return fmt::format("fused attention of {} x {} heads of size {}, {} tokens, both passes",
                     demand.attention.batch, demand.attention.heads, demand.attention.head_size,
                     demand.attention.sequence);
}

std::string stream_words(const Timed& /*op*/) {
  return "kernels bound by device memory: norms, cross entropy, update";
}
std::string launch_words(const Timed& /*op*/) { return "host times: launches, waits of a layer"; }
std::string copy_words(const Timed& op) {
  return fmt::format("a copy of {} between host and device",
                     format_bytes(op.program().operands(*op.node)[0].bytes()));
}
std::string update_words(const Timed& /*op*/) { return "update and sums of gradients on the host"; }

// What runs on one device and its host.
struct Alone {
  Constants subjects;  // an operation of each is read
  Constants told;
  bool launches = false;    // the host's times are read
  bool calibrated = false;  // `zplan calibrate` measures it for kernels of our own
  std::string (*words)(const Timed& first);
};
std::vector<Alone> alone_rows() {
  using S = StackRates;
  using H = HardwareTime;
  return {
      {rates({&S::gemm, &S::gemm_fp8}, {}), rates({&S::gemm, &S::gemm_fp8}, {H::kProducts}), false,
       true, product_words},
      {rates({&S::attention_forward, &S::attention_backward, &S::scores, &S::softmax}, {}),
       rates({&S::attention_forward, &S::attention_backward, &S::attention_older, &S::scores,
              &S::softmax},
             {H::kAttention, H::kProducts, H::kMemory}),
       false, true, attention_words},
      {rates({&S::elementwise, &S::loss, &S::optimizer}, {}),
       rates({&S::elementwise, &S::loss, &S::optimizer}, {H::kMemory}), false, true, stream_words},
      {rates(
           {&S::host_forward, &S::host_backward, &S::host_collective, &S::host_sync, &S::host_step},
           {H::kLaunch}),
       rates(
           {&S::host_forward, &S::host_backward, &S::host_collective, &S::host_sync, &S::host_step},
           {H::kLaunch}),
       true, true, launch_words},
      {rates({&S::host_copies}, {}), rates({&S::host_copies, &S::staged_copies}, {H::kHostLink}),
       false, true, copy_words},
      {rates({&S::cpu_update, &S::cpu_accumulate}, {}),
       rates({&S::cpu_update, &S::cpu_accumulate}, {H::kHostMemory}), false, false, update_words}};
}

// Our own stack has no figures of its own: what `calibrate` measures is all that there is.
bool is_own(const Evidence& evidence) { return is_ideal(evidence.stack); }

Lines stack_lines(const Lines& predicted, const Evidence& evidence) {
  return {fmt::format("time it as stack {} runs it, warmed up; predicted: {}", evidence.stack.name,
                      joined(predicted, ", ")),
          "multiply its rates by measured / predicted in a copy of the stack's file; --for FILE"};
}

std::optional<Benchmark> alone(const Alone& row, const Operations& operations,
                               const Evidence& evidence) {
  Benchmark benchmark{.what = {}, .run = {}, .minutes = kLongMinutes, .measurement = {}};
  Lines predicted;
  for (const Constant subject : row.subjects) {
    const auto op = row.launches ? operations.most_launched(subject) : operations.most(subject);
    if (!op) continue;
    if (benchmark.what.empty()) benchmark.what = row.words(*op);
    const OpCost& cost = *op->cost;
    benchmark.measurement.push_back(
        reading_of(row.launches ? cost.launch_rests : cost.rests, row.told));
    const Seconds time = to_seconds(row.launches ? cost.launch : cost.alone);
    const std::string told = fmt::format("{} {}", name(op->node->role), format_seconds(time));
    if (std::ranges::find(predicted, told) == predicted.end()) predicted.push_back(told);
  }
  if (benchmark.measurement.empty()) return {};
  benchmark.run = stack_lines(predicted, evidence);
  return benchmark;
}

std::string base_of(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  return node.file.empty() ? node.name : in_quotes(node.file);
}

std::string import_line(const std::string& file, const Cluster& cluster) {
  return fmt::format("./zplan calibrate --import {} --base {} -o my-node.json", file,
                     base_of(cluster));
}

std::string calibrate_line(const Cluster& cluster, bool on_cpu) {
  return fmt::format("./zplan calibrate --device {} --base {} -o my-node.json",
                     on_cpu ? "cpu" : "cuda", base_of(cluster));
}

Benchmark calibration(std::vector<Benchmark> parts, const Cluster& cluster, bool on_cpu) {
  Benchmark all{"one device alone: products, attention, memory, launches, copies",
                {calibrate_line(cluster, on_cpu)},
                kShortMinutes,
                {}};
  for (Benchmark& part : parts)
    all.measurement.insert(all.measurement.end(), part.measurement.begin(), part.measurement.end());
  return all;
}

// As nccl-tests runs it, or, of the GPUs of a node, `zplan calibrate`. Groups that meet beside it
// are left out.
std::optional<Benchmark> collective(const Operations& operations, HardwareTime links,
                                    const Cluster& cluster) {
  const auto op = operations.most_exposed(constant_of(links));
  if (!op) return {};
  const std::span<const View> views = op->program().operands(*op->node);
  const std::int64_t bytes = std::max(views[0].bytes(), views[1].bytes()).value;
  const int ranks = op->model->job().mesh.size(op->node->group);
  const int nodes =
      Wiring(op->model->job().mesh, cluster).reach(op->node->group, op->stage).islands;
  const std::string kind(name(op->node->collective));
  Lines run;
  if (ranks <= cluster.node.devices_per_node && find_measured_collective(kind))
    run = {calibrate_line(cluster, false) + ", on a machine with these GPUs; or"};
  for (std::string line :
       {fmt::format("mpirun -np {} -npernode {} {}_perf -g 1 -b {} -e {} -f 2 > {}.txt", ranks,
                    (ranks + nodes - 1) / nodes, kind, std::max<std::int64_t>(1024, bytes / 4),
                    std::max<std::int64_t>(4096, bytes * 4), kind),
        import_line(kind + ".txt", cluster)})
    run.push_back(std::move(line));
  return Benchmark{
      fmt::format("{} of {} over {} ranks on {}", kind, format_bytes({bytes}), ranks,
                  nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes)),
      std::move(run),
      kShortMinutes,
      {reading_of(op->cost->rests, rates({&StackRates::network},
                                         {HardwareTime::kPeerLinks, HardwareTime::kNetwork}))}};
}

std::optional<Benchmark> drives(const Operations& operations, const Cluster& cluster) {
  const auto op = operations.most(constant_of(HardwareTime::kDrives));
  if (!op) return {};
  const NvmeProfile& nvme = cluster.node.nvme;
  return Benchmark{
      fmt::format("reads and writes of {} of a node in blocks of {}",
                  nvme.drives == 1 ? "the drive" : fmt::format("the {} drives", nvme.drives),
                  format_bytes(nvme.block)),
      {fmt::format("fio --directory=DIR{} --size=16G --direct=1 --ioengine=libaio --bs={} "
                   "--iodepth={} --runtime=30 --time_based --output-format=json --name=read "
                   "--rw=read --name=write --stonewall --rw=write > fio.json",
                   nvme.drives == 1 ? "" : fmt::format(":DIR.. --numjobs={}", nvme.drives),
                   nvme.block.value, nvme.queue_depth),
       import_line("fio.json", cluster)},
      kShortMinutes,
      {reading_of(op->cost->rests, rates({}, {HardwareTime::kDrives}))}};
}

bool runs_on_cpu(const std::vector<Rival>& rivals) {
  return find_kernel_set(rivals.front().plan.kernel_set).runs_on == RunsOn::kCpu;
}

}  // namespace

std::vector<Benchmark> benchmarks(const std::vector<Rival>& rivals, const Cluster& cluster,
                                  const Evidence& evidence) {
  const Operations operations(rivals, cluster);
  const bool on_cpu = runs_on_cpu(rivals);
  std::vector<Benchmark> found, together;
  const auto add = [](std::vector<Benchmark>& to, std::optional<Benchmark> benchmark) {
    if (benchmark) to.push_back(std::move(*benchmark));
  };
  for (const Alone& row : alone_rows())
    add(row.calibrated && is_own(evidence) ? together : found, alone(row, operations, evidence));
  if (!together.empty()) found.push_back(calibration(std::move(together), cluster, on_cpu));
  add(found, drives(operations, cluster));
  if (on_cpu) return found;  // nccl-tests need GPUs
  add(found, collective(operations, HardwareTime::kPeerLinks, cluster));
  add(found, collective(operations, HardwareTime::kNetwork, cluster));
  return found;
}

Benchmark step_benchmark(const std::vector<Rival>& rivals, std::size_t rival,
                         const Evidence& evidence) {
  const Rival& plan = rivals[rival];
  constexpr double kMinute = 60;
  return {fmt::format("{} steps of {}", kSteps, short_words(plan.plan)),
          {fmt::format("train {} steps with it in stack {}, write its step time as a record "
                       "(zplan.runs/2)",
                       kSteps, evidence.stack.name),
           "the same question with --anchor run.jsonl"},
          kLongMinutes + kSteps * plan.sim.period.value / kMinute,
          {{plan.sim.reliances, rival, kStepNoise}}};
}

std::string short_words(const Plan& plan) {
  const Parallel& ranks = plan.parallel;
  return fmt::format("{}: dp {}, tp {}, pp {}, micro-batch {}", name(family_of(plan)), ranks.dp,
                     ranks.tp, ranks.pp, plan.batch.micro_batch);
}

}  // namespace zplan
