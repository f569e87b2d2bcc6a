#include "planner/program/text/fingerprint.h"

#include <string_view>

#include "planner/core/hash.h"
#include "planner/program/text/text.h"

namespace zplan {

std::string fingerprint(const Job& job) {
  const std::string text = to_text(job);
  // The second line is the comment with the model's name.
  const std::size_t first_end = text.find('\n') + 1;
  const std::size_t second_end = text.find('\n', first_end) + 1;
  const std::string_view view = text;
  return to_hex(fnv1a128(view.substr(second_end), fnv1a128(view.substr(0, first_end))));
}

}  // namespace zplan
