// FNV-1a hashes of text: 128 bits for fingerprints, 32 bits for the keys of random draws.
// Not for security. Source: [FNV].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zplan {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr bool operator==(Hash128, Hash128) = default;
};

// The offset basis: the hash of no bytes.
inline constexpr Hash128 kHash128Start{0x6c62272e07bb0142u, 0x62b821756295c58du};  // [FNV]

// Give the result of the last piece as `start` to hash a text in pieces.
Hash128 fnv1a128(std::string_view text, Hash128 start = kHash128Start);

std::string to_hex(Hash128 hash);  // 32 lower-case digits

constexpr std::uint32_t fnv1a32(std::string_view text) {
  std::uint32_t hash = 0x811c9dc5u;  // [FNV]
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x01000193u;  // [FNV]
  }
  return hash;
}

}  // namespace zplan
