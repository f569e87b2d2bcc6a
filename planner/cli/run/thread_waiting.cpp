#include "planner/cli/run/thread_waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace zplan {
namespace {

std::vector<std::string> own_arguments() {
  std::vector<std::string> arguments;
  std::ifstream file("/proc/self/cmdline");
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

}  // namespace

void wait_briefly() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::vector<std::string> arguments = own_arguments();
  if (arguments.empty()) return;
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::setenv("GOMP_SPINCOUNT", std::to_string(kSpins).c_str(), 1);
  ::execv("/proc/self/exe", pointers.data());  // returns where it is not possible
}

}  // namespace zplan
