#include "planner/plan/schedule_file.h"

#include <fmt/format.h>

#include <charconv>

#include "planner/core/json_reader.h"
#include "planner/program/job/limits.h"
#include "planner/program/schedule/check.h"

namespace zplan {
namespace {

std::int32_t int32(const JsonNode& node, std::int64_t min, std::int64_t max) {
  return static_cast<std::int32_t>(node.integer(min, max));
}

std::vector<std::vector<std::int32_t>> read_positions(const JsonNode& node, std::int32_t stages) {
  std::vector<std::vector<std::int32_t>> positions;
  const std::vector<JsonNode> rows = node.items();
  if (std::ssize(rows) != stages)
    node.fail(fmt::format("expected chunks of {} ranks, got {}", stages, rows.size()));
  const std::size_t chunks = rows.front().items().size();
  const std::size_t pieces = chunks * rows.size();
  if (chunks == 0 || pieces > kMaxLayers)
    rows.front().fail(fmt::format("expected 1 to {} chunks in all, got {}", kMaxLayers, pieces));
  std::vector<bool> seen(pieces);
  for (const JsonNode& row : rows) {
    const std::vector<JsonNode> items = row.items();
    if (items.size() != chunks)
      row.fail(
          fmt::format("expected {} chunks as of the first rank, got {}", chunks, items.size()));
    std::vector<std::int32_t>& places = positions.emplace_back();
    for (const JsonNode& item : items) {
      places.push_back(int32(item, 0, static_cast<std::int64_t>(pieces) - 1));
      const auto place = static_cast<std::size_t>(places.back());
      if (seen[place]) item.fail(fmt::format("piece {} is already the chunk of a rank", place));
      seen[place] = true;
    }
  }
  return positions;
}

bool read_number(const char*& at, const char* end, std::int32_t most, std::int32_t& value) {
  const auto [stop, status] = std::from_chars(at, end, value);
  const bool good = status == std::errc{} && *at >= '0' && *at <= '9' && value <= most;
  at = stop;
  return good;
}

Pass read_pass(const JsonNode& node, std::int32_t chunks, std::int32_t micros) {
  const std::string written = node.is_string() ? node.string() : "";
  const char* at = written.data();
  const char* const end = at + written.size();
  Pass pass;
  const std::size_t kind =
      written.empty() ? std::string_view::npos : std::string_view("FBIW").find(written.front());
  const bool good = kind != std::string_view::npos &&
                    read_number(++at, end, chunks - 1, pass.chunk) && at != end && *at == '.' &&
                    read_number(++at, end, micros - 1, pass.micro) && at == end;
  if (!good)
    node.fail_expected(fmt::format(
        "F, B, I or W, a chunk up to {}, a dot and a micro-batch up to {}, such as \"F0.0\"",
        chunks - 1, micros - 1));
  pass.kind = static_cast<PassKind>(kind);
  return pass;
}

PassOrder read_rank(const JsonNode& node, std::int32_t chunks, std::int32_t micros) {
  const std::vector<JsonNode> items = node.items();
  const std::int64_t least = std::int64_t{2} * chunks * micros;
  if (std::ssize(items) < least)
    node.fail(
        fmt::format("expected {} passes or more, forward and backward of {} chunks and {} "
                    "micro-batches, got {}",
                    least, chunks, micros, items.size()));
  PassOrder order;
  for (const JsonNode& item : items) order.passes.push_back(read_pass(item, chunks, micros));
  find_phases(order);
  return order;
}

PipelineSchedule read_schedule(const JsonNode& root) {
  JsonObject object = root.object();
  object.schema("zplan.schedule/1");
  const std::int32_t stages = int32(object.member("stages"), 1, kMaxStages);
  const std::int32_t micros = int32(object.member("micro_batches"), 1, kMaxMicroSteps);
  PipelineSchedule schedule{ChunkMap(read_positions(object.member("chunks"), stages)), micros, {}};
  const JsonNode ranks = object.member("ranks");
  const std::vector<JsonNode> orders = ranks.items();
  if (std::ssize(orders) != stages)
    ranks.fail(fmt::format("expected passes of {} ranks, got {}", stages, orders.size()));
  for (const JsonNode& order : orders)
    schedule.ranks.push_back(read_rank(order, schedule.chunks.chunks(), micros));
  object.finish();
  if (const auto fault = fault_of(schedule)) ranks.fail(*fault);
  return schedule;
}

}  // namespace

PipelineSchedule schedule_from_json(const std::string& text, const std::string& file_name) {
  return read_schedule(parse_json(text, file_name));
}

PipelineSchedule load_schedule(const std::string& path) {
  return read_schedule(read_json_file(path));
}

}  // namespace zplan
