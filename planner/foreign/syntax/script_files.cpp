#include "planner/foreign/syntax/script_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/foreign/syntax/text_places.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

// [assumed] beyond what scripts of a run are split into.
constexpr std::size_t kMostDepth = 8, kMostScripts = 32;

// Behind what is not known, "${DIR}/" or "$(dirname "$0")/"; of a path that is known all.
std::string known_part(const std::string& path) {
  const std::size_t first = path.find_first_of("$`");
  if (first == std::string::npos) return path;
  const std::size_t closing = path.find_last_of(")}`");
  const std::size_t slash = path.find('/', closing == std::string::npos ? first : closing);
  return slash == std::string::npos ? std::string() : path.substr(slash + 1);
}

// Within the folder; empty: elsewhere, or not known.
std::string path_within(const std::string& path) {
  const std::string name = known_part(path);
  if (name.empty() || name.find_first_of("$`~\n") != std::string::npos) return {};
  const fs::path normal = fs::path(name).lexically_normal();
  return normal.is_absolute() || normal.begin()->string() == ".." ? std::string() : normal.string();
}

std::string whole_path(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored).string();
}

}  // namespace

ScriptFiles::ScriptFiles(const JsonDocument& script)
    : script_(script), open_{whole_path(script.name)} {}

Sources ScriptFiles::sources() {
  return {.open = [this](const PlacedText& path) { return open(path); },
          .close = [this] { open_.pop_back(); }};
}

std::pair<const JsonDocument*, std::size_t> ScriptFiles::at(std::size_t place) const {
  const JsonDocument* document = &script_;
  for (const auto& next : read_) {
    if (place <= document->text.size()) break;
    place -= document->text.size() + 1;
    document = next.get();
  }
  return {document, place};
}

std::size_t ScriptFiles::end_of_all() const {
  std::size_t end = script_.text.size() + 1;
  for (const auto& each : read_) end += each->text.size() + 1;
  return end;
}

std::optional<SourcedText> ScriptFiles::open(const PlacedText& path) {
  const auto [document, offset] = at(path.place());
  const std::string name = path_within(path.text);
  // "$0" is the script that was started, and so is taken to be the folder of the run.
  const bool is_own = path.text.find("BASH_SOURCE") != std::string::npos;
  const fs::path folder = fs::path(script_.name).parent_path();
  const fs::path file = (is_own ? fs::path(document->name).parent_path() : folder) / name;
  std::error_code error;
  const bool is_there = !name.empty() && fs::is_regular_file(file, error);
  const fs::path found = folder.empty() ? file : file.lexically_relative(folder);
  const std::string shown = is_there ? found.string() : path.text;
  found_.push_back({document->location(offset), shown, is_there});
  if (!is_there) return std::nullopt;
  const std::size_t begin = end_of_all();
  const auto fail = [&](const std::string& message) { document->fail(offset, "", message); };
  if (std::ranges::find(open_, whole_path(file)) != open_.end())
    fail(fmt::format("expected scripts that do not read each other, got {} within itself",
                     in_quotes(name)));
  if (open_.size() > kMostDepth || read_.size() >= kMostScripts)
    fail(
        fmt::format("expected at most {} scripts, {} within each other", kMostScripts, kMostDepth));
  if (begin + fs::file_size(file, error) > kMostConfigBytes)
    fail(fmt::format("expected at most {} MiB of scripts", kMostConfigBytes >> 20));
  auto read = std::make_shared<JsonDocument>();
  read->name = file.string();
  read->text = read_text_file(read->name);
  check_utf8(*read);
  open_.push_back(whole_path(file));
  read_.push_back(read);
  return SourcedText{read->text, begin};
}

std::shared_ptr<const JsonDocument> ScriptFiles::documents() const {
  for (std::size_t i = 1; i < read_.size(); ++i) read_[i - 1]->base = read_[i];
  return read_.empty() ? nullptr : read_.front();
}

}  // namespace zplan
