// Who gets how much of a shared link, and when each transfer is through: weighted max-min fair
// sharing of link capacities among concurrent flows. Times are SimTime (integer picoseconds),
// capacities and rates bytes per second.
//
// Model. A flow f moves B_f bytes. It crosses link l with weight w_fl: the bytes that cross l per
// byte of the flow (a flow that stands for n symmetric ranks has weight n on a link they share).
// Its own rate is at most cap_f. Rates x_f (per flow, not per weight) are the max-min fair ones:
//
//   feasible:   sum_f w_fl x_f <= C_l for every link l,   x_f <= cap_f
//   fair:       no x_f can grow without shrinking some x_g <= x_f            [Bertsekas92 6.5.2]
//   equivalent: each f has x_f = cap_f, or a saturated link l (sum_g w_gl x_g = C_l) on which
//               x_f >= x_g for every other user g: the bottleneck of f       [Bertsekas92 6.5.2]
//
// They are found by progressive filling [Bertsekas92 6.5.2]: all rates rise together from 0 to a
// level; where a link or a cap saturates, the flows concerned freeze and the others go on:
//
//   level_l = (C_l - sum_{f frozen} w_fl x_f) / sum_{f not frozen} w_fl
//   level   = min over links and unfrozen flows of (level_l, cap_f)
//
// Between two changes of the set of flows all rates are constant. A flow at rate x with r bytes
// left since time s is through at s + round(r / x) to the nearest picosecond, as in to_sim_time:
// alone on a link it takes exactly to_sim_time(B / C). r is brought up to date only when x changes,
// from the integer difference of times: no drift, and a pattern started later gives the same
// relative times.
//
// A change of the set reaches no further than links shared with others carry it: rates are found
// again in the connected components that hold a link whose flows have changed, nowhere else. The
// rates of one component do not depend on another. [derived] a level counts its own flows alone.
//
// Leaves out: latency (the caller delays the start), protocol ramps, lossy links. Weights on one
// link should lie within a factor of 1e6 of each other; beyond that rounding eats the small ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/units.h"

namespace zplan::sim {

// End of simulated time. A duration beyond it (a transfer at a vanishing rate) is cut to it, so
// that sums of a time and a duration stay in range.
inline constexpr SimTime kHorizon{std::int64_t{1} << 62};

struct LinkId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(LinkId, LinkId) = default;
};

// A small table index, reused for a new flow once advance() has reported this one.
struct FlowId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(FlowId, FlowId) = default;
};

struct LinkUse {
  LinkId link;
  double weight = 1.0;  // bytes on the link per byte of the flow; > 0
};

struct LinkUsage {
  double carried_bytes = 0.0;  // weighted, up to the present time
  SimTime busy{};              // time with at least one flow on the link
};

inline constexpr BytesPerSecond kUncapped{std::numeric_limits<double>::infinity()};

// Calls carry non-decreasing times below 2^62 ps (53 days). Queries never influence the outcome.
class FlowNetwork {
 public:
  LinkId add_link(BytesPerSecond capacity);
  std::size_t link_count() const { return links_.size(); }

  // A link named twice counts with the sum of its weights. A flow of 0 bytes, and one with neither
  // links nor cap, is through at `now`. A flow is reported by advance(), never here.
  FlowId start(SimTime now, Bytes bytes, std::span<const LinkUse> uses,
               BytesPerSecond cap = kUncapped);

  // The earliest completion not yet reported. Holds until the next start().
  std::optional<SimTime> next_completion();

  // Moves the clock to `now`; appends the flows through by then, by (completion, order of start).
  void advance(SimTime now, std::vector<FlowId>& done);

  SimTime now() const { return now_; }
  std::size_t active_count() const { return active_.size(); }
  BytesPerSecond rate(FlowId flow);  // of a flow still active, from now() on
  LinkUsage usage(LinkId link) const;

  // For steady_loop.h: moves the clock to `now` and appends what decides all later rates and
  // completions, counted from there, with flows called by `names`. False while a completion is yet
  // to be reported.
  bool append_state(SimTime now, std::span<const std::uint32_t> names,
                    std::vector<std::int64_t>& out);
  // Moves all of it on by `time`; `more` is what each link carries meanwhile and how long it is
  // busy.
  void skip(SimTime time, std::span<const LinkUsage> more);

 private:
  struct Flow {
    std::uint64_t serial = 0;  // order of start
    double total_bytes = 0.0;
    double left_bytes = 0.0;  // at `since`
    double rate = 0.0;        // from `since` to now_; 0 for a flow that starts at now_
    double next_rate = 0.0;   // from now_ on
    double cap = 0.0;
    SimTime since{};
    SimTime due{};
    std::uint64_t found_in = 0;  // the last component it was found in
    std::vector<LinkUse> uses;
  };
  struct Link {
    double capacity = 0.0;
    double carried_bytes = 0.0;  // by flows that are through
    SimTime busy_since{};
    SimTime busy{};
    std::uint64_t found_in = 0;        // the last component it was found in
    std::vector<std::uint32_t> users;  // slots, in order of start
  };
  // State of one link during progressive filling.
  struct LinkFill {
    double free = 0.0;    // capacity less what frozen flows take
    double weight = 0.0;  // of the unfrozen users
    double level = 0.0;   // common rate at which the link saturates
    std::uint32_t users = 0;
  };
  struct Finished {
    SimTime time{};
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;
  };

  std::uint32_t take_slot();
  void set_due(std::uint32_t slot, SimTime due);
  void change_rate(std::uint32_t slot, double rate);
  bool occupy_links(std::uint32_t slot);  // true iff it is alone on all of them
  double lone_rate(const Flow& flow) const;
  double left_now(const Flow& flow) const;
  SimTime due_of(const Flow& flow) const;
  SimTime earliest_due();
  void refresh();
  void move_to(SimTime time);
  void run_until(SimTime time);
  void collect_due();
  void finish(std::uint32_t slot);

  void find_component(std::uint32_t link);
  void take_all();
  void refill();
  void fill_rates();
  void begin_filling();
  double lowest_level() const;
  bool stops_at(const Flow& flow, double level) const;
  void freeze_at(double level);
  void take_from_links(const Flow& flow);

  SimTime now_{};
  std::uint64_t next_serial_ = 0;
  std::vector<Link> links_;
  std::vector<Flow> flows_;                 // by slot
  std::vector<std::uint32_t> unused_;       // slots
  std::vector<std::uint32_t> active_;       // slots, in order of start
  std::vector<std::uint32_t> changed_;      // slots whose next_rate may not be their rate
  std::vector<std::uint32_t> stale_links_;  // their flows changed since rates were found
  std::optional<SimTime> earliest_;         // due of the next flow, where known
  std::vector<Finished> finished_;          // through, not yet reported
  std::uint64_t components_ = 0;            // found so far
  std::vector<LinkFill> fills_;             // by link
  std::vector<std::uint32_t> filling_links_, component_;  // scratch: of one component
  std::vector<std::uint32_t> unfrozen_, frozen_;          // scratch of fill_rates
};

}  // namespace zplan::sim
