// What PyTorch's fully sharded data parallelism (FSDP2) does of a Plan, whoever configures it.
//
//   reshard after forward   ZeRO 3; never: parameters stay from forward to backward, ZeRO 2
//   replicate x shard       groups of `shard` replicas share a copy: shards
//   parameters              fp32, cast to 16 bits at the gather; reduced in 16 bits or in fp32
//   unit                    a layer, fetched one ahead
// [Zhao23]
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/foreign/frameworks/config_reader.h"

namespace zplan {

struct FsdpSettings {
  std::int64_t replicate = 1, shard = 1;
  bool reshards = true;
  bool offloads = false;  // parameters, gradients and optimizer to the CPU
  bool reduces_in_fp32 = false;
  DType compute = DType::kBf16;
};

// Shards as the replicas of the job have them, an error of `key` where the settings have others.
void fit_shards(FsdpSettings& settings, std::int64_t replicas, std::string_view key,
                ConfigReader& config);

// Sets kernels, recipe, ZeRO stage, shards, homes, gathers and overlap; of no replicas that are
// sharded ZeRO 0.
void apply_fsdp(const FsdpSettings& settings, const DeviceProfile& device, Plan& plan,
                ConfigReader& config);

}  // namespace zplan
