#include "exec/measure/node_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "exec/comm/collective.h"
#include "exec/measure/case_run.h"
#include "exec/measure/cold_timing.h"
#include "exec/measure/rank_threads.h"
#include "exec/schedule/queues.h"
#include "planner/core/error.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

constexpr std::array kCommLanes{Lane::kCommReduce};
constexpr double kMostMeetingsInBatch = 1000;
constexpr int kLonger = 2;  // than what is measured runs what is beside it
constexpr std::chrono::microseconds kPoll{20};
constexpr Effort kGroupFull{0.05, 5}, kGroupShort{0.01, 3};

// A rank's work on two lanes, which other ranks do as often.
struct Batch {
  CollectiveKind kind{};
  std::int64_t bytes = 0;
  int collectives = 0, products = 0;
};
// Of the slowest rank, by the clock of its device; 0: nothing was on the lane.
struct LaneTimes {
  double collectives = 0, products = 0;
};

// Each kind of collective among all ranks; node i is that of kind i.
Job meeting_job(int ranks) {
  Job job;
  const std::array axes{NamedSize{kDataAxis, ranks}, NamedSize{kPipelineAxis, 1}};
  const std::array order{kDataAxis, kPipelineAxis};
  job.mesh = make_mesh(axes, order);
  Program& program = job.classes.emplace_back().program;
  program.blocks.emplace_back();
  for (int kind = 0; kind < kCollectiveKindCount; ++kind) {
    Node node;
    node.role = {Phase::kBackward, Part::kLayer, Action::kReduce};
    node.kind = OpKind::kCollective;
    node.lane = kCommLanes.front();
    node.collective = static_cast<CollectiveKind>(kind);
    node.group = {job.mesh.named(kDataAxis)};
    program.blocks[0].items.push_back({false, static_cast<std::uint32_t>(kind)});
    program.nodes.push_back(node);
  }
  return job;
}

Case product_case(const NodeCollectiveOptions& options) {
  return {.kernel = KernelId::kMatmulForward,
          .sizes = {{"T", options.tokens}, {"k", options.inputs}, {"n", options.outputs}}};
}

Values drawn_inputs(const Case& call, const KernelSet& set) {
  std::mt19937_64 random;  // values do not matter to the time of a kernel
  return draw_inputs(call, set, random);
}

// One rank. As in a run one thread makes those of all, each with its memory and the first work of
// its streams, and then each has a thread of its own.
class GroupRank {
 public:
  GroupRank(Device& device, const KernelSet& set, const NodeCollectiveOptions& options, int rank,
            RankThreads& threads)
      : device_(&device),
        options_(&options),
        dtype_(set.compute),
        rank_(rank),
        threads_(&threads),
        in_(device.make_slab(Tier::kGpu, most_bytes())),
        out_(device.make_slab(Tier::kGpu, most_bytes())),
        product_(device, set, product_case(options), drawn_inputs(product_case(options), set),
                 kCommLanes),
        queues_(product_.backend().queues()) {
    for (LaneEvents* lane : {&collectives_, &products_})
      *lane = {queues_->make_event(true), queues_->make_event(true)};
  }
  GroupRank(const GroupRank&) = delete;
  GroupRank& operator=(const GroupRank&) = delete;

  // Of a meeting_job(); all that follows is called by the rank's thread.
  void connect(const Job& job) {
    product_.backend().prepare_thread();
    const auto exchange = [this](const std::string& own) { return threads_->exchange(rank_, own); };
    const auto check = [this] { threads_->check(); };
    comm_ = device_->make_comm(*queues_, {&job, rank_, exchange, options_->deadline, check});
  }
  // As many bytes as these that all members can have parts of.
  std::int64_t whole_bytes(std::int64_t bytes) const {
    const std::int64_t unit = size_of(dtype_).value * threads_->ranks();
    return std::max<std::int64_t>(1, bytes / unit) * unit;
  }
  // Of one; the same on all ranks, as all figures are.
  double seconds_of_collective(CollectiveKind kind, std::int64_t bytes);
  // Of both, alone and beside each other; words begin with what is measured.
  std::vector<Measurement> contention(CollectiveKind kind, std::int64_t bytes);

  // Ends what is under way, after a failure.
  void abandon() noexcept;

 private:
  struct LaneEvents {
    EventId started{}, done{};
  };

  Bytes most_bytes() const {
    return Bytes{whole_bytes(std::max(options_->sizes.back(), options_->beside))};
  }
  int times_of(double one) const {
    return static_cast<int>(std::clamp(options_->effort.seconds / one, 1.0, kMostMeetingsInBatch));
  }
  CollectiveCall call_of(const Batch& batch) const;
  LaneTimes run(const Batch& batch);
  double seconds_between(const LaneEvents& lane);
  // The median of one where so many follow each other.
  double median_each(const Batch& batch, double LaneTimes::*lane, int times);

  Device* device_;
  const NodeCollectiveOptions* options_;
  DType dtype_;
  int rank_;
  RankThreads* threads_;
  std::unique_ptr<QueuedComm> comm_;  // goes after the queues
  Slab in_, out_;
  CaseRun product_;
  Queues* queues_;
  LaneEvents collectives_, products_;
};

CollectiveCall GroupRank::call_of(const Batch& batch) const {
  const std::int64_t all = batch.bytes / size_of(dtype_).value;
  return {.kind = batch.kind,
          .dtype = dtype_,
          .elements = is_cut(batch.kind) ? all / threads_->ranks() : all,
          .input = in_.data(),
          .output = out_.data()};
}

double GroupRank::seconds_between(const LaneEvents& lane) {
  while (!queues_->reached(lane.done)) {
    comm_->check();
    threads_->check();
    std::this_thread::sleep_for(kPoll);
  }
  const auto own = queues_->time_of(lane.done) - queues_->time_of(lane.started);
  const std::vector<double> all =
      threads_->exchange(rank_, std::chrono::duration<double>(own).count());
  return *std::max_element(all.begin(), all.end());
}

// Both lanes in turn: none waits for the host to have queued all that is on the other one. Each
// says by itself when it is done, whatever the other one still has to do.
LaneTimes GroupRank::run(const Batch& batch) {
  const CollectiveCall call = call_of(batch);
  Instance at;
  at.node = static_cast<NodeIndex>(batch.kind);
  threads_->meet();
  const auto turn = [&](Lane lane, const LaneEvents& events, int i, int times,
                        const auto& queue_one) {
    if (i == 0 && times > 0) queues_->record(lane, events.started);
    if (i < times) queue_one();
    if (i + 1 == times) queues_->record(lane, events.done);
  };
  for (int i = 0; i < std::max(batch.collectives, batch.products); ++i) {
    turn(kCommLanes.front(), collectives_, i, batch.collectives,
         [&] { comm_->collective(rank_, at, call); });
    turn(Lane::kCompute, products_, i, batch.products, [&] { product_.launch(); });
  }
  LaneTimes times;
  if (batch.products > 0) times.products = seconds_between(products_);
  if (batch.collectives > 0) times.collectives = seconds_between(collectives_);
  return times;
}

double GroupRank::median_each(const Batch& batch, double LaneTimes::*lane, int times) {
  std::vector<double> samples;
  for (int i = 0; i < options_->effort.batches; ++i) samples.push_back(run(batch).*lane / times);
  return median_of(std::move(samples));
}

double GroupRank::seconds_of_collective(CollectiveKind kind, std::int64_t bytes) {
  Batch batch{kind, bytes, 1, 0};
  run(batch);  // the first one may be slower
  const int times = batch.collectives = times_of(run(batch).collectives);
  return median_each(batch, &LaneTimes::collectives, times);
}

std::vector<Measurement> GroupRank::contention(CollectiveKind kind, std::int64_t bytes) {
  run({kind, bytes, 0, 1});
  const int products = times_of(run({kind, bytes, 0, 1}).products);
  const double product = median_each({kind, bytes, 0, products}, &LaneTimes::products, products);
  const double collective = seconds_of_collective(kind, bytes);
  const int collectives = times_of(collective);
  const auto beside = [](int times, double own, double other) {
    return static_cast<int>(kLonger * times * own / other) + 1;
  };
  const double slow_product =
      median_each({kind, bytes, beside(products, product, collective), products},
                  &LaneTimes::products, products);
  const double slow_collective =
      median_each({kind, bytes, collectives, beside(collectives, collective, product)},
                  &LaneTimes::collectives, collectives);
  const std::string group =
      fmt::format("{} of {} bytes among {}", name(kind), bytes, threads_->ranks());
  const std::string size =
      fmt::format("product, {} x {} x {}", options_->tokens, options_->outputs, options_->inputs);
  const auto line = [](const std::string& what, const std::string& other, double slow,
                       double alone) {
    return Measurement{
        "contention",
        fmt::format("{} beside {}, {:.2f} times as long as alone", what, other, slow / alone),
        slow};
  };
  return {line(size, group, slow_product, product), line(group, size, slow_collective, collective)};
}

void GroupRank::abandon() noexcept {
  if (comm_) comm_->abort();
  queues_->abandon();
  while (!queues_->is_idle()) std::this_thread::sleep_for(kPoll);
}

// What one group measures, on all its threads; the first one keeps it.
class GroupMeasuring {
 public:
  GroupMeasuring(const NodeCollectiveOptions& options, bool is_last, NodeCollectives& found)
      : options_(&options), is_last_(is_last), found_(&found) {}

  void run(GroupRank& group, int rank, int ranks) {
    for (const CollectiveKind kind : measured_kinds()) {
      NodeCollectives::Curve curve{kind, ranks, {}};
      for (const std::int64_t bytes : options_->sizes)
        if (const auto time = measure(group, rank, kind, bytes); is_new(curve, time))
          curve.times.push_back(time);
      if (rank == 0) found_->curves.push_back(std::move(curve));
    }
    if (!is_last_) return;
    const NodeCollectives::Time least =
        measure(group, rank, CollectiveKind::kShift, options_->sizes.front());
    if (rank == 0) found_->neighbours = least;
    for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather})
      for (Measurement& line : group.contention(kind, group.whole_bytes(options_->beside)))
        if (rank == 0) found_->contention.push_back(std::move(line));
  }

 private:
  // Sizes below what all members have a part of are the same.
  static bool is_new(const NodeCollectives::Curve& curve, const NodeCollectives::Time& time) {
    return curve.times.empty() || curve.times.back().bytes < time.bytes;
  }
  NodeCollectives::Time measure(GroupRank& group, int rank, CollectiveKind kind,
                                std::int64_t bytes) const {
    const std::int64_t whole = group.whole_bytes(bytes);
    const double seconds = group.seconds_of_collective(kind, whole);
    if (rank == 0 && options_->measured)
      options_->measured(
          fmt::format("{} of {} bytes: {:.1f} us", name(kind), whole, seconds * 1e6));
    return {whole, seconds};
  }

  const NodeCollectiveOptions* options_;
  bool is_last_;
  NodeCollectives* found_;
};

void measure_group(std::span<Device* const> devices, const KernelSet& set,
                   const NodeCollectiveOptions& options, bool is_last, NodeCollectives& found) {
  const auto ranks = static_cast<int>(devices.size());
  const Job job = meeting_job(ranks);
  RankThreads threads(ranks);
  GroupMeasuring measuring(options, is_last, found);
  std::vector<std::unique_ptr<GroupRank>> groups;
  for (Device* device : devices)
    groups.push_back(std::make_unique<GroupRank>(*device, set, options,
                                                 static_cast<int>(groups.size()), threads));
  threads.run([&](int rank) {
    const auto group = std::move(groups[static_cast<std::size_t>(rank)]);
    try {
      group->connect(job);
      measuring.run(*group, rank, ranks);
      threads.meet();  // nothing runs anywhere when the first one goes
    } catch (const Stopped&) {
      group->abandon();
    } catch (...) {
      threads.fail(std::current_exception());
      group->abandon();
    }
  });
}

}  // namespace

// [assumed] sizes from what is all start to what is all transfer, of which two and more fit;
// products as those of a layer.
NodeCollectiveOptions node_collective_options(bool quick, Bytes memory) {
  constexpr std::int64_t kLeast = 1 << 12, kMost = 1 << 30, kMostInShort = 1 << 26, kStep = 4;
  constexpr std::int64_t kPartOfMemory = 8;
  const std::int64_t most =
      std::max(kLeast, std::min(quick ? kMostInShort : kMost, memory.value / kPartOfMemory));
  NodeCollectiveOptions options;
  for (std::int64_t bytes = kLeast; bytes <= most; bytes *= kStep) options.sizes.push_back(bytes);
  options.beside = std::min(kMostInShort, most);
  options.tokens = quick ? 2048 : 8192;
  options.inputs = options.outputs = 4096;
  options.effort = quick ? kGroupShort : kGroupFull;
  return options;
}

NodeCollectives measure_node_collectives(std::span<Device* const> devices, const KernelSet& set,
                                         const NodeCollectiveOptions& options) {
  ZPLAN_ASSERT(devices.size() >= 2 && !options.sizes.empty());
  NodeCollectives found;
  for (Device* device : devices) device->check(set);
  for (std::size_t ranks = 2; ranks < devices.size(); ranks *= 2)
    measure_group(devices.first(ranks), set, options, false, found);
  measure_group(devices, set, options, true, found);
  return found;
}

}  // namespace zplan::exec
