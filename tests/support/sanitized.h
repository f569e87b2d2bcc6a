// Sanitizers look at code paths, not at numbers: under them exhaustive tests look at a part.
// Without them, tests/run looks at a larger part, and tests/run --all at everything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

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

inline bool is_everything_asked_for() {
  const char* tests = std::getenv("ZPLAN_TESTS");
  return tests != nullptr && std::string_view(tests) == "all";
}

// One of so many plans, variants and steps is looked at. A prime, which does not fall into step
// with the loops it thins out.
inline constexpr std::size_t kEvery = kSanitized ? 11 : 1;

// Two at least: the second step runs over the border of the first.
constexpr int steps_of(int all) {
  return std::max(all / static_cast<int>(kEvery), std::min(all, 2));
}

// A prime, too, for what takes long: outside of sanitizers one of so many in tests/run.
inline std::size_t one_in(std::size_t every) {
  if (kSanitized) return kEvery;
  return is_everything_asked_for() ? 1 : every;
}

// Thins out the cases of a test; one counter over all its loops reaches each kind of case.
class Thinned {
 public:
  explicit Thinned(std::size_t every = kEvery) : every_(every) {}
  bool skips() { return next_++ % every_ != 0; }

 private:
  const std::size_t every_;
  std::size_t next_ = 0;
};

}  // namespace zplan::testing_support
