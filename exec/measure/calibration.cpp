#include "exec/measure/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <tuple>
#include <utility>

#include "exec/measure/case_run.h"
#include "exec/measure/copy_stream.h"
#include "exec/measure/timing.h"

namespace zplan::exec {
namespace {

// How large the operands are. [assumed] on a GPU the micro-batches of its usual size and beyond
// caches; on one core of a CPU what takes seconds, not minutes.
struct Scale {
  std::int64_t tokens;    // of products and attention
  std::int64_t elements;  // of kernels that stream
  std::int64_t copy;      // bytes
  std::size_t layers;     // of kLayers, from the first
};
constexpr Scale kGpu{8192, std::int64_t{1} << 27, std::int64_t{256} << 20, 12};
constexpr Scale kGpuQuick{2048, std::int64_t{1} << 25, std::int64_t{64} << 20, 8};
constexpr Scale kCpu{512, std::int64_t{1} << 25, std::int64_t{128} << 20, 4};
constexpr Scale kCpuQuick{64, std::int64_t{1} << 18, std::int64_t{1} << 20, 4};
constexpr Effort kFull{0.2, 5}, kShort{0.01, 3};

Scale scale_of(const KernelSet& set, bool quick) {
  if (set.runs_on == RunsOn::kCuda) return quick ? kGpuQuick : kGpu;
  return quick ? kCpuQuick : kCpu;
}

// Products of a layer: y[T, n] = x[T, k] w[k, n].
struct Layer {
  const char* name;
  std::int64_t k, n;
};
constexpr std::array<Layer, 12> kLayers{{
    {"GPT-2 124M qkv", 768, 2304},
    {"GPT-2 124M projection", 768, 768},
    {"GPT-2 124M fc1", 768, 3072},
    {"GPT-2 124M fc2", 3072, 768},
    {"GPT-2 1.5B qkv", 1600, 4800},
    {"GPT-2 1.5B projection", 1600, 1600},
    {"GPT-2 1.5B fc1", 1600, 6400},
    {"GPT-2 1.5B fc2", 6400, 1600},
    {"Llama 3 8B qkv", 4096, 6144},
    {"Llama 3 8B projection", 4096, 4096},
    {"Llama 3 8B gate and up", 4096, 28672},
    {"Llama 3 8B down", 14336, 4096},
}};
constexpr std::size_t kBesideCopies = 2;  // of kLayers

// [assumed] so small that the fixed time of a product is most of it.
struct SmallProduct {
  std::int64_t tokens, k, n;
};
constexpr SmallProduct kSmallProducts[] = {{32, 64, 64}, {64, 128, 128}, {128, 128, 128}};

struct AttentionShape {
  const char* name;
  std::int64_t sequence, heads, all_heads, head_size;
};
constexpr AttentionShape kAttention[] = {
    {"GPT-2 124M", 1024, 12, 36, 64},
    {"GPT-2 1.5B", 1024, 25, 75, 64},
    {"Llama 3 8B", 4096, 32, 48, 128},
};

constexpr std::array kCopyLanes{Lane::kH2d, Lane::kD2h};
constexpr Bytes kSmallCopy{4096};
constexpr std::int64_t kSmallKernel = 256;  // elements
constexpr int kLaunches = 256;              // within the queue of a device
constexpr int kGraphCopies = 20;            // of a small product in a graph

struct Totals {
  double work = 0, seconds = 0;
  double rate() const { return work / seconds; }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Calibrator {
 public:
  Calibrator(Device& device, const KernelSet& set, const CalibrationOptions& options)
      : device_(&device),
        set_(&set),
        options_(&options),
        scale_(scale_of(set, options.quick)),
        effort_(options.quick ? kShort : kFull) {}

  Calibration run() {
    streams();
    products();
    small_products();
    attention();
    copies();
    launches();
    contention();
    return std::move(found_);
  }

 private:
  void streams();
  void products();
  void small_products();
  void attention();
  void copies();
  void launches();
  void contention();

  CaseRun make_run(const Case& c, std::span<const Lane> copy_lanes = {}) {
    return {*device_, *set_, c, draw_inputs(c, *set_, random_), copy_lanes};
  }
  Case product(KernelId kernel, std::int64_t tokens, std::int64_t k, std::int64_t n) const {
    return {.kernel = kernel, .sizes = {{"T", tokens}, {"k", k}, {"n", n}}};
  }
  void add(std::string group, std::string what, double seconds, RateOf rate_of = RateOf::kNothing,
           double work = 0) {
    found_.measurements.push_back({std::move(group), std::move(what), seconds, rate_of,
                                   rate_of == RateOf::kNothing ? 0 : work / seconds});
    if (options_->measured) options_->measured(found_.measurements.back());
  }
  // A kernel back to back; adds it to the totals and to what was measured.
  void measure(const char* group, const std::string& what, const Case& c, RateOf rate_of,
               Totals& totals);

  Device* device_;
  const KernelSet* set_;
  const CalibrationOptions* options_;
  Scale scale_;
  Effort effort_;
  std::mt19937_64 random_;  // values do not matter to the time of a kernel
  Calibration found_;
};

void Calibrator::measure(const char* group, const std::string& what, const Case& c, RateOf rate_of,
                         Totals& totals) {
  const Demand demand = demand_of(c, *set_);
  const auto work =
      static_cast<double>(rate_of == RateOf::kByte ? demand.bytes.value : demand.flops.value);
  CaseRun run = make_run(c);
  const double seconds = seconds_each(
      run.backend(), [&run] { run.launch(); }, effort_);
  totals.work += work;
  totals.seconds += seconds;
  add(group, what, seconds, rate_of, work);
}

void Calibrator::streams() {
  struct Kernel {
    KernelId id;
    const char* size;  // letter in its row
  };
  Totals totals;
  for (const auto& [kernel, letter] :
       {Kernel{KernelId::kResidualAdd, "*"}, Kernel{KernelId::kGeluForward, "*"},
        Kernel{KernelId::kAdamW, "n"}}) {
    Case c{.kernel = kernel, .sizes = {{letter, scale_.elements}}};
    if (kernel == KernelId::kAdamW) c.attributes = {0, scale_.elements, 0};
    measure("stream", fmt::format("{}, {} elements", name(kernel), scale_.elements), c,
            RateOf::kByte, totals);
  }
  found_.stream_rate = totals.rate();
}

void Calibrator::products() {
  struct Product {
    KernelId id;
    const char* name;
  };
  Totals totals;
  for (std::size_t i = 0; i < scale_.layers; ++i)
    for (const auto& [kernel, name] :
         {Product{KernelId::kMatmulForward, "forward"},
          Product{KernelId::kLinearInputGradient, "input gradient"},
          Product{KernelId::kMatmulWeightGradient, "weight gradient"}}) {
      const Layer& layer = kLayers[i];
      // Each as m x n x k, k being summed over.
      std::array<std::int64_t, 3> size{scale_.tokens, layer.n, layer.k};
      if (kernel == KernelId::kLinearInputGradient) size = {scale_.tokens, layer.k, layer.n};
      if (kernel == KernelId::kMatmulWeightGradient) size = {layer.k, layer.n, scale_.tokens};
      measure("product",
              fmt::format("{} {}, {} x {} x {}", layer.name, name, size[0], size[1], size[2]),
              product(kernel, scale_.tokens, layer.k, layer.n), RateOf::kFlop, totals);
    }
  found_.product_rate = totals.rate();
}

// In a graph where the device has them: there the host does not hold them up.
void Calibrator::small_products() {
  std::vector<double> overheads;
  for (const SmallProduct& small : kSmallProducts) {
    const Case c = product(KernelId::kMatmulForward, small.tokens, small.k, small.n);
    const Demand demand = demand_of(c, *set_);
    CaseRun run = make_run(c);
    const auto launch = [&run] { run.launch(); };
    const bool graphs = run.backend().queues() != nullptr;
    const double seconds = graphs ? seconds_in_graph(run.backend(), launch, kGraphCopies, effort_)
                                  : seconds_each(run.backend(), launch, effort_);
    const double accounted = std::max(static_cast<double>(demand.flops.value) / found_.product_rate,
                                      static_cast<double>(demand.bytes.value) / found_.stream_rate);
    overheads.push_back(std::max(0.0, seconds - accounted));
    add("small product",
        fmt::format("{} x {} x {}{}", small.tokens, small.n, small.k, graphs ? ", in a graph" : ""),
        seconds, RateOf::kFlop, static_cast<double>(demand.flops.value));
  }
  found_.product_overhead = median(overheads);
}

void Calibrator::attention() {
  Totals totals;
  for (const AttentionShape& shape : kAttention) {
    const std::int64_t sequence = std::min(shape.sequence, scale_.tokens);
    const std::int64_t batch = scale_.tokens / sequence;
    for (const KernelId kernel : {KernelId::kAttentionForward, KernelId::kAttentionBackward}) {
      const Case c{.kernel = kernel,
                   .sizes = attention_sizes(batch, sequence, shape.heads,
                                            (shape.all_heads - shape.heads) / 2, shape.head_size)};
      measure("attention",
              fmt::format("{} {}, {} x {}", shape.name,
                          kernel == KernelId::kAttentionForward ? "forward" : "backward", batch,
                          sequence),
              c, RateOf::kFlop, totals);
    }
  }
  found_.attention_rate = totals.rate();
}

void Calibrator::copies() {
  CaseRun run =
      make_run({.kernel = KernelId::kResidualAdd, .sizes = {{"*", kSmallKernel}}}, kCopyLanes);
  Backend& backend = run.backend();
  const auto rate_alone = [&](Lane lane, const char* what) {
    CopyStream copy(*device_, backend, lane, Bytes{scale_.copy});
    const double seconds = seconds_each(
        backend, [&copy] { copy.queue(); }, effort_);
    add("copy", what, seconds, RateOf::kByte, static_cast<double>(scale_.copy));
    return static_cast<double>(scale_.copy) / seconds;
  };
  found_.upload_rate = rate_alone(Lane::kH2d, "host to device");
  found_.download_rate = rate_alone(Lane::kD2h, "device to host");

  CopyStream up(*device_, backend, Lane::kH2d, Bytes{scale_.copy});
  CopyStream down(*device_, backend, Lane::kD2h, Bytes{scale_.copy});
  const double slower = std::min(found_.upload_rate, found_.download_rate);
  const int times =
      std::max(1, static_cast<int>(effort_.seconds * slower / static_cast<double>(scale_.copy)));
  const double both = seconds_together(
      backend, {{[&up] { up.queue(); }, times}, {[&down] { down.queue(); }, times}});
  add("copy", "both directions together", both / times, RateOf::kByte,
      2 * static_cast<double>(scale_.copy));

  std::vector<double> latencies;
  for (const auto& [lane, rate, what] :
       {std::tuple{Lane::kH2d, found_.upload_rate, "host to device, 4 KiB"},
        std::tuple{Lane::kD2h, found_.download_rate, "device to host, 4 KiB"}}) {
    CopyStream copy(*device_, backend, lane, kSmallCopy);
    const double seconds = seconds_each(
        backend, [&copy] { copy.queue(); }, effort_);
    latencies.push_back(std::max(0.0, seconds - static_cast<double>(kSmallCopy.value) / rate));
    add("copy", what, seconds, RateOf::kByte, static_cast<double>(kSmallCopy.value));
  }
  found_.copy_latency = std::max(latencies[0], latencies[1]);
}

void Calibrator::launches() {
  CaseRun run = make_run({.kernel = KernelId::kResidualAdd, .sizes = {{"*", kSmallKernel}}});
  Backend& backend = run.backend();
  const auto launch = [&run] { run.launch(); };
  found_.launch_overhead = host_seconds(backend, launch, kLaunches, effort_);
  add("launch", "host time of a small kernel", found_.launch_overhead);
  add("launch", "small kernels back to back", seconds_each(backend, launch, effort_));
  if (backend.queues() == nullptr) return;
  found_.graph_launch_overhead = host_seconds_in_graph(backend, launch, kLaunches, effort_);
  add("launch", "host time of a small kernel in a graph", *found_.graph_launch_overhead);
  add("launch", "small kernels of a graph back to back",
      seconds_in_graph(backend, launch, kLaunches, effort_));
}

// Both as long as each other when alone: the times that remain say what they take from each other.
void Calibrator::contention() {
  const Layer& layer = kLayers[kBesideCopies];
  const Case c = product(KernelId::kMatmulForward, scale_.tokens, layer.k, layer.n);
  CaseRun run = make_run(c, kCopyLanes);
  Backend& backend = run.backend();
  const auto launch = [&run] { run.launch(); };
  const double alone = seconds_each(backend, launch, effort_);
  add("contention", fmt::format("{} forward alone", layer.name), alone);
  for (const Lane lane : kCopyLanes) {
    CopyStream copy(*device_, backend, lane, Bytes{scale_.copy});
    const auto queue = [&copy] { copy.queue(); };
    const double one = seconds_each(backend, queue, effort_);
    const double span = std::max(effort_.seconds, std::max(one, alone));
    const LaneWork products{launch, static_cast<int>(span / alone)};
    const LaneWork copies{queue, static_cast<int>(span / one)};
    const double together = seconds_together(backend, {products, copies});
    add("contention",
        fmt::format("{} forward beside copies {}, {:.2f} times as long as the longer alone",
                    layer.name, lane == Lane::kH2d ? "to the device" : "to the host",
                    together / std::max(products.times * alone, copies.times * one)),
        together / products.times);
  }
}

}  // namespace

Calibration calibrate(Device& device, const KernelSet& set, const CalibrationOptions& options) {
  device.check(set);
  return Calibrator(device, set, options).run();
}

}  // namespace zplan::exec
