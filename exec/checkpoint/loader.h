// Fills the states of a run from a checkpoint, whatever cut them when it was written: other
// numbers of ranks, stages and shards, other homes, other types of numbers.
//
//   parameter   that of the checkpoint where the type is the same, else its master, rounded
//   master      that of the checkpoint, else its parameter
//   moments     those of the checkpoint, rounded; of a tensor that has none there: zero
//   8 bits      the values that the codes stand for: a run that keeps moments in another number of
//               bits or cuts them into other blocks encodes them anew
//   carried     of the same Job alone (carried.h); else only the loss scale
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/saved_file.h"
#include "exec/checkpoint/state_source.h"
#include "exec/memory/slab.h"

namespace zplan::exec {

class Rendezvous;

// A finished checkpoint. Its functions throw Error(kBadInput), one line naming the file that is
// missing or damaged, or the tensor that it does not have.
class Checkpoint final : public StateSource {
 public:
  explicit Checkpoint(std::string path);

  const std::string& path() const override { return path_; }
  const Header& header() const { return header_; }

  // Whether it was written by the same Job.
  bool is_of(const Job& job) const;
  // All states of the ranks, and what they carry over. Returns in words what could not be kept.
  std::vector<std::string> load(const Job& job, std::vector<RankMemory>& memory);

  const std::vector<Source>& sources(const std::string& tensor, State state) const override;
  const SavedPiece& piece(const Source& at) const override;
  const std::byte* bytes(const Source& at) override;
  Source scales_of(const Source& codes) const override;

 private:
  // Whether all that it holds is of this model's tensors.
  void check_model(const Job& job) const;
  void load_carried(const Job& job, std::vector<RankMemory>& memory);

  std::string path_;
  Header header_;
  std::vector<SavedFile> files_;  // by rank
  std::map<std::pair<std::string, State>, std::vector<Source>> sources_;
};

// The kernels that the ranks ran when the newest checkpoint that the options name was written, as
// far as they can be read.
KnownChoices saved_choices(const ResumeOptions& options, const std::vector<std::int32_t>& ranks);

// Fills the states from the newest good checkpoint that the options name, and says in a line each
// what was found damaged and that the plan is another one. A path of nothing, or a folder without
// checkpoints where none is expected: fills nothing. Throws Error(kBadInput) when none is good.
// Processes agree on the checkpoint.
ResumePoint resume_states(const Job& job, const ResumeOptions& options,
                          std::vector<RankMemory>& memory, Rendezvous* rendezvous,
                          const std::function<void(const std::string&)>& say);

}  // namespace zplan::exec
