// Properties of sim/flow_network.h over random networks: the rates are the max-min fair ones, by
// their definition and against a second implementation; the completions are those of a fluid model
// integrated without the network's shortcuts; neither absolute time nor queries matter.
#include "sim/flow_network.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace zplan::sim {
namespace {

constexpr double kRelative = 1e-9;
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

struct Arrival {
  std::int64_t time = 0;
  std::int64_t bytes = 0;
  std::vector<LinkUse> uses;
  BytesPerSecond cap = kUncapped;
};

struct Scenario {
  std::vector<double> capacities;
  std::vector<Arrival> arrivals;  // in order of time
};

void showValue(const Scenario& scenario, std::ostream& out) {
  out << "capacities:";
  for (const double capacity : scenario.capacities) out << ' ' << capacity;
  for (const Arrival& arrival : scenario.arrivals) {
    out << "\n  t=" << arrival.time << " bytes=" << arrival.bytes << " cap=" << arrival.cap.value;
    for (const LinkUse& use : arrival.uses)
      out << " (" << use.link.value << ", " << use.weight << ')';
  }
}

Arrival draw_arrival(std::int64_t time, std::uint32_t links) {
  Arrival arrival;
  arrival.time = time;
  arrival.bytes =
      *rc::gen::weightedOneOf<std::int64_t>({{1, rc::gen::inRange<std::int64_t>(0, 3)},
                                             {8, rc::gen::inRange<std::int64_t>(1, 50'000'000)}});
  for (std::uint32_t link = 0; link < links; ++link) {
    if (*rc::gen::inRange(0, 3) != 0) continue;
    arrival.uses.push_back({{link}, *rc::gen::element(0.125, 0.3, 0.75, 1.0, 1.0, 2.0, 8.0, 56.0)});
  }
  const bool capped = *rc::gen::inRange(0, 3) == 0;
  arrival.cap = capped ? BytesPerSecond{*rc::gen::inRange(1, 400) * 1e9} : kUncapped;
  return arrival;
}

// Capacities of 1 to 900 GB/s, transfers up to 50 MB: milliseconds, as between the ops of a step.
Scenario assemble_scenario() {
  Scenario scenario;
  const auto links = *rc::gen::inRange<std::uint32_t>(1, 9);
  for (std::uint32_t link = 0; link < links; ++link) {
    scenario.capacities.push_back(*rc::gen::inRange(1, 900) * 1e9);
  }
  const int flows = *rc::gen::inRange(1, 20);
  std::int64_t time = 0;
  for (int flow = 0; flow < flows; ++flow) {
    if (*rc::gen::inRange(0, 2) == 0) time += *rc::gen::inRange<std::int64_t>(0, 200'000'000);
    scenario.arrivals.push_back(draw_arrival(time, links));
  }
  return scenario;
}

// Drawn as one value, so that a counterexample is printed and shrunk as a whole.
Scenario draw_scenario() {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::exec(assemble_scenario));
}

FlowNetwork make_network(const Scenario& scenario) {
  FlowNetwork network;
  for (const double capacity : scenario.capacities) network.add_link({capacity});
  return network;
}

// All arrivals at time 0 with something to move over something: what has a rate.
Scenario at_once(Scenario scenario) {
  std::erase_if(scenario.arrivals, [](const Arrival& a) {
    return a.bytes == 0 || (a.uses.empty() && a.cap == kUncapped);
  });
  for (Arrival& arrival : scenario.arrivals) arrival.time = 0;
  return scenario;
}

std::vector<double> rates_of(const Scenario& scenario) {
  FlowNetwork network = make_network(scenario);
  std::vector<FlowId> flows;
  for (const Arrival& a : scenario.arrivals) {
    flows.push_back(network.start({a.time}, {a.bytes}, a.uses, a.cap));
  }
  std::vector<double> rates;
  for (const FlowId flow : flows) rates.push_back(network.rate(flow).value);
  return rates;
}

std::vector<double> loads_of(const Scenario& scenario, const std::vector<double>& rates) {
  std::vector<double> loads(scenario.capacities.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (const LinkUse& use : scenario.arrivals[f].uses) {
      loads[use.link.value] += use.weight * rates[f];
    }
  }
  return loads;
}

// Second implementation: sums afresh in every round and freezes one flow at a time.
std::vector<long double> brute_force_rates(const std::vector<double>& capacities,
                                           const std::vector<const Arrival*>& flows) {
  std::vector<long double> rates(flows.size(), -1.0L);
  for (std::size_t round = 0; round < flows.size(); ++round) {
    std::vector<long double> level(capacities.size(), kInfinity);
    for (std::uint32_t link = 0; link < capacities.size(); ++link) {
      long double taken = 0.0L, weight = 0.0L;
      for (std::size_t f = 0; f < flows.size(); ++f) {
        for (const LinkUse& use : flows[f]->uses) {
          if (use.link.value != link) continue;
          (rates[f] < 0.0L ? weight : taken) += use.weight * (rates[f] < 0.0L ? 1.0L : rates[f]);
        }
      }
      if (weight > 0.0L) level[link] = (capacities[link] - taken) / weight;
    }
    std::size_t first = flows.size();
    long double lowest = kInfinity;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] >= 0.0L) continue;
      long double stop = flows[f]->cap.value;
      for (const LinkUse& use : flows[f]->uses) stop = std::min(stop, level[use.link.value]);
      if (first == flows.size() || stop < lowest) {
        first = f;
        lowest = stop;
      }
    }
    rates[first] = lowest;
  }
  return rates;
}

struct Completion {
  std::int64_t time = 0;
  std::size_t arrival = 0;
  friend bool operator==(const Completion&, const Completion&) = default;
};

void showValue(const Completion& completion, std::ostream& out) {
  out << completion.arrival << " at " << completion.time;
}

// The fluid model in long double, moved along the event times the network reports. It integrates
// with brute-force rates at every event; what is left of a flow is judged in picoseconds of its
// rate.
class FluidModel {
 public:
  explicit FluidModel(const Scenario& scenario) : scenario_(scenario) {
    for (Arrival& arrival : scenario_.arrivals) {
      left_.push_back(arrival.bytes);
      if (arrival.bytes == 0) arrival.uses.clear();
    }
    moving_rate_.resize(left_.size());
  }

  void arrive(std::size_t arrival) { active_.push_back(arrival); }

  void move_to(std::int64_t time) {
    if (time == now_) return;
    const auto rates = rates_now();
    for (std::size_t i = 0; i < active_.size(); ++i) {
      moving_rate_[active_[i]] = rates[i];
      left_[active_[i]] -= rates[i] * ((time - now_) / 1e12L);
    }
    now_ = time;
  }

  // Picoseconds by which the latest of the active flows ought to be through already.
  long double most_overdue() const {
    long double worst = 0.0L;
    for (const std::size_t a : active_) {
      if (left_[a] < 0.0L) worst = std::max(worst, -left_[a] / moving_rate_[a] * 1e12L);
    }
    return worst;
  }

  // Takes the flow out; returns how many picoseconds of transfer it still lacked, at the rate it
  // would have alone: others that end in the same picosecond may have left it all of a link.
  long double complete(std::size_t arrival) {
    std::erase(active_, arrival);
    const auto alone =
        brute_force_rates(scenario_.capacities, {&scenario_.arrivals[arrival]}).front();
    return left_[arrival] <= 0.0L ? 0.0L : left_[arrival] / alone * 1e12L;
  }

 private:
  std::vector<long double> rates_now() const {
    std::vector<const Arrival*> flows;
    for (const std::size_t a : active_) flows.push_back(&scenario_.arrivals[a]);
    return brute_force_rates(scenario_.capacities, flows);
  }

  Scenario scenario_;
  std::int64_t now_ = 0;
  std::vector<std::size_t> active_;
  std::vector<long double> left_;         // by arrival
  std::vector<long double> moving_rate_;  // by arrival, during the last move
};

enum class Queries { kNone, kMany, kState };

// Plays the scenario from `origin` on; times in the result are relative to it.
std::vector<Completion> play(const Scenario& scenario, std::int64_t origin, Queries queries,
                             FlowNetwork& network) {
  std::vector<Completion> log;
  std::vector<FlowId> done;
  std::vector<std::size_t> arrival_of(scenario.arrivals.size());  // by flow
  const auto run_to = [&](std::int64_t limit) {
    for (auto next = network.next_completion(); next && next->value <= limit;
         next = network.next_completion()) {
      done.clear();
      network.advance(*next, done);
      for (const FlowId f : done) log.push_back({next->value - origin, arrival_of[f.value]});
    }
  };
  for (std::size_t a = 0; a < scenario.arrivals.size(); ++a) {
    const Arrival& arrival = scenario.arrivals[a];
    const std::int64_t now = origin + arrival.time;
    run_to(now - 1);
    const FlowId flow = network.start({now}, {arrival.bytes}, arrival.uses, arrival.cap);
    arrival_of[flow.value] = a;
    if (queries == Queries::kMany) {
      network.next_completion();
      network.rate(flow);
    }
    if (queries == Queries::kState) {
      const std::vector<std::uint32_t> names(scenario.arrivals.size());
      std::vector<std::int64_t> state;
      network.append_state({now}, names, state);
    }
  }
  run_to(std::numeric_limits<std::int64_t>::max());
  return log;
}

std::vector<Completion> play(const Scenario& scenario, std::int64_t origin,
                             Queries queries = Queries::kNone) {
  FlowNetwork network = make_network(scenario);
  return play(scenario, origin, queries, network);
}

RC_GTEST_PROP(FlowNetworkProperty, NoLinkAndNoFlowExceedsItsLimit, ()) {
  const Scenario scenario = at_once(draw_scenario());
  const auto rates = rates_of(scenario);
  const auto loads = loads_of(scenario, rates);
  for (std::size_t l = 0; l < loads.size(); ++l) {
    RC_ASSERT(loads[l] <= scenario.capacities[l] * (1.0 + kRelative));
  }
  for (std::size_t f = 0; f < rates.size(); ++f) {
    RC_ASSERT(rates[f] > 0.0);
    RC_ASSERT(rates[f] <= scenario.arrivals[f].cap.value);
  }
}

RC_GTEST_PROP(FlowNetworkProperty, EveryFlowIsAtItsCapOrTheFastestOnASaturatedLink, ()) {
  const Scenario scenario = at_once(draw_scenario());
  const auto rates = rates_of(scenario);
  const auto loads = loads_of(scenario, rates);
  std::vector<double> fastest(loads.size(), 0.0);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (const LinkUse& use : scenario.arrivals[f].uses) {
      fastest[use.link.value] = std::max(fastest[use.link.value], rates[f]);
    }
  }
  for (std::size_t f = 0; f < rates.size(); ++f) {
    const Arrival& flow = scenario.arrivals[f];
    const bool bottlenecked =
        std::any_of(flow.uses.begin(), flow.uses.end(), [&](const LinkUse& use) {
          const std::uint32_t l = use.link.value;
          return loads[l] >= scenario.capacities[l] * (1.0 - kRelative) &&
                 rates[f] >= fastest[l] * (1.0 - kRelative);
        });
    RC_ASSERT(bottlenecked || rates[f] == flow.cap.value);
  }
}

RC_GTEST_PROP(FlowNetworkProperty, RatesEqualThoseOfASecondImplementation, ()) {
  const Scenario scenario = at_once(draw_scenario());
  const auto rates = rates_of(scenario);
  std::vector<const Arrival*> flows;
  for (const Arrival& arrival : scenario.arrivals) flows.push_back(&arrival);
  const auto expected = brute_force_rates(scenario.capacities, flows);
  for (std::size_t f = 0; f < rates.size(); ++f) {
    RC_ASSERT(std::abs(rates[f] - expected[f]) <= kRelative * expected[f]);
  }
}

RC_GTEST_PROP(FlowNetworkProperty, CompletionsAreThoseOfTheFluidModel, ()) {
  const Scenario scenario = draw_scenario();
  const auto log = play(scenario, 0);
  RC_ASSERT(log.size() == scenario.arrivals.size());
  FluidModel fluid(scenario);
  std::size_t arrived = 0;
  for (const Completion& completion : log) {
    for (; arrived < log.size() && scenario.arrivals[arrived].time <= completion.time; ++arrived) {
      fluid.move_to(scenario.arrivals[arrived].time);
      fluid.arrive(arrived);
    }
    fluid.move_to(completion.time);
    RC_ASSERT(fluid.most_overdue() <= 1.0L);
    RC_ASSERT(fluid.complete(completion.arrival) <= 1.0L);
  }
}

RC_GTEST_PROP(FlowNetworkProperty, EveryLinkCarriesExactlyTheBytesOfItsFlows, ()) {
  const Scenario scenario = draw_scenario();
  FlowNetwork network = make_network(scenario);
  play(scenario, 0, Queries::kNone, network);
  for (std::uint32_t l = 0; l < scenario.capacities.size(); ++l) {
    double expected = 0.0;
    for (const Arrival& arrival : scenario.arrivals) {
      for (const LinkUse& use : arrival.uses) {
        if (use.link.value == l) expected += use.weight * static_cast<double>(arrival.bytes);
      }
    }
    const LinkUsage usage = network.usage({l});
    RC_ASSERT(std::abs(usage.carried_bytes - expected) <= kRelative * expected);
    const double room = scenario.capacities[l] * to_seconds(usage.busy).value;
    const double rounding = scenario.capacities[l] * 1e-12 * scenario.arrivals.size();
    RC_ASSERT(usage.carried_bytes <= room * (1.0 + kRelative) + rounding);
  }
}

// One link, no caps: whatever the arrivals, it is busy exactly as long as its bytes take.
RC_GTEST_PROP(FlowNetworkProperty, ASharedLinkNeverIdlesWhileItHasFlows, ()) {
  Scenario scenario = draw_scenario();
  scenario.capacities.resize(1);
  for (Arrival& arrival : scenario.arrivals) {
    arrival.uses.assign(1, {{0}, 1.0});
    arrival.cap = kUncapped;
  }
  FlowNetwork network = make_network(scenario);
  play(scenario, 0, Queries::kNone, network);
  const LinkUsage usage = network.usage({0});
  const double needed = usage.carried_bytes / scenario.capacities[0] * kPicosecondsPerSecond;
  const double rounding = 1.0 * scenario.arrivals.size();
  RC_ASSERT(std::abs(static_cast<double>(usage.busy.value) - needed) <= rounding);
}

RC_GTEST_PROP(FlowNetworkProperty, ALaterStartOfThePatternGivesTheSameRelativeTimes, ()) {
  const Scenario scenario = draw_scenario();
  const auto origin = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 61);
  RC_ASSERT(play(scenario, origin) == play(scenario, 0));
}

RC_GTEST_PROP(FlowNetworkProperty, QueriesDoNotInfluenceTheOutcome, ()) {
  const Scenario scenario = draw_scenario();
  RC_ASSERT(play(scenario, 0, Queries::kMany) == play(scenario, 0, Queries::kNone));
  RC_ASSERT(play(scenario, 0, Queries::kState) == play(scenario, 0, Queries::kNone));
}

RC_GTEST_PROP(FlowNetworkProperty, ASkipMovesWhatIsLeft, ()) {
  const Scenario scenario = draw_scenario();
  const SimTime skipped{*rc::gen::inRange<std::int64_t>(1, 1'000'000'000)};
  const std::vector<std::uint32_t> names(scenario.arrivals.size());
  const std::vector<LinkUsage> more(scenario.capacities.size());
  std::vector<std::vector<std::int64_t>> states;
  std::vector<std::vector<FlowId>> done;
  for (const SimTime skip : {SimTime{0}, skipped}) {
    FlowNetwork network = make_network(scenario);
    for (const Arrival& a : scenario.arrivals) network.start({0}, {a.bytes}, a.uses, a.cap);
    const SimTime middle{network.next_completion()->value / 2};
    states.emplace_back();
    done.emplace_back();
    const bool moves = network.append_state(middle, names, states.back());
    if (moves) {
      network.skip(skip, more);
      states.back().clear();
      network.append_state(middle + skip, names, states.back());
    }
    while (const auto next = network.next_completion()) {
      network.advance(*next, done.back());
      states.back().push_back((*next).value - (moves ? skip.value : 0));
    }
  }
  RC_ASSERT(states[0] == states[1]);
  RC_ASSERT(done[0] == done[1]);
}

RC_GTEST_PROP(FlowNetworkProperty, AUsedNetworkBehavesLikeAFreshOne, ()) {
  const Scenario scenario = draw_scenario();
  FlowNetwork network = make_network(scenario);
  const auto first = play(scenario, 0, Queries::kNone, network);
  const auto again = play(scenario, network.now().value + 1, Queries::kNone, network);
  RC_ASSERT(first == again);
}

}  // namespace
}  // namespace zplan::sim
