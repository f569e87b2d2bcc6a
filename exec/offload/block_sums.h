// What a file should hold: a checksum of each block of kIoAlignment bytes, of what was last written
// there (checkpoint/checksum.h, of which the low half is kept). Blocks that were never written may
// hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

class BlockSums {
 public:
  explicit BlockSums(Bytes file);

  // What the sums of a file take.
  static Bytes memory_of(Bytes file) {
    const std::int64_t blocks = round_up(file, kIoAlignment).value / kIoAlignment.value;
    return Bytes{sizeof(std::uint32_t)} * blocks;
  }

  // Both take whole blocks, from `offset` of the file on. Calls on different blocks may be made at
  // the same time.
  void keep(Bytes offset, std::span<const std::byte> written);
  // Where the first block lies that is not as it was written.
  std::optional<Bytes> first_changed(Bytes offset, std::span<const std::byte> read) const;

 private:
  std::vector<std::uint32_t> sums_;  // 0: never written
};

}  // namespace zplan::exec
