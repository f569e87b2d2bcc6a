// The text tests/data/text.txt, which `zplan run` trains on where no other is named, as compiled
// in; defined in a generated source (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

// One file.
std::span<const EmbeddedFile> embedded_sample();

}  // namespace zplan
