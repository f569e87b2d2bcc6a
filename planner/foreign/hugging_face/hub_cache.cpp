#include "planner/foreign/hugging_face/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHubCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
constexpr std::string_view kHashDigits = "0123456789abcdef";

bool is_hub_word(std::string_view text) {
  return !text.empty() && text[0] != '.' && text[0] != '-' &&
         text.find_first_not_of(kHubCharacters) == text.npos;
}

// Returns the path in an environment variable; empty where it is not set.
fs::path set_path(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? fs::path() : fs::path(value);
}

fs::path hub_cache() {
  if (fs::path own = set_path("HF_HUB_CACHE"); !own.empty()) return own;
  if (const fs::path home = set_path("HF_HOME"); !home.empty()) return home / "hub";
  fs::path caches = set_path("XDG_CACHE_HOME");
  if (caches.empty()) caches = set_path("HOME") / ".cache";
  return caches / "huggingface" / "hub";
}

// The first word of a file that names a snapshot; empty: no such file, or no such word.
std::string snapshot_in(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return "";
  const std::string text = read_text_file(file.string());
  const std::size_t end = std::min(text.find_first_not_of(kHashDigits), text.size());
  return text.find_first_not_of(" \r\n", end) == text.npos ? text.substr(0, end) : "";
}

}  // namespace

bool has_hub_form(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash != name.npos && is_hub_word(name.substr(0, slash)) &&
         is_hub_word(name.substr(slash + 1)) && to_lower(name).find(".json") == std::string::npos;
}

bool is_hub_name(std::string_view name) {
  std::error_code ignored;
  return has_hub_form(name) && !fs::exists(fs::path(name), ignored);
}

std::string hub_folder(std::string_view name) {
  std::string repository = "models--";
  for (const char c : name) repository += c == '/' ? "--" : std::string(1, c);
  return (hub_cache() / repository).string();
}

std::optional<std::string> cached_config(std::string_view name) {
  const fs::path folder(hub_folder(name));
  const std::string hash = snapshot_in(folder / "refs" / "main");
  if (hash.empty()) return std::nullopt;
  const fs::path config = folder / "snapshots" / hash / "config.json";
  std::error_code ignored;
  return fs::exists(config, ignored) ? std::optional(config.string()) : std::nullopt;
}

}  // namespace zplan
