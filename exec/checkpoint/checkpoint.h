// Keeping what a run has trained, and going on from it: what the user may choose, and what became
// of it. saver.h writes checkpoints, loader.h reads them, format.h says what they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "exec/offload/storage.h"
#include "planner/core/error.h"
#include "planner/core/units.h"

namespace zplan::exec {

struct SaveOptions {
  std::string folder{};    // empty: nothing is saved
  std::int64_t every = 0;  // steps; 0: at the end alone
  std::int64_t keep = 0;   // the last ones; 0: all
  std::string plan{};      // text that is kept beside the states
  IoMethod io = IoMethod::kAuto;
  // Of memory for copies of the states; without room for all of them they are written from where
  // they are.
  Bytes most_staging{std::numeric_limits<std::int64_t>::max()};
  IoFault fault{};  // for tests
};

struct ResumeOptions {
  // A folder of checkpoints, of which the newest good one is taken, or one checkpoint. Empty:
  // training begins at the first step; so it does when the folder has none, unless `expected`.
  std::string path{};
  bool expected = false;
};

// Of one checkpoint that was written.
struct SavedCheckpoint {
  std::int64_t step = 0;  // steps that were done
  Bytes bytes{0};         // of this process
  Seconds stall{0};       // that training stood still
  Seconds writing{0};     // beside it, until the checkpoint had its name
};

struct SaveReport {
  std::string folder;
  std::vector<SavedCheckpoint> saved;
  bool aside = true;        // written while training went on
  Bytes staging{0};         // memory for that
  std::int64_t failed = 0;  // checkpoints that could not be written
  bool last_failed = false;
  ExitCode failure =
      ExitCode::kOk;  // of the last one: kCheckFailed where parameters are no numbers
};

// Where training goes on.
struct ResumePoint {
  std::string path;          // of the checkpoint; empty: training begins
  std::int64_t step = 0;     // steps that are done
  std::int64_t samples = 0;  // that they used
  std::uint64_t seed = 0;
  bool same_job = true;    // else states were cut anew
  std::string plan;        // that it was saved with
  bool validated = false;  // a validation that is due after that step is known to be done
};

}  // namespace zplan::exec
