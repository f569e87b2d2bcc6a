// The rows of a device in one table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "planner/core/error.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

// A row that says what it needs ahead of the first step.
template <typename Entry, typename Row>
constexpr Entry prepared(KernelId kernel) {
  return {kernel, Row::prepare, Row::run};
}

// By kernel; `run` is null where the device has no row.
template <typename Entry, std::size_t... n>
constexpr std::array<Entry, kKernelCount> by_kernel(const std::array<Entry, n>&... rows) {
  std::array<Entry, kKernelCount> table{};
  const auto add = [&table](const Entry& row) {
    Entry& entry = table[static_cast<std::size_t>(row.kernel)];
    ZPLAN_ASSERT(entry.run == nullptr);  // one row per kernel
    entry = row;
  };
  (std::for_each(rows.begin(), rows.end(), add), ...);
  return table;
}

}  // namespace zplan::exec
