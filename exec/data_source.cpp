#include "exec/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/random.h"

namespace zplan::exec {

DataSource::DataSource(std::vector<std::uint8_t> bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {}

DataSource DataSource::from_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_bad_input(fmt::format("{}: cannot be opened", path));
  std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
  if (in.bad()) throw_bad_input(fmt::format("{}: cannot be read", path));
  return DataSource(std::move(bytes), path);
}

void DataSource::check(std::int64_t sequence, std::int64_t vocab) const {
  if (std::ssize(bytes_) < sequence + 1) {
    throw_bad_input(
        fmt::format("{}: {} bytes are too few for a sequence of {} tokens and its "
                    "targets, expected at least {}",
                    name_, bytes_.size(), sequence, sequence + 1));
  }
  const int largest = *std::max_element(bytes_.begin(), bytes_.end());
  if (largest >= vocab) {
    throw_bad_input(
        fmt::format("{}: holds byte {}, but the model's vocabulary is {}", name_, largest, vocab));
  }
}

std::int64_t DataSource::sample_start(std::uint64_t seed, std::int64_t sample,
                                      std::int64_t sequence) const {
  const auto positions = static_cast<std::uint64_t>(std::ssize(bytes_) - sequence);
  return static_cast<std::int64_t>(data_draw(seed, static_cast<std::uint64_t>(sample)) % positions);
}

void DataSource::load(std::uint64_t seed, std::int64_t sample, std::int64_t sequence,
                      std::int64_t begin, std::span<std::int32_t> tokens) const {
  const std::int64_t start = sample_start(seed, sample, sequence) + begin;
  std::copy_n(bytes_.begin() + start, tokens.size(), tokens.begin());
}

}  // namespace zplan::exec
