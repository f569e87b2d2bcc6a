// Law 3 on a device whose memory the CPU does not reach: after each operation of a serial run the
// slabs of its rank are read back, and no byte outside the views that it writes may have changed.
// Left out: what the first operation of a rank on a tier does, and reads.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/run.h"

namespace zplan::gpu {

class Canary {
 public:
  Canary(const Job& job, std::shared_ptr<exec::Device> device)
      : job_(&job), device_(std::move(device)) {}

  void check(const exec::NodeEvent& event);

  std::int64_t operations() const { return operations_; }
  std::int64_t findings() const { return findings_; }
  // "" or "; forward.qkv.compute changes byte 17 of the slab"
  const std::string& first_finding() const { return first_finding_; }

 private:
  struct Image {
    const std::byte* base = nullptr;  // of the slab; null: no operand there so far
    std::vector<std::byte> bytes;
  };
  void check_tier(const exec::NodeEvent& event, Tier tier, Image& image);

  const Job* job_;
  std::shared_ptr<exec::Device> device_;
  std::map<std::int32_t, std::array<Image, kTierCount>> images_;  // by rank
  std::vector<std::byte> now_;
  std::int64_t operations_ = 0, findings_ = 0;
  std::string first_finding_;
};

}  // namespace zplan::gpu
