// One JSON object of sourced values: reads them and records where each comes from.
#pragma once

#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/json_reader.h"

namespace zplan {

class SourcedObject {
 public:
  SourcedObject(const JsonNode& node, std::vector<ValueSource>& sources)
      : object_(node), sources_(&sources) {}

  Bytes bytes(std::string_view key) { return value(key).bytes(); }
  BytesPerSecond bytes_per_second(std::string_view key) { return value(key).bytes_per_second(); }
  FlopsPerSecond flops_per_second(std::string_view key) { return value(key).flops_per_second(); }
  Seconds seconds(std::string_view key) { return value(key).seconds(); }
  int integer(std::string_view key, int min, int max) {
    return static_cast<int>(value(key).integer(min, max));
  }
  double number(std::string_view key, double min, double max) {
    return value(key).number(min, max);
  }
  // An achieved fraction of a peak: above 0, at most 1.
  double fraction(std::string_view key);
  // A time over that of something faster: from 1.
  double factor(std::string_view key);

  bool has(std::string_view key) { return object_.optional_member(key).has_value(); }
  JsonObject& object() { return object_; }
  std::vector<ValueSource>& sources() { return *sources_; }
  void finish() const { object_.finish(); }

 private:
  JsonNode value(std::string_view key);

  JsonObject object_;
  std::vector<ValueSource>* sources_;
};

// Most parts of one kind in a node, and most streaming multiprocessors of a device.
inline constexpr int kMaxParts = 1024;
inline constexpr int kMaxSms = 4096;

// The object "peak": dense rates by number format.
std::map<std::string, FlopsPerSecond, std::less<>> read_peaks(const JsonNode& node,
                                                              std::vector<ValueSource>& sources);

}  // namespace zplan
