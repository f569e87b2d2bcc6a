#include "exec/checkpoint/export_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "exec/checkpoint/folder.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;

// Without a '/' at its end.
fs::path plain(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void check_free(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status) || !fs::is_empty(folder, error))
    throw_bad_input(
        fmt::format("{}: is there already, expected no file or folder, or an empty one", folder));
}

}  // namespace

std::string partial_export(const std::string& folder) {
  const fs::path path = plain(folder);
  return (path.parent_path() / fmt::format(".{}.partial", path.filename().string())).string();
}

ExportFolder::ExportFolder(const std::string& folder)
    : folder_(plain(folder).string()), partial_(partial_export(folder)) {
  check_free(folder_);
  make_folder(partial_, folder_);
  descriptor_ = ::open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) fail_file(partial_, "cannot be opened", errno);
  // Another run that has just finished has taken the name from what was opened.
  struct stat opened {
  }, named{};
  const bool is_locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const bool is_ours = is_locked && fstat(descriptor_, &opened) == 0 &&
                       lstat(partial_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
                       opened.st_dev == named.st_dev;
  if (!is_ours) {
    ::close(descriptor_);
    throw_bad_input(
        fmt::format("{}: another run writes there, expected a folder of its own for "
                    "each",
                    folder_));
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(partial_, error)) fs::remove_all(entry, error);
}

ExportFolder::~ExportFolder() {
  std::error_code error;
  if (!finished_) fs::remove_all(partial_, error);
  ::close(descriptor_);
}

void ExportFolder::finish() {
  check_free(folder_);
  sync_folder(partial_);
  if (std::rename(partial_.c_str(), folder_.c_str()) != 0)
    fail_file(folder_, "cannot get its name", errno);
  finished_ = true;
  const std::string parent = plain(folder_).parent_path().string();
  sync_folder(parent.empty() ? "." : parent);
}

}  // namespace zplan::exec
