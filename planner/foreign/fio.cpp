#include "planner/foreign/fio.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <set>

namespace zplan {
namespace {

constexpr double kHuge = 1e18;  // [assumed] beyond any rate, count or time of a drive
constexpr std::int64_t kMostInteger = std::numeric_limits<std::int64_t>::max();

// What a job does not state is that of the global section.
std::string option(JsonObject& job, JsonObject& root, std::string_view name) {
  for (const auto& options :
       {job.optional_member("job options"), root.optional_member("global options")}) {
    if (!options) continue;
    JsonObject object = options->object();
    if (const auto value = object.optional_member(name)) return value->string();
  }
  return "";
}

void check_close(const JsonNode& node, double expected, double got) {
  constexpr double kTolerance = 0.01;  // [assumed] of times that are rounded to milliseconds
  if (std::abs(got - expected) <= kTolerance * expected + 1) return;
  node.fail(
      fmt::format("expected {:.6g} by the totals and the runtime, got {:.6g}", expected, got));
}

// ns in fio 3, us in fio 2; 0: not recorded.
Seconds mean_latency(JsonObject& direction) {
  for (const auto& [key, unit] : {std::pair{"lat_ns", 1e-9}, std::pair{"lat", 1e-6}}) {
    const auto node = direction.optional_member(key);
    if (!node) continue;
    JsonObject object = node->object();
    return {object.member("mean").number(0, kHuge) * unit};
  }
  return {};
}

void add_direction(const JsonNode& node, FioRate& sum) {
  JsonObject direction = node.object();
  const JsonNode total = direction.member("total_ios");
  const double requests = total.number(0, kHuge);
  if (requests == 0) return;
  const double runtime = direction.member("runtime").number(1, kHuge) / 1e3;
  const double moved = direction.member("io_bytes").number(1, kHuge);
  const auto exact = direction.optional_member("bw_bytes");
  const JsonNode rate_node = exact ? *exact : direction.member("bw");
  const double rate = rate_node.number(0, kHuge);
  check_close(rate_node, moved / runtime, rate);  // KiB and KiB/s in fio 2
  const JsonNode iops = direction.member("iops");
  check_close(iops, requests / runtime, iops.number(0, kHuge));
  sum.bytes_per_second += exact ? rate : rate * 1024;
  sum.requests_per_second += requests / runtime;
  sum.in_flight += requests / runtime * mean_latency(direction).value;
}

bool is_on(const std::string& flag) { return !flag.empty() && flag != "0"; }

void check_job(JsonObject& job, JsonObject& root) {
  const JsonNode error = job.member("error");
  if (error.integer(std::numeric_limits<std::int32_t>::min(), kMostInteger) != 0)
    error.fail_expected("a job without an error, 0");
  const std::string buffered = option(job, root, "buffered");
  if (is_on(option(job, root, "direct")) || buffered == "0") return;
  job.node().fail(
      "expected direct=1, got a job through the page cache, which says nothing of a drive");
}

// Devices that the job names, one each; empty: it uses files, or devices of several drives.
std::set<std::string> devices_of(const std::string& filename) {
  std::set<std::string> devices;
  for (std::size_t begin = 0; begin <= filename.size();) {
    const std::size_t end = std::min(filename.find(':', begin), filename.size());
    const std::string one = filename.substr(begin, end - begin);
    const bool several = one.starts_with("/dev/md") || one.starts_with("/dev/dm-") ||
                         one.starts_with("/dev/mapper/");
    if (!one.starts_with("/dev/") || several) return {};
    devices.insert(one);
    begin = end + 1;
  }
  return devices;
}

// Disks that were used and are made of no others.
int disks_of(JsonObject& root) {
  const auto list = root.optional_member("disk_util");
  int disks = 0;
  if (!list) return 0;
  for (const JsonNode& node : list->items()) {
    JsonObject disk = node.object();
    const double requests =
        disk.member("read_ios").number(0, kHuge) + disk.member("write_ios").number(0, kHuge);
    if (requests > 0 && !disk.optional_member("aggr_read_ios")) ++disks;
  }
  return disks;
}

std::string date_of(const JsonNode& timestamp) {
  const std::time_t seconds = timestamp.integer(0, std::int64_t{1} << 40);
  std::array<char, 32> date{};
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  std::strftime(date.data(), date.size(), "%F", &parts);
  return date.data();
}

struct Gathered {
  FioGroup group;
  std::set<std::string> names, devices;
  bool names_devices = true;
};

}  // namespace

Bytes FioRate::block() const {
  constexpr double kSector = 512, kMostSectors = 1e9;  // [assumed] beyond any request
  const double sectors = std::min(bytes_per_second / requests_per_second / kSector, kMostSectors);
  return {std::llround(sectors) * static_cast<std::int64_t>(kSector)};
}

FioRun read_fio(const JsonNode& root) {
  JsonObject object = root.object();
  FioRun run;
  run.software = object.member("fio version").non_empty_string();
  run.date = date_of(object.member("timestamp"));
  std::map<std::int64_t, Gathered> groups;
  for (const JsonNode& node : object.member("jobs").items()) {
    JsonObject job = node.object();
    check_job(job, object);
    Gathered& at = groups[job.member("groupid").integer(0, kMostInteger)];
    if (at.group.place.empty()) at.group.place = node.location();
    const std::string name = job.member("jobname").string();
    if (at.names.insert(name).second) at.group.jobs += (at.group.jobs.empty() ? "" : ", ") + name;
    const std::set<std::string> devices = devices_of(option(job, object, "filename"));
    at.names_devices = at.names_devices && !devices.empty();
    at.devices.insert(devices.begin(), devices.end());
    add_direction(job.member("read"), at.group.read);
    add_direction(job.member("write"), at.group.write);
  }
  const int disks = disks_of(object);
  for (auto& [id, at] : groups) {
    const int used = at.names_devices ? static_cast<int>(at.devices.size()) : disks;
    at.group.counted = used > 0;
    at.group.drives = std::max(1, used);
    if (at.group.read.requests_per_second + at.group.write.requests_per_second > 0)
      run.groups.push_back(std::move(at.group));
  }
  if (run.groups.empty()) root.fail("expected a job that reads or writes, got none");
  return run;
}

}  // namespace zplan
