// The files planner/cli/schemas/*.json, of answers, made by tests/cli/schemas.py, and behind them
// those of schemas/inputs, of files that are read, as compiled in; defined in generated sources
// (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_schemas();

}  // namespace zplan
