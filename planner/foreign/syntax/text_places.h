// Places in a text by line and column, for parsers that name them so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_document.h"

namespace zplan {

// [assumed] beyond any configuration that a person or a framework writes.
inline constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;
// Throws Error when the text is larger, or not UTF-8.
void check_config_text(const JsonDocument& document);
// A number as JSON writes it, of one as YAML 1.1 does: "+1_000", ".5", "5.". Nothing: it is none.
std::string json_number(std::string_view word);

class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text);
  // Bytes before it; line and column count from 0, columns in bytes. Never past the end.
  std::size_t offset(int line, int column) const;
  // The same with columns in characters.
  std::size_t offset_of_character(int line, int column) const;

 private:
  std::size_t begin(int line) const;

  std::string_view text_;
  std::vector<std::size_t> lines_;
};

}  // namespace zplan
