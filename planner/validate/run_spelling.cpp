#include "planner/validate/run_spelling.h"

#include <algorithm>
#include <cctype>

namespace zplan {

std::string folded(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> known_word(const RunKey& key, std::string_view word) {
  const std::string wanted = folded(word);
  for (const std::string& known : parts_of(key.words))
    if (folded(known) == wanted) return known;
  for (const std::string& part : parts_of(key.spellings)) {
    const std::size_t equals = part.find('=');
    if (folded(part.substr(0, equals)) != wanted) continue;
    return equals == part.npos ? part : part.substr(equals + 1);
  }
  return std::nullopt;
}

}  // namespace zplan
