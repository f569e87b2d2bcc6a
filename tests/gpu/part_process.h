// A part of the test program in a process of its own: a fault that takes the device's context with
// it, or never ends, costs that part alone.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace zplan::gpu {

// Runs a program to its end and returns nothing when it exited with 0 or `accepted`, else how it
// ended; after so much time it is killed.
std::string run_process(const std::string& program, const std::vector<std::string>& arguments,
                        std::chrono::seconds limit, std::vector<int> accepted, int& exit_code);

}  // namespace zplan::gpu
