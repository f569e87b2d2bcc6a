#include "exec/checkpoint/saved_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "exec/checkpoint/checksum.h"
#include "exec/checkpoint/folder.h"
#include "planner/core/error.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kStep = 7;

class SavedFiles : public testing::StorageFolder {
 protected:
  // A file of a piece of 48 bytes and of 24 bytes that a step carries over.
  void write(const RankIndex& index) {
    std::ofstream(path_in(folder_.string(), bytes_name(0)), std::ios::binary) << bytes_;
    std::ofstream(path_in(folder_.string(), index_name(0)), std::ios::binary) << to_text(index);
  }
  RankIndex index() const {
    RankIndex index{.step = kStep, .rank = 0, .bytes = {12288}, .pieces = {}, .carried = {}};
    index.pieces.push_back({.at = place(4096, 48),
                            .state = State::kParam,
                            .dtype = DType::kF32,
                            .piece = 0,
                            .pieces = 1,
                            .first = 0,
                            .elements = 12,
                            .every = 1,
                            .tensors = {}});
    index.carried.push_back({place(8192, 24), "loss_scale"});
    return index;
  }
  SavedBytes place(std::int64_t offset, std::int64_t bytes) const {
    const std::string_view all(bytes_);
    return {
        offset, bytes,
        checksum(all.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)))};
  }
  SavedFile open() const { return SavedFile(folder_.string(), 0, kStep); }
  static std::string refusal(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return "";
  }

  std::string bytes_ = std::string(12288, 'x');
};

TEST_F(SavedFiles, GiveWhatWasSaved) {
  write(index());
  SavedFile file = open();
  EXPECT_EQ(file.piece(0), file.carried(0) - 4096);
}

// A part that was read before vouches for no other.
TEST_F(SavedFiles, ADamagedPartIsNamedWhateverWasReadBefore) {
  const RankIndex good = index();
  bytes_[8192 + 23] = 'y';
  write(good);
  SavedFile file = open();
  EXPECT_NE(file.piece(0), nullptr);
  EXPECT_THAT(refusal([&] { file.carried(0); }), HasSubstr("loss_scale"));
}

TEST_F(SavedFiles, APartThatEndsBeyondTheFileIsRefused) {
  RankIndex beyond = index();
  beyond.bytes = {8192 + 23};
  write(beyond);
  EXPECT_THAT(refusal([&] { open(); }), HasSubstr("beyond the 8215 bytes"));
  beyond.bytes = {8192 + 24};
  write(beyond);
  EXPECT_EQ(refusal([&] { open(); }), "");
}

}  // namespace
}  // namespace zplan::exec
