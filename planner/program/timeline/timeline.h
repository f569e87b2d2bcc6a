// Timeline: when each operation of a Job ran. Simulator and executor both produce it, with the
// same operation ids on the same lanes; durations live here and nowhere else.
//
// ready  own dependencies met;  start  all members of the operation ready (equal to ready for
// single-rank operations that found their lane free);  end  completed. Picoseconds from the start
// of the run. start - ready of a collective is time spent waiting for other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan {

struct Span {
  OpId op = 0;
  std::int32_t step = 0;
  Lane lane = Lane::kCompute;
  SimTime ready{0}, start{0}, end{0};
  friend bool operator==(const Span&, const Span&) = default;
};

// Operations of a lane that a folded timeline (fold.h) has no spans of: iterations first .. last of
// a loop over micro-batches.
struct FoldedSpan {
  Lane lane = Lane::kCompute;
  std::int32_t step = 0;
  BlockIndex loop = 0;
  std::int64_t first = 0, last = 0;  // both included
  std::int64_t ops = 0;
  SimTime start{0}, end{0};  // from the first operation to the last one
  SimTime busy{0};           // part of it: from the starts to the ends of the operations
  friend bool operator==(const FoldedSpan&, const FoldedSpan&) = default;
};

// Spans of one rank (exec) or of the representative rank of a class (sim), in order of
// (start, lane, op), those that are folded, too.
struct RankTimeline {
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  std::vector<Span> spans;
  std::vector<FoldedSpan> folded{};  // empty unless the timeline is folded
  friend bool operator==(const RankTimeline&, const RankTimeline&) = default;
};

struct Timeline {
  std::string source;       // "sim" or "exec"
  std::string fingerprint;  // of the placed Job
  std::vector<RankTimeline> ranks;
  // Where a device chose among kernels: by an operation, the one it took.
  std::map<std::string, std::string> kernels{};
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Brings the spans of a rank into their order.
void sort_spans(RankTimeline& rank);

// Of a timeline that is not folded. Schema "zplan.timeline/1": one object per span, operations by
// op_name, times in picoseconds.
std::string to_json(const Timeline& timeline);
// Throws Error(kBadInput), one line "name:line:col: /pointer: expected ..., got ...".
Timeline timeline_from_json(std::string text, std::string name);

}  // namespace zplan
