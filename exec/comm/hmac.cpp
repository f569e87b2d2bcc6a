#include "exec/comm/hmac.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::size_t kBlock = 64;  // bytes [NIST15 sec. 5.2.1]

// [NIST15 sec. 4.2.2]
constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;
// [NIST15 sec. 5.3.3]
constexpr State kStart{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t big_endian(const unsigned char* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         std::uint32_t{at[3]};
}

// [NIST15 sec. 6.2.2]
void mix(State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < w.size(); ++t) {
    const std::uint32_t early = w[t - 15], late = w[t - 2];
    w[t] = (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10) + w[t - 7] +
           (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < w.size(); ++t) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const State mixed{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

void append_big_endian(std::string& text, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> 8 * i);
}

// The text, filled up to whole blocks with its size in bits [NIST15 sec. 5.1.1].
std::string padded(std::string_view text) {
  std::string result(text);
  result += '\x80';
  while (result.size() % kBlock != kBlock - 8) result += '\0';
  append_big_endian(result, text.size() * 8, 8);
  return result;
}

std::string each_xor(std::string text, char with) {
  for (char& c : text) c = static_cast<char>(c ^ with);
  return text;
}

}  // namespace

std::string sha256(std::string_view text) {
  const std::string blocks = padded(text);
  State state = kStart;
  for (std::size_t at = 0; at < blocks.size(); at += kBlock)
    mix(state, reinterpret_cast<const unsigned char*>(blocks.data() + at));
  std::string digest;
  for (std::uint32_t word : state) append_big_endian(digest, word, 4);
  return digest;
}

// [Krawczyk97 sec. 2]
std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string block = key.size() > kBlock ? sha256(key) : std::string(key);
  block.resize(kBlock, '\0');
  const std::string inner = sha256(each_xor(block, '\x36').append(text));
  return sha256(each_xor(block, '\x5c') + inner);
}

bool are_same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count))
    throw Error(ExitCode::kDevice, fmt::format("no random number: {}", std::strerror(errno)));
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace zplan::exec
