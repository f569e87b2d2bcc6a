#include "hwprofiles/software_runs.h"

#include <cstdint>
#include <utility>

#include "hwprofiles/embedded_profiles.h"
#include "planner/core/json_reader.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostCounted = 1'000'000'000;  // runs, devices
constexpr std::int64_t kMostParameters = 1'000'000'000'000'000'000;

SoftwareRuns read_runs(const JsonNode& node) {
  JsonObject in = node.object();
  const auto count = [&](std::string_view key, std::int64_t least) {
    return static_cast<int>(in.member(key).integer(least, kMostCounted));
  };
  SoftwareRuns runs;
  runs.software = in.member("software").non_empty_string();
  runs.device = in.member("device").non_empty_string();
  runs.runs = count("runs", 1);
  runs.fitted = count("fitted", 0);
  runs.most_devices = count("most_devices", 1);
  runs.most_parameters = in.member("most_parameters").integer(1, kMostParameters);
  runs.within = in.member("within").number(0, 10);
  runs.formats = in.member("formats").words();
  runs.features = in.member("features").words();
  in.finish();
  return runs;
}

}  // namespace

std::vector<SoftwareRuns> parse_software_runs(std::string text, std::string file_name) {
  const JsonNode root = parse_json(std::move(text), std::move(file_name));
  JsonObject in = root.object();
  in.schema("zplan.software_runs/1");
  std::vector<SoftwareRuns> all;
  for (const JsonNode& node : in.member("runs").items()) all.push_back(read_runs(node));
  in.finish();
  return all;
}

std::vector<SoftwareRuns> load_software_runs() {
  const EmbeddedFile& file = embedded_predicted().front();
  return parse_software_runs(std::string(file.text), std::string(file.name));
}

}  // namespace zplan
