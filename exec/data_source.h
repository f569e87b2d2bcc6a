// Training data: the bytes of a text are its tokens. Which bytes sample n consists of depends on
// the seed and n alone: it starts at data_draw(seed, n) mod (bytes - sequence) and holds sequence +
// 1 tokens, so targets are the inputs shifted by one. Leaves out: tokenizers, files larger than
// memory, epochs without repetition.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/core/units.h"

namespace zplan::exec {

class DataSource {
 public:
  // `name` appears in errors.
  DataSource(std::vector<std::uint8_t> bytes, std::string name);
  static DataSource from_file(const std::string& path);

  Bytes size() const { return Bytes{static_cast<std::int64_t>(bytes_.size())}; }
  // Throws Error when samples of this length cannot be cut from the text, or a token is not below
  // `vocab`.
  void check(std::int64_t sequence, std::int64_t vocab) const;

  std::int64_t sample_start(std::uint64_t seed, std::int64_t sample, std::int64_t sequence) const;
  // Fills in tokens of the sample, from `begin` on.
  void load(std::uint64_t seed, std::int64_t sample, std::int64_t sequence, std::int64_t begin,
            std::span<std::int32_t> tokens) const;

 private:
  std::vector<std::uint8_t> bytes_;
  std::string name_;
};

}  // namespace zplan::exec
