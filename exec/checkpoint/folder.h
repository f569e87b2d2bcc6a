// A folder of checkpoints. A finished one is a folder step-000020 (more digits where they are
// needed); while it is written it is .step-000020.partial, which the next run on the folder
// removes. The run that saves here holds a lock on the file .lock.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zplan::exec {

inline constexpr mode_t kOwnerFolder = 0700;  // of all folders that hold what a run trains

// Error(kDevice): "PATH: cannot be made: No space left on device".
[[noreturn]] void fail_file(const std::string& path, const char* what, int error);

// Nothing where it is there. `shown`: what the user calls it. Throws Error: kBadInput for a name
// that cannot be a folder's, kDevice when the drive refuses.
void make_folder(const std::string& path, const std::string& shown);

std::string path_in(const std::string& folder, const std::string& name);

std::string checkpoint_name(std::int64_t step);                        // "step-000020"
std::optional<std::int64_t> checkpoint_step(const std::string& name);  // the other way round

// Steps of the finished checkpoints, ascending. Throws Error(kBadInput) when it is no folder.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

class FolderLock {
 public:
  // Makes the folder where there is none, and removes what killed runs left half done. Throws
  // Error: kBadInput when another run saves there, kDevice when it cannot be written.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// The folder of a checkpoint that is being written; made by whichever process comes first.
std::string partial_folder(const std::string& folder, std::int64_t step);
// What a folder names is on the drive when this returns. Throws Error(kDevice).
void sync_folder(const std::string& path);
// A small file that appears whole or not at all, and is on the drive when this returns.
void write_durably(const std::string& folder, const std::string& name, const std::string& text);
// Gives a checkpoint whose files are all written its name. One of the same step that was there is
// replaced.
void finish_checkpoint(const std::string& folder, std::int64_t step);
void remove_partial(const std::string& folder, std::int64_t step) noexcept;
// Of the finished checkpoints up to `newest` removes all but the last `keep` ones. One with the
// states of the newest is removed ahead of older ones: a training that skips every update would
// else leave nothing from before it diverged.
void prune_checkpoints(const std::string& folder, std::int64_t newest, std::int64_t keep);

}  // namespace zplan::exec
