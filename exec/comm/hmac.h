// HMAC-SHA256 [NIST15] [Krawczyk97], with which processes prove to each other that they know the
// token of their job (greeting.h). The project needs no library for it, so that it still builds
// where nothing but headers can be brought along. Texts are bytes. No secret leaves through time:
// nothing here branches on, or looks up by, the bytes it is given.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zplan::exec {

inline constexpr std::size_t kDigestBytes = 32;

std::string sha256(std::string_view text);
std::string hmac_sha256(std::string_view key, std::string_view text);

// Takes as long wherever they differ; the sizes are no secret.
bool are_same(std::string_view a, std::string_view b);

// From the system's generator. Throws Error(kDevice) when it has none.
std::string random_bytes(std::size_t count);

// "0a1f": two digits for each byte.
std::string to_hex(std::string_view bytes);

}  // namespace zplan::exec
