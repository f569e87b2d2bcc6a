#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/nccl_table.h"

namespace zplan {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::size_t kRateColumns = 4;  // time, algbw, busbw, #wrong

Words words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  Words words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// "[1,0]<stdout>:" of mpirun --tag-output and "0: " of srun --label go.
std::string_view without_label(std::string_view line) {
  const std::size_t tag = line.find(">:");
  if (line.starts_with('[') && tag != line.npos && line.substr(0, tag).find("]<std") != line.npos)
    return line.substr(tag + 2);
  const std::size_t colon = line.find(": "), first = line.find_first_not_of(' ');
  if (colon != line.npos && first < colon && is_digits(line.substr(first, colon - first)))
    return line.substr(colon + 2);
  return line;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  std::vector<NcclRun> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1);
      ++line_;
      read_line(without_label(text.substr(0, text[end] == '\n' ? end : end + 1)));
      text.remove_prefix(end + 1);
    }
    end_table();
    if (runs_.empty()) {
      fail("expected a table of nccl-tests, \"# size count type ..\", got none");
    }
    return std::move(runs_);
  }

 private:
  void read_line(std::string_view line) {
    const Words words = words_of(line);
    if (words.empty()) return;
    note_program(line);
    if (words[0] == "NCCL" && words.size() > 2 && words[1] == "version") {
      nccl_ = fmt::format("NCCL {}", words[2].substr(0, words[2].find('+')));
    } else if (words[0].starts_with('#')) {
      read_comment(line, words);
    } else if (in_rows_ && is_digits(words[0])) {
      read_row(words);
    }
  }

  // A test that is named after its table, too.
  void note_program(std::string_view line) {
    const std::string program = find_nccl_program(line);
    if (program.empty()) return;
    const bool concludes = line.find("Collective test concluded") != line.npos;
    if (!concludes) program_ = program;
    if (concludes && ended_ && table_.program.empty()) table_.program = program;
  }

  void read_comment(std::string_view line, const Words& words) {
    const auto is = [&](std::size_t i, std::string_view word) {
      return i < words.size() && words[i] == word;
    };
    if (is(1, "nccl-tests") && is(2, "version") && words.size() > 3) {
      begin_table();
      table_.software = fmt::format("nccl-tests {}", words[3]);
      for (const std::string_view word : words) note_library(word);
    } else if (is(1, "nThread") && is(3, "nGpus") && words.size() > 4) {
      begin_table();
      constexpr int kMost = 1024;  // [assumed] of one process
      const int threads = integer(words[2], "nThread"), gpus = integer(words[4], "nGpus");
      if (std::min(threads, gpus) < 1 || std::max(threads, gpus) > kMost)
        fail(fmt::format("expected nThread and nGpus from 1 to {}, got {} and {}", kMost, threads,
                         gpus));
      table_.ranks_per_process = threads * gpus;
    } else if (is(1, "Rank")) {
      read_rank(line, words);
    } else if (is(1, "size") && is(2, "count") && is(3, "type")) {
      read_header(words);
    } else if (is(1, "Out") && is(3, "bounds") && line.find("FAILED") != line.npos) {
      fail("expected \"Out of bounds values : 0 OK\", got " + in_quotes(line));
    } else if (is(1, "Avg") && is(3, "bandwidth")) {
      ended_ = in_rows_;
      in_rows_ = false;
    }
  }

  void note_library(std::string_view word) {
    constexpr std::string_view kKey = "nccl-library=";
    if (!word.starts_with(kKey)) return;
    nccl_ = "NCCL " + nccl_version(integer(word.substr(kKey.size()), "nccl-library"));
  }

  // Its lines in this order: version, nThread, ranks, header. Whichever comes first begins it.
  void begin_table() {
    if (open_ && !ended_ && !in_rows_ && table_.ranks.empty()) return;
    end_table();
    table_ = {};
    table_.name = name_;
    table_.place = place();
    open_ = true;
    ended_ = false;
  }

  void end_table() {
    if (!open_) return;
    if (!ended_) fail("expected the line \"# Avg bus bandwidth\" at the end of a table, got none");
    if (!nccl_.empty()) table_.software += (table_.software.empty() ? "" : ", ") + nccl_;
    runs_.push_back(checked_run(table_));
    open_ = false;
  }

  // "Group 0" is absent in old versions, the host may be empty.
  void read_rank(std::string_view line, const Words& words) {
    if (!open_) begin_table();
    NcclRank rank;
    rank.rank = integer(words.size() > 2 ? words[2] : "", "a rank");
    const auto on = std::find(words.begin(), words.end(), "on");
    const auto device = std::find(on, words.end(), "device");
    if (device == words.end()) fail("expected \"on HOST device N\", got " + in_quotes(line));
    if (words[3] == "Group") rank.group = integer(words[4], "a group");
    if (device - on > 1) rank.host = *(on + 1);
    check_next_rank(place(), static_cast<int>(table_.ranks.size()), rank.rank);
    const std::size_t bracket = line.rfind("] ");
    if (bracket != line.npos) rank.device = visible(line.substr(bracket + 2));
    while (rank.device.ends_with(' ') || rank.device.ends_with('\r')) rank.device.pop_back();
    table_.ranks.push_back(std::move(rank));
  }

  void read_header(const Words& words) {
    if (!open_ || in_rows_ || ended_) {
      fail("expected the line \"# nThread .. nGpus ..\" before the table, got none");
    }
    table_.program = std::exchange(program_, "");
    std::size_t at = 4;
    const auto takes = [&](std::string_view word) {
      const bool has = at < words.size() && words[at] == word;
      if (has) ++at;
      return has;
    };
    has_reduction_ = takes("redop");
    has_root_ = takes("root");
    figures_.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    has_timestamp_ = !figures_.empty() && figures_.back() == "timestamp";
    if (has_timestamp_) figures_.pop_back();
    constexpr std::string_view kExpected[] = {"time", "algbw", "busbw"};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string got = i < figures_.size() ? figures_[i] : "nothing";
      if (got != kExpected[i]) fail(fmt::format("expected column {}, got {}", kExpected[i], got));
    }
    if (figures_.size() < kRateColumns) fail("expected a column of wrong results, got none");
    in_rows_ = true;
  }

  void read_row(const Words& words) {
    NcclRow row;
    row.place = place();
    if (words.size() < 3) fail("expected a size, a count and a type, got " + in_quotes(words[0]));
    row.size = number(words[0], "a size in bytes");
    row.count = number(words[1], "a count of elements");
    row.type = words[2];
    std::size_t at = 3;
    // Old tests without a reduction leave the column blank.
    if (has_reduction_ && at < words.size() && !parse_printed(words[at]))
      row.reduction = words[at++];
    if (has_root_ && at < words.size()) ++at;
    const std::size_t got = words.size() - std::min(at, words.size());
    const std::size_t expected = figures_.size() + (has_timestamp_ ? 2 : 0);
    if (got != expected)
      fail(fmt::format("expected {} figures after the type, got {}", expected, got));
    for (std::size_t i = 0; i < figures_.size(); ++i) check_wrong(figures_[i], words[at + i]);
    row.time = figure(words[at], "a time in us");
    row.algbw = figure(words[at + 1], "algbw in GB/s");
    row.busbw = figure(words[at + 2], "busbw in GB/s");
    if (has_timestamp_) table_.date = visible(words[at + figures_.size()]);
    table_.rows.push_back(std::move(row));
  }

  // Old versions print the largest deviation of a sum in its place, which rounding explains.
  void check_wrong(std::string_view column, std::string_view text) const {
    if (column != "#wrong" || text == "N/A" || text == "0") return;
    fail(fmt::format("expected no wrong results, got #wrong {}", text));
  }

  Printed figure(std::string_view text, std::string_view what) const {
    const auto value = parse_printed(text);
    if (!value) fail(fmt::format("expected {}, got {}", what, in_quotes(text)));
    return *value;
  }
  std::int64_t number(std::string_view text, std::string_view what) const {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size())
      fail(fmt::format("expected {}, got {}", what, in_quotes(text)));
    return value;
  }
  int integer(std::string_view text, std::string_view what) const {
    constexpr std::int64_t kMost = 10'000'000;  // [assumed] ranks, groups, codes of versions
    const std::int64_t value = number(text, what);
    if (value < 0 || value > kMost)
      fail(fmt::format("expected {} up to {}, got {}", what, kMost, value));
    return static_cast<int>(value);
  }

  std::string place() const { return fmt::format("{}:{}", name_, line_); }
  [[noreturn]] void fail(const std::string& message) const { fail_at(place(), message); }

  const std::string& name_;
  int line_ = 0;
  std::string program_, nccl_;  // named last
  NcclTable table_;
  bool open_ = false;     // there is a table
  bool in_rows_ = false;  // its header was read
  bool ended_ = false;    // its last line was read
  bool has_reduction_ = false, has_root_ = false, has_timestamp_ = false;
  std::vector<std::string> figures_;  // names of the columns after those
  std::vector<NcclRun> runs_;
};

}  // namespace

std::vector<NcclRun> parse_nccl_text(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace zplan
