#include "exec/checkpoint/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "exec/checkpoint/format.h"
#include "exec/checkpoint/saved_file.h"
#include "exec/offload/open_file.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kHidden = ".step-", kPartial = ".partial";

std::string partial_name(std::int64_t step) {
  return fmt::format(".{}{}", checkpoint_name(step), kPartial);
}

void rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_file(to, "cannot get its name", errno);
}

// Under another name first: what is half removed is no checkpoint.
void remove_checkpoint(const std::string& folder, std::int64_t step) {
  const std::string hidden = path_in(folder, partial_name(step));
  rename(path_in(folder, checkpoint_name(step)), hidden);
  std::error_code error;
  fs::remove_all(hidden, error);
}

// The checksums of a rank's states; nothing: they cannot be read.
std::optional<std::vector<std::uint64_t>> sums_of(const std::string& checkpoint,
                                                  std::int32_t rank) {
  const std::string path = path_in(checkpoint, index_name(rank));
  std::vector<std::uint64_t> sums;
  try {
    for (const SavedPiece& piece : index_from_text(read_saved_text(path), path).pieces)
      sums.push_back(piece.at.sum);
  } catch (const Error&) {
    return std::nullopt;
  }
  return sums;
}

// Whether no rank's states differ, as where every update between the two steps was skipped.
bool has_same_states(const std::string& folder, std::int64_t step, std::int64_t other) {
  const std::string one = path_in(folder, checkpoint_name(step)),
                    two = path_in(folder, checkpoint_name(other));
  std::int32_t rank = 0;
  for (; fs::exists(path_in(one, index_name(rank))); ++rank) {
    const auto sums = sums_of(one, rank);
    if (!sums || sums != sums_of(two, rank)) return false;
  }
  return rank > 0 && !fs::exists(path_in(two, index_name(rank)));
}

void write_all(int descriptor, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_file(path, "cannot be written", errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(descriptor) != 0) fail_file(path, "cannot be flushed", errno);
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kHidden) && name.ends_with(kPartial)) fs::remove_all(entry, error);
  }
}

}  // namespace

void fail_file(const std::string& path, const char* what, int error) {
  throw Error(ExitCode::kDevice, fmt::format("{}: {}: {}", path, what, strerror(error)));
}

void make_folder(const std::string& path, const std::string& shown) {
  if (::mkdir(path.c_str(), kOwnerFolder) == 0) return;
  const int reason = errno;
  std::error_code error;
  if (reason == EEXIST && fs::is_directory(path, error)) return;
  if (reason == EEXIST) throw_bad_input(fmt::format("{}: expected a folder, got a file", shown));
  const bool is_wrong_name =
      reason == ENOENT || reason == ENOTDIR || reason == ELOOP || reason == ENAMETOOLONG;
  if (!is_wrong_name) fail_file(shown, "cannot be made", reason);
  throw_bad_input(
      fmt::format("{}: cannot be made: {}; expected the name of a folder in one that is "
                  "there",
                  shown, strerror(reason)));
}

std::string path_in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

std::optional<std::int64_t> checkpoint_step(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  const bool is_number = error == std::errc{} && stop == end && step >= 0;
  if (!is_number || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error)
    throw_bad_input(
        fmt::format("{}: {}, expected a folder of checkpoints", folder, error.message()));
  std::vector<std::int64_t> steps;
  for (const auto& entry : entries)
    if (const auto step = checkpoint_step(entry.path().filename().string())) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

FolderLock::FolderLock(const std::string& folder) {
  make_folder(folder, folder);
  const std::string path = path_in(folder, ".lock");
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (descriptor_ < 0) fail_file(path, "cannot be opened", errno);
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(descriptor_);
    if (error != EWOULDBLOCK) fail_file(path, "cannot be locked", error);
    throw_bad_input(
        fmt::format("{}: another run saves there, expected a folder of its own for "
                    "each",
                    folder));
  }
  remove_leftovers(folder);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_file(path, "cannot be opened", errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0 && error != EINVAL)
    fail_file(path, "cannot be flushed", error);  // EINVAL: no need
}

std::string partial_folder(const std::string& folder, std::int64_t step) {
  std::string path = path_in(folder, partial_name(step));
  make_folder(path, path);
  return path;
}

void write_durably(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = path_in(folder, name), hidden = path_in(folder, "." + name);
  ::unlink(hidden.c_str());
  const int descriptor =
      ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) fail_file(path, "cannot be created", errno);
  try {
    write_all(descriptor, path, text);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  rename(hidden, path);
  sync_folder(folder);
}

void finish_checkpoint(const std::string& folder, std::int64_t step) {
  const std::string partial = path_in(folder, partial_name(step));
  const std::string path = path_in(folder, checkpoint_name(step));
  sync_folder(partial);
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    rename(partial, path);
    return sync_folder(folder);
  }
  sync_folder(folder);
  remove_partial(folder, step);  // the one that was there
}

void remove_partial(const std::string& folder, std::int64_t step) noexcept {
  std::error_code error;
  fs::remove_all(path_in(folder, partial_name(step)), error);
}

void prune_checkpoints(const std::string& folder, std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> steps = checkpoint_steps(folder);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), newest), steps.end());
  const auto kept = static_cast<std::size_t>(keep);
  if (steps.size() > kept && steps.size() > 1 &&
      has_same_states(folder, steps.back(), *(steps.end() - 2))) {
    remove_checkpoint(folder, *(steps.end() - 2));
    steps.erase(steps.end() - 2);
  }
  for (std::size_t i = 0; i + kept < steps.size(); ++i) remove_checkpoint(folder, steps[i]);
}

}  // namespace zplan::exec
