// JSON text -> JsonDocument (RFC 8259, strict: no comments, no trailing comma, no duplicate keys,
// and NaN only where a file is Python's). The first defect stops it. Keeps the path to the value
// being read for the message.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/json_document.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view token) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < token.size() && is_digit(token[i])) ++i;
    return i - begin;
  };
  if (i < token.size() && token[i] == '-') ++i;
  const bool zero = i < token.size() && token[i] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (i < token.size() && token[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < token.size() && (token[i] == 'e' || token[i] == 'E')) {
    ++i;
    if (i < token.size() && (token[i] == '+' || token[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == token.size();
}

bool is_python_number(std::string_view token) {
  return token == "Infinity" || token == "-Infinity" || token == "NaN";
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3f));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  }
}

class Parser {
 public:
  Parser(JsonDocument& document, JsonNumbers numbers)
      : document_(document), numbers_(numbers), text_(document.text) {}

  void run() {
    check_utf8(document_);
    document_.root = value();
    skip_space();
    if (at_ < text_.size()) fail_here("end of file");
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
    std::string pointer;
    for (const std::string& segment : path_) pointer += '/' + segment;
    document_.fail(offset, pointer, message);
  }

  [[noreturn]] void fail_here(std::string_view expected) const {
    fail(at_, fmt::format("expected {}, got {}", expected, describe(at_)));
  }

  // What stands at `offset`, for messages.
  std::string describe(std::size_t offset) const {
    if (offset >= text_.size()) return "end of file";
    if (text_[offset] == '\n' || text_[offset] == '\r') return "end of line";
    const std::string_view character = text_.substr(offset, utf8_length(text_, offset));
    const auto byte = static_cast<unsigned char>(character[0]);
    if (byte < 0x20 || byte == 0x7f) return fmt::format("byte 0x{:02x}", byte);
    if (character == "\xef\xbb\xbf") return "a byte order mark";
    return fmt::format("'{}'", character);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  JsonValue value() {
    skip_space();
    if (at_ >= text_.size()) fail_here("a value");
    JsonValue result;
    result.offset = at_;
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      if (++depth_ > kMaxJsonDepth) {
        fail(at_, fmt::format("expected at most {} nested levels, got more", kMaxJsonDepth));
      }
      c == '{' ? object(result) : array(result);
      --depth_;
    } else if (c == '"') {
      result.kind = JsonKind::kString;
      result.text = string();
    } else {
      word(result);
    }
    return result;
  }

  // A number or a literal: the longest run of word characters, then checked as a whole.
  void word(JsonValue& result) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("+-._").find(text_[at_]) != text_.npos)) {
      ++at_;
    }
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (token.empty()) fail_here("a value");
    if (token == "true" || token == "false") {
      result.kind = JsonKind::kBoolean;
      result.boolean = token == "true";
    } else if (token == "null") {
      result.kind = JsonKind::kNull;
    } else if (is_json_number(token)) {
      result.kind = JsonKind::kNumber;
      result.text = std::string(token);
      check_finite(begin, token);
    } else if (numbers_ == JsonNumbers::kPython && is_python_number(token)) {
      result.kind = JsonKind::kNumber;
      result.text = std::string(token);
    } else {
      const bool numeric = is_digit(token[0]) || token[0] == '-' || token[0] == '+';
      fail(begin, fmt::format("expected {}, got {}", numeric ? "a JSON number" : "a value",
                              in_quotes(token)));
    }
  }

  void check_finite(std::size_t begin, std::string_view token) const {
    // Underflow is harmless: such a number reads as zero.
    if (!std::isfinite(std::strtod(std::string(token).c_str(), nullptr))) {
      fail(begin, fmt::format("expected a number below 1.8e308, got {}", in_quotes(token)));
    }
  }

  void array(JsonValue& result) {
    result.kind = JsonKind::kArray;
    ++at_;
    skip_space();
    if (take(']')) return;
    while (true) {
      path_.push_back(std::to_string(result.items.size()));
      result.items.push_back(value());
      path_.pop_back();
      skip_space();
      if (take(']')) return;
      if (!take(',')) fail_here("',' or ']'");
    }
  }

  void object(JsonValue& result) {
    result.kind = JsonKind::kObject;
    ++at_;
    skip_space();
    if (take('}')) return;
    std::set<std::string> keys;
    while (true) {
      result.members.push_back(member(result, keys));
      skip_space();
      if (take('}')) return;
      if (!take(',')) fail_here("',' or '}'");
      skip_space();
    }
  }

  JsonMember member(const JsonValue& parent, std::set<std::string>& keys) {
    if (at_ >= text_.size() || text_[at_] != '"') fail_here("a key in double quotes");
    JsonMember result;
    result.offset = at_;
    result.key = string();
    path_.push_back(pointer_segment(result.key));
    if (!keys.insert(result.key).second) fail_duplicate(parent, result);
    skip_space();
    if (!take(':')) fail_here("':'");
    result.value = value();
    path_.pop_back();
    return result;
  }

  [[noreturn]] void fail_duplicate(const JsonValue& parent, const JsonMember& again) const {
    std::size_t first = 0;
    for (const JsonMember& member : parent.members) {
      if (member.key == again.key) first = member.offset;
    }
    fail(again.offset, fmt::format("expected each key once, got {} again (first on line {})",
                                   in_quotes(again.key), document_.line(first)));
  }

  std::string string() {
    const std::size_t begin = at_++;
    std::string out;
    while (true) {
      if (at_ >= text_.size() || text_[at_] == '\n') {
        fail(begin, fmt::format("expected a closing '\"', got {}", describe(at_)));
      }
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x20) fail_here("no control character in a string");
      ++at_;
      if (byte == '"') return out;
      if (byte == '\\') {
        escape(out);
      } else {
        out += static_cast<char>(byte);
      }
    }
  }

  void escape(std::string& out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t begin = at_ - 1;
    const char letter = at_ < text_.size() ? text_[at_] : '\0';
    const std::size_t index = kLetters.find(letter);
    if (letter != '\0' && index != kLetters.npos) {
      ++at_;
      out += kMeanings[index];
      return;
    }
    if (letter != 'u') fail_here("one of \" \\ / b f n r t u after '\\'");
    ++at_;
    std::uint32_t code = hex4();
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const std::uint32_t low = hex4();
      if (low < 0xdc00 || low >= 0xe000) fail(begin, "expected a surrogate pair, got half of one");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code < 0xe000) {
      fail(begin, "expected a surrogate pair, got half of one");
    }
    append_utf8(out, code);
  }

  std::uint32_t hex4() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) fail_here("four hexadecimal digits");
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    return code;
  }

  JsonDocument& document_;
  JsonNumbers numbers_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> path_;
};

}  // namespace

std::shared_ptr<const JsonDocument> parse_document(std::string text, std::string name,
                                                   int first_line, JsonNumbers numbers) {
  auto document = std::make_shared<JsonDocument>();
  document->text = std::move(text);
  document->name = std::move(name);
  document->first_line = first_line;
  Parser(*document, numbers).run();
  return document;
}

}  // namespace zplan
