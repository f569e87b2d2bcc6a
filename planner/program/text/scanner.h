// Splits the text form of a Job into lines and each line into words, numbers and symbols; every
// failure names the line. A word is letters, digits and . _ - / { } after a letter, digit or _;
// anything else is written in double quotes with \" \\ and \xHH.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zplan {

// The word as the text form writes it, in quotes where it needs them.
std::string quoted_word(std::string_view word);

class TextScanner {
 public:
  TextScanner(std::string_view text, std::string file_name)
      : text_(text), file_name_(std::move(file_name)) {}

  // Moves to the next line, blank or not; false at the end of the text.
  bool next_line();
  int line() const { return line_; }

  // A statement is a line with something to say.
  void end_line();        // refuses leftovers of this line, moves to the next one
  void find_statement();  // skips lines without one, from the current line on
  void end_statement() {
    end_line();
    find_statement();
  }
  bool has_statement() const { return has_statement_; }
  bool statement(std::string_view word);  // the statement starts with word; steps over it
  [[noreturn]] void fail_statement(std::string_view expected);

  bool at_end();             // nothing left on this line but a comment
  bool accept(char symbol);  // symbols are single characters
  bool accept(std::string_view word);
  bool next_is_digit();
  void expect(char symbol);
  void expect(std::string_view word);
  std::string word(std::string_view expected);
  std::int64_t integer(std::string_view what, std::int64_t min, std::int64_t max);
  double number(std::string_view what, double min, double max);  // finite, both ends allowed

  // Refuses what comes next on the line, or `got`.
  [[noreturn]] void fail(std::string_view expected);
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const;
  [[noreturn]] void fail_at(int line, std::string_view expected, std::string_view got) const;

 private:
  void skip_spaces();
  std::string_view plain_word() const;  // at the current position, empty when there is none
  std::string quoted();

  std::string_view text_;  // from the start of the next line
  std::string file_name_;
  std::string_view rest_;  // of the current line
  int line_ = 0;
  bool has_statement_ = false;  // the current line exists
};

}  // namespace zplan
