// A machine whose devices are two cores with round times, so that expected ones can be written
// down: a product takes 1 ps per m n k, other kernels and copies 1 ns per byte, meetings of two
// ranks 2 ns per byte, sends 3 ns per byte; nothing else takes time unless a test sets it.
#pragma once

#include <string>

#include "hwprofiles/core_profile.h"
#include "hwprofiles/hw_profile.h"
#include "tests/unit/cost/small_machine.h"

namespace zplan {

inline std::string measured_cores_json(const std::string& more = "") {
  const auto value = [](const std::string& text) {
    return R"({"value": )" + text + R"(, "source": "measured", "ref": "made up"})";
  };
  return R"({"count": )" + value("2") + R"(, "operation": )" + value("\"0 us\"") + R"(, "wake": )" +
         value("\"0 us\"") + R"(, "products_together": )" + value("1") +
         R"(, "streams_together": )" + value("1") + R"(, "kernels": )" +
         value(R"(["linear_forward 1 100 100 100 1", "linear_forward 1 1000 100 100 10",
                  "linear_forward 1 100 1000 100 10", "linear_forward 1 100 100 1000 10",
                  "linear_forward 1 1000 1000 1000 1000", "linear_forward 2 100 100 100 0.5",
                  "fill_zero 1 1000 1 1 1", "fill_zero 1 1000000 1 1 1000"])") +
         R"(, "collectives": )" + value(R"(["all_gather 2 1000 2", "all_gather 2 1000000 2000"])") +
         R"(, "copies": )" + value(R"(["1000 1", "1000000 1000"])") + R"(, "transfers": )" +
         value(R"(["1000 3", "1000000 3000"])") + more + "}";
}

inline CoreProfile measured_cores(const std::string& more = "") {
  std::vector<ValueSource> sources;
  return read_cores(parse_json(measured_cores_json(more), "cores"), sources);
}

inline Cluster machine_of_cores(const CoreProfile& cores) {
  Cluster cluster = small_machine();
  cluster.node.device.kernel_set = "cpu.f32";
  cluster.node.cores = std::make_shared<CoreProfile>(cores);
  return cluster;
}

}  // namespace zplan
