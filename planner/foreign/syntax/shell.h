// The commands of a shell script that starts a training run, with the variables they use replaced:
// as much of the shell as such scripts need. Nothing is run.
//
// Known: words in quotes, comments, continued lines, assignments and arrays (NAME=(..), +=),
// $NAME, ${NAME}, ${NAME:-word}, ${NAME[@]} and $((..)) of whole numbers. What is not known stays
// as it is written, "$NAME" or "$(..)", in one word, so that a message can show it. Of a condition
// the first branch is taken and of a loop one turn; `assumed` says where. Scripts that are read by
// "source" or "." are as if they stood there, where the caller has them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Text of which each byte knows its place in the script.
struct PlacedText {
  std::string text;
  std::vector<std::size_t> places;

  void add(char c, std::size_t place) {
    text += c;
    places.push_back(place);
  }
  void add(std::string_view word, std::size_t place) {
    for (const char c : word) add(c, place);
  }
  void add(const PlacedText& other) {
    text += other.text;
    places.insert(places.end(), other.places.begin(), other.places.end());
  }
  std::size_t place() const { return places.empty() ? 0 : places.front(); }
};

struct ShellScript {
  std::vector<std::vector<PlacedText>> commands;   // words of each, in order
  std::vector<std::size_t> assumed;                // places of conditions and loops
  std::vector<std::vector<PlacedText>> variables;  // words of each, by name
};

// A script that another one reads: its text, and where that begins among the places of all.
struct SourcedText {
  std::string text;
  std::size_t begin = 0;
};

// Called with the path at "source PATH" and, where that gave a text, once its end is reached.
struct Sources {
  std::function<std::optional<SourcedText>(const PlacedText& path)> open;
  std::function<void()> close;
};

ShellScript read_shell(std::string_view text, const Sources& sources = {});

// At blanks.
std::vector<PlacedText> split_words(const PlacedText& text);

}  // namespace zplan
