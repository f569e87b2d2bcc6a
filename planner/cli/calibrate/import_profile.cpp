#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/cli/calibrate/import_report.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/drive_values.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

// A value, or the object that it stands in with its source.
std::string exactly(const Json& value) {
  if (value.is_object()) return exactly(value.at("value"));
  return value.is_string() ? value.get<std::string>() : value.dump();
}
std::string exactly(BytesPerSecond rate) { return fmt::format("{:.6g} GB/s", rate.value / 1e9); }
std::string exactly(Seconds time) { return fmt::format("{:.9g} us", time.value * 1e6); }
std::string exactly(Bytes size) { return fmt::format("{} B", size.value); }

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string group_text(const MeasuredGroup& group) {
  return fmt::format("{} of {} ranks on {} node{}", name(group.kind), group.ranks, group.nodes,
                     group.nodes == 1 ? "" : "s");
}

class Import {
 public:
  Import(const std::string& base_text, const HwProfile& base, ImportReport& report)
      : json_(Json::parse(base_text)), base_(base), report_(report) {}

  std::string profile() {
    constexpr std::string_view kSuffix = "-measured";
    if (!base_.name.ends_with(kSuffix)) json_["name"] = base_.name + std::string(kSuffix);
    json_.erase("aliases");
    for (const MeasuredFile& file : report_.files) {
      for (const NcclRun& run : file.runs) take_run(file, run);
    }
    write_drives();
    std::string text = with_new_curves(json_.dump(-1, ' ', false, Json::error_handler_t::replace));
    parse_hw_profile(text, "the profile with what was imported");
    return text;
  }

 private:
  struct Point {
    Seconds time;
    std::string ref, file;
  };
  using Curve = std::map<std::int64_t, Point>;  // by bytes

  void take_run(const MeasuredFile& file, const NcclRun& run) {
    if (base_.device.collectives == nullptr) {
      throw_bad_input(fmt::format("{}: expected a base with GPUs, got {} ({})", run.place,
                                  base_.name, base_.device.kernel_set));
    }
    if (run.ranks / run.nodes > base_.devices_per_node) {
      throw_bad_input(fmt::format("{}: expected at most {} ranks on a node, the GPUs of {}, got {}",
                                  run.place, base_.devices_per_node, base_.name,
                                  run.ranks / run.nodes));
    }
    const std::string ref =
        fmt::format("{} of {}, {} ranks on {} nodes, {}; {}{}", run.program,
                    run.software.empty() ? "nccl-tests" : run.software, run.ranks, run.nodes,
                    run.device, file_name(file.name), run.date.empty() ? "" : ", " + run.date);
    if (run.left_out > 0) {
      note(fmt::format("{}: {} rows of {} left out: no sums of half, bfloat16 or float", file.name,
                       run.left_out, run.program));
    }
    if (!run.kind) {
      take_neighbours(file, run, ref);
      return;
    }
    const MeasuredGroup group{*run.kind, run.ranks, run.nodes};
    std::map<std::string, int> replaced;  // by the file before
    for (const NcclRun::Time& time : run.times) {
      Point point{time.time, ref, file.name};
      const auto [at, added] = curves_[group].try_emplace(time.size.value, point);
      if (added) continue;
      ++replaced[at->second.file];
      at->second = std::move(point);
    }
    for (const auto& [before, sizes] : replaced) {
      note(fmt::format("{}: {} times of {} replace those of {}", file.name, sizes,
                       group_text(group), before == file.name ? "an earlier row" : before));
    }
  }

  // The start of a send and receive; rates of links stay those of the base.
  void take_neighbours(const MeasuredFile& file, const NcclRun& run, const std::string& ref) {
    constexpr Bytes kMost{64 << 10};  // [assumed] above, the transfer is no longer small beside it
    const auto least = std::min_element(
        run.times.begin(), run.times.end(),
        [](const NcclRun::Time& a, const NcclRun::Time& b) { return a.size < b.size; });
    if (least->size > kMost) {
      note(fmt::format("{}: {} left out: no size up to {} B", file.name, run.program, kMost.value));
      return;
    }
    set(run.nodes == 1 ? "/latency/p2p_intra" : "/latency/p2p_inter", exactly(least->time),
        fmt::format("{} B, {}", least->size.value, ref), file.name);
  }

  std::string with_new_curves(const std::string& text) {
    std::vector<NewCurve> curves;
    for (const auto& [group, points] : curves_) {
      NewCurve curve{group, {}, {}};
      std::vector<std::string> refs;  // each once, in the order of the sizes
      for (const auto& [bytes, point] : points) {
        curve.times[bytes] = point.time;
        if (std::find(refs.begin(), refs.end(), point.ref) == refs.end()) refs.push_back(point.ref);
      }
      curve.ref = joined(refs, "; and ");
      report_.curves.push_back(change_by(curve, base_));
      curves.push_back(std::move(curve));
    }
    return with_curves(text, curves);
  }

  void write_drives() {
    std::vector<NamedFioRun> runs;
    for (const MeasuredFile& file : report_.files) {
      if (file.fio) runs.push_back({file_name(file.name), *file.fio});
    }
    if (runs.empty()) return;
    if (base_.nvme.drives == 0) {
      throw_bad_input(fmt::format("{}: expected a base with drives, got {}",
                                  runs[0].run.groups[0].place, base_.name));
    }
    DriveValues found = drive_values(runs, base_.nvme);
    report_.notes.insert(report_.notes.end(), found.notes.begin(), found.notes.end());
    if (found.read || found.write) take_efficiency_in(found);
    if (found.read) set("/nvme/drive_read", exactly(found.read->value), found.read->ref);
    if (found.write) set("/nvme/drive_write", exactly(found.write->value), found.write->ref);
    if (found.read_beside_write)
      set("/nvme/read_beside_write", found.read_beside_write->value, found.read_beside_write->ref);
    if (found.queue_depth)
      set("/nvme/queue_depth", found.queue_depth->value, found.queue_depth->ref);
    if (found.block) set("/nvme/block", exactly(found.block->value), found.block->ref);
    if (found.latency) set("/nvme/latency", exactly(found.latency->value), found.latency->ref);
  }

  // A rate that was not measured stays what programs reach of it.
  void take_efficiency_in(const DriveValues& found) {
    const double efficiency = base_.nvme.efficiency;
    if (efficiency == 1) return;
    const auto fold = [&](const char* key, BytesPerSecond rate) {
      Json& entry = json_["nvme"][key];
      if (!entry.is_object())
        entry = Json{{"value", entry}, {"source", "assumed"}, {"ref", "stated in the file"}};
      const std::string before = exactly(entry["value"]), now = exactly(rate * efficiency);
      entry["value"] = now;
      entry["ref"] = fmt::format("{:g} of {}: {}", efficiency, before, exactly(entry["ref"]));
      report_.changes.push_back({fmt::format("/nvme/{}", key), before, now});
    };
    if (!found.read) fold("drive_read", base_.nvme.drive_read);
    if (!found.write) fold("drive_write", base_.nvme.drive_write);
    set("/nvme/efficiency", 1.0,
        "the rates are those that a program reached; " +
            (found.read ? found.read : found.write)->ref);
  }

  void set(const std::string& pointer, Json value, const std::string& ref,
           const std::string& file = "") {
    const Json::json_pointer at(pointer);
    if (!set_.insert(pointer).second && !file.empty())
      note(fmt::format("{}: {} replaces what was measured before", file, pointer));
    const std::string before = json_.contains(at) ? exactly(json_.at(at)) : "";
    report_.changes.push_back({pointer, before, exactly(value)});
    json_[at] = Json{{"value", std::move(value)}, {"source", "measured"}, {"ref", ref}};
  }

  void note(const std::string& text) { report_.notes.push_back(text); }

  Json json_;
  const HwProfile& base_;
  ImportReport& report_;
  std::map<MeasuredGroup, Curve> curves_;
  std::set<std::string> set_;  // pointers
};

}  // namespace

std::string imported_profile(const std::string& base_text, const HwProfile& base,
                             ImportReport& report) {
  report.base = base.name;
  return Import(base_text, base, report).profile();
}

}  // namespace zplan
