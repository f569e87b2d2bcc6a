// One function per parser: takes any bytes, returns, and ends the program (abort) when the parser
// breaks its promise: a value, or Error(kBadInput) with one line. libFuzzer calls them with bytes
// it makes up (fuzz_main.cpp), replay_test.cpp with the files of corpus/NAME/.
#pragma once

#include <span>
#include <string_view>

namespace zplan::fuzz {

struct Target {
  std::string_view name;  // folder of its corpus
  void (*run)(std::string_view bytes);
};

std::span<const Target> targets();

}  // namespace zplan::fuzz
