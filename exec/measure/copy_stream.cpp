#include "exec/measure/copy_stream.h"

namespace zplan::exec {

CopyStream::CopyStream(Device& device, Backend& backend, Lane lane, Bytes size)
    : backend_(&backend),
      lane_(lane),
      device_(device.make_slab(Tier::kGpu, size)),
      host_(device.make_slab(Tier::kCpu, size)) {
  view_.shape = {size.value / size_of(view_.dtype).value};
}

void CopyStream::queue() {
  const Operand on_device{&view_, device_.data()}, on_host{&view_, host_.data()};
  if (lane_ == Lane::kH2d)
    backend_->copy(lane_, on_host, on_device);
  else
    backend_->copy(lane_, on_device, on_host);
}

}  // namespace zplan::exec
