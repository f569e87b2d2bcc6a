// A grid of questions as it is typed, an axis each:
//   "batch=512,1024"      a list
//   "nodes=1..64"         doubled from the first to the last, which is the last in any case
//   "nvme=1..25GB/s"      the unit stands once, or with both
//   "tp=2..8:2"           in steps
// Lists may hold ranges. Values stay text: who asks the questions knows what they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

inline constexpr std::size_t kMaxQuestions = 10'000;

struct GridAxis {
  std::string name;
  std::vector<std::string> values;
};
// Throws Error, one line.
GridAxis parse_axis(std::string_view text);

// The product of the axes; the last varies fastest. Throws Error where an axis is given twice, or
// they make too many.
std::vector<std::vector<std::string>> grid_points(const std::vector<GridAxis>& axes);

// "nodes=4, batch=512"
std::string point_words(const std::vector<GridAxis>& axes, const std::vector<std::string>& point);

}  // namespace zplan
