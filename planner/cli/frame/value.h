// Value: what an answer says of one thing, as JSON has it and as people read it. Made from the
// types of the program, which know how they are written: bytes, seconds and rates are plain numbers
// in JSON, whose keys end in the unit.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

struct Value {
  std::string json = "null";  // its text; empty: JSON does not have it
  std::string words;
  bool to_the_right = false;  // in tables, as numbers are

  Value(std::nullptr_t = nullptr);  // people read nothing
  Value(std::string text);
  Value(std::string_view text);
  Value(const char* text);
  template <std::same_as<bool> Bool>
  Value(Bool yes) : Value(yes_or_no(yes)) {}
  Value(std::int64_t number);  // "25,600"
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool> && !std::same_as<Integer, std::int64_t>)
  Value(Integer number) : Value(static_cast<std::int64_t>(number)) {}
  Value(double number);
  Value(Bytes size);
  Value(Seconds time);
  Value(BytesPerSecond rate);
  Value(FlopsPerSecond rate);
  Value(const std::vector<std::string>& list);  // "a, b"
  template <typename T>
  Value(const std::optional<T>& known) : Value(known ? Value(*known) : Value()) {}
  Value(Value plain, std::string said);

  // In one place: answers hold hundreds of values, each of which would be made and destroyed
  // inline.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  bool is_left_out() const { return json.empty(); }
  void append(const Value& item);  // to an array

 private:
  static Value yes_or_no(bool yes);
};

inline constexpr double kGiga = 1e9;

// What is written as JSON already.
Value as_json(std::string text);
inline Value empty_array() { return as_json("[]"); }
// A number in digits of one's own: number("{:.2e}", 0.001).
Value number(std::string_view form, double value);
// 0.345 as "34.5 %".
Value share(double of_one);
// 2 as "2 steps".
Value counted(std::int64_t n, std::string_view noun);
// Its words alone: JSON does not have it.
Value only_words(Value value);
// A fact that is not there.
inline Value left_out() { return only_words(nullptr); }
// At the right of its column.
Value right(Value value);
// Bytes, which need not be whole, as "31.75 GiB".
Value right_bytes(double bytes);

}  // namespace zplan
