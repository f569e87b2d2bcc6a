#include "planner/core/hash.h"

#include <fmt/format.h>

namespace zplan {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr Wide kPrime = (static_cast<Wide>(1) << 88) + 0x13b;  // [FNV]

}  // namespace

Hash128 fnv1a128(std::string_view text, Hash128 start) {
  Wide hash = (static_cast<Wide>(start.high) << 64) | start.low;
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= kPrime;
  }
  return {static_cast<std::uint64_t>(hash >> 64), static_cast<std::uint64_t>(hash)};
}

std::string to_hex(Hash128 hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace zplan
