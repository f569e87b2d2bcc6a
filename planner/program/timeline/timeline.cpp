#include "planner/program/timeline/timeline.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "planner/core/json_reader.h"
#include "planner/program/job/names.h"

namespace zplan {
namespace {

std::string quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

// Viewers keep whole nanoseconds. Both ends of a span are cut to them, so that one that begins
// where another ends does so in the trace, too: Perfetto drops a slice that begins before the last
// ended.
std::int64_t nanoseconds(SimTime t) { return t.value / kPicosecondsPerNanosecond; }

// Exact: a double would lose nanoseconds after a few weeks.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

// Above 0, which is the idle process to viewers.
std::size_t process_number(std::size_t process) { return process + 1; }
// Of no two threads the same: viewers take equal ones for one, whatever their process.
std::size_t thread_number(std::size_t process, std::size_t lane) {
  return process * kLaneCount + lane + 1;
}

template <typename... Args>
void put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// The name of a process or thread and its place on the screen.
void put_names(std::string& out, std::size_t process, const RankTimeline& rank) {
  put(out,
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {1}, stage {2}"}}}},
{{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
      process_number(process), rank.rank, rank.stage);
  std::array<bool, kLaneCount> used{};
  for (const Span& s : rank.spans) used[static_cast<std::size_t>(s.lane)] = true;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!used[lane]) continue;
    put(out,
        R"(,
{{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":"{2}"}}}},
{{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
        process_number(process), thread_number(process, lane), name(static_cast<Lane>(lane)));
  }
}

SimTime time(JsonObject& span, std::string_view key, SimTime min) {
  return {span.member(key).integer(min.value, std::numeric_limits<std::int64_t>::max())};
}

Span span_from_json(const JsonNode& node) {
  constexpr std::int64_t kMaxStep = std::numeric_limits<std::int32_t>::max();
  JsonObject object = node.object();
  Span span;
  const JsonNode op = object.member("op");
  const auto id = parse_op_name(op.string());
  if (!id) op.fail_expected("an operation such as \"forward.qkv.compute[m0,l3]\"");
  span.op = *id;
  span.step = static_cast<std::int32_t>(object.member("step").integer(0, kMaxStep));
  const JsonNode lane = object.member("lane");
  const auto parsed = parse_name<Lane>(lane.string());
  if (!parsed) lane.fail_expected("a lane (" + all_names<Lane>() + ")");
  span.lane = *parsed;
  span.ready = time(object, "ready_ps", {0});
  span.start = time(object, "start_ps", span.ready);
  span.end = time(object, "end_ps", span.start);
  object.finish();
  return span;
}

RankTimeline rank_from_json(const JsonNode& node) {
  constexpr std::int64_t kMaxCoordinate = std::numeric_limits<std::int32_t>::max();
  JsonObject object = node.object();
  RankTimeline rank;
  rank.stage = static_cast<std::int32_t>(object.member("stage").integer(0, kMaxCoordinate));
  rank.rank = static_cast<std::int32_t>(object.member("rank").integer(0, kMaxCoordinate));
  for (const JsonNode& span : object.member("spans").items()) {
    rank.spans.push_back(span_from_json(span));
  }
  object.finish();
  return rank;
}

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  std::string out = fmt::format(
      R"({{"displayTimeUnit":"ns","otherData":{{"source":{},"fingerprint":{}}},"traceEvents":[)",
      quote(timeline.source), quote(timeline.fingerprint));
  for (std::size_t process = 0; process < timeline.ranks.size(); ++process) {
    out += process == 0 ? "\n" : ",\n";
    put_names(out, process, timeline.ranks[process]);
    for (const Span& s : timeline.ranks[process].spans) {
      put(out,
          R"(,
{{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{},"wait_us":{}}}}})",
          op_name(s.op), process_number(process),
          thread_number(process, static_cast<std::size_t>(s.lane)),
          microseconds(nanoseconds(s.start)),
          microseconds(nanoseconds(s.end) - nanoseconds(s.start)), s.step,
          microseconds(nanoseconds(s.start) - nanoseconds(s.ready)));
    }
  }
  return out + "\n]}\n";
}

std::string to_json(const Timeline& timeline) {
  std::string out =
      fmt::format(R"({{"schema":"zplan.timeline/1","source":{},"fingerprint":{},"ranks":[)",
                  quote(timeline.source), quote(timeline.fingerprint));
  for (const RankTimeline& rank : timeline.ranks) {
    if (&rank != &timeline.ranks.front()) out += ',';
    put(out, R"({{"stage":{},"rank":{},"spans":[)", rank.stage, rank.rank);
    for (const Span& s : rank.spans) {
      if (&s != &rank.spans.front()) out += ',';
      put(out,
          "\n"
          R"({{"op":"{}","step":{},"lane":"{}","ready_ps":{},"start_ps":{},"end_ps":{}}})",
          op_name(s.op), s.step, name(s.lane), s.ready.value, s.start.value, s.end.value);
    }
    out += "]}";
  }
  return out + "]}\n";
}

Timeline timeline_from_json(std::string text, std::string name) {
  JsonObject object = parse_json(std::move(text), std::move(name)).object();
  object.schema("zplan.timeline/1");
  Timeline timeline;
  timeline.source = object.member("source").one_of({"sim", "exec"});
  timeline.fingerprint = object.member("fingerprint").string();
  for (const JsonNode& rank : object.member("ranks").items()) {
    timeline.ranks.push_back(rank_from_json(rank));
  }
  object.finish();
  return timeline;
}

}  // namespace zplan
