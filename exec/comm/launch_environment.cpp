#include "exec/comm/launch_environment.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

struct Launcher {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;  // nullptr: none
};
constexpr Launcher kByHand{"RANK", "WORLD_SIZE", "LOCAL_RANK", nullptr};
constexpr std::array<Launcher, 2> kMpi{
    {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}};

constexpr int kMostProcesses =
    1 << 20;  // [assumed] far above any job, so that sums do not overflow
constexpr int kMostPort = 65535;

class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  bool has(const char* variable) const { return lookup_(variable).has_value(); }
  std::string text(const char* variable, const std::string& otherwise) const {
    return lookup_(variable).value_or(otherwise);
  }
  // In [least, most]; `otherwise` when unset.
  int number(const char* variable, int least, int most, std::optional<int> otherwise = {}) const {
    const std::optional<std::string> text = lookup_(variable);
    if (!text && otherwise) return *otherwise;
    int value = 0;
    const char* end = text ? text->data() + text->size() : nullptr;
    const auto parsed = text ? std::from_chars(text->data(), end, value)
                             : std::from_chars_result{nullptr, std::errc::invalid_argument};
    if (parsed.ec == std::errc{} && parsed.ptr == end && value >= least && value <= most)
      return value;
    throw_bad_input(fmt::format("{}: expected a number from {} to {}, got {}", variable, least,
                                most, text ? fmt::format("'{}'", *text) : "nothing"));
  }

 private:
  const Lookup& lookup_;
};

LaunchEnvironment read_places(const Reader& read, const Launcher& names) {
  LaunchEnvironment at;
  at.world = read.number(names.world, 1, kMostProcesses);
  at.rank = read.number(names.rank, 0, at.world - 1);
  at.local_rank = read.number(names.local_rank, 0, at.world - 1, at.rank);
  return at;
}

int read_port(const Reader& read, int otherwise) {
  const int port = read.number("MASTER_PORT", 1, kMostPort, otherwise);
  const bool is_taken = read.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  if (!is_taken) return port;
  return port < kMostPort ? port + 1 : port - 1;
}

int default_port(const Reader& read) {
  int number = 0;
  for (char digit : read.text("SLURM_JOB_ID", "")) {
    if (digit < '0' || digit > '9') throw_bad_input("SLURM_JOB_ID: expected a number");
    number = (number * 10 + (digit - '0')) % kSlurmPorts;
  }
  return kDefaultPort + number;
}

std::string slurm_address(const Reader& read) {
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::string host = first_host(read.text(list, ""));
    if (!host.empty()) return host;
  }
  return read.text("SLURM_LAUNCH_NODE_IPADDR", "");
}

// Of MPI's or Slurm's processes.
void read_meeting_place(const Reader& read, bool on_one_host, LaunchEnvironment& at) {
  const std::string slurm = slurm_address(read);
  at.port = read_port(read, default_port(read));
  if (read.has("MASTER_ADDR") || !slurm.empty()) {
    at.address = read.text("MASTER_ADDR", slurm);
  } else if (!on_one_host) {
    throw_bad_input("MASTER_ADDR: expected the host of rank 0, as not all processes are on one");
  }
}

std::optional<LaunchEnvironment> by_hand(const Reader& read) {
  if (!read.has(kByHand.rank) && !read.has(kByHand.world)) return std::nullopt;
  LaunchEnvironment at = read_places(read, kByHand);
  at.address = read.text("MASTER_ADDR", at.address);
  at.port = read_port(read, kDefaultPort);
  return at;
}

std::optional<LaunchEnvironment> by_mpi(const Reader& read, const Launcher& names) {
  if (!read.has(names.rank) && !read.has(names.world)) return std::nullopt;
  LaunchEnvironment at = read_places(read, names);
  const int local_world = read.number(names.local_world, 1, at.world, at.world);
  read_meeting_place(read, local_world == at.world, at);
  return at;
}

std::optional<LaunchEnvironment> by_slurm(const Reader& read) {
  const bool is_counted = read.has("SLURM_STEP_NUM_TASKS");
  const bool is_step = is_counted || (read.has("SLURM_STEP_ID") && read.has("SLURM_NTASKS"));
  if (!is_step || !read.has("SLURM_PROCID")) return std::nullopt;
  const Launcher names{"SLURM_PROCID", is_counted ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                       "SLURM_LOCALID", nullptr};
  LaunchEnvironment at = read_places(read, names);
  read_meeting_place(read, at.world == 1, at);
  return at;
}

}  // namespace

Lookup process_environment() {
  return [](const char* variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::optional<LaunchEnvironment> launch_environment(const Lookup& lookup) {
  const Reader read(lookup);
  std::optional<LaunchEnvironment> at = by_hand(read);
  for (const Launcher& names : kMpi)
    if (!at) at = by_mpi(read, names);
  if (!at) at = by_slurm(read);
  if (at && at->world == 1) return std::nullopt;
  return at;
}

std::string first_host(const std::string& node_list) {
  std::string host;
  bool in_brackets = false, in_first = true;  // of the names in brackets
  for (char c : node_list) {
    if (c == '[') {
      in_brackets = in_first = true;
    } else if (c == ']') {
      in_brackets = false;
    } else if (in_brackets && (c == '-' || c == ',')) {
      in_first = false;
    } else if (c == ',') {
      break;
    } else if (!in_brackets || in_first) {
      host += c;
    }
  }
  return host;
}

}  // namespace zplan::exec
