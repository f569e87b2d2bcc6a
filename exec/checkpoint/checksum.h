// Checksums of what checkpoints hold: XXH3 with 64 bits and no seed [xxHash]. Notices damage, not
// malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zplan::exec {

std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);

std::string checksum_text(std::uint64_t sum);  // 16 lower-case hexadecimal digits

}  // namespace zplan::exec
