// The files of the page, and d3.min.js where the build found it; defined in generated sources
// (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_page();

}  // namespace zplan
