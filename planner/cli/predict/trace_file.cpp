#include "planner/cli/predict/trace_file.h"

#include <fmt/format.h>

#include "planner/cli/frame/gzip.h"
#include "planner/cli/frame/output.h"
#include "planner/core/error.h"
#include "planner/cost/cost_model.h"
#include "planner/trace/trace.h"

namespace zplan {
namespace {

std::string size_words(std::int64_t bytes) {
  constexpr double kMegabyte = 1e6;
  const double megabytes = static_cast<double>(bytes) / kMegabyte;
  return megabytes < 1 ? "less than 1 MB" : fmt::format("about {:.0f} MB", megabytes);
}

void announce(const std::string& path, const Trace& trace) {
  std::int64_t slices = 0;
  for (const RankTrace& rank : trace.ranks) slices += static_cast<std::int64_t>(rank.slices.size());
  complain(fmt::format("writing {}: {} operations of {} ranks, {}{}", path, slices,
                       trace.ranks.size(), size_words(estimated_bytes(trace)),
                       is_gzip_name(path) ? " before it is compressed" : ""));
}

}  // namespace

void check_trace(const std::string& path, bool all) {
  if (path.empty() && all)
    throw_bad_input("--trace-all: expected a file, as in: --trace t.json.gz");
  if (is_gzip_name(path)) check_gzip(path);
}

TraceLinks trace_links(const Job& job, const Cluster& cluster) {
  const CostModel model(job, cluster);
  TraceLinks links;
  for (const CostLink& link : model.links()) links.names.push_back(link.name);
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    auto& nodes = links.loads.emplace_back();
    for (const OpCost& cost : model.costs(static_cast<int>(stage))) {
      auto& loads = nodes.emplace_back();
      if (cost.bytes.value == 0) continue;
      for (const LinkShare& share : model.shares(cost))
        loads.push_back({share.link, static_cast<double>(cost.bytes.value) * share.weight});
    }
  }
  return links;
}

void write_trace(const std::string& path, const Job& job, const Timeline& timeline, bool all,
                 const TraceLinks& links) {
  const Trace trace = make_trace(job, lifetimes(job), timeline,
                                 all ? TraceScope::kEverything : TraceScope::kOneStep, links);
  announce(path, trace);
  FileWriter file(path);
  const auto to_file = [&](std::string_view text) { file.write(text); };
  if (is_gzip_name(path)) {
    Gzip gzip(to_file);
    write(job, trace, [&](std::string_view text) { gzip.write(text); });
    gzip.finish();
  } else {
    write(job, trace, to_file);
  }
  file.finish();
}

}  // namespace zplan
