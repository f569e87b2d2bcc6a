// What a GPU run found: one row per figure, most with a goal. Printed as a table and written as
// JSON (zplan.gpu/1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zplan::gpu {

enum class Goal : std::uint8_t { kNone, kAtMost, kAtLeast };

struct Row {
  std::string part;  // "kernels"
  std::string name;
  double figure = 0;   // not a number: there is none, the note says why
  std::string unit{};  // empty: a plain number
  Goal relation = Goal::kNone;
  double goal = 0;
  std::string note{};

  bool passed() const;
};

// Where and when the figures were taken.
struct Origin {
  std::string device, driver, toolkit, commit, date;
  std::vector<std::string> parts;  // whose rows are all there
  std::uint64_t seed = 0;
};

class Report {
 public:
  void add(Row row);  // prints it to stderr as well: a run that is cut short leaves something
  // Something that could not be measured or done.
  void fail(std::string part, std::string name, std::string why);

  // Takes over the rows of a report in JSON, and where they come from.
  void take(const std::string& json, Origin& origin);

  bool passed() const;
  std::string table() const;
  std::string json(const Origin& origin) const;

 private:
  std::vector<Row> rows_;
};

}  // namespace zplan::gpu
