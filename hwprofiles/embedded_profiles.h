// The files hwprofiles/*.json and hwprofiles/stacks/*.json as compiled in; defined in generated
// sources (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_profiles();
std::span<const EmbeddedFile> embedded_stacks();

}  // namespace zplan
