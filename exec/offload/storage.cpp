#include "exec/offload/storage.h"

#include <fmt/format.h>

#include "planner/core/quantity.h"

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
  return fmt::format(
      "{} file{} of {} in all in {}; {} ({}), {}, host buffers {}", report.files,
      report.files == 1 ? "" : "s", format_bytes(report.bytes), report.directory,
      report.method == IoMethod::kUring ? "io_uring" : "pread and pwrite", report.method_reason,
      report.direct ? "O_DIRECT" : "through the page cache, no O_DIRECT",
      report.pinned ? "locked in memory" : "not locked in memory: " + report.pinned_reason);
}

}  // namespace zplan::exec
