// A file compiled into the library (see models/embed.cmake).
#pragma once

#include <string_view>

namespace zplan {

struct EmbeddedFile {
  std::string_view name;  // "models/catalogue/gpt2-124m.json"
  std::string_view text;
};

}  // namespace zplan
