// Timeline: when each operation of a Job ran. Simulator and executor both produce it, with the
// same operation ids on the same lanes; durations live here and nowhere else.
//
// ready  own dependencies met;  start  all members of the operation ready (equal to ready for
// single-rank operations that found their lane free);  end  completed. Picoseconds from the start
// of the run. start - ready of a collective is time spent waiting for other ranks.
#pragma once

#include <cstdint>
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

// Spans of one rank (exec) or of the representative rank of a class (sim), in order of
// (start, lane, op).
struct RankTimeline {
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  std::vector<Span> spans;
  friend bool operator==(const RankTimeline&, const RankTimeline&) = default;
};

struct Timeline {
  std::string source;       // "sim" or "exec"
  std::string fingerprint;  // of the placed Job
  std::vector<RankTimeline> ranks;
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Chrome trace event JSON (opens in Perfetto): one process per rank, one thread per lane, complete
// events named by op_name, microsecond timestamps, the wait for other ranks as an argument.
std::string chrome_trace(const Timeline& timeline);

// Schema "zplan.timeline/1": one object per span, operations by op_name, times in picoseconds.
std::string to_json(const Timeline& timeline);
// Throws Error(kBadInput), one line "name:line:col: /pointer: expected ..., got ...".
Timeline timeline_from_json(std::string text, std::string name);

}  // namespace zplan
