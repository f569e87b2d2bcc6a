#include "planner/search/questions/size_family.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {

const SizeFamily& find_size_family(std::string_view key) {
  std::vector<std::string> known;
  for (const SizeFamily& family : kSizeFamilies) {
    if (family.key == key) return family;
    known.emplace_back(family.key);
  }
  throw_bad_input(fmt::format("--family: expected one of {}, got {}{}", joined(known, ", "),
                              in_quotes(key), did_you_mean(key, known)));
}

Pins pins_of(const SizeFamily& family, const Pins& given) {
  Pins pins = given;
  pins.set("/zero_stage", family.zero_stage);
  pins.set("/placement/params", family.params);
  pins.set("/placement/grads", family.grads);
  pins.set("/placement/optimizer", family.optimizer);
  pins.set("/placement/activations", family.activations);
  pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  if (!pins.has("/batch/micro_batch")) pins.set("/batch/micro_batch", 1);
  if (!family.tensor) pins.set("/parallel/tp", 1);
  if (!family.pipeline) pins.set("/parallel/pp", 1);
  return pins;
}

}  // namespace zplan
