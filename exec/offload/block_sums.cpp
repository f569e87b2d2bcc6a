#include "exec/offload/block_sums.h"

#include <algorithm>

#include "exec/checkpoint/checksum.h"

namespace zplan::exec {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(kIoAlignment.value);

std::uint32_t sum_of(std::span<const std::byte> block) {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(checksum(block)));
}

std::size_t first_block(Bytes offset) { return static_cast<std::size_t>(offset.value) / kBlock; }

}  // namespace

BlockSums::BlockSums(Bytes file) : sums_(first_block(round_up(file, kIoAlignment))) {}

void BlockSums::keep(Bytes offset, std::span<const std::byte> written) {
  std::size_t block = first_block(offset);
  for (std::size_t i = 0; i < written.size(); i += kBlock)
    sums_[block++] = sum_of(written.subspan(i, kBlock));
}

std::optional<Bytes> BlockSums::first_changed(Bytes offset, std::span<const std::byte> read) const {
  std::size_t block = first_block(offset);
  for (std::size_t i = 0; i < read.size(); i += kBlock) {
    const std::uint32_t expected = sums_[block++];
    if (expected != 0 && expected != sum_of(read.subspan(i, kBlock)))
      return offset + Bytes{static_cast<std::int64_t>(i)};
  }
  return std::nullopt;
}

}  // namespace zplan::exec
