// The files planner/cli/schemas/*.json as compiled in; defined in generated sources
// (models/embed.cmake). Made by tests/cli/schemas.py.
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_schemas();

}  // namespace zplan
