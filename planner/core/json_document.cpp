#include "planner/core/json_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Pointer of `target` below `value`; true when found.
bool find_pointer(const JsonValue& value, const JsonValue* target, std::string& pointer) {
  if (&value == target) return true;
  const std::size_t length = pointer.size();
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    pointer += '/' + std::to_string(i);
    if (find_pointer(value.items[i], target, pointer)) return true;
    pointer.resize(length);
  }
  for (const JsonMember& member : value.members) {
    pointer += '/' + pointer_segment(member.key);
    if (find_pointer(member.value, target, pointer)) return true;
    pointer.resize(length);
  }
  return false;
}

// The messages of one object, each with its place. A key that is missing takes the nearest of the
// unknown ones, which is then no fault of its own.
class ObjectFaults {
 public:
  ObjectFaults(const JsonDocument& document, const JsonFault& fault)
      : document_(document), fault_(fault), unknown_(fault.unknown) {}

  void list(std::vector<std::string>& lines) {
    std::vector<std::string> absent;
    for (const std::string& key : fault_.missing) {
      const auto nearest = nearest_name(key, unknown_);
      if (!nearest) {
        absent.push_back(key);
        continue;
      }
      at_object(lines, fmt::format("expected key {}, got {} instead", in_quotes(key),
                                   in_quotes(*nearest)));
      std::erase(unknown_, *nearest);
    }
    if (!absent.empty())
      at_object(lines, fmt::format("expected key{} {}, got an object without {}",
                                   absent.size() == 1 ? "" : "s", quoted_list(absent),
                                   absent.size() == 1 ? "it" : "them"));
    for (const JsonMember& member : fault_.object->members)
      if (std::find(unknown_.begin(), unknown_.end(), member.key) != unknown_.end())
        at_member(lines, member);
  }

 private:
  void at(std::vector<std::string>& lines, std::size_t offset, const JsonValue* value,
          const std::string& message) const {
    lines.push_back(fmt::format("{}: {}: {}", document_.location(offset),
                                pointer_of(document_, value), message));
  }
  void at_object(std::vector<std::string>& lines, const std::string& message) const {
    at(lines, fault_.object->offset, fault_.object, message);
  }
  void at_member(std::vector<std::string>& lines, const JsonMember& member) const {
    const auto nearest = nearest_name(member.key, fault_.asked);
    const std::string known =
        nearest ? "key " + in_quotes(*nearest) : "one of the keys " + quoted_list(fault_.asked);
    at(lines, member.offset, &member.value,
       fmt::format("expected {}, got unknown key {}", fault_.asked.empty() ? "no key" : known,
                   in_quotes(member.key)));
  }

  const JsonDocument& document_;
  const JsonFault& fault_;
  std::vector<std::string> unknown_;
};

}  // namespace

std::string quoted_list(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(in_quotes(name));
  return joined(shown, ", ");
}

void check_utf8(const JsonDocument& document) {
  for (std::size_t i = 0; i < document.text.size();) {
    const std::size_t length = utf8_length(document.text, i);
    if (length == 0)
      document.fail(i, "",
                    fmt::format("expected UTF-8 text, got byte 0x{:02x}",
                                static_cast<unsigned char>(document.text[i])));
    i += length;
  }
}

std::string pointer_of(const JsonDocument& document, const JsonValue* target) {
  std::string result;
  find_pointer(document.root, target, result);
  return result.empty() ? "/" : result;
}

std::string pointer_segment(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return visible(out);
}

JsonFault& JsonDocument::fault_of(const JsonValue* object) const {
  const auto found = std::find_if(faults.begin(), faults.end(),
                                  [&](const JsonFault& fault) { return fault.object == object; });
  return found != faults.end() ? *found : faults.emplace_back(JsonFault{object, {}, {}, {}});
}

void JsonDocument::fail_with(std::vector<JsonFault> found) const {
  std::stable_sort(found.begin(), found.end(), [](const JsonFault& a, const JsonFault& b) {
    return a.object->offset < b.object->offset;
  });
  std::vector<std::string> lines;
  for (const JsonFault& fault : found) ObjectFaults(*this, fault).list(lines);
  if (!lines.empty()) throw_bad_input(joined(lines, "; "));
}

int JsonDocument::line(std::size_t offset) const {
  if (base && offset > text.size()) return base->line(offset - text.size() - 1);
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return first_line + static_cast<int>(std::count(text.begin(), end, '\n'));
}

std::string JsonDocument::location(std::size_t offset) const {
  if (base && offset > text.size()) return base->location(offset - text.size() - 1);
  const std::size_t end = std::min(offset, text.size());
  const std::size_t newline = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  int column = 1;
  for (std::size_t i = begin; i < end; ++i) column += is_utf8_continuation(text[i]) ? 0 : 1;
  return fmt::format("{}:{}:{}", visible(name), line(end), column);
}

void JsonDocument::fail(std::size_t offset, std::string_view pointer,
                        const std::string& message) const {
  fail_with(faults);
  throw_bad_input(
      fmt::format("{}: {}: {}", location(offset), pointer.empty() ? "/" : pointer, message));
}

}  // namespace zplan
