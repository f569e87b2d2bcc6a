// A file compiled into the library (see models/embed.cmake).
#pragma once

#include <string_view>

namespace zplan {

struct EmbeddedFile {
  std::string_view name;  // "models/catalogue/gpt2-124m.json"
  std::string_view text;

  // "gpt2-124m"
  constexpr std::string_view stem() const {
    const std::string_view last = name.substr(name.rfind('/') + 1);
    return last.substr(0, last.rfind('.'));
  }
};

}  // namespace zplan
