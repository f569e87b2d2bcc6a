#include "planner/validate/runs.h"

#include <fmt/format.h>

#include <set>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/validate/run_form.h"
#include "planner/validate/runs_first.h"

namespace zplan {
namespace {

// The next line, without its end, taken off the text.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

bool is_left_out(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first == line.npos || line[first] == '#';
}

// Braces that a line opens and does not close, those in strings left out.
int opened(std::string_view line) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (in_string && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += line[i] == '{' ? 1 : line[i] == '}' ? -1 : 0;
    }
  }
  return depth;
}

// The text of a record that begins with `line`: what follows belongs to it while braces are open
// and no line begins with one. Comments keep their line and are empty.
struct RecordText {
  std::string text;
  int lines = 1;
};
RecordText record_at(std::string_view line, std::string_view& rest) {
  RecordText record{std::string(line)};
  for (int depth = opened(line); depth > 0 && !rest.empty() && rest.front() != '{';) {
    const std::string_view next = take_line(rest);
    record.text += '\n';
    ++record.lines;
    if (is_left_out(next)) continue;
    record.text += next;
    depth += opened(next);
  }
  return record;
}

RunRecord read_record(const JsonNode& root) {
  const bool tagged = root.is_object() && root.object().optional_member("schema");
  return tagged ? read_run(root) : read_first_form(root);
}

}  // namespace

RunFile parse_runs(std::string_view text, const std::string& name) {
  RunFile file;
  std::set<std::string> ids;
  int number = 1;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const int first = number++;
    if (is_left_out(line)) continue;
    const RecordText record = record_at(line, text);
    number = first + record.lines;
    try {
      const JsonNode root = parse_json(record.text, name, first);
      RunRecord run = read_record(root);
      run.line = first;
      if (!ids.insert(run.id).second)
        root.fail(fmt::format("expected each id once, got {} again", in_quotes(run.id)));
      file.runs.push_back(std::move(run));
    } catch (const Error& error) {
      file.malformed.emplace_back(error.what());
    }
  }
  return file;
}

RunFile read_runs(const std::string& path) { return parse_runs(read_text_file(path), path); }

}  // namespace zplan
