// Masked language modelling [Devlin19 sec 3.1, A.1]: a model that sees both ways is asked for 15 %
// of the tokens of each sequence, which it sees masked. Of these 80 % are the vocabulary's last
// token, 10 % any and 10 % themselves.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zplan {

// What load_batch loads.
enum class Loaded : std::uint8_t { kText, kMaskedInputs, kMaskedTargets };

// So many of each sequence, always: the mean loss of any part of a batch has a known divisor.
constexpr std::int64_t masked_tokens(std::int64_t sequence) {
  return std::max<std::int64_t>(1, sequence * 15 / 100);
}

}  // namespace zplan
