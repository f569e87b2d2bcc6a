// Tests and measures the executor on the first CUDA device. Without one it says so and exits with
// 77, which test runners show as skipped.
//   zplan_gpu_tests [--part NAME ..] [--seed N] [--seconds S] [--json FILE] [--long]
//     [--queues | --broken]
//   --part     kernels, plans, first-steps, canaries, recipes, memory, kernel-speed, step-speed
//   [all]
//   --seconds  that each part over many plans may take
//   --queues   on the CPU as a device with queues instead: tests this program; writes no file
//   --broken   the same with kernels that do wrong, which must be found
// On a device each of several parts is a process of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "planner/cli/frame/output.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "tests/gpu/part_process.h"
#include "tests/gpu/parts.h"

namespace zplan::gpu {
namespace {

constexpr int kSkipped = 77;

using Part = void (*)(const Target&, const PartOptions&, Report&);
struct NamedPart {
  const char* name;
  Part run;
  bool needs_gpu;
};
constexpr NamedPart kParts[] = {
    {"kernels", check_kernels, false},         {"plans", check_plans, false},
    {"first-steps", check_first_steps, false}, {"canaries", check_canaries, false},
    {"recipes", check_recipes, false},         {"memory", check_memory, true},
    {"kernel-speed", measure_kernels, true},   {"step-speed", measure_steps, true},
};

struct Arguments {
  std::vector<std::string> parts;
  std::string json, hold;
  PartOptions options;
  TargetKind target = TargetKind::kGpu;

  bool wants(const std::string& part) const {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

Arguments read(int argc, char** argv) {
  Arguments read;
  read.options.self = argv[0];
  read.options.seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw_bad_input(word + ": expected a value");
      return argv[++i];
    };
    if (word == "--part")
      read.parts.push_back(value());
    else if (word == "--seed")
      read.options.seed = std::stoull(value());
    else if (word == "--seconds")
      read.options.seconds = std::stod(value());
    else if (word == "--json")
      read.json = value();
    else if (word == "--hold")
      read.hold = value();  // by this program itself
    else if (word == "--long")
      read.options.long_runs = true;
    else if (word == "--queues")
      read.target = TargetKind::kQueues;
    else if (word == "--broken")
      read.target = TargetKind::kBroken;
    else
      throw_bad_input("unknown option " + word);
  }
  for (const std::string& part : read.parts)
    if (std::none_of(std::begin(kParts), std::end(kParts),
                     [&](const NamedPart& p) { return p.name == part; }))
      throw_bad_input("unknown part " + part);
  return read;
}

// What the caller of the program knows.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Origin origin_of(const Target& target, const PartOptions& options) {
  std::array<char, 32> date{};
  const std::time_t now = std::time(nullptr);
  std::strftime(date.data(), date.size(), "%FT%TZ", std::gmtime(&now));
  return {.device = target.name,
          .driver = target.driver ? target.driver->version() : "",
          .toolkit = environment("ZPLAN_TOOLKIT"),
          .commit = environment("ZPLAN_COMMIT"),
          .date = date.data(),
          .parts = {},
          .seed = options.seed};
}

// Options of the process of a part.
std::vector<std::string> options_of(const Arguments& arguments, const std::string& part,
                                    const std::string& json) {
  const PartOptions& o = arguments.options;
  std::vector<std::string> words{
      "--part", part, "--seed", std::to_string(o.seed), "--seconds", fmt::format("{}", o.seconds),
      "--json", json};
  if (o.long_runs) words.emplace_back("--long");
  return words;
}

// Each part in a process of its own; this one leaves the device alone. 77 where there is none.
int run_processes(const Arguments& arguments, const std::string& folder) {
  constexpr double kMostSeconds = 240;  // of a part, beside those it may take over many plans
  Report report;
  Origin origin = origin_of(Target{}, arguments.options);
  for (const NamedPart& part : kParts) {
    if (!arguments.wants(part.name)) continue;
    const std::string json = folder + "/" + part.name + ".json";
    const double limit = kMostSeconds + std::min(arguments.options.seconds, 1e4);
    int exit_code = 0;
    const std::string fault =
        run_process(arguments.options.self, options_of(arguments, part.name, json),
                    std::chrono::seconds(static_cast<int>(limit)),
                    {kSkipped, static_cast<int>(ExitCode::kCheckFailed)}, exit_code);
    if (exit_code == kSkipped) return kSkipped;
    if (std::filesystem::exists(json)) report.take(read_text_file(json), origin);
    if (!fault.empty()) report.fail(part.name, "its process", fault);
    // After each part: a run that is cut short leaves a file.
    if (!arguments.json.empty()) write_file(arguments.json, report.json(origin));
  }
  write_stdout(fmt::format("{}, driver {}, seed {}\n{}", origin.device, origin.driver, origin.seed,
                           report.table()));
  return report.passed() ? 0 : static_cast<int>(ExitCode::kCheckFailed);
}

int run_parts(const Target& target, const Arguments& arguments) {
  Report report;
  Origin origin = origin_of(target, arguments.options);
  for (const NamedPart& part : kParts) {
    if (!arguments.wants(part.name) || (part.needs_gpu && !target.is_gpu())) continue;
    try {
      part.run(target, arguments.options, report);
    } catch (const std::exception& error) {
      report.fail(part.name, "all", error.what());
    }
    origin.parts.push_back(part.name);
    // After each part: a run that is cut short leaves a file.
    if (target.is_gpu() && !arguments.json.empty()) write_file(arguments.json, report.json(origin));
  }
  write_stdout(fmt::format("{}{}, seed {}\n{}", origin.device,
                           target.is_gpu() ? ", driver " + origin.driver : "", origin.seed,
                           report.table()));
  return report.passed() ? 0 : static_cast<int>(ExitCode::kCheckFailed);
}

// A folder of its own, which goes when the program ends.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zplan-gpu-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw Error(ExitCode::kDevice, "cannot make a temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run_program(int argc, char** argv) {
  Arguments arguments = read(argc, argv);
  if (arguments.target == TargetKind::kGpu && arguments.hold.empty() &&
      arguments.parts.size() != 1) {
    const Folder folder;
    return run_processes(arguments, folder.path());
  }
  std::string why_not;
  const auto target = find_target(arguments.target, why_not);
  if (!target) {
    write_stdout(fmt::format("skipped: {}\n", why_not));
    return kSkipped;
  }
  if (!arguments.hold.empty()) {
    hold_memory(*target, arguments.hold);
    return 0;
  }
  std::fputs(fmt::format("{}, seed {}\n", target->name, arguments.options.seed).c_str(), stderr);
  const Folder folder;
  arguments.options.directory = folder.path();
  return run_parts(*target, arguments);
}

}  // namespace
}  // namespace zplan::gpu

int main(int argc, char** argv) {
  try {
    return zplan::gpu::run_program(argc, argv);
  } catch (const zplan::Error& error) {
    std::fputs(fmt::format("zplan_gpu_tests: {}\n", error.what()).c_str(), stderr);
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fputs(fmt::format("zplan_gpu_tests: {}\n", error.what()).c_str(), stderr);
    return static_cast<int>(zplan::ExitCode::kInternal);
  }
}
