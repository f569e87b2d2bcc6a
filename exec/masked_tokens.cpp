#include "exec/masked_tokens.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/kernels/arguments.h"
#include "planner/core/random.h"
#include "planner/program/kernels/masked_tokens.h"

namespace zplan::exec {
namespace {

// Of ten masked tokens so many are the mask, and so many stay [Devlin19 A.1].
constexpr std::uint32_t kOfTen = 10, kMasks = 8, kStays = 1;

PhiloxCounter draws(const MaskedSample& s, std::int64_t place) {
  return mask_draws(s.seed, static_cast<std::uint64_t>(s.sample),
                    static_cast<std::uint32_t>(place));
}

// Those with the least first two words, of equal ones the first.
std::vector<std::int64_t> masked_places(const MaskedSample& s) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> places;
  for (std::int64_t place = 0; place < s.sequence; ++place)
    places.emplace_back(first_64(draws(s, place)), place);
  const std::int64_t count = masked_tokens(s.sequence);
  std::nth_element(places.begin(), places.begin() + (count - 1), places.end());
  std::vector<std::int64_t> masked;
  for (std::int64_t i = 0; i < count; ++i)
    masked.push_back(places[static_cast<std::size_t>(i)].second);
  return masked;
}

std::int32_t seen_token(const MaskedSample& s, std::int64_t place, std::int32_t token) {
  const PhiloxCounter words = draws(s, place);
  const std::uint32_t of_ten = words[2] % kOfTen;
  if (of_ten < kMasks) return static_cast<std::int32_t>(s.vocabulary - 1);
  if (of_ten < kMasks + kStays) return token;
  return static_cast<std::int32_t>(words[3] % static_cast<std::uint64_t>(s.vocabulary));
}

}  // namespace

void mask_inputs(const MaskedSample& sample, std::int64_t begin, std::span<std::int32_t> tokens) {
  for (const std::int64_t place : masked_places(sample)) {
    const std::int64_t at = place - begin;
    if (at < 0 || at >= std::ssize(tokens)) continue;
    std::int32_t& token = tokens[static_cast<std::size_t>(at)];
    token = seen_token(sample, place, token);
  }
}

void keep_masked_targets(const MaskedSample& sample, std::int64_t begin,
                         std::span<std::int32_t> tokens) {
  const std::vector<std::int32_t> text(tokens.begin(), tokens.end());
  std::fill(tokens.begin(), tokens.end(), kIgnoredTarget);
  for (const std::int64_t place : masked_places(sample)) {
    const std::int64_t at = place - begin;
    if (at < 0 || at + 1 >= std::ssize(tokens)) continue;
    tokens[static_cast<std::size_t>(at + 1)] = text[static_cast<std::size_t>(at)];
  }
}

}  // namespace zplan::exec
