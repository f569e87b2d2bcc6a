// Versions 1 to 3 of the file that -J writes. It repeats the environment of the run, of which
// nothing is read.
#include <fmt/format.h>

#include <limits>

#include "planner/core/json_reader.h"
#include "planner/foreign/nccl_table.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostRanks = 10'000'000;
constexpr double kAny = std::numeric_limits<double>::max();

Printed read_printed(const JsonNode& node) {
  constexpr double kHalf = 0.5e-6;  // printed as %lf
  return {node.number(0, kAny), kHalf};
}

void read_ranks(const JsonNode& config_node, NcclTable& table) {
  JsonObject config = config_node.object();
  const std::int64_t threads = config.member("nthreads").integer(1, 1024);
  const std::int64_t gpus = config.member("ngpus").integer(1, 1024);
  // One entry per process.
  table.ranks_each = table.ranks_per_process = static_cast<int>(threads * gpus);
  const std::vector<JsonNode> devices = config.member("devices").items();
  for (const JsonNode& node : devices) {
    JsonObject device = node.object();
    NcclRank rank;
    rank.rank = static_cast<int>(device.member("rank").integer(0, kMostRanks));
    rank.group = static_cast<int>(device.member("group").integer(0, kMostRanks));
    rank.host = device.member("hostname").string();
    rank.device = device.member("device_info").string();
    table.ranks.push_back(std::move(rank));
  }
}

void check_wrong(JsonObject& figures) {
  const JsonNode wrong = figures.member("nwrong");
  if (wrong.is_null()) return;
  if (wrong.number(0, kAny) > 0) wrong.fail_expected("no wrong results, 0");
}

NcclRow read_row(const JsonNode& node) {
  JsonObject object = node.object();
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  NcclRow row;
  row.place = node.location();
  row.size = object.member("size").integer(0, kMost);
  row.count = object.member("count").integer(0, kMost);
  row.type = object.member("type").string();
  row.reduction = object.member("redop").string();
  JsonObject figures = object.member("out_of_place").object();
  row.time = read_printed(figures.member("time"));
  row.algbw = read_printed(figures.member("alg_bw"));
  row.busbw = read_printed(figures.member("bus_bw"));
  check_wrong(figures);
  if (const auto in_place = object.optional_member("in_place")) {
    JsonObject others = in_place->object();
    check_wrong(others);
  }
  return row;
}

}  // namespace

NcclRun read_nccl_json(const JsonNode& root, const std::string& name) {
  JsonObject object = root.object();
  NcclTable table;
  table.name = name;
  table.place = root.location();
  const std::vector<JsonNode> arguments = object.member("args").items();
  if (!arguments.empty()) table.program = find_nccl_program(arguments[0].string());
  table.date = object.member("start_time").string().substr(0, 10);
  constexpr std::int64_t kMostVersion = 10'000'000;
  table.software = fmt::format(
      "nccl-tests, NCCL {}", nccl_version(object.member("nccl_version").integer(0, kMostVersion)));
  read_ranks(object.member("config"), table);
  for (const JsonNode& node : object.member("results").items())
    table.rows.push_back(read_row(node));
  const JsonNode bounds = object.member("out_of_bounds");
  JsonObject wrong = bounds.object();
  const JsonNode count = wrong.member("count");
  if (count.integer(0, std::numeric_limits<std::int64_t>::max()) > 0) count.fail_expected("0");
  return checked_run(table);
}

}  // namespace zplan
