// Max-min fair sharing by progressive filling; equations and sources in the header.
#include "sim/flow_network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "planner/core/error.h"

namespace zplan::sim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

SimTime duration_of(double bytes, double rate) {
  const Seconds seconds{bytes / rate};
  return seconds < to_seconds(kHorizon) ? to_sim_time(seconds) : kHorizon;
}

}  // namespace

LinkId FlowNetwork::add_link(BytesPerSecond capacity) {
  ZPLAN_ASSERT(capacity.value > 0.0 && std::isfinite(capacity.value));
  const LinkId id{static_cast<std::uint32_t>(links_.size())};
  links_.emplace_back().capacity = capacity.value;
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
  flow.due = kNever;
  flow.uses.clear();
  if (bytes.value > 0) flow.uses.assign(uses.begin(), uses.end());
  active_.push_back(slot);
  if (occupy_links(slot)) {  // nobody else's rate changes
    change_rate(slot, lone_rate(flow));
    set_due(slot, due_of(flow));
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
  if (!at.users.empty()) usage.busy += now_ - at.busy_since;
  for (std::size_t i = 0; i < at.users.size(); ++i) {
    if (i > 0 && at.users[i] == at.users[i - 1]) continue;  // names the link twice
    const Flow& flow = flows_[at.users[i]];
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
  if (earliest_ && *earliest_ != kNever) *earliest_ += time;
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

void FlowNetwork::set_due(std::uint32_t slot, SimTime due) {
  SimTime& own = flows_[slot].due;
  if (own == due) return;
  if (earliest_ == own) earliest_.reset();
  if (earliest_) earliest_ = std::min(*earliest_, due);
  own = due;
}

void FlowNetwork::change_rate(std::uint32_t slot, double rate) {
  flows_[slot].next_rate = rate;
  if (rate != flows_[slot].rate) changed_.push_back(slot);
}

bool FlowNetwork::occupy_links(std::uint32_t slot) {
  bool alone = true;
  for (const LinkUse& use : flows_[slot].uses) {
    ZPLAN_ASSERT(use.link.value < links_.size());
    ZPLAN_ASSERT(use.weight > 0.0 && std::isfinite(use.weight));
    Link& link = links_[use.link.value];
    if (link.users.empty()) {
      link.busy_since = now_;
    } else {
      alone = false;
      stale_links_.push_back(use.link.value);
    }
    link.users.push_back(slot);
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

SimTime FlowNetwork::earliest_due() {
  if (earliest_) return *earliest_;
  SimTime earliest = kNever;
  for (const std::uint32_t slot : active_) earliest = std::min(earliest, flows_[slot].due);
  earliest_ = earliest;
  return earliest;
}

// Of few flows all are one component: to tell them apart would take longer.
void FlowNetwork::refresh() {
  constexpr std::size_t kFew = 16;
  if (stale_links_.empty()) return;
  const std::uint64_t known = components_;
  if (active_.size() <= kFew) {
    take_all();
    refill();
  } else {
    for (const std::uint32_t link : stale_links_) {
      if (links_[link].found_in > known) continue;
      find_component(link);
      refill();
    }
  }
  stale_links_.clear();
}

void FlowNetwork::refill() {
  fill_rates();
  for (const std::uint32_t slot : component_) set_due(slot, due_of(flows_[slot]));
}

// The rates of an instant are final once the clock leaves it: only here do they become history.
void FlowNetwork::move_to(SimTime time) {
  if (time == now_) return;
  for (const std::uint32_t slot : changed_) {
    Flow& flow = flows_[slot];
    if (flow.next_rate == flow.rate) continue;
    flow.left_bytes = left_now(flow);
    flow.since = now_;
    flow.rate = flow.next_rate;
  }
  changed_.clear();
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
  earliest_.reset();
}

void FlowNetwork::finish(std::uint32_t slot) {
  const Flow& flow = flows_[slot];
  for (const LinkUse& use : flow.uses) {
    Link& link = links_[use.link.value];
    link.carried_bytes += use.weight * flow.total_bytes;
    link.users.erase(std::find(link.users.begin(), link.users.end(), slot));
    if (link.users.empty()) {
      link.busy += now_ - link.busy_since;
    } else {
      stale_links_.push_back(use.link.value);
    }
  }
  finished_.push_back({now_, flow.serial, slot});
}

void FlowNetwork::take_all() {
  const std::uint64_t own = ++components_;
  component_ = active_;
  filling_links_.clear();
  for (const std::uint32_t slot : active_) {
    for (const LinkUse& use : flows_[slot].uses) {
      if (std::exchange(links_[use.link.value].found_in, own) != own)
        filling_links_.push_back(use.link.value);
    }
  }
}

// The links and flows that a change on `link` may concern; flows in order of start.
void FlowNetwork::find_component(std::uint32_t link) {
  const std::uint64_t own = ++components_;
  component_.clear();
  filling_links_.assign(1, link);
  links_[link].found_in = own;
  for (std::size_t i = 0; i < filling_links_.size(); ++i) {
    for (const std::uint32_t slot : links_[filling_links_[i]].users) {
      Flow& flow = flows_[slot];
      if (std::exchange(flow.found_in, own) == own) continue;
      component_.push_back(slot);
      for (const LinkUse& use : flow.uses) {
        Link& next = links_[use.link.value];
        if (std::exchange(next.found_in, own) != own) filling_links_.push_back(use.link.value);
      }
    }
  }
  std::sort(component_.begin(), component_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return flows_[a].serial < flows_[b].serial; });
}

void FlowNetwork::fill_rates() {
  begin_filling();
  double level = 0.0;
  while (!unfrozen_.empty()) {
    level = std::max(level, lowest_level());  // rounding must not let it sink
    freeze_at(level);
  }
}

void FlowNetwork::begin_filling() {
  unfrozen_ = component_;
  for (const std::uint32_t link : filling_links_) fills_[link] = {.free = links_[link].capacity};
  for (const std::uint32_t slot : component_) {
    for (const LinkUse& use : flows_[slot].uses) {
      fills_[use.link.value].weight += use.weight;
      ++fills_[use.link.value].users;
    }
  }
  for (const std::uint32_t link : filling_links_) {
    LinkFill& fill = fills_[link];
    fill.level = fill.users > 0 ? fill.free / fill.weight : kInfinity;
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
      change_rate(slot, std::min(level, flows_[slot].cap));
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
