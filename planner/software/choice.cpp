#include "planner/software/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
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

// The least accurate group of the profile on these devices says how well it is predicted.
double within_of(const std::vector<SoftwareRuns>& all, const std::string& profile,
                 const std::string& device) {
  double within = 0;
  for (const SoftwareRuns& runs : all)
    if (runs.software == profile && same_class(runs.device, device))
      within = std::max(within, runs.within);
  return within;
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
      return std::tuple(!s.on_class, !is_of_today, !s.of_scale, -s.runs);
    };
    std::ranges::stable_sort(found, {}, rank);
    return found;
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
    const std::string& device = cluster_.node.device.name;
    MeasuredSoftware here, anywhere;
    const StackProfile *newest_here = nullptr, *newest = nullptr;
    for (const StackProfile* const profile : members) {
      const bool can_run = is_for(*profile, capability_of(cluster_));
      for (const SoftwareRuns& runs : all_) {
        if (runs.software != profile->name) continue;
        const bool is_here = same_class(runs.device, device);
        add(is_here ? here : anywhere, runs);
        const StackProfile*& of = is_here ? newest_here : newest;
        if (can_run && (of == nullptr || profile->year > of->year)) of = profile;
      }
    }
    const bool on_class = newest_here != nullptr;
    if (!on_class && newest == nullptr) return std::nullopt;
    MeasuredSoftware software = on_class ? here : anywhere;
    software.profile = on_class ? *newest_here : *newest;
    software.on_class = on_class;
    software.of_scale = cluster_.devices() <= 2 * std::int64_t{software.most_devices} &&
                        parameters_ <= 2 * software.most_parameters;
    software.within = within_of(all_, software.profile.name, device);
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

MeasuredSoftware measured_of(const StackProfile& profile, const Cluster& cluster) {
  const std::string& device = cluster.node.device.name;
  MeasuredSoftware software;
  software.profile = profile;
  const std::vector<SoftwareRuns> all = load_software_runs();
  for (const SoftwareRuns& runs : all)
    if (runs.software == profile.name && same_class(runs.device, device)) add(software, runs);
  software.on_class = software.runs > 0;
  software.within = within_of(all, profile.name, device);
  return software;
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

std::string words_of_runs(const MeasuredSoftware& software, const std::string& on) {
  if (!software.on_class || software.runs == 0) return "never measured" + on;
  const std::string runs =
      fmt::format("{} run{}{}", software.runs, software.runs == 1 ? "" : "s", on);
  if (software.within == 0) return runs;
  return fmt::format("{}, within {:.0f} %", runs, 100 * software.within);
}

}  // namespace

std::string measured_words(const MeasuredSoftware& software) { return words_of_runs(software, ""); }

std::string measured_words(const MeasuredSoftware& software, const Cluster& cluster) {
  return words_of_runs(software, " on " + short_device(cluster.node.device.name));
}

}  // namespace zplan
