#include "exec/offload/storage.h"

#include <fmt/format.h>

namespace zplan::exec {

std::string name(IoMethod method) {
  switch (method) {
    case IoMethod::kAuto:
      return "auto";
    case IoMethod::kUring:
      return "uring";
    case IoMethod::kPosix:
      return "posix";
  }
  return "";
}

std::string describe(const StorageReport& report) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return fmt::format(
      "{} file{} of {:.2f} GiB in all in {}; {} ({}), {}, host buffers {}", report.files,
      report.files == 1 ? "" : "s", static_cast<double>(report.bytes.value) / kGib,
      report.directory, report.method == IoMethod::kUring ? "io_uring" : "pread and pwrite",
      report.method_reason, report.direct ? "O_DIRECT" : "through the page cache, no O_DIRECT",
      report.pinned ? "locked in memory" : "not locked in memory: " + report.pinned_reason);
}

}  // namespace zplan::exec
