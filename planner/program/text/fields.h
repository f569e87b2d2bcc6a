// Pieces of the text form of a Job that both of its parsers read. Private to text_*.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "planner/program/job/names.h"
#include "planner/program/text/scanner.h"

namespace zplan {

inline constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMinInt32 = std::numeric_limits<std::int32_t>::min();

// Of a kernel that has any, shown even where they are zero.
inline constexpr std::size_t kLeastAttributesShown = 4;

template <typename Enum>
Enum read_enum(TextScanner& in, const std::string& what) {
  const std::string expected = what + " (" + all_names<Enum>() + ")";
  const std::string word = in.word(expected);
  const auto value = parse_name<Enum>(word);
  if (!value) in.fail(expected, quoted_word(word));
  return *value;
}

// NAME@INDEX into `all`, whose elements have names.
template <typename Named>
std::uint32_t read_reference(TextScanner& in, const std::vector<Named>& all,
                             const std::string& what) {
  const std::string word = in.word(what);
  in.expect('@');
  if (all.empty()) in.fail("a " + what + " defined above", "none");
  const auto count = static_cast<std::int64_t>(all.size());
  const auto index =
      static_cast<std::uint32_t>(in.integer("the number of a " + what, 0, count - 1));
  if (all[index].name != word) {
    in.fail(
        "the name of " + what + " " + std::to_string(index) + ", " + quoted_word(all[index].name),
        quoted_word(word));
  }
  return index;
}

Shape read_shape(TextScanner& in);

// "tp", "dp.0+dp.1", "none"; of the mesh.
AxisSet read_axes(TextScanner& in, const Mesh& mesh);
// The same, or "ends(pp)".
Group read_group(TextScanner& in, const Mesh& mesh);

// The tree of blocks from `step {` on, into program, whose buffers are known.
void read_step(TextScanner& in, const Job& job, Program& program);

}  // namespace zplan
