// Goodput: how long a number of tokens takes on machines that fail. A run writes a checkpoint every
// so often, and after a failure it restarts from the last one.
//
//   failures    of n devices that each fail once in M1, one in M = M1 / n (independent,
//   exponential) interval    between the ends of two checkpoints, tau of work [Daly06 Eq. 37]:
//                 sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (18 M)) - d  where d < 2 M, else M
//               of a checkpoint that takes d; its first term is Young's [Young74]
//   effective   share of useful time [Daly06 Eq. 20] with restarts of R:
//                 tau / (M exp(R / M) (exp((tau + d) / M) - 1))
// The run waits while a checkpoint is written: writing beside training would cost less. Stragglers
// are a factor on the step that the user states. Planned interruptions are left out.
//
// A checkpoint has what training goes on from: parameters, master copy and moments of every tensor,
// each once, counted from the homes of a Job; no gradients and no copies of other ranks. Adam in
// mixed precision has 2 + 4 + 4 + 4 = 14 bytes per parameter, 980 GB of 70B.
#pragma once

#include <optional>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan {

struct CheckpointBytes {
  double parameters = 0, master = 0, moments = 0;
  double total() const { return parameters + master + moments; }
};
CheckpointBytes checkpoint_bytes(const Job& job);

// One stage of the way of a checkpoint: how fast all nodes together pass it.
struct CheckpointPath {
  BytesPerSecond to_host{};  // GPUs to the memory of their nodes
  BytesPerSecond storage{};  // from there to drives of the nodes, or to storage that they share
  BytesPerSecond rate() const { return storage < to_host ? storage : to_host; }
};
// `shared`: of storage outside the nodes; none: their own drives. No rate where there are none.
CheckpointPath checkpoint_path(const Cluster& cluster, int nodes,
                               std::optional<BytesPerSecond> shared);
// Rate at which storage is read: as fast as shared storage writes, or as drives read.
BytesPerSecond storage_read(const Cluster& cluster, int nodes,
                            std::optional<BytesPerSecond> shared);

struct Failures {
  Seconds mtbf{};     // of the whole machine
  Seconds restart{};  // until training goes on, from the last checkpoint
};
inline constexpr double kSecondsPerHour = 3600, kSecondsPerDay = 86400;
// [Dubey24 sec 3.3.4] 419 unexpected interruptions in 54 days of 16,384 H100.
inline constexpr double kLlamaInterruptions = 419, kLlamaDays = 54, kLlamaDevices = 16384;
inline constexpr Seconds kLlamaDeviceMtbf{kLlamaDays * kSecondsPerDay * kLlamaDevices /
                                          kLlamaInterruptions};
// [assumed] until a job has been scheduled anew, has read its checkpoint and has warmed up.
inline constexpr Seconds kUsualRestart{600};

struct Goodput {
  Seconds young{}, interval{};  // work between two checkpoints: Young's and Daly's
  double effective = 0;         // share of the time that is useful
  double checkpointing = 0;     // shares that are lost: to writing checkpoints,
  double rework = 0;            // to work that is done again,
  double restarting = 0;        // and to restarts

  // Whether a training comes to its end: failures leave it a millionth of the time [assumed].
  bool ends() const { return effective >= 1e-6; }
};
// `write`: of one checkpoint, above 0. At the interval of Daly; at another one.
Goodput goodput(Seconds write, const Failures& failures);
Goodput goodput_at(Seconds interval, Seconds write, const Failures& failures);

}  // namespace zplan
