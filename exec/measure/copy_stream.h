// Copies between the host and the device, of one size and in one direction, on the lane of that
// direction and in memory of their own.
#pragma once

#include "exec/device.h"

namespace zplan::exec {

class CopyStream {
 public:
  // The backend has the lane: kH2d or kD2h.
  CopyStream(Device& device, Backend& backend, Lane lane, Bytes size);
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  void queue();  // one copy

 private:
  Backend* backend_;
  Lane lane_;
  Slab device_, host_;
  View view_;
};

}  // namespace zplan::exec
