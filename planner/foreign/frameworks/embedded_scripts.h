// The training scripts of scripts/ that are compiled in.
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_scripts();

}  // namespace zplan
