// What an operation takes where devices are measured cores of the host (hwprofiles/core_profile.h),
// alone, and how much of the cores it holds meanwhile.
//
//   kernel        the table's time; a kernel that was not measured takes the rates of kernel_time.h
//   copy          the table's time; one within a tier likewise
//   collective    the table's time of the nearest group, which its members work off side by side: n
//                 members of a group measured on fewer cores worked cores / n of that time each
//   send          the receiver copies, the sender sleeps
//   drive         the table's time, in which no core works
//
// An operation of t seconds on c threads is a flow of t through the cores of the node, c wide, so
// that threads in excess of the cores share them alike; and through what all cores have in common,
// of which it holds together / cores per thread: alone it is not slowed, and on all cores at once
// it takes `together` as long. [derived] Linux shares cores among runnable threads alike over times
// longer than its time slices. Left out: threads that move between caches; which of more threads
// than cores runs first.
#pragma once

#include <cstdint>
#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/reliance.h"
#include "planner/program/job/program.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

struct CoreTime {
  Seconds work{};  // of each thread
  int threads = 1;
  bool product = false;  // else it streams
  HardwareTime rests = HardwareTime::kMemory;
};

// `fallback`: for a kernel that was not measured.
CoreTime kernel_on_cores(KernelId kernel, const Demand& demand, const Cluster& cluster,
                         Seconds fallback);
CoreTime copy_on_cores(Bytes bytes, const CoreProfile& cores);
// Of a group of that many ranks in one node; `fallback`: of one that was not measured.
CoreTime collective_on_cores(CollectiveKind kind, int ranks, Bytes bytes, const CoreProfile& cores,
                             Seconds fallback);
CoreTime transfer_on_cores(Bytes bytes, const CoreProfile& cores);

}  // namespace zplan
