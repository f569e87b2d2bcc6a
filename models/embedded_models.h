// The files models/catalogue/*.json as compiled in; defined in a generated source
// (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_models();

}  // namespace zplan
