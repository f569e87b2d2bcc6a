// The keys of a configuration as they are written, one after the other.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/foreign/frameworks/setup.h"

namespace zplan {

class KeyList {
 public:
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  void add(std::string_view key, Integer number) {
    put(key, std::to_string(number));
  }
  void add(std::string_view key, std::same_as<bool> auto yes) { put(key, yes ? "true" : "false"); }
  void add(std::string_view key, double number);
  void add(std::string_view key, std::string_view word) { put(key, '"' + std::string(word) + '"'); }
  void add(std::string_view key, const char* word) { add(key, std::string_view(word)); }
  // What is JSON already.
  void put(std::string_view key, std::string json) {
    keys_.push_back({std::string(key), std::move(json)});
  }
  std::vector<KeyValue> keys() && { return std::move(keys_); }

 private:
  std::vector<KeyValue> keys_;
};

}  // namespace zplan
