// The CUDA driver, asked through dlopen, so that programs start and build without it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "planner/core/units.h"

namespace zplan::exec {

struct DeviceMemory {
  Bytes free{0}, total{0};  // of all processes together
};

class Driver {
 public:
  // Nothing when there is no device, with the reason. Creates the device's context in this process.
  static std::optional<Driver> open(std::string& why_not);

  const std::string& device_name() const { return name_; }
  int capability() const { return capability_; }  // 10 x major + minor
  const std::string& version() const { return version_; }
  int devices() const { return devices_; }  // that this process sees
  DeviceMemory memory() const;

 private:
  Driver() = default;
  template <typename... Arguments>
  int call(const char* symbol, Arguments... arguments) const;

  std::shared_ptr<void> library_, context_;
  std::string name_, version_;
  int capability_ = 0, devices_ = 0;
};

}  // namespace zplan::exec
