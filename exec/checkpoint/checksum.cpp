#include "exec/checkpoint/checksum.h"

#include <fmt/format.h>

// GCC 12 warns that its own intrinsics for AVX-512 read what was never set (its bug 105593).
#ifdef __AVX512F__
#define XXH_VECTOR XXH_AVX2
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zplan::exec {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string checksum_text(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

}  // namespace zplan::exec
