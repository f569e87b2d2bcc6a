// What a predicted time rests on: the constants of the cost model, and how a time follows each.
//
// The constants are the rates of the stack (hwprofiles/stack.h), in the order of their rows, then
// what the hardware reaches, by kind of work, as a factor on its time. A Reliance is an elasticity,
// d log(time) / d log(constant): 1 where the time is in proportion to it, -1 where it is a rate
// that divides, in between where a part of the time is fixed. Each formula of the cost model says
// its own; of the slower of two it is that of the slower one, so they hold for small changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"

namespace zplan {

enum class HardwareTime : std::uint8_t {
  kProducts,
  kAttention,
  kMemory,      // kernels that stream through the memory of the device
  kLaunch,      // host time of launches where the stack says none
  kPeerLinks,   // collectives and transfers within a node
  kNetwork,     // those between nodes
  kHostMemory,  // kernels on the host
  kHostLink,    // copies between host and device
  kDrives,
};
inline constexpr int kHardwareTimeCount = 9;
std::string_view name(HardwareTime kind);  // "matrix products of the device"

// A row of stack_rates(), or kHardwareTimeCount behind them.
using Constant = std::uint8_t;
inline constexpr int kMostConstants = 64;
std::size_t constant_count();
Constant constant_of(double StackRates::*rate);
Constant constant_of(HardwareTime kind);
std::string_view constant_name(Constant constant);  // "host_forward", "network"

struct Reliance {
  Constant constant = 0;
  float elasticity = 0;
};

// The few constants that one operation rests on.
class Reliances {
 public:
  Reliances() = default;
  Reliances(std::initializer_list<Reliance> rows);

  void add(Constant constant, double elasticity);  // to what it has of the constant
  // The time is `share` of what this stands for; the rest of it is fixed.
  void scale(double share);
  std::span<const Reliance> rows() const { return {rows_.data(), count_}; }

 private:
  static constexpr std::size_t kMost = 5;
  std::array<Reliance, kMost> rows_{};
  std::uint8_t count_ = 0;
};

// A time and what it rests on.
struct RestingTime {
  Seconds time{};
  Reliances rests{};

  // So much later whatever the constants are.
  RestingTime after(Seconds fixed) const;
  RestingTime times(double factor, Constant constant) const;  // in proportion to the constant
};
RestingTime slower(const RestingTime& a, const RestingTime& b);
// One after the other.
RestingTime both(const RestingTime& a, const RestingTime& b);

}  // namespace zplan
