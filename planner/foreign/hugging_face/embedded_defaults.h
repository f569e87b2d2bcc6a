// The file defaults.json as compiled in; defined in a generated source (models/embed.cmake). Its
// figures are those of the classes of transformers, of the version that it names
// (tests/frameworks/hugging_face_defaults.py).
#pragma once

#include <span>

#include "planner/core/embedded_file.h"

namespace zplan {

std::span<const EmbeddedFile> embedded_hugging_face();

}  // namespace zplan
