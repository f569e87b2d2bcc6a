#include "exec/data_source.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "exec/checkpoint/checksum.h"
#include "planner/core/error.h"
#include "planner/core/input_file.h"
#include "planner/core/random.h"

namespace zplan::exec {
namespace {

// Headers of token files [Karpathy24 data_common.py].
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);
struct TokenFile {
  std::int32_t kind, version;
  int width;  // bytes of a token
};
constexpr TokenFile kTokenFiles[] = {{20240520, 1, 2}, {20240801, 7, 4}};

}  // namespace

DataSource::DataSource(std::vector<std::uint8_t> bytes, std::string name) : name_(std::move(name)) {
  const auto kept = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
  owner_ = kept;
  data_ = std::as_bytes(std::span(*kept));
}

DataSource::DataSource(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                       std::string name)
    : owner_(std::move(owner)), data_(bytes), name_(std::move(name)) {
  std::array<std::int32_t, 3> header{};
  if (data_.size() >= kHeaderBytes) std::memcpy(header.data(), data_.data(), sizeof header);
  for (const TokenFile& known : kTokenFiles) {
    if (header[0] != known.kind) continue;
    if (header[1] != known.version)
      throw_bad_input(fmt::format("{}: a token file of version {}, expected {}", name_, header[1],
                                  known.version));
    const std::size_t held = (data_.size() - kHeaderBytes) / static_cast<std::size_t>(known.width);
    if (header[2] < 0 || held != static_cast<std::size_t>(header[2]))
      throw_bad_input(
          fmt::format("{}: holds {} tokens, its header says {}", name_, held, header[2]));
    width_ = known.width;
    data_ = data_.subspan(kHeaderBytes, held * static_cast<std::size_t>(width_));
  }
  if (width_ == 1 && name_.ends_with(".bin"))
    throw_bad_input(
        fmt::format("{}: expected tokens with a header of llm.c, whose first number is "
                    "{} or {}; a file of other bytes must not be named .bin",
                    name_, kTokenFiles[0].kind, kTokenFiles[1].kind));
}

std::string DataSource::identity() const {
  return fmt::format("{} tokens ({})", tokens(), checksum_text(checksum(data_)));
}

DataSource DataSource::from_file(const std::string& path) {
  const InputFile file(path);
  const auto size = static_cast<std::size_t>(file.bytes());
  if (size == 0) return DataSource({}, path);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED)
    throw_bad_input(fmt::format("{}: cannot be read: {}", path, strerror(errno)));
  std::shared_ptr<const void> owner(
      address, [size](const void* data) { munmap(const_cast<void*>(data), size); });
  return DataSource(std::move(owner), {static_cast<const std::byte*>(address), size}, path);
}

std::int64_t DataSource::token(std::int64_t place) const {
  const std::byte* const at = data_.data() + place * width_;
  if (width_ == 1) return std::to_integer<std::int64_t>(*at);
  if (width_ == 2) {
    std::uint16_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void DataSource::check(std::int64_t sequence, std::int64_t vocab) const {
  const char* const unit = width_ == 1 ? "byte" : "token";
  if (tokens() < sequence + 1) {
    throw_bad_input(
        fmt::format("{}: {} {}s are too few for a sequence of {} tokens and its "
                    "targets, expected at least {}",
                    name_, tokens(), unit, sequence, sequence + 1));
  }
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < tokens(); ++i) largest = std::max(largest, token(i));
  if (largest >= vocab) {
    throw_bad_input(fmt::format("{}: holds {} {}, but the model's vocabulary is {}", name_, unit,
                                largest, vocab));
  }
}

std::int64_t DataSource::sample_start(std::uint64_t seed, std::int64_t sample,
                                      std::int64_t sequence) const {
  const auto positions = static_cast<std::uint64_t>(tokens() - sequence);
  return static_cast<std::int64_t>(data_draw(seed, static_cast<std::uint64_t>(sample)) % positions);
}

void DataSource::load(std::uint64_t seed, std::int64_t sample, std::int64_t sequence,
                      std::int64_t begin, std::span<std::int32_t> tokens) const {
  const std::int64_t start = sample_start(seed, sample, sequence) + begin;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i)
    tokens[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(token((start + i) % this->tokens()));
}

}  // namespace zplan::exec
