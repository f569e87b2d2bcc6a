#include "planner/program/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/core/json_edit.h"
#include "planner/core/json_reader.h"
#include "planner/program/job/names.h"

namespace zplan {
namespace {

void put_kernels(std::string& out, const std::map<std::string, std::string>& kernels) {
  out += ",\n\"kernels\":{";
  for (const auto& [name, chosen] : kernels)
    out += fmt::format("{}{}:{}", out.back() == '{' ? "" : ",", ascii_json_string(name),
                       ascii_json_string(chosen));
  out += '}';
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

void sort_spans(RankTimeline& rank) {
  std::stable_sort(rank.spans.begin(), rank.spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.start, a.lane, a.op) < std::tie(b.start, b.lane, b.op);
  });
  std::stable_sort(rank.folded.begin(), rank.folded.end(),
                   [](const FoldedSpan& a, const FoldedSpan& b) {
                     return std::tie(a.start, a.lane) < std::tie(b.start, b.lane);
                   });
}

std::string to_json(const Timeline& timeline) {
  std::string out =
      fmt::format(R"({{"schema":"zplan.timeline/1","source":{},"fingerprint":{},"ranks":[)",
                  ascii_json_string(timeline.source), ascii_json_string(timeline.fingerprint));
  for (const RankTimeline& rank : timeline.ranks) {
    if (&rank != &timeline.ranks.front()) out += ',';
    out += fmt::format(R"({{"stage":{},"rank":{},"spans":[)", rank.stage, rank.rank);
    for (const Span& s : rank.spans) {
      if (&s != &rank.spans.front()) out += ',';
      out += fmt::format(
          "\n"
          R"({{"op":"{}","step":{},"lane":"{}","ready_ps":{},"start_ps":{},"end_ps":{}}})",
          op_name(s.op), s.step, name(s.lane), s.ready.value, s.start.value, s.end.value);
    }
    out += "]}";
  }
  out += ']';
  if (!timeline.kernels.empty()) put_kernels(out, timeline.kernels);
  return out + "}\n";
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
  if (const auto kernels = object.optional_member("kernels"))
    for (const auto& [operation, kernel] : kernels->members())
      timeline.kernels[operation] = kernel.string();
  object.finish();
  return timeline;
}

}  // namespace zplan
