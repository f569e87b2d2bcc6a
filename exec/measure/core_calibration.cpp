#include "exec/measure/core_calibration.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <random>
#include <thread>

#include "exec/measure/case_run.h"
#include "exec/measure/cold_timing.h"
#include "exec/measure/copy_stream.h"
#include "exec/measure/core_cases.h"
#include "exec/measure/drive_times.h"
#include "exec/measure/meeting_times.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

constexpr Effort kCoreFull{0.05, 5}, kCoreShort{0.002, 3};
constexpr std::int64_t kMoves[] = {1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
constexpr std::int64_t kMostQuick = 1 << 20;  // bytes

class CoreCalibrator {
 public:
  CoreCalibrator(Device& device, const KernelSet& set, const CoreOptions& options)
      : device_(&device),
        set_(&set),
        options_(&options),
        effort_(options.quick ? kCoreShort : kCoreFull) {
    found_.cores = options.cores;
    for (const std::int64_t bytes : kMoves)
      if (!options.quick || bytes <= kMostQuick) sizes_.push_back(bytes);
  }

  CoreCalibration run() {
    kernels();
    together();
    copies();
    meetings();
    if (!options_->directory.empty()) drives();
    return std::move(found_);
  }

 private:
  std::unique_ptr<CaseRun> make_run(const Case& call, int threads) {
    return std::make_unique<CaseRun>(*device_, *set_, call, draw_inputs(call, *set_, random_),
                                     std::span<const Lane>{}, threads);
  }
  void tell(const std::string& line) const {
    if (options_->measured) options_->measured(line);
  }

  void kernels();
  void together();
  double slowdown_together(const Case& call);
  void copies();
  void meetings();
  void drives();

  Device* device_;
  const KernelSet* set_;
  const CoreOptions* options_;
  Effort effort_;
  std::vector<std::int64_t> sizes_;
  std::mt19937_64 random_;
  Caches caches_;
  CoreCalibration found_;
};

void CoreCalibrator::kernels() {
  for (const CoreCase& c : core_cases(*set_, options_->cores, options_->quick)) {
    const auto run = make_run(c.call, c.threads);
    const double seconds = cold_seconds(
        caches_, [&] { run->read(c.warm); }, [&] { run->launch(); }, effort_);
    found_.kernels.push_back({c.call.kernel, c.threads, c.sizes, seconds});
    tell(fmt::format("{} {} x {} x {} on {} threads: {:.1f} us", name(c.call.kernel), c.sizes[0],
                     c.sizes[1], c.sizes[2], c.threads, seconds * 1e6));
  }
}

// The median time on all cores at once over that on one.
double CoreCalibrator::slowdown_together(const Case& call) {
  std::vector<std::unique_ptr<CaseRun>> runs;
  for (int i = 0; i < options_->cores; ++i) runs.push_back(make_run(call, 1));
  const int times = options_->quick ? 3 : 15;
  const auto median_time = [&](CaseRun& run, const std::function<void()>& ready) {
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) {
      ready();
      seconds.push_back(seconds_of([&] { run.launch(); }));
    }
    return median_of(std::move(seconds));
  };
  runs[0]->launch();
  const double alone = median_time(*runs[0], [] {});
  std::barrier all(options_->cores);
  std::vector<double> medians(runs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < runs.size(); ++i)
      threads.emplace_back([&, i] {
        runs[i]->backend().prepare_thread();
        medians[i] = median_time(*runs[i], [&all] { all.arrive_and_wait(); });
      });
  }
  return std::max(1.0, median_of(medians) / alone);
}

void CoreCalibrator::together() {
  if (options_->cores == 1) return;
  const std::int64_t t = options_->quick ? 64 : 512, k = options_->quick ? 64 : 768;
  const std::int64_t n = options_->quick ? 1 << 18 : 1 << 23;
  found_.products_together = slowdown_together(
      {.kernel = KernelId::kMatmulForward, .sizes = {{"T", t}, {"k", k}, {"n", k}}});
  found_.streams_together =
      slowdown_together({.kernel = KernelId::kResidualAdd, .sizes = {{"*", n}}});
  tell(fmt::format("on all {} cores at once products take {:.3f} times as long, streams {:.3f}",
                   options_->cores, found_.products_together, found_.streams_together));
}

void CoreCalibrator::copies() {
  constexpr std::array kLanes{Lane::kH2d};
  CaseRun run(*device_, *set_, {.kernel = KernelId::kResidualAdd, .sizes = {{"*", 256}}}, {},
              kLanes);
  for (const std::int64_t bytes : sizes_) {
    CopyStream copy(*device_, run.backend(), Lane::kH2d, Bytes{bytes});
    found_.copies.push_back({bytes, cold_seconds(
                                        caches_, [] {}, [&] { copy.queue(); }, effort_)});
    tell(fmt::format("copy of {} bytes: {:.1f} us", bytes, found_.copies.back().seconds * 1e6));
  }
}

void CoreCalibrator::meetings() {
  const MeetingTimes times(effort_);
  found_.wake = times.wake();
  found_.operation = times.operation();
  tell(fmt::format("wake-up of a thread: {:.2f} us, an operation beside its work: {:.2f} us",
                   found_.wake * 1e6, found_.operation * 1e6));
  for (const std::int64_t bytes : sizes_)
    found_.transfers.push_back({bytes, times.transfer(bytes)});
  for (const CollectiveKind kind : measured_kinds())
    for (const int ranks : {2, 4})
      for (const std::int64_t bytes : sizes_) {
        found_.collectives.push_back({kind, ranks, bytes, times.collective(kind, ranks, bytes)});
        tell(fmt::format("{} of {} bytes among {}: {:.1f} us", name(kind), bytes, ranks,
                         found_.collectives.back().seconds * 1e6));
      }
}

void CoreCalibrator::drives() {
  const DriveTimes times(options_->directory, sizes_.back(), effort_);
  for (const std::int64_t bytes : sizes_) {
    found_.reads.push_back({bytes, times.read(bytes)});
    found_.writes.push_back({bytes, times.write(bytes)});
    tell(fmt::format("read of {} bytes: {:.1f} us, write: {:.1f} us", bytes,
                     found_.reads.back().seconds * 1e6, found_.writes.back().seconds * 1e6));
  }
  found_.read_beside_write = times.read_beside_write();
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

CoreCalibration calibrate_cores(Device& device, const KernelSet& set, const CoreOptions& options) {
  device.check(set);
  return CoreCalibrator(device, set, options).run();
}

}  // namespace zplan::exec
