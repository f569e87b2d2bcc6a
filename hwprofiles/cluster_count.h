// Counts around the name of hardware: "2x8xH100" is H100 behind 2 and 8. A text may be read in
// several ways ("4090x2"), of which the name decides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

enum class CountOf : std::uint8_t { kAny, kNodes, kGpus };  // what the word beside a count says

struct TypedCount {
  int number = 0;
  CountOf of = CountOf::kAny;
};

struct CountedKind {
  std::string kind;                       // "h100"
  std::vector<TypedCount> before, after;  // in the order of the text
  bool of_nodes = false;                  // "4 H100 nodes": nodes stand behind the name
};

// All ways to read it, those with fewer counts first. In lower case.
std::vector<CountedKind> readings_of(std::string_view typed);

}  // namespace zplan
