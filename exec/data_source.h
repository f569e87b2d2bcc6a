// Training data: tokens one after the other. A file of llm.c [Karpathy24] says so with its first
// number (256 int32 of a header: kind, version, tokens; then these in 16 bits, or in 32 those of
// Llama 3); of any other file each byte is a token, but for one that is named .bin, which is
// refused. Files are mapped, not read: they may be larger than memory, and must not become shorter
// while a run lasts.
//
// Which tokens sample n consists of depends on the seed and n alone: it starts at data_draw(seed,
// n) mod (tokens - sequence) and holds sequence + 1 tokens, so targets are the inputs shifted by
// one. Leaves out: tokenizers, epochs without repetition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/core/units.h"

namespace zplan::exec {

class DataSource {
 public:
  // `name` appears in errors.
  DataSource(std::vector<std::uint8_t> bytes, std::string name);
  // Throws Error(kBadInput) for what is no file, and for one whose header and size differ.
  static DataSource from_file(const std::string& path);

  const std::string& name() const { return name_; }
  Bytes size() const { return Bytes{static_cast<std::int64_t>(data_.size())}; }
  // Of the same tokens the same text, "5,000 tokens (0123456789abcdef)".
  std::string identity() const;
  std::int64_t tokens() const { return std::ssize(data_) / width_; }
  // Throws Error when samples of this length cannot be cut from the data, or a token is not below
  // `vocab`.
  void check(std::int64_t sequence, std::int64_t vocab) const;

  std::int64_t sample_start(std::uint64_t seed, std::int64_t sample, std::int64_t sequence) const;
  // Fills in tokens of the sample, from `begin` on; behind the end of the data it begins again.
  void load(std::uint64_t seed, std::int64_t sample, std::int64_t sequence, std::int64_t begin,
            std::span<std::int32_t> tokens) const;

 private:
  DataSource(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string name);

  std::int64_t token(std::int64_t place) const;

  std::shared_ptr<const void> owner_;  // of the bytes
  std::span<const std::byte> data_;    // the tokens
  int width_ = 1;                      // bytes of one
  std::string name_;
};

}  // namespace zplan::exec
