// This chooses the software of a question that names none: the one that speaks best for plans of
// this kind, by the runs of it that were measured and predicted (hwprofiles/software_runs.h).
//
// Profiles that share a name are one software. Of a software those on devices of the generation
// (planner/certainty/kind.h) count together, and its newest profile with runs there answers.
// Softwares are ordered by
//   1. whether runs were on this generation of devices
//   2. whether one was on at least half as many devices as the question has, and one of a model
//      with at least half as many parameters
//   3. how many there were
// Software whose newest profile is for older devices than these comes after that of today. Whether
// the software can offload what the question needs is found out by its search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/software_runs.h"
#include "hwprofiles/stack.h"

namespace zplan {

// What the runs of a software say together.
struct MeasuredSoftware {
  StackProfile profile;
  bool on_generation = false;  // the runs were on devices of this generation; else on any
  bool of_scale = false;       // on half as many devices, of a model half as large, at least
  int runs = 0;
  int most_devices = 0;
  std::int64_t most_parameters = 0;
  std::vector<std::string> features;  // of these runs
};

// The best first; empty for clusters without GPUs, whose software is our own executor.
std::vector<MeasuredSoftware> software_for(const Cluster& cluster, std::int64_t parameters);

// Features (planner/certainty/kind.h) of the runs of all profiles that share a name with this one:
// of those on the cluster's generation, where there are none of all.
std::vector<std::string> measured_features(const StackProfile& profile, const Cluster& cluster);

// The runs of one profile that speak for a cluster.
struct MeasuredProfile {
  int runs = 0;
  double within = 0;   // as SoftwareRuns, of the least accurate group; 0: not known
  std::string device;  // on which most of these ran; empty: on the cluster's own class
  std::string format;  // "fp8" of their products; empty: some had the plan's
};
// Returns those on devices that compute alike; where there are none, those of the generation.
// `format`: of the plan's products (planner/certainty/kind.h).
MeasuredProfile measured_of(const StackProfile& profile, const Cluster& cluster,
                            const std::string& format);

// "39 runs, within 15 %" says how far 8 of 10 predictions were off at most; "6 fp8 runs on H100"
// were in another format and on another class, and say nothing of how far off this one is; "never
// measured".
std::string measured_words(const MeasuredProfile& runs);
// The same with the device of the cluster: "39 runs on H100, within 15 %".
std::string measured_words(const MeasuredProfile& runs, const Cluster& cluster);

// Returns what --for takes for a profile: "megatron" of the newest of that name, "megatron@2022" of
// the others. A profile without names is typed as its own.
std::vector<std::string> typed_names(const StackProfile& profile,
                                     const std::vector<StackProfile>& all);

// "H100" of "H100-SXM5-80GB", "RTX 4090" of "GeForce RTX 4090 24GB".
std::string short_device(const std::string& device);

}  // namespace zplan
