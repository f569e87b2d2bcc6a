#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/core/error.h"
#include "planner/program/job/collectives.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

// Fractions are written in thousandths.
constexpr double kThousand = 1000;

// A value, or the object that it stands in with its source.
std::string written(const Json& value) {
  if (value.is_object()) return written(value.at("value"));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string written(FlopsPerSecond rate) { return fmt::format("{:.2f} GFLOP/s", rate.value / 1e9); }
std::string written(BytesPerSecond rate) { return fmt::format("{:.3f} GB/s", rate.value / 1e9); }
std::string written(Bytes size) { return fmt::format("{} B", size.value); }
std::string written_time(double seconds) { return fmt::format("{:.3f} us", seconds * 1e6); }

// Above 0: something was reached.
double fraction(double part, double whole) {
  return std::max(1.0, std::round(part / whole * kThousand)) / kThousand;
}

// A zplan.hw/1 document, and what is replaced in it.
class ProfileEdit {
 public:
  ProfileEdit(const std::string& text, CalibrationReport& report)
      : json_(Json::parse(text)), report_(&report) {}

  void set(const std::string& pointer, Json value, const std::string& what) {
    const Json::json_pointer at(pointer);
    const std::string before = json_.contains(at) ? written(json_.at(at)) : "";
    report_->changes.push_back({pointer, before, written(value)});
    json_[at] = Json{{"value", std::move(value)}, {"source", "measured"}, {"ref", ref(what)}};
  }
  // A member that the base need not have.
  void add(const char* key, const std::string& json) { json_[key] = Json::parse(json); }
  std::string ref(const std::string& what) const {
    return fmt::format("zplan calibrate{}: {}; {}, {}", report_->quick ? " --quick" : "", what,
                       report_->device, report_->date);
  }
  void rename(const std::string& pointer, std::string text) {
    json_[Json::json_pointer(pointer)] = std::move(text);
  }
  void remove(const char* key) { json_.erase(key); }
  std::string text() const { return json_.dump(2) + "\n"; }

 private:
  Json json_;
  CalibrationReport* report_;
};

std::string format_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "fp64";
    case DType::kF32:
      return "fp32";
    case DType::kF16:
      return "fp16";
    case DType::kBf16:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return "bf16";
}

// Of a rate that the base states; a stated rate below what was reached is replaced.
template <typename Rate>
Rate at_least(ProfileEdit& edit, const std::string& pointer, std::optional<Rate> stated,
              Rate reached, const std::string& what) {
  if (stated && reached.value <= stated->value) return *stated;
  edit.set(pointer, written(reached), what + (stated ? ", above what was stated" : ""));
  return reached;
}

void set_compute(ProfileEdit& edit, const HwProfile& base, const CalibrationReport& report) {
  const exec::Calibration& found = report.found;
  const std::string format = format_name(find_kernel_set(report.kernel_set).compute);
  std::optional<FlopsPerSecond> stated;
  if (base.device.supports(format)) stated = base.device.peak(format);
  const FlopsPerSecond best{std::max(found.product_rate, found.attention_rate)};
  const double peak =
      at_least(edit, "/device/peak/" + format, stated, best, "the faster of products and attention")
          .value;
  edit.set("/device/gemm_efficiency", fraction(found.product_rate, peak),
           fmt::format("products of the layers of models, {}", report.kernel_set));
  edit.set("/device/attention_efficiency", fraction(found.attention_rate, peak),
           fmt::format("attention forward and backward, {}", report.kernel_set));
  edit.set("/device/gemm_overhead", written_time(found.product_overhead),
           "small products, beyond work and bytes at the measured rates");
}

void set_memory(ProfileEdit& edit, const HwProfile& base, const CalibrationReport& report) {
  const double rate = report.found.stream_rate;
  const double bandwidth =
      at_least(edit, "/device/memory_bandwidth", std::optional(base.device.memory_bandwidth),
               BytesPerSecond{rate}, "residual_add, gelu and adamw")
          .value;
  edit.set("/device/memory_efficiency", fraction(rate, bandwidth), "residual_add, gelu and adamw");
  if (report.memory)
    edit.set("/device/memory", written(*report.memory), "as the driver reports it");
  if (report.context) {
    edit.set("/device/reserve/context", written(*report.context),
             "what a process takes beside its slabs, with the libraries of products and attention");
  }
}

void set_copies(ProfileEdit& edit, const HwProfile& base, const CalibrationReport& report) {
  const exec::Calibration& found = report.found;
  const std::string link = "/topology/links/gpu_pcie", what = "the slower direction, each alone";
  const double rate = std::min(found.upload_rate, found.download_rate);
  const double capacity =
      at_least(edit, link + "/capacity", std::optional(base.topology.gpu_pcie.capacity),
               BytesPerSecond{rate}, what)
          .value;
  edit.set(link + "/efficiency", fraction(rate, capacity), what);
  edit.set("/device/copy_latency", written_time(found.copy_latency),
           "copies of 4 KiB back to back, the slower direction");
}

void set_launches(ProfileEdit& edit, const CalibrationReport& report) {
  const exec::Calibration& found = report.found;
  edit.set("/device/launch_overhead", written_time(found.launch_overhead),
           "host time of a small kernel");
  if (!found.graph_launch_overhead) return;
  edit.set("/device/graph_launch_overhead", written_time(*found.graph_launch_overhead),
           "host time of a small kernel in a graph");
}

// Drives are measured as one.
void set_cores(ProfileEdit& edit, const CalibrationReport& report) {
  const exec::CoreCalibration& found = *report.cores;
  edit.add("cores", cores_member(found, edit.ref("medians of repeats")));
  if (found.reads.empty()) return;
  const std::string what = fmt::format("transfers of {} B", found.reads.back().bytes);
  const auto rate = [](const exec::CoreCalibration::Move& move) {
    return BytesPerSecond{static_cast<double>(move.bytes) / move.seconds};
  };
  edit.set("/nvme/drives", 1, "the drive of the folder");
  edit.set("/nvme/drive_read", written(rate(found.reads.back())), what);
  edit.set("/nvme/drive_write", written(rate(found.writes.back())), what);
  edit.set("/nvme/read_beside_write", fraction(found.read_beside_write, 1), what);
}

// Each kind that calibrations measure has a curve in profiles.
constexpr bool all_have_curves() {
  for (int i = 0; i < kCollectiveKindCount; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    const auto& words = kMeasuredCollectives;
    if (is_measured(kind) &&
        std::find(std::begin(words), std::end(words), row_of(kind).word) == std::end(words))
      return false;
  }
  return true;
}
static_assert(all_have_curves());
MeasuredCollective measured_kind(CollectiveKind kind) {
  const std::optional<MeasuredCollective> found = find_measured_collective(name(kind));
  ZPLAN_ASSERT(found.has_value());
  return *found;
}

// Of a send and receive the start alone; rates of links stay those of the base.
void set_neighbours(ProfileEdit& edit, const exec::NodeCollectives& found) {
  edit.set("/latency/p2p_intra", written_time(found.neighbours.seconds),
           fmt::format("each GPU sends {} B to the next", found.neighbours.bytes));
}

std::string with_collectives(const ProfileEdit& edit, const HwProfile& base,
                             CalibrationReport& report) {
  std::vector<NewCurve> curves;
  for (const exec::NodeCollectives::Curve& found : report.collectives->curves) {
    NewCurve& curve = curves.emplace_back();
    curve.group = {measured_kind(found.kind), found.ranks};
    for (const auto& time : found.times) curve.times[time.bytes] = {time.seconds};
    curve.ref =
        edit.ref(fmt::format("{} among {} GPUs, a thread each", name(found.kind), found.ranks));
    report.curves.push_back(change_by(curve, base));
  }
  return with_curves(edit.text(), curves);
}

}  // namespace

std::string calibrated_profile(const std::string& base_text, const HwProfile& base,
                               CalibrationReport& report) {
  ProfileEdit edit(base_text, report);
  edit.rename("/name", base.name + "-calibrated");
  edit.remove("aliases");
  edit.rename("/description",
              fmt::format("{}; device measured: {}", base.description, report.device));
  edit.rename("/device/name", report.device);
  edit.rename("/device/kernel_set", report.kernel_set);
  set_compute(edit, base, report);
  set_memory(edit, base, report);
  set_copies(edit, base, report);
  set_launches(edit, report);
  if (report.cores) set_cores(edit, report);
  if (report.collectives) set_neighbours(edit, *report.collectives);
  std::string text = report.collectives ? with_collectives(edit, base, report) : edit.text();
  parse_hw_profile(text, "the calibrated profile");
  return text;
}

}  // namespace zplan
