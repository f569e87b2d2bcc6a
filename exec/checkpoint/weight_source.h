// Parameters in files of another program (planner/program/job/model_files.h) as pieces that states
// are filled from. A piece is some whole rows of a matrix, put together from the mapped files when
// it is asked for; the one at hand is kept. There are no other states: masters are the parameters,
// moments begin at zero.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/mapped_file.h"
#include "exec/checkpoint/state_source.h"
#include "exec/memory/slab.h"
#include "planner/program/job/model_files.h"

namespace zplan::exec {

class WeightSource final : public StateSource {
 public:
  // Refers to `files`. Throws Error(kBadInput), one line naming the file.
  explicit WeightSource(const ModelFiles& files);

  const std::string& path() const override { return files_.folder; }
  const std::vector<Source>& sources(const std::string& tensor, State state) const override;
  const SavedPiece& piece(const Source& at) const override { return pieces_[at.piece].saved; }
  const std::byte* bytes(const Source& at) override;
  Source scales_of(const Source& codes) const override;

 private:
  // Rows of one matrix of a tensor.
  struct Piece {
    SavedPiece saved;
    const FiledTensor* tensor;
    std::int64_t matrix, row, rows;
  };
  void add_pieces(const FiledTensor& tensor);

  const ModelFiles& files_;
  std::vector<MappedFile> mapped_;
  std::vector<Piece> pieces_;
  std::map<std::string, std::vector<Source>> sources_;
  std::vector<std::byte> at_hand_;
  std::size_t at_hand_number_ = static_cast<std::size_t>(-1);
};

// A whole tensor, row-major.
std::vector<double> weight_values(WeightSource& source, const std::string& tensor);

// Fills all states of the ranks, and clears what a step carries over.
void load_weights(const Job& job, const ModelFiles& files, std::vector<RankMemory>& memory);

}  // namespace zplan::exec
