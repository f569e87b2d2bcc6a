#include "planner/foreign/syntax/shell.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "planner/foreign/syntax/shell_arithmetic.h"

namespace zplan {
namespace {

// [assumed] beyond what any script makes of its variables: they can double each other.
constexpr std::size_t kMostExpanded = std::size_t{1} << 20;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_end(char c) { return c == '\n' || c == ';' || c == '&' || c == '|' || c == ')'; }

bool is_any(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, word) != all.end();
}

using Words = std::vector<PlacedText>;

// Walks over text and says which of its bytes are blanks between words: those of what is
// substituted, "$(..)" or "`..`", are not.
class BlankFinder {
 public:
  explicit BlankFinder(std::string_view text) : text_(text) {}

  bool parts(std::size_t i) {
    const char c = text_[i];
    if (c == '`') in_ticks_ = !in_ticks_;
    if (c == '(' && (depth_ > 0 || (i > 0 && text_[i - 1] == '$'))) ++depth_;
    if (c == ')' && depth_ > 0) --depth_;
    return depth_ == 0 && !in_ticks_ && (is_blank(c) || c == '\n');
  }

 private:
  std::string_view text_;
  int depth_ = 0;
  bool in_ticks_ = false;
};

class Reader {
 public:
  explicit Reader(std::string_view text, const Sources& sources, std::size_t begin = 0)
      : text_(text), sources_(&sources), begin_(begin) {}
  // Of a word of a script, with the variables that it has there.
  Reader(const PlacedText& within, const std::map<std::string, Words>& variables)
      : text_(within.text), places_(&within.places), variables_(variables) {}

  ShellScript read() {
    walk();
    for (auto& [name, words] : variables_) script_.variables.push_back(std::move(words));
    return std::move(script_);
  }

 private:
  void walk() {
    while (at_ < text_.size()) statement();
  }

  std::size_t place(std::size_t at) const {
    return places_ != nullptr ? (*places_)[at] : begin_ + at;
  }
  bool is_at(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  void skip_blanks() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || is_at("\\\n") || is_at("\\\r\n")))
      at_ += is_blank(text_[at_]) ? 1 : is_at("\\\n") ? 2 : 3;
  }
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // Up to the end of a line, ";", "&", "|" or ")".
  void statement() {
    Words words;
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      if (text_[at_] == '#') skip_line();
      if (at_ >= text_.size()) break;
      if (is_end(text_[at_]) || text_[at_] == '(') {
        ++at_;
        break;
      }
      if (words.empty() && assignment()) continue;
      Words more = word();
      std::ranges::move(more, std::back_inserter(words));
      drop_keyword(words);
    }
    if (words.empty() || skipped_ > 0) return;
    for (std::size_t w = 1; w < words.size(); ++w)
      if (places_ == nullptr && words[w - 1].text == "-c" &&
          words[w].text.find('$') != std::string::npos)
        add_commands_of(words[w]);
    const bool reads = words.size() > 1 && is_any(words[0].text, {"source", "."});
    if (reads && sources_ != nullptr && sources_->open) follow(words[1]);
    script_.commands.push_back(std::move(words));
  }

  // The other script goes on with the variables of this one, and this one with its.
  void follow(const PlacedText& path) {
    const std::optional<SourcedText> other = sources_->open(path);
    if (!other) return;
    Reader reader(other->text, *sources_, other->begin);
    reader.variables_ = std::move(variables_);
    reader.script_ = std::move(script_);
    reader.expanded_ = expanded_;
    reader.walk();
    variables_ = std::move(reader.variables_);
    script_ = std::move(reader.script_);
    expanded_ = reader.expanded_;
    sources_->close();
  }

  // "bash -c '.. $NAME ..'": the inner shell replaces what the quotes kept.
  void add_commands_of(const PlacedText& word) {
    ShellScript inner = Reader(word, variables_).read();
    std::ranges::move(inner.commands, std::back_inserter(script_.commands));
  }

  // Words of the language in the place of a command.
  void drop_keyword(Words& words) {
    if (words.size() != 1) return;
    const std::string& word = words[0].text;
    if (is_any(word, {"if", "for", "while", "until", "case"})) {
      if (skipped_ > 0) ++skipped_;
      script_.assumed.push_back(words[0].place());
    } else if (is_any(word, {"else", "elif"})) {
      if (skipped_ == 0) skipped_ = 1;
    } else if (is_any(word, {"fi", "done", "esac"})) {
      if (skipped_ > 0) --skipped_;
    } else if (!is_any(word, {"then", "do", "{", "}", "export", "local", "declare", "readonly"})) {
      return;
    }
    words.clear();
  }

  // NAME=word, NAME+=word, NAME=(words): false where there is none.
  bool assignment() {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const bool adds = text_.substr(end, 2) == "+=";
    if (end == at_ || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return false;
    if (end >= text_.size() || (text_[end] != '=' && !adds)) return false;
    const std::string name(text_.substr(at_, end - at_));
    at_ = end + (adds ? 2 : 1);
    Words value = at_ < text_.size() && text_[at_] == '(' ? array() : scalar();
    if (skipped_ > 0) return true;
    Words& variable = variables_[name];
    if (!adds) variable.clear();
    if (adds && value.size() == 1 && variable.size() == 1) {
      variable[0].add(value[0]);
    } else {
      std::ranges::move(value, std::back_inserter(variable));
    }
    return true;
  }

  Words scalar() {
    if (at_ >= text_.size() || is_blank(text_[at_]) || is_end(text_[at_])) return {PlacedText{}};
    Words words = word();
    PlacedText joined;
    for (const PlacedText& word : words) {
      if (!joined.text.empty()) joined.add(' ', word.place());
      joined.add(word);
    }
    return {std::move(joined)};
  }

  Words array() {
    Words out;
    ++at_;
    while (at_ < text_.size() && text_[at_] != ')') {
      if (is_blank(text_[at_]) || text_[at_] == '\n' || text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '#') {
        skip_line();
      } else {
        const std::size_t before = at_;
        Words more = word();
        std::ranges::move(more, std::back_inserter(out));
        if (at_ == before) ++at_;  // an operator, which has no place here
      }
    }
    if (at_ < text_.size()) ++at_;
    return out;
  }

  // One word as it is written, which variables in it may make none or several.
  Words word() {
    Words out;
    PlacedText current;
    bool is_there = false;  // also where it is empty, in quotes
    const auto end_word = [&] {
      if (is_there) out.push_back(std::exchange(current, {}));
      is_there = false;
    };
    while (at_ < text_.size() && !is_blank(text_[at_]) && !is_end(text_[at_]) && !is_at("\\\n")) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        is_there = true;
        quoted(c, current, out);
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        current.add(text_[at_ + 1], place(at_));
        is_there = true;
        at_ += 2;
      } else if (c == '$' || c == '`') {
        const Words values = expansion();
        for (std::size_t v = 0; v < values.size(); ++v) {
          if (v > 0) end_word();
          add_split(values[v], current, is_there, end_word);
        }
      } else {
        current.add(c, place(at_++));
        is_there = true;
      }
    }
    end_word();
    return out;
  }

  // Outside quotes what a variable holds comes apart at blanks.
  template <typename EndWord>
  static void add_split(const PlacedText& value, PlacedText& current, bool& is_there,
                        const EndWord& end_word) {
    BlankFinder blanks(value.text);
    for (std::size_t i = 0; i < value.text.size(); ++i) {
      if (blanks.parts(i)) {
        end_word();
      } else {
        current.add(value.text[i], value.places[i]);
        is_there = true;
      }
    }
  }

  void quoted(char quote, PlacedText& current, Words& out) {
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_];
      if (quote == '"' && (c == '$' || c == '`')) {
        const Words values = expansion();
        for (std::size_t v = 0; v < values.size(); ++v) {
          if (v > 0) out.push_back(std::exchange(current, {}));
          current.add(values[v]);
        }
      } else if (quote == '"' && c == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] != '\n') current.add(text_[at_ + 1], place(at_));
        at_ += 2;
      } else {
        current.add(c, place(at_++));
      }
    }
    if (at_ < text_.size()) ++at_;
  }

  // At "$" or "`".
  Words expansion() {
    const std::size_t start = at_;
    if (text_[at_] == '`') {
      at_ = std::min(text_.find('`', at_ + 1), text_.size() - 1) + 1;
      return as_written(start);
    }
    if (is_at("$((")) return arithmetic(start);
    if (is_at("$(")) {
      skip_parentheses();
      return as_written(start);
    }
    if (is_at("${")) return braced(start);
    ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin && at_ < text_.size() &&
        is_any(text_.substr(at_, 1), {"@", "*", "#", "?", "$"})) {
      const bool passes_on = text_[at_] == '@' || text_[at_] == '*';
      ++at_;
      return passes_on ? Words{} : as_written(start);  // arguments of the script, which has none
    }
    return value_of(std::string(text_.substr(begin, at_ - begin)), start);
  }

  Words as_written(std::size_t start) const {
    PlacedText out;
    out.add(text_.substr(start, at_ - start), place(start));
    return {std::move(out)};
  }

  Words value_of(const std::string& name, std::size_t start) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return as_written(start);
    for (const PlacedText& word : found->second) expanded_ += word.text.size();
    return expanded_ > kMostExpanded ? as_written(start) : found->second;
  }

  void skip_parentheses() {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')' && --depth == 0) break;
    }
    if (at_ < text_.size()) ++at_;
  }

  // ${NAME}, ${NAME[@]}, ${NAME:-word}.
  Words braced(std::size_t start) {
    at_ += 2;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    if (is_at("[@]") || is_at("[*]")) at_ += 3;
    const bool has_default = is_at(":-") || is_at(":=") || is_at("-");
    if (!has_default && !is_at("}")) {
      at_ = std::min(text_.find('}', at_), text_.size() - 1) + 1;
      return as_written(start);
    }
    if (has_default) at_ += is_at("-") ? 1 : 2;
    PlacedText usual;
    Words rest;
    while (at_ < text_.size() && text_[at_] != '}') {
      const char c = text_[at_];
      if (c == '"' || c == '\'')
        quoted(c, usual, rest);
      else if (c == '$')
        for (const PlacedText& word : expansion()) usual.add(word);
      else
        usual.add(c, place(at_++));
    }
    if (at_ < text_.size()) ++at_;
    if (!has_default || variables_.contains(name)) return value_of(name, start);
    return {std::move(usual)};
  }

  // Names in it stand for their values, with or without "$".
  Words arithmetic(std::size_t start) {
    skip_parentheses();
    const std::size_t length = at_ - start;
    if (length < 5) return as_written(start);  // not closed
    const std::string_view inside = text_.substr(start + 3, length - 5);
    std::string numbers;
    for (std::size_t i = 0; i < inside.size();) {
      if (inside[i] == '$' || inside[i] == '{' || inside[i] == '}') {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < inside.size() && is_name(inside[end])) ++end;
      if (end == i) end = i + 1;
      const std::string word(inside.substr(i, end - i));
      const auto found = variables_.find(word);
      const bool is_known = found != variables_.end() && found->second.size() == 1;
      numbers += is_known ? found->second[0].text : word;
      i = end;
    }
    const std::optional<std::int64_t> value = shell_arithmetic(numbers);
    if (!value) return as_written(start);
    PlacedText out;
    out.add(std::to_string(*value), place(start));
    return {std::move(out)};
  }

  std::string_view text_;
  const std::vector<std::size_t>* places_ = nullptr;  // of the text's bytes; null: as they stand
  const Sources* sources_ = nullptr;
  std::size_t begin_ = 0;  // of the text among all places
  std::size_t at_ = 0;
  int skipped_ = 0;  // conditions whose other branch this is
  std::size_t expanded_ = 0;
  std::map<std::string, Words> variables_;
  ShellScript script_;
};

}  // namespace

ShellScript read_shell(std::string_view text, const Sources& sources) {
  return Reader(text, sources).read();
}

std::vector<PlacedText> split_words(const PlacedText& text) {
  std::vector<PlacedText> out;
  PlacedText word;
  BlankFinder blanks(text.text);
  for (std::size_t i = 0; i <= text.text.size(); ++i) {
    const bool ends = i == text.text.size() || blanks.parts(i);
    if (!ends) word.add(text.text[i], text.places[i]);
    if (ends && !word.text.empty()) out.push_back(std::exchange(word, {}));
  }
  return out;
}

}  // namespace zplan
