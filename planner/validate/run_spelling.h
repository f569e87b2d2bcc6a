// Words of a record as people and software spell them: "AdamW", "adamw_torch" and "FusedAdam" are
// adamw. Case, spaces, hyphens, underscores and dots do not tell words apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/validate/run_keys.h"

namespace zplan {

// Returns the letters and digits of a word, in lower case.
std::string folded(std::string_view word);

// Returns the word that the row calls so, in RunKey::words or RunKey::spellings; nothing: none.
std::optional<std::string> known_word(const RunKey& key, std::string_view word);

}  // namespace zplan
