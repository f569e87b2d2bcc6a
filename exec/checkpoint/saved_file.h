// The bytes of one rank in a finished checkpoint, mapped for reading. A piece is held against its
// checksum when it is first looked at.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/format.h"
#include "exec/checkpoint/mapped_file.h"

namespace zplan::exec {

class SavedFile {
 public:
  // Throws Error(kBadInput), one line naming the file: missing, cut short, damaged.
  SavedFile(const std::string& checkpoint, std::int32_t rank, std::int64_t step);

  const RankIndex& index() const { return index_; }
  // Throw Error(kBadInput) naming what is damaged.
  const std::byte* piece(std::size_t number);
  const std::byte* carried(std::size_t number);

 private:
  const std::byte* checked(const SavedBytes& at, std::size_t place, const std::string& what);

  std::string path_;
  RankIndex index_;
  std::optional<MappedFile> bytes_;
  std::vector<bool> is_checked_;  // pieces, then what is carried
};

// A text file of a checkpoint. Throws Error(kBadInput) naming it.
std::string read_saved_text(const std::string& path);

}  // namespace zplan::exec
