#include "hwprofiles/core_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "hwprofiles/sourced_object.h"

namespace zplan {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kShortest = 1e-6, kLongest = 1e12;  // us, up to 11 days
constexpr double kGreatest = 1e18, kMostThreads = 1024;
// Of squared distances: how many heads there are in all matters less than how long and wide each
// is. [derived] as in kernel_tables.h
constexpr NearPoints::Place kAttentionScale{0.3, 2, 2}, kEvenScale{1, 1, 1};

NearPoints::Place place_of(const CoreProfile::Sizes& sizes) {
  return log_place(sizes[0], sizes[1], sizes[2]);
}

constexpr std::size_t kTerms = 5;
using Terms = std::array<double, kTerms>;

Terms terms_of(const CoreProfile::Sizes& s) {
  return {s[0] * s[1] * s[2], s[0] * s[2], s[1] * s[2], s[0] * s[1], 1};
}

// Least squares of (row . x - 1) over the rows with no part of x below 0, by one part after the
// other: the sum of squares never grows [derived].
Terms fit_to_one(std::vector<Terms> rows) {
  constexpr int kRounds = 500;
  Terms greatest{};
  for (const Terms& row : rows)
    for (std::size_t j = 0; j < kTerms; ++j) greatest[j] = std::max(greatest[j], row[j]);
  std::array<Terms, kTerms> squares{};
  Terms sums{}, x{};
  for (Terms& row : rows) {
    for (std::size_t j = 0; j < kTerms; ++j) row[j] /= greatest[j];
    for (std::size_t i = 0; i < kTerms; ++i) {
      sums[i] += row[i];
      for (std::size_t j = 0; j < kTerms; ++j) squares[i][j] += row[i] * row[j];
    }
  }
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t j = 0; j < kTerms; ++j) {
      double left = sums[j];
      for (std::size_t k = 0; k < kTerms; ++k) left -= squares[j][k] * x[k];
      x[j] = std::max(0.0, x[j] + left / squares[j][j]);
    }
  for (std::size_t j = 0; j < kTerms; ++j) x[j] /= greatest[j];
  return x;
}

double product(const CoreProfile::Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

bool is_attention(std::string_view name) {
  return name == "attention_forward" || name == "attention_backward";
}

// One row of a table, "adamw 1 28672 1 1 5.125": words, the last of them a time in us.
class Row {
 public:
  Row(const JsonNode& node, std::size_t size) : node_(node) {
    std::istringstream in(node.string());
    for (std::string word; in >> word;) words_.push_back(std::move(word));
    if (words_.size() != size) node.fail_expected(fmt::format("a row of {} words", size));
  }
  const std::string& text(std::size_t i) const { return words_[i]; }
  int count(std::size_t i) const { return static_cast<int>(number(words_[i], 1, kMostThreads)); }
  double size(std::size_t i) const { return number(words_[i], 1, kGreatest); }
  Seconds time() const { return {number(words_.back(), kShortest, kLongest) * kMicrosecond}; }

 private:
  double number(const std::string& word, double min, double max) const {
    double value = 0;
    const char* end = word.data() + word.size();
    const auto [stop, status] = std::from_chars(word.data(), end, value);
    if (status != std::errc{} || stop != end || !(value >= min && value <= max))
      node_.fail_expected(fmt::format("a number from {} to {} in place of {}", min, max, word));
    return value;
  }

  JsonNode node_;
  std::vector<std::string> words_;
};

// Sourced {"value": [rows], ..}; empty when the table may be absent and is.
class Tables {
 public:
  Tables(JsonObject& object, std::vector<ValueSource>& sources)
      : object_(&object), sources_(&sources) {}

  std::vector<Row> rows(std::string_view key, std::size_t size, bool required) {
    const auto node = required ? object_->member(key) : object_->optional_member(key);
    std::vector<Row> rows;
    if (!node) return rows;
    const SourcedNode sourced = read_sourced(*node);
    for (const JsonNode& item : sourced.value.items()) rows.emplace_back(item, size);
    if (rows.empty()) sourced.value.fail_expected("at least one row");
    sources_->push_back(
        {node->pointer(), fmt::format("{} rows", rows.size()), sourced.source, sourced.ref});
    return rows;
  }
  TimeCurve curve(std::string_view key, bool required) {
    TimeCurve curve;
    for (const Row& row : rows(key, 2, required)) curve.add(row.size(0), row.time());
    if (curve.size() > 0) curve.settle();
    return curve;
  }

 private:
  JsonObject* object_;
  std::vector<ValueSource>* sources_;
};

}  // namespace

std::optional<Seconds> CoreProfile::kernel(std::string_view name, int threads,
                                           const Sizes& sizes) const {
  const Kernel* best = nullptr;
  for (auto at = kernels_.lower_bound(std::pair(std::string(name), 0));
       at != kernels_.end() && at->first.first == name; ++at) {
    if (best == nullptr || at->first.second <= threads) best = &at->second;
  }
  if (best == nullptr) return std::nullopt;
  if (best->curve.size() > 0) return best->curve.in_proportion(product(sizes));
  const auto& scale = is_attention(name) ? kAttentionScale : kEvenScale;
  return best->sum(sizes) * std::exp(best->points.mean_near(place_of(sizes), scale));
}

Seconds CoreProfile::Kernel::sum(const Sizes& sizes) const {
  const Terms terms = terms_of(sizes);
  double seconds = 0;
  for (std::size_t j = 0; j < kTerms; ++j) seconds += seconds_per[j] * terms[j];
  return {seconds};
}

void CoreProfile::Kernel::settle() {
  if (curve.size() > 0) return curve.settle();
  std::vector<Terms> relative;
  for (const auto& [sizes, time] : rows) {
    relative.push_back(terms_of(sizes));
    for (double& term : relative.back()) term /= time.value;
  }
  seconds_per = fit_to_one(std::move(relative));
  for (const auto& [sizes, time] : rows)
    points.add(place_of(sizes), std::log(time.value / sum(sizes).value));
}

Seconds CoreProfile::copy(Bytes bytes) const {
  return copies_.in_proportion(static_cast<double>(bytes.value));
}

Seconds CoreProfile::transfer(Bytes bytes) const {
  return transfers_.in_proportion(static_cast<double>(bytes.value));
}

std::optional<CoreProfile::Meeting> CoreProfile::collective(std::string_view name, int ranks,
                                                            Bytes bytes) const {
  const TimeCurve* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  int found = 0;
  for (const auto& [key, curve] : collectives_) {
    if (key.first != name) continue;
    const double off = std::abs(std::log(static_cast<double>(key.second) / ranks));
    if (off >= least) continue;
    best = &curve;
    least = off;
    found = key.second;
  }
  if (best == nullptr) return std::nullopt;
  return Meeting{best->in_proportion(static_cast<double>(bytes.value)), found};
}

std::optional<Seconds> CoreProfile::drive(const TimeCurve& curve, Bytes bytes) {
  if (curve.size() == 0) return std::nullopt;
  return curve.in_proportion(static_cast<double>(bytes.value));
}

CoreProfile read_cores(const JsonNode& node, std::vector<ValueSource>& sources) {
  CoreProfile cores;
  SourcedObject in(node, sources);
  cores.cores = in.integer("count", 1, kMaxParts);
  cores.operation = in.seconds("operation");
  cores.wake = in.seconds("wake");
  cores.products_together = in.factor("products_together");
  cores.streams_together = in.factor("streams_together");
  Tables tables(in.object(), sources);
  for (const Row& row : tables.rows("kernels", 6, true)) {
    const CoreProfile::Sizes sizes{row.size(2), row.size(3), row.size(4)};
    CoreProfile::Kernel& kernel = cores.kernels_[{row.text(0), row.count(1)}];
    if (sizes[1] == 1 && sizes[2] == 1)
      kernel.curve.add(sizes[0], row.time());
    else
      kernel.rows.emplace_back(sizes, row.time());
  }
  for (auto& [key, kernel] : cores.kernels_) kernel.settle();
  for (const Row& row : tables.rows("collectives", 4, true))
    cores.collectives_[{row.text(0), row.count(1)}].add(row.size(2), row.time());
  for (auto& [key, curve] : cores.collectives_) curve.settle();
  cores.copies_ = tables.curve("copies", true);
  cores.transfers_ = tables.curve("transfers", true);
  cores.reads_ = tables.curve("reads", false);
  cores.writes_ = tables.curve("writes", false);
  in.finish();
  return cores;
}

}  // namespace zplan
