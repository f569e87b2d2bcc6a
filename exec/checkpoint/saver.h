// Writes checkpoints of a run. save() is called between two steps, while no operation runs: it
// copies the states into memory of its own, which was had at the start, and returns; a thread
// writes them. Where there is no such memory the states are written before save() returns. A save
// waits for the one before it.
//
// Ranks that are processes write their parts into the same folder. The process of rank 0 waits
// until all parts are there and gives the checkpoint its name.
//
// What cannot be written is told in one line; training goes on, and what was saved before stays. So
// it is with parameters that are not finite: they would take the place of the last good ones.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/saved_states.h"
#include "exec/memory/slab.h"
#include "exec/offload/io_engine.h"

namespace zplan::exec {

class Saver {
 public:
  // `base`: what all headers of the run say. `choices`: the kernels of this process. `say`: takes
  // lines, from any thread. The process of rank 0 must hold a lock of the folder. Throws
  // Error(kDevice).
  Saver(const Job& job, const SaveOptions& options, const std::vector<RankMemory>& memory,
        Header base, const KnownChoices& choices, std::function<void(const std::string&)> say,
        std::chrono::seconds deadline);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Memory that the copies take.
  static Bytes staging(const Job& job, const std::vector<RankMemory>& memory);

  bool is_due(std::int64_t step) const { return options_.every > 0 && step % options_.every == 0; }
  // The state after so many steps. Nothing where it is saved already.
  void save(std::int64_t step, std::int64_t samples);
  // Returns when nothing is being written any more.
  void finish();
  // The checkpoint of this step, which is finished, is saved ahead of a validation that is now
  // done.
  void mark_validated(std::int64_t step) const;
  const SaveReport& report() const { return report_; }

 private:
  struct RankPart {
    const RankMemory* memory;
    RankLayout layout;
    Slab copy;  // empty: written from where it is
  };

  bool leads() const { return parts_.front().layout.index.rank == 0; }
  void copy_states();
  void write(Header header);
  void seal(RankPart& part, std::size_t source, const std::byte* data);
  void write_part(RankPart& part, const std::string& folder, std::int64_t step);
  void write_bytes(RankPart& part, const class CheckpointFile& file);
  void write_from_memory(RankPart& part, const class CheckpointFile& file);
  void conclude(const Header& header, const std::string& folder);
  void await_parts(const std::string& folder) const;
  void tell_others(const std::string& folder) const noexcept;

  SaveOptions options_;
  Header base_;
  std::function<void(const std::string&)> say_;
  std::chrono::seconds deadline_;
  std::vector<RankPart> parts_;  // by rank of this process
  std::unique_ptr<IoEngine> engine_;
  SaveReport report_;  // of the thread that writes, while it does
  std::int64_t last_step_ = -1;
  std::atomic<bool> stop_ = false;
  std::future<void> writing_;
};

}  // namespace zplan::exec
