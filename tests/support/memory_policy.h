// Which NUMA node the system gives this thread memory of, as the system itself tells it.
#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>
#include <optional>

namespace zplan::testing_support {

// Containers often forbid it.
inline bool may_choose_policy() {
  return syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0) == 0 &&
         syscall(SYS_get_mempolicy, nullptr, nullptr, 0, nullptr, 0) == 0;
}

// The one that is preferred; nothing: the thread has no policy.
inline std::optional<int> preferred_node() {
  constexpr std::size_t kBits = CHAR_BIT * sizeof(unsigned long);
  std::array<unsigned long, 1024 / kBits> mask{};
  int mode = 0;
  if (syscall(SYS_get_mempolicy, &mode, mask.data(), kBits * mask.size(), nullptr, 0) != 0 ||
      mode != MPOL_PREFERRED)
    return std::nullopt;
  for (std::size_t i = 0; i < kBits * mask.size(); ++i)
    if ((mask[i / kBits] >> (i % kBits)) & 1) return static_cast<int>(i);
  return std::nullopt;
}

}  // namespace zplan::testing_support
