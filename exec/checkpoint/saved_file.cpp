#include "exec/checkpoint/saved_file.h"

#include <fmt/format.h>

#include "exec/checkpoint/checksum.h"
#include "exec/checkpoint/folder.h"
#include "planner/core/error.h"
#include "planner/core/input_file.h"

namespace zplan::exec {
namespace {

// Pieces lie within the file.
void check_places(const RankIndex& index, const std::string& path) {
  const auto check = [&](const SavedBytes& at) {
    if (at.offset > index.bytes.value || at.bytes > index.bytes.value - at.offset)
      throw_bad_input(
          fmt::format("{}: has a piece beyond the {} bytes of its file", path, index.bytes.value));
  };
  for (const SavedPiece& piece : index.pieces) check(piece.at);
  for (const SavedCarried& carried : index.carried) check(carried.at);
}

}  // namespace

std::string read_saved_text(const std::string& path) {
  return InputFile(path, Pipes::kRefused, Links::kRefused).read_all();
}

SavedFile::SavedFile(const std::string& checkpoint, std::int32_t rank, std::int64_t step)
    : path_(path_in(checkpoint, bytes_name(rank))) {
  const std::string index_path = path_in(checkpoint, index_name(rank));
  index_ = index_from_text(read_saved_text(index_path), index_path);
  if (index_.rank != rank || index_.step != step)
    throw_bad_input(fmt::format("{}: is of rank {} and step {}, expected rank {} and step {}",
                                index_path, index_.rank, index_.step, rank, step));
  check_places(index_, index_path);
  is_checked_.resize(index_.pieces.size() + index_.carried.size());
  bytes_.emplace(path_, index_.bytes);
}

const std::byte* SavedFile::piece(std::size_t number) {
  const SavedPiece& piece = index_.pieces[number];
  const std::string tensor = piece.tensors.empty() ? "" : piece.tensors.front().name;
  return checked(piece.at, number, fmt::format("{} of {}", name(piece.state), tensor));
}

const std::byte* SavedFile::carried(std::size_t number) {
  const SavedCarried& carried = index_.carried[number];
  return checked(carried.at, index_.pieces.size() + number, carried.buffer);
}

const std::byte* SavedFile::checked(const SavedBytes& at, std::size_t place,
                                    const std::string& what) {
  const std::byte* const data = bytes_->data() + at.offset;
  if (is_checked_[place]) return data;
  if (checksum({data, static_cast<std::size_t>(at.bytes)}) != at.sum)
    throw_bad_input(fmt::format("{}: damaged: bytes {} to {}, {}", path_, at.offset,
                                at.offset + at.bytes, what));
  is_checked_[place] = true;
  return data;
}

}  // namespace zplan::exec
