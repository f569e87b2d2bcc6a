#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "planner/cli/doctor/doctor.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

// What follows a key at the begin of a line of a file of the system: "MemTotal:  123 kB".
std::optional<std::string> value_in(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return std::nullopt;
}

// Of /proc/meminfo, whose kB is 1024 bytes.
std::optional<Bytes> memory_in(std::string_view key) {
  constexpr std::int64_t kKib = 1024;
  const auto text = value_in("/proc/meminfo", key);
  std::int64_t number = 0;
  if (!text || !(std::istringstream(*text) >> number)) return std::nullopt;
  return Bytes{number * kKib};
}

// Of a container: "max 100000" or "150000 100000", microseconds of all cores per period.
std::optional<double> core_quota() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

HostFinding cores_finding() {
  const unsigned cores = std::thread::hardware_concurrency();
  const int threads = omp_get_max_threads();
  HostFinding f{"CPU cores", Presence::kYes, fmt::format("{}; OpenMP uses {}", cores, threads),
                "plan; run on the CPU; updates of offloaded states", ""};
  if (const auto quota = core_quota(); quota && *quota < cores) {
    f.presence = Presence::kPartly;
    f.found += fmt::format("; the container may use {:.1f} of them", *quota);
    f.advice =
        fmt::format("set --threads and --threads-per-rank so that all stay within {:.1f}", *quota);
  } else if (static_cast<unsigned>(threads) < cores) {
    f.advice = "OpenMP uses fewer threads than there are cores: OMP_NUM_THREADS, if it is set";
  }
  return f;
}

HostFinding memory_finding() {
  const auto total = memory_in("MemTotal:"), available = memory_in("MemAvailable:");
  HostFinding f{"CPU memory", Presence::kNo, "/proc/meminfo does not say",
                "run: the CPU tier; on the CPU also the GPU tier", "mount /proc"};
  if (!total || !available) return f;
  f.presence = Presence::kYes;
  f.advice.clear();
  f.found = fmt::format("{} available of {}", format_bytes(*available), format_bytes(*total));
  return f;
}

// Whether the process may lock as much as it likes: the capability CAP_IPC_LOCK.
bool may_lock_all() {
  constexpr unsigned kIpcLock = 14;
  const auto effective = value_in("/proc/self/status", "CapEff:");
  if (!effective) return false;
  return (std::strtoull(effective->c_str(), nullptr, 16) >> kIpcLock & 1U) != 0;
}

HostFinding lock_finding() {
  HostFinding f{"Memory lock limit", Presence::kYes, "no limit",
                "run: transfers to and from drives and GPUs", ""};
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return f;
  f.found = format_bytes(Bytes{static_cast<std::int64_t>(limit.rlim_cur)});
  if (may_lock_all()) {
    f.found += ", but this process may lock more (CAP_IPC_LOCK)";
    return f;
  }
  f.presence = Presence::kPartly;
  f.advice =
      "raise it (ulimit -l, /etc/security/limits.conf, docker --ulimit memlock=-1): "
      "transfers of what is not locked are slower";
  return f;
}

// The word in brackets of "always [madvise] never".
HostFinding huge_pages_finding() {
  HostFinding f{"Huge pages", Presence::kNo, "the system has none",
                "run: fewer page faults in large memory", "nothing: only a little time is lost"};
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!std::getline(in, line)) return f;
  const std::size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return f;
  const std::string mode = line.substr(begin + 1, end - begin - 1);
  f.found = fmt::format("transparent huge pages: {}", mode);
  f.advice = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  if (mode == "never") return f;
  f.presence = Presence::kYes;
  f.advice.clear();
  return f;
}

HostFinding launcher_finding() {
  HostFinding f{"Launcher", Presence::kNo, "", "run with ranks as processes", ""};
  for (const char* program : {"mpirun", "srun", "torchrun"})
    if (const auto path = in_path(program)) f.found += (f.found.empty() ? "" : ", ") + *path;
  if (!f.found.empty()) {
    f.presence = Presence::kYes;
    return f;
  }
  f.found = "no mpirun, srun or torchrun in PATH";
  f.advice =
      "install Open MPI (openmpi-bin) or use the launcher of your cluster; ranks as threads "
      "of one process need none";
  return f;
}

}  // namespace

std::optional<std::string> in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    std::error_code failed;
    if (std::filesystem::is_regular_file(candidate, failed) && access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return std::nullopt;
}

HostFindings examine_host() {
  return {cores_finding(), memory_finding(), lock_finding(), huge_pages_finding(),
          launcher_finding()};
}

}  // namespace zplan
