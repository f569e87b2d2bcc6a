// Trace: a Timeline and its Job as a picture for trace viewers, in Chrome trace event JSON, which
// Perfetto opens: one process per rank, one track per lane, slices named by role.
//
// Times are whole nanoseconds from the first operation shown. Both ends of a slice are rounded
// down, so neighbours stay neighbours: a viewer drops slices that overlap.
//
// By default it shows one steady step, of each pipeline stage one rank, and of loops over
// micro-batches the first and last iterations; a slice on each lane says which are left out
// (planner/program/timeline/fold.h). Everything: all ranks and steps of the Timeline.
//
// Counters. Memory, per tier: most bytes alive (planner/place/lifetime.h) from the last operation
// that the compute and CPU lanes had reached in program order to the one they reach now; its
// highest value is the live peak of the memory report. Rate, per lane that moves bytes: those of
// the operation over its duration. Rate, per link of the hardware, where its bytes are known: of
// all operations shown that load it, each at its mean rate; the busiest links.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/place/lifetime.h"
#include "planner/program/job/job.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

enum class WaitFor : std::uint8_t {
  kNothing,    // it began as soon as its lane was free
  kOperation,  // whose result it needs
  kMemory,     // an operation that used the same addresses before
  kPeers,      // the other members of a collective or transfer
  kLaunch,     // the host
  kUnseen,     // an operation that is not shown
};

// What an operation waited for longest since its lane was free.
struct WaitReason {
  WaitFor what = WaitFor::kNothing;
  OpId op = 0;  // of kOperation and kMemory
  SimTime waited{0};
};

struct TraceSlice {
  NodeIndex node = 0;
  OpId op = 0;
  std::int32_t step = 0;
  Lane lane = Lane::kCompute;
  std::int64_t start_ns = 0, end_ns = 0;
  WaitReason wait;
};

// Iterations of a loop over micro-batches that are left out on a lane.
struct TraceFold {
  FoldedSpan span;
  std::int64_t start_ns = 0, end_ns = 0;
};

// From the start of the operation that makes or moves something to the one that uses it.
struct TraceFlow {
  std::string_view name;  // "gather to use"
  Lane from = Lane::kCompute, to = Lane::kCompute;
  std::int64_t from_ns = 0, to_ns = 0;
};

struct TraceCounter {
  std::string name;  // "gpu memory", "io_read rate"
  std::string_view unit;
  struct Point {
    std::int64_t ns = 0;
    double value = 0;
  };
  std::vector<Point> points;  // each holds until the next one
};

struct RankTrace {
  std::int32_t rank = 0, stage = 0;
  std::vector<TraceSlice> slices;  // by lane, in lane order
  std::vector<TraceFold> folds;
  std::vector<TraceFlow> flows;
  std::vector<TraceCounter> counters;
};

struct Trace {
  std::string source, fingerprint;
  std::vector<RankTrace> ranks;
  std::vector<TraceCounter> links;
};

// What operations put on links of the hardware, those of siblings of the rank included.
struct LinkLoad {
  std::uint32_t link = 0;
  double bytes = 0;
};
struct TraceLinks {
  std::vector<std::string> names;
  std::vector<std::vector<std::vector<LinkLoad>>> loads;  // by stage, then node; or empty
};

enum class TraceScope : std::uint8_t { kOneStep, kEverything };

// Of a Timeline of this Job, folded or not. Throws Error(kBadInput) when it is of another one.
Trace make_trace(const Job& job, const JobLifetimes& lives, const Timeline& timeline,
                 TraceScope scope, const TraceLinks& links = {});

// Bytes that it takes as text, before it is written; within a factor of two.
std::int64_t estimated_bytes(const Trace& trace);

// Piece by piece, each a few hundred kilobytes.
void write(const Job& job, const Trace& trace, const std::function<void(std::string_view)>& sink);

// ---- parts, for tests -------------------------------------------------------------------------

// Bytes that one instance of a node moves: of a kernel its compulsory traffic, of a copy or
// transfer its content, of a collective what the whole of it has.
Bytes moved_bytes(const Program& program, const Node& node);

}  // namespace zplan
