// A device with queues, on the CPU: each queue is a thread that runs its work in order, a little
// late at random, so that an edge nobody waits for shows. Its memory counts as out of reach of the
// host. The executor's side of a real device (launcher.h, flag_comm.h) is tested with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "exec/device.h"

namespace zplan::exec {

struct QueueDeviceOptions {
  bool shares_graphs = true;     // Device::ranks_may_share_graphs()
  std::uint64_t delay_seed = 0;  // 0: no delays
  // Called before each kernel; an exception on a lane of the device is a failure of the device.
  std::function<void(const KernelCall&)> before_kernel{};
  // Called by the launching thread before it queues a kernel; an exception spoils what is being
  // captured.
  std::function<void(const KernelCall&)> before_launch{};
  std::function<void()> graph_launched{};
  // Called as a rank's backend goes, with the number of tasks that queues of any rank still hold.
  std::function<void(std::int64_t)> backend_goes{};
};

std::shared_ptr<Device> make_queue_device(const QueueDeviceOptions& options = {});

}  // namespace zplan::exec
