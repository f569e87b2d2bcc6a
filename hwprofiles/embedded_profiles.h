// The files hwprofiles/catalogue/*.json, those of its folders clusters and hardware, and those of
// hwprofiles/stacks, hwprofiles/measured and hwprofiles/predicted, as compiled in; defined in
// generated sources (models/embed.cmake).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_profiles();
std::span<const EmbeddedFile> embedded_clusters();
std::span<const EmbeddedFile> embedded_stacks();
std::span<const EmbeddedFile> embedded_hardware();
std::span<const EmbeddedFile> embedded_measured();
std::span<const EmbeddedFile> embedded_predicted();

}  // namespace zplan
