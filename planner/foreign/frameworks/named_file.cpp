#include "planner/foreign/frameworks/named_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/syntax/text_places.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

// "a/b.yaml:3:5" is in a/.
fs::path folder_of(const JsonNode& node) {
  std::string place = node.location();
  for (int colon = 0; colon < 2; ++colon) place.resize(place.rfind(':'));
  return fs::path(place).parent_path();
}

bool is_config(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) <= kMostConfigBytes;
}

std::optional<std::string> find_file(const JsonNode& node) {
  const fs::path named = node.string();
  if (named.empty()) return std::nullopt;
  if (is_config(named)) return named.string();
  for (fs::path folder = folder_of(node);; folder = folder.parent_path()) {
    if (is_config(folder / named)) return (folder / named).string();
    if (folder == folder.parent_path()) return std::nullopt;
  }
}

// Blanks in place of what strict JSON does not have, so that places stay.
std::string without_leniency(std::string text) {
  std::size_t comma = std::string::npos;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '#' || text.compare(i, 2, "//") == 0) {
      for (; i < text.size() && text[i] != '\n'; ++i) text[i] = ' ';
    } else if (text.compare(i, 2, "/*") == 0) {
      const std::size_t end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
      for (; i < end; ++i)
        if (text[i] != '\n') text[i] = ' ';
      --i;
    } else if (c == ',') {
      comma = i;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      if ((c == '}' || c == ']') && comma != std::string::npos) text[comma] = ' ';
      comma = std::string::npos;
      in_string = c == '"';
    }
  }
  return text;
}

}  // namespace

JsonNode parse_lenient_json(std::string text, const std::string& name) {
  return parse_json(without_leniency(std::move(text)), name);
}

JsonNode read_named_config(const JsonNode& path) {
  const std::optional<std::string> file = find_file(path);
  if (!file)
    path.fail(
        fmt::format("expected a file of DeepSpeed's configuration, got {}, which is not there",
                    in_quotes(path.string())));
  return parse_lenient_json(read_text_file(*file), *file);
}

}  // namespace zplan
