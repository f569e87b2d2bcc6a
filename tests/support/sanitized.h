// Sanitizers look at code paths, not at numbers: under them exhaustive tests look at a part.
#pragma once

#include <algorithm>
#include <cstddef>

namespace zplan::testing_support {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

// One of so many plans, variants and steps is looked at. A prime, which does not fall into step
// with the loops it thins out.
inline constexpr std::size_t kEvery = kSanitized ? 11 : 1;

// Two at least: the second step runs over the border of the first.
constexpr int steps_of(int all) {
  return std::max(all / static_cast<int>(kEvery), std::min(all, 2));
}

// Thins out the cases of a test; one counter over all its loops reaches each kind of case.
class Thinned {
 public:
  bool skips() { return next_++ % kEvery != 0; }

 private:
  std::size_t next_ = 0;
};

}  // namespace zplan::testing_support
