#include "planner/software/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/certainty/kind.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

constexpr std::string_view kOwn = "own";

int capability_of(const Cluster& cluster) {
  return find_kernel_set(cluster.node.device.kernel_set).capability;
}

void add(MeasuredSoftware& software, const SoftwareRuns& runs) {
  software.runs += runs.runs;
  software.most_devices = std::max(software.most_devices, runs.most_devices);
  software.most_parameters = std::max(software.most_parameters, runs.most_parameters);
  software.features.insert(software.features.end(), runs.features.begin(), runs.features.end());
}

class Choice {
 public:
  Choice(const Cluster& cluster, std::int64_t parameters)
      : cluster_(cluster),
        parameters_(parameters),
        profiles_(stack_catalogue()),
        all_(load_software_runs()) {}

  std::vector<MeasuredSoftware> ordered() const {
    std::vector<MeasuredSoftware> found;
    for (const auto& [name, members] : by_name())
      if (auto software = of_name(members)) found.push_back(*std::move(software));
    const auto rank = [&](const MeasuredSoftware& s) {
      const bool is_of_today = s.profile.newest_capability == 0;
      return std::tuple(!s.on_generation, !is_of_today, !s.of_scale, -s.runs);
    };
    std::ranges::stable_sort(found, {}, rank);
    return found;
  }

  std::vector<std::string> features_of(const StackProfile& profile) const {
    const auto names = by_name();
    const auto members = names.find(profile.names.empty() ? "" : profile.names.back().name);
    if (members == names.end()) return {};
    const auto software = of_name(members->second);
    return software ? software->features : std::vector<std::string>{};
  }

 private:
  using Members = std::vector<const StackProfile*>;

  std::map<std::string, Members> by_name() const {
    std::map<std::string, Members> names;
    for (const StackProfile& profile : profiles_)
      if (!profile.names.empty() && profile.name != kOwn)
        names[profile.names.back().name].push_back(&profile);
    return names;
  }

  // Returns what the runs of a name's profiles say, if any was measured.
  std::optional<MeasuredSoftware> of_name(const Members& members) const {
    const int capability = capability_of(cluster_);
    MeasuredSoftware here, anywhere;
    const StackProfile *newest_here = nullptr, *newest = nullptr;
    for (const StackProfile* const profile : members) {
      const bool can_run = is_for(*profile, capability);
      for (const SoftwareRuns& runs : all_) {
        if (runs.software != profile->name) continue;
        const bool is_here = same_generation(runs.device, cluster_.node.device.name);
        add(is_here ? here : anywhere, runs);
        const StackProfile*& of = is_here ? newest_here : newest;
        if (can_run && (of == nullptr || profile->year > of->year)) of = profile;
      }
    }
    const bool on_generation = newest_here != nullptr;
    if (!on_generation && newest == nullptr) return std::nullopt;
    MeasuredSoftware software = on_generation ? here : anywhere;
    software.profile = on_generation ? *newest_here : *newest;
    software.on_generation = on_generation;
    software.of_scale = cluster_.devices() <= 2 * std::int64_t{software.most_devices} &&
                        parameters_ <= 2 * software.most_parameters;
    return software;
  }

  const Cluster& cluster_;
  const std::int64_t parameters_;
  const std::vector<StackProfile> profiles_;
  const std::vector<SoftwareRuns> all_;
};

}  // namespace

std::vector<MeasuredSoftware> software_for(const Cluster& cluster, std::int64_t parameters) {
  if (capability_of(cluster) == 0) return {};
  return Choice(cluster, parameters).ordered();
}

std::vector<std::string> measured_features(const StackProfile& profile, const Cluster& cluster) {
  return Choice(cluster, 0).features_of(profile);
}

MeasuredProfile measured_of(const StackProfile& profile, const Cluster& cluster,
                            const std::string& format) {
  const std::string& device = cluster.node.device.name;
  MeasuredProfile own, generation;
  std::set<std::string> own_formats, formats;
  int most = 0;
  for (const SoftwareRuns& runs : load_software_runs()) {
    if (runs.software != profile.name) continue;
    const bool is_own = same_class(runs.device, device);
    if (!is_own && !same_generation(runs.device, device)) continue;
    MeasuredProfile& of = is_own ? own : generation;
    of.runs += runs.runs;
    of.within = std::max(of.within, runs.within);
    (is_own ? own_formats : formats).insert(runs.formats.begin(), runs.formats.end());
    if (is_own || runs.runs <= most) continue;
    most = runs.runs;
    of.device = runs.device;
  }
  const bool has_own = own.runs > 0;
  MeasuredProfile found = has_own ? own : generation;
  const std::set<std::string>& measured = has_own ? own_formats : formats;
  if (!measured.empty() && !measured.contains(format)) found.format = *measured.begin();
  return found;
}

std::vector<std::string> typed_names(const StackProfile& profile,
                                     const std::vector<StackProfile>& all) {
  std::vector<std::string> names;
  for (const SoftwareName& own : profile.names) {
    const bool is_newest = std::ranges::none_of(all, [&](const StackProfile& other) {
      return other.year > profile.year &&
             std::ranges::find(other.names, own.name, &SoftwareName::name) != other.names.end();
    });
    names.push_back(is_newest ? own.name : fmt::format("{}@{}", own.name, profile.year));
  }
  return names.empty() ? std::vector{profile.name} : names;
}

std::string short_device(const std::string& device) {
  constexpr std::string_view kMaker = "GeForce ";
  std::string name = device.starts_with(kMaker) ? device.substr(kMaker.size()) : device;
  name = name.substr(0, name.find('-'));
  const std::size_t last = name.rfind(' ');
  return name.ends_with("GB") && last != name.npos ? name.substr(0, last) : name;
}

namespace {

std::string words_of_runs(const MeasuredProfile& runs, const std::string& device) {
  const std::string on = device.empty() ? "" : " on " + short_device(device);
  if (runs.runs == 0) return "never measured" + on;
  const std::string what = runs.format.empty() ? "run" : runs.format + " run";
  const std::string words =
      fmt::format("{} {}{}{}", runs.runs, what, runs.runs == 1 ? "" : "s", on);
  const bool is_alike = runs.device.empty() && runs.format.empty();
  if (runs.within == 0 || !is_alike) return words;
  return fmt::format("{}, within {:.0f} %", words, 100 * runs.within);
}

}  // namespace

std::string measured_words(const MeasuredProfile& runs) { return words_of_runs(runs, runs.device); }

std::string measured_words(const MeasuredProfile& runs, const Cluster& cluster) {
  return words_of_runs(runs, runs.device.empty() ? cluster.node.device.name : runs.device);
}

}  // namespace zplan
