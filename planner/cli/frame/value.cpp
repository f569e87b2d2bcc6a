#include "planner/cli/frame/value.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// File names may be no UTF-8.
std::string text_of(const nlohmann::ordered_json& plain) {
  return plain.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Value::Value(std::nullptr_t) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value::Value(std::string_view text) : Value(std::string(text)) {}
Value::Value(const char* text) : Value(std::string(text)) {}
Value::Value(std::string text) : json(text_of(text)), words(std::move(text)) {}
Value::Value(std::int64_t n) : json(text_of(n)), words(grouped(n)), to_the_right(true) {}
Value::Value(double x) : json(text_of(x)), words(fmt::format("{:g}", x)), to_the_right(true) {}
Value::Value(Bytes size) : Value(size.value, format_bytes(size)) {}
Value::Value(Seconds time) : Value(time.value, format_seconds(time)) {}
Value::Value(BytesPerSecond rate) : Value(rate.value, format_rate(rate)) {}
Value::Value(FlopsPerSecond rate) : Value(rate.value, format_rate(rate)) {}
Value::Value(const std::vector<std::string>& list)
    : json(text_of(list)), words(joined(list, ", ")) {}

Value::Value(Value plain, std::string said) : Value(std::move(plain)) { words = std::move(said); }

Value Value::yes_or_no(bool yes) { return {as_json(yes ? "true" : "false"), yes ? "yes" : "no"}; }

void Value::append(const Value& item) {
  json.insert(json.size() - 1, (json == "[]" ? "" : ",") + item.json);
}

Value as_json(std::string text) {
  Value value;
  value.json = std::move(text);
  return value;
}

Value number(std::string_view form, double value) {
  return {value, fmt::format(fmt::runtime(form), value)};
}

Value share(double of_one) { return {of_one, percent(of_one)}; }

Value counted(std::int64_t n, std::string_view noun) { return {n, count_of(n, noun)}; }

Value only_words(Value value) {
  value.json.clear();
  return value;
}

Value right(Value value) {
  value.to_the_right = true;
  return value;
}

Value right_bytes(double bytes) {
  return right({bytes, format_bytes(Bytes{static_cast<std::int64_t>(bytes)})});
}

}  // namespace zplan
