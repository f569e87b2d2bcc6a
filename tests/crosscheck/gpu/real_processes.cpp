#include "tests/crosscheck/gpu/real_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/core/error.h"
#include "tests/support/source_dir.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::testing_support {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = ZPLAN_SOURCE_DIR "/tests/data/text.txt";

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("zplan-processes-{}", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "judged");
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string at(const std::string& name) const { return path_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name)) << text;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(at(name)).rdbuf();
    return text.str();
  }

 private:
  fs::path path_;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> arguments(const Folder& folder, const ProcessRun& run) {
  std::vector<std::string> all = {"zplan",
                                  "run",
                                  folder.at("plan.json"),
                                  "--json",
                                  "--steps",
                                  std::to_string(run.steps),
                                  "--data",
                                  kText,
                                  "--train",
                                  folder.at("train.json"),
                                  "--comm-timeout",
                                  std::to_string(run.deadline.count()),
                                  "--ignore-capacity",
                                  "--nvme-dir",
                                  folder.at("")};
  if (!run.save.empty()) all.insert(all.end(), {"--save", run.save});
  if (run.validates) all.insert(all.end(), {"--validate", kText, "--validate-batches", "1"});
  return all;
}

std::vector<std::string> environment(const Folder& folder, int rank, int world, int port) {
  const fs::path build = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  for (const auto& [name, value] :
       {std::pair<std::string, std::string>{"RANK", std::to_string(rank)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(world)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)},
        {"ZPLAN_CUDA_PLUGIN", build / "tests/stand_in/libzplan_cuda.so"},
        {"ZPLAN_STAND_IN_REPORT", folder.at("judged")}})
    all.push_back(name + "=" + value);
  return all;
}

pid_t start(const Folder& folder, int rank, std::vector<std::string> arguments,
            std::vector<std::string> environment) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "zplan";
  constexpr int kWrites = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::string out = folder.at(fmt::format("out.{}", rank)),
                    err = folder.at(fmt::format("err.{}", rank));
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kWrites, 0600);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), kWrites, 0600);
  pid_t process = -1;
  const int error = ::posix_spawn(&process, program.c_str(), &files, nullptr,
                                  pointers(arguments).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw Error(ExitCode::kDevice, program + " does not start");
  return process;
}

double number_or_zero(const nlohmann::json& value) {
  return value.is_number() ? value.get<double>() : 0.0;
}

exec::RunResult parse_result(const std::string& text) {
  const nlohmann::json report = nlohmann::json::parse(text);
  exec::RunResult result;
  for (const nlohmann::json& each : report.at("steps")) {
    exec::StepResult& step = result.steps.emplace_back();
    step.loss = each.at("loss").get<double>();
    step.gradient_norm = number_or_zero(each.at("gradient_norm"));
  }
  for (const nlohmann::json& each : report.at("validations"))
    result.validations.emplace_back().loss = each.at("loss").get<double>();
  return result;
}

void add_findings(const Folder& folder, int rank, ProcessResult& to) {
  std::istringstream report(folder.read(fmt::format("judged/{}", rank)));
  std::string line;
  std::int64_t tasks = 0, meetings = 0, launches = 0;
  std::getline(report, line);
  if (std::sscanf(line.c_str(), "%ld tasks, %ld meetings, %ld launches", &tasks, &meetings,
                  &launches) != 3 ||
      meetings == 0)
    to.findings.push_back(fmt::format("rank {} met nobody", rank));
  if (rank == 0) to.launches = launches;
  while (std::getline(report, line)) to.findings.push_back(fmt::format("rank {}: {}", rank, line));
}

}  // namespace

ProcessResult run_in_processes(const Plan& plan, int world, const ProcessRun& run) {
  const Folder folder;
  folder.write("plan.json", to_json(plan));
  folder.write("train.json",
               fmt::format(R"({{"schema": "zplan.train/1", "learning_rate": {}, "epsilon": {}}})",
                           run.train.learning_rate, run.train.epsilon));
  const int port = exec::testing::free_port();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < world; ++rank)
    processes.push_back(
        start(folder, rank, arguments(folder, run), environment(folder, rank, world, port)));
  ProcessResult all;
  std::string failures;
  bool is_refused = false;
  for (int rank = 0; rank < world; ++rank) {
    int status = 0;
    ::waitpid(processes[static_cast<std::size_t>(rank)], &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    is_refused = is_refused || code == static_cast<int>(ExitCode::kBadInput);
    if (code != 0)
      failures += fmt::format("rank {} ends with {}: {}", rank, code,
                              folder.read(fmt::format("err.{}", rank)));
  }
  if (is_refused) throw Error(ExitCode::kBadInput, failures);
  if (!failures.empty()) throw Error(ExitCode::kDevice, failures);
  for (int rank = 0; rank < world; ++rank) {
    const std::string out = folder.read(fmt::format("out.{}", rank));
    if (!out.empty()) all.result = parse_result(out);
    add_findings(folder, rank, all);
  }
  return all;
}

}  // namespace zplan::testing_support
