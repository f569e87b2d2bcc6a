// Which software a question is answered for that names none: the one that speaks best for plans of
// this kind, by the runs of it that were measured and predicted (hwprofiles/software_runs.h).
//
// Profiles that share a name are one software. Of a software those on devices of the class count
// together, and its newest profile with runs there answers. Softwares are ordered by
//   1. whether runs were on this class of devices
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
  bool on_class = false;  // the runs were on devices that compute alike; else on any
  bool of_scale = false;  // on half as many devices, of a model half as large, at least
  int runs = 0;
  int most_devices = 0;
  std::int64_t most_parameters = 0;
  double within = 0;                  // as SoftwareRuns, over the profile's own runs
  std::vector<std::string> features;  // of the runs on the class
};

// The best first; empty for clusters without GPUs, whose software is our own executor.
std::vector<MeasuredSoftware> software_for(const Cluster& cluster, std::int64_t parameters);

// What is known of one profile on the cluster; no runs: none were measured.
MeasuredSoftware measured_of(const StackProfile& profile, const Cluster& cluster);

// "39 runs, within 15 %", "never measured": the same without the device.
std::string measured_words(const MeasuredSoftware& software);
// "39 runs on H100, within 15 %" says how far 8 of 10 predictions were off at most; "never measured
// on V100".
std::string measured_words(const MeasuredSoftware& software, const Cluster& cluster);

// Returns what --for takes for a profile: "megatron" of the newest of that name, "megatron@2022" of
// the others. A profile without names is typed as its own.
std::vector<std::string> typed_names(const StackProfile& profile,
                                     const std::vector<StackProfile>& all);

// "H100" of "H100-SXM5-80GB", "RTX 4090" of "GeForce RTX 4090 24GB".
std::string short_device(const std::string& device);

}  // namespace zplan
