// What a configuration of a training framework comes to: the Plan that the framework then runs, and
// what is wrong with the configuration.
//
// A framework is read and written by one pair of functions (framework.h). `read` is the only place
// that knows what a key does; what `write` cannot say shows when the written keys are read again
// and the plans differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

enum class Trouble : std::uint8_t {
  kError,        // the framework stops, at start or later
  kUnknown,      // no such key in this version
  kRemoved,      // no longer
  kNoEffect,     // read, and nothing comes of it
  kContradicts,  // what else is said
  kNotModelled,  // done by the framework and not by the Plan
  kAssumed,      // not said there: what was taken
};

struct Finding {
  Trouble trouble = Trouble::kAssumed;
  std::string place;  // "ds.json:12:5"; empty: of no key
  std::string key;    // "zero_optimization.stage"; of a decision that no key says "/dropout"
  std::string message;
};

// What a configuration leaves to others.
struct Surroundings {
  const ModelConfig& model;
  const DeviceProfile& device;
  std::int64_t ranks = 1;     // of the job
  bool with_trainer = false;  // Hugging Face's Trainer resolves "auto"
  // By the user: counts where the configuration does not say, or says "auto".
  Pins asked{};
  std::int64_t devices_per_node = 1;
  // By the Trainer's arguments; 0 and nothing: as they are unless given.
  std::int64_t accumulation = 0;
  std::optional<DType> compute{};
};

struct Setup {
  std::string version{};  // whose keys were read
  Plan plan{};
  std::string stack{};  // whose kernels and rates (hwprofiles/stacks)
  Bytes buckets{0};     // of a GPU, that the framework takes for buffers beside the Job's
  std::vector<Finding> findings{};

  bool is_broken() const;  // an error among the findings
};

// A key as it is written: by its dotted path, with its value as JSON.
struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

std::string_view name(Trouble trouble);

}  // namespace zplan
