#include "planner/foreign/measured_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Where the first line begins that does so with `c`; npos: none does.
std::size_t first_line_with(std::string_view text, char c) {
  if (text.starts_with(c)) return 0;
  const std::size_t at = text.find(std::string{'\n', c});
  return at == text.npos ? at : at + 1;
}

MeasuredFile parse_json_part(std::string_view text, std::size_t begin, const std::string& name) {
  const auto first_line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  const std::size_t last = text.rfind("\n}");
  const std::size_t end = last == text.npos || last < begin ? text.size() : last + 2;
  const JsonNode root =
      parse_json(std::string(text.substr(begin, end - begin)), name, static_cast<int>(first_line));
  JsonObject object = root.object();
  MeasuredFile file;
  file.name = name;
  if (object.optional_member("fio version")) {
    file.fio = read_fio(root);
  } else if (object.optional_member("nccl_version")) {
    file.runs.push_back(read_nccl_json(root, name));
  } else {
    root.fail(
        "expected what fio or nccl-tests write, got neither \"fio version\" nor \"nccl_version\"");
  }
  return file;
}

}  // namespace

MeasuredFile parse_measured(std::string text, const std::string& name) {
  const std::size_t json = first_line_with(text, '{');
  if (json != text.npos) return parse_json_part(text, json, name);
  if (text.find("nThread") == text.npos && text.find("algbw") == text.npos) {
    throw_bad_input(
        fmt::format("{}:1: expected what nccl-tests or fio (--output-format=json) write, got {}",
                    name, in_quotes(std::string_view(text).substr(0, text.find('\n')))));
  }
  return {name, parse_nccl_text(text, name), std::nullopt};
}

}  // namespace zplan
