// Sanitizers look at code paths, not at numbers: under them exhaustive tests look at a part.
#pragma once

namespace zplan::testing_support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace zplan::testing_support
