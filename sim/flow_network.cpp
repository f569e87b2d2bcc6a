// Max-min fair sharing by progressive filling; equations and sources in the header.
#include "sim/flow_network.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "planner/core/error.h"

namespace zplan::sim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SimTime duration_of(double bytes, double rate) {
  const Seconds seconds{bytes / rate};
  return seconds < to_seconds(kHorizon) ? to_sim_time(seconds) : kHorizon;
}

}  // namespace

LinkId FlowNetwork::add_link(BytesPerSecond capacity) {
  ZPLAN_ASSERT(capacity.value > 0.0 && std::isfinite(capacity.value));
  const LinkId id{static_cast<std::uint32_t>(links_.size())};
  links_.push_back({.capacity = capacity.value});
  fills_.emplace_back();
  return id;
}

FlowId FlowNetwork::start(SimTime now, Bytes bytes, std::span<const LinkUse> uses,
                          BytesPerSecond cap) {
  ZPLAN_ASSERT(bytes.value >= 0 && cap.value > 0.0);
  if (now != now_) run_until(now);
  const std::uint32_t slot = take_slot();
  Flow& flow = flows_[slot];
  flow.serial = next_serial_++;
  flow.total_bytes = flow.left_bytes = static_cast<double>(bytes.value);
  flow.rate = 0.0;
  flow.cap = cap.value;
  flow.since = now;
  flow.uses.clear();
  if (bytes.value > 0) flow.uses.assign(uses.begin(), uses.end());
  active_.push_back(slot);
  if (occupy_links(flow)) {  // nobody else's rate changes
    flow.next_rate = lone_rate(flow);
    flow.due = due_of(flow);
  } else {
    rates_stale_ = true;
  }
  return {slot};
}

std::optional<SimTime> FlowNetwork::next_completion() {
  if (!finished_.empty()) return finished_.front().time;
  if (active_.empty()) return std::nullopt;
  refresh();
  return earliest_due();
}

void FlowNetwork::advance(SimTime now, std::vector<FlowId>& done) {
  run_until(now);
  std::sort(finished_.begin(), finished_.end(), [](const Finished& a, const Finished& b) {
    return a.time != b.time ? a.time < b.time : a.serial < b.serial;
  });
  for (const Finished& finished : finished_) {
    done.push_back({finished.slot});
    unused_.push_back(finished.slot);
  }
  finished_.clear();
}

BytesPerSecond FlowNetwork::rate(FlowId flow) {
  ZPLAN_ASSERT(flow.value < flows_.size());
  refresh();
  return {flows_[flow.value].next_rate};
}

LinkUsage FlowNetwork::usage(LinkId link) const {
  ZPLAN_ASSERT(link.value < links_.size());
  const Link& at = links_[link.value];
  LinkUsage usage{at.carried_bytes, at.busy};
  if (at.users > 0) usage.busy += now_ - at.busy_since;
  for (const std::uint32_t slot : active_) {
    const Flow& flow = flows_[slot];
    for (const LinkUse& use : flow.uses) {
      if (use.link == link) usage.carried_bytes += use.weight * (flow.total_bytes - left_now(flow));
    }
  }
  return usage;
}

bool FlowNetwork::append_state(SimTime now, std::span<const std::uint32_t> names,
                               std::vector<std::int64_t>& out) {
  refresh();
  if (!finished_.empty() || earliest_due() <= now) return false;
  move_to(now);
  for (const std::uint32_t slot : active_) {
    const Flow& flow = flows_[slot];
    out.push_back(names[slot]);
    for (const double value : {flow.left_bytes, flow.rate, flow.next_rate})
      out.push_back(std::bit_cast<std::int64_t>(value));
    out.push_back((flow.since - now).value);
    out.push_back((flow.due - now).value);
  }
  return true;
}

void FlowNetwork::skip(SimTime time, std::span<const LinkUsage> more) {
  now_ += time;
  for (const std::uint32_t slot : active_) {
    flows_[slot].since += time;
    flows_[slot].due += time;
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    links_[i].busy_since += time;
    links_[i].busy += more[i].busy;
    links_[i].carried_bytes += more[i].carried_bytes;
  }
}

std::uint32_t FlowNetwork::take_slot() {
  if (unused_.empty()) {
    flows_.emplace_back();
    return static_cast<std::uint32_t>(flows_.size() - 1);
  }
  const std::uint32_t slot = unused_.back();
  unused_.pop_back();
  return slot;
}

bool FlowNetwork::occupy_links(const Flow& flow) {
  bool alone = true;
  for (const LinkUse& use : flow.uses) {
    ZPLAN_ASSERT(use.link.value < links_.size());
    ZPLAN_ASSERT(use.weight > 0.0 && std::isfinite(use.weight));
    Link& link = links_[use.link.value];
    if (link.users == 0) {
      link.busy_since = now_;
    } else {
      alone = false;
    }
    ++link.users;
  }
  return alone;
}

double FlowNetwork::lone_rate(const Flow& flow) const {
  double rate = flow.cap;
  for (const LinkUse& use : flow.uses) {
    rate = std::min(rate, links_[use.link.value].capacity / use.weight);
  }
  return rate;
}

double FlowNetwork::left_now(const Flow& flow) const {
  if (now_ == flow.since) return flow.left_bytes;
  const double moved = flow.rate * to_seconds(now_ - flow.since).value;
  return std::max(0.0, flow.left_bytes - moved);
}

SimTime FlowNetwork::due_of(const Flow& flow) const {
  if (flow.next_rate == flow.rate) return flow.since + duration_of(flow.left_bytes, flow.rate);
  return now_ + duration_of(left_now(flow), flow.next_rate);
}

SimTime FlowNetwork::earliest_due() const {
  SimTime earliest{std::numeric_limits<std::int64_t>::max()};
  for (const std::uint32_t slot : active_) earliest = std::min(earliest, flows_[slot].due);
  return earliest;
}

void FlowNetwork::refresh() {
  if (!rates_stale_) return;
  fill_rates();
  for (const std::uint32_t slot : active_) flows_[slot].due = due_of(flows_[slot]);
  rates_stale_ = false;
}

// The rates of an instant are final once the clock leaves it: only here do they become history.
void FlowNetwork::move_to(SimTime time) {
  if (time == now_) return;
  for (const std::uint32_t slot : active_) {
    Flow& flow = flows_[slot];
    if (flow.next_rate == flow.rate) continue;
    flow.left_bytes = left_now(flow);
    flow.since = now_;
    flow.rate = flow.next_rate;
  }
  now_ = time;
}

// Each turn of the loop ends at least one flow, even where several fall on one picosecond.
void FlowNetwork::run_until(SimTime time) {
  ZPLAN_ASSERT(now_ <= time && time < kHorizon);
  refresh();
  for (SimTime due = earliest_due(); due <= time; due = earliest_due()) {
    move_to(due);
    collect_due();
    refresh();
  }
  move_to(time);
}

void FlowNetwork::collect_due() {
  std::size_t kept = 0;
  for (const std::uint32_t slot : active_) {
    if (flows_[slot].due == now_) {
      finish(slot);
    } else {
      active_[kept++] = slot;
    }
  }
  active_.resize(kept);
}

void FlowNetwork::finish(std::uint32_t slot) {
  const Flow& flow = flows_[slot];
  for (const LinkUse& use : flow.uses) {
    Link& link = links_[use.link.value];
    link.carried_bytes += use.weight * flow.total_bytes;
    if (--link.users > 0) {
      rates_stale_ = true;
    } else {
      link.busy += now_ - link.busy_since;
    }
  }
  finished_.push_back({now_, flow.serial, slot});
}

void FlowNetwork::fill_rates() {
  begin_filling();
  double level = 0.0;
  while (!unfrozen_.empty()) {
    level = std::max(level, lowest_level());  // rounding must not let it sink
    freeze_at(level);
  }
}

// Relies on users == 0 in every entry of fills_, which the end of a filling restores.
void FlowNetwork::begin_filling() {
  unfrozen_ = active_;
  filling_links_.clear();
  for (const std::uint32_t slot : active_) {
    for (const LinkUse& use : flows_[slot].uses) {
      LinkFill& fill = fills_[use.link.value];
      if (fill.users == 0) {
        fill = {.free = links_[use.link.value].capacity};
        filling_links_.push_back(use.link.value);
      }
      fill.weight += use.weight;
      ++fill.users;
    }
  }
  for (const std::uint32_t link : filling_links_) {
    fills_[link].level = fills_[link].free / fills_[link].weight;
  }
}

double FlowNetwork::lowest_level() const {
  double lowest = kInfinity;
  for (const std::uint32_t link : filling_links_) lowest = std::min(lowest, fills_[link].level);
  for (const std::uint32_t slot : unfrozen_) lowest = std::min(lowest, flows_[slot].cap);
  return lowest;
}

bool FlowNetwork::stops_at(const Flow& flow, double level) const {
  return flow.cap <= level ||
         std::any_of(flow.uses.begin(), flow.uses.end(),
                     [&](const LinkUse& use) { return fills_[use.link.value].level <= level; });
}

// First decides for all flows, then takes their rates from the links: levels hold while testing.
void FlowNetwork::freeze_at(double level) {
  frozen_.clear();
  std::size_t kept = 0;
  for (const std::uint32_t slot : unfrozen_) {
    if (stops_at(flows_[slot], level)) {
      flows_[slot].next_rate = std::min(level, flows_[slot].cap);
      frozen_.push_back(slot);
    } else {
      unfrozen_[kept++] = slot;
    }
  }
  unfrozen_.resize(kept);
  for (const std::uint32_t slot : frozen_) take_from_links(flows_[slot]);
}

void FlowNetwork::take_from_links(const Flow& flow) {
  for (const LinkUse& use : flow.uses) {
    LinkFill& fill = fills_[use.link.value];
    fill.free -= use.weight * flow.next_rate;
    fill.weight -= use.weight;
    fill.level = --fill.users > 0 ? fill.free / fill.weight : kInfinity;
  }
}

}  // namespace zplan::sim
