// How many streams the ranks of one device may have together. A stream that waits for a flag holds
// the hardware queue it is mapped to; a second stream in that queue would wait with it, for ever if
// it is the one that writes the flag. So there must not be more streams than queues. The default
// stream works before the first step only. A rank in a process of its own has fewer streams than
// lanes, which leaves most queues to those of NCCL.
#pragma once

#include <mutex>
#include <string>

#include "planner/core/error.h"

namespace zplan::exec::cuda {

// The most that CUDA_DEVICE_MAX_CONNECTIONS and CUDA_DEVICE_MAX_COPY_CONNECTIONS can ask for
// (CUDA's programming guide).
inline constexpr int kMostHardwareQueues = 32;

class StreamBudget {
 public:
  StreamBudget(int device, int limit) : device_(device), limit_(limit) {}

  // Throws Error(kDevice) when that were too many.
  void take(int streams) {
    const std::lock_guard lock(mutex_);
    if (taken_ + streams > limit_) {
      throw Error(ExitCode::kDevice,
                  "CUDA device " + std::to_string(device_) + ": the ranks need " +
                      std::to_string(taken_ + streams) + " or more streams, of " +
                      std::to_string(limit_) +
                      " that wait independently (CUDA_DEVICE_MAX_CONNECTIONS, at most " +
                      std::to_string(kMostHardwareQueues) + "); run fewer ranks on the device");
    }
    taken_ += streams;
  }
  void give_back(int streams) noexcept {
    const std::lock_guard lock(mutex_);
    taken_ -= streams;
  }

 private:
  const int device_;
  const int limit_;
  std::mutex mutex_;
  int taken_ = 0;
};

}  // namespace zplan::exec::cuda
