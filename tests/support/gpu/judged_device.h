// A CUDA device on the stand-in GPU that tells it what each kernel touches, by the operands of its
// operation: those of the lanes that are streams, and those of the host.
#pragma once

#include <memory>

#include "exec/device.h"

namespace zplan::stand_in {

// `keeps` lives as long as the device: the stand-in, where nobody else has it.
std::unique_ptr<exec::Device> make_judged_device(int index = 0,
                                                 std::shared_ptr<void> keeps = nullptr);

}  // namespace zplan::stand_in
