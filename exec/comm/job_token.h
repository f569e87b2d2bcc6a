// The token of a job: a text that its processes know and strangers do not.
//
// ZPLAN_JOB_TOKEN gives it, where the launcher hands variables on to all processes. Without it rank
// 0 makes one for each run and leaves it in a file that only the user reads: of processes of one
// host in XDG_RUNTIME_DIR, or else in /tmp/zplan-<user>; of several hosts in
// ~/.local/state/zplan, which many clusters have in common. The name of the file is the place where
// rank 0 is met, which one job at a time has. The file is gone when all have come.
#pragma once

#include <string>

#include "exec/comm/launch_environment.h"

namespace zplan::exec {

inline constexpr std::size_t kLeastToken = 16;  // characters

struct TokenSource {
  std::string given{};  // "": by a file
  std::string file{};   // "": none can be had
};

// Throws Error(kBadInput) when the one that is given is too short.
TokenSource token_source(const LaunchEnvironment& at, const Lookup& lookup);

// Of rank 0, which listens already where it is met. The file lives as long as this object.
class IssuedToken {
 public:
  // Throws Error: kBadInput when neither is given, kDevice when the file cannot be written.
  explicit IssuedToken(const TokenSource& source);
  ~IssuedToken();
  IssuedToken(const IssuedToken&) = delete;
  IssuedToken& operator=(const IssuedToken&) = delete;

  const std::string& text() const { return text_; }
  void remove_file() noexcept;

 private:
  std::string text_, file_;
};

// Of the others; "" when there is none yet. Throws Error(kBadInput) when the file, or its folder,
// is not the user's own or others may read it.
std::string read_token(const TokenSource& source);

}  // namespace zplan::exec
