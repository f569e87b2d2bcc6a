// Whatever the bytes, reading either succeeds or throws zplan::Error with one clean line.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/hw_profile.h"
#include "models/embedded_models.h"
#include "models/model_config.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "tests/support/sanitized.h"

namespace zplan {
namespace {

// Runs `action`; true when it succeeds. Any exception but a bad-input Error fails the property.
template <typename Action>
bool succeeds(const Action& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    RC_ASSERT(error.code() == ExitCode::kBadInput);
    RC_ASSERT(!message.empty());
    RC_ASSERT(message.find('\n') == std::string::npos);
    return false;
  }
}

// Reads everything below `node` as what it is.
void walk(const JsonNode& node) {
  if (node.is_array()) {
    for (const JsonNode& item : node.items()) walk(item);
  } else if (node.is_object()) {
    for (const auto& [key, value] : node.members()) walk(value);
  } else if (node.is_number()) {
    RC_ASSERT(std::abs(node.number(-1e308, 1e308)) >= 0);
  } else if (node.is_string()) {
    node.string();
  }
  RC_ASSERT(!node.location().empty());
  RC_ASSERT(!node.describe().empty());
}

// `text` with a few random edits: drop, double, replace or insert bytes that matter in JSON.
std::string mutated(std::string text) {
  static const std::string kBytes = "{}[]\",:\\0123456789.eE+-tfn \n\t\xff\xc3x";
  const int edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto length = *rc::gen::inRange<std::size_t>(1, 20);
    const char byte = kBytes[*rc::gen::inRange<std::size_t>(0, kBytes.size())];
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text[at] = byte;
        break;
      default:
        text.insert(at, 1, byte);
    }
  }
  return text;
}

const EmbeddedFile& any_of(std::span<const EmbeddedFile> files) {
  return files[*rc::gen::inRange<std::size_t>(0, files.size())];
}

RC_GTEST_PROP(JsonReaderProperty, RandomBytesNeverCrash, (const std::string& bytes)) {
  succeeds([&] { walk(parse_json(bytes, "random")); });
}

RC_GTEST_PROP(JsonReaderProperty, JsonLikeTextNeverCrashes, ()) {
  const auto text = *rc::gen::container<std::string>(
      rc::gen::elementOf(std::string("{}[]\",:\\u0129.eE+-truefalsn \n")));
  succeeds([&] { walk(parse_json(text, "random")); });
}

RC_GTEST_PROP(JsonReaderProperty, EveryPrefixOfADocumentIsAnError, ()) {
  const EmbeddedFile& file = any_of(embedded_models());
  const std::size_t whole = file.text.find_last_of('}');
  const auto length = *rc::gen::inRange<std::size_t>(0, whole);
  RC_ASSERT(!succeeds([&] { parse_json(std::string(file.text.substr(0, length)), "prefix"); }));
}

RC_GTEST_PROP(JsonReaderProperty, MutatedModelsParseOrThrow, ()) {
  const std::string text = mutated(std::string(any_of(embedded_models()).text));
  succeeds([&] { validate(parse_model(text, "mutated")); });
}

RC_GTEST_PROP(JsonReaderProperty, MutatedProfilesParseOrThrow, ()) {
  const std::string text = mutated(std::string(any_of(embedded_profiles()).text));
  succeeds([&] {
    const HwProfile profile = parse_hw_profile(text, "mutated");
    RC_ASSERT(profile.devices_per_node >= 1);
    RC_ASSERT(profile.device.reserve() < profile.device.memory);
  });
}

RC_GTEST_PROP(JsonReaderProperty, IntegersComeBack, (std::int64_t value)) {
  RC_ASSERT(parse_json(std::to_string(value), "n").integer(INT64_MIN, INT64_MAX) == value);
}

RC_GTEST_PROP(NameProperty, AnyNameIsFoundOrRefused, (const std::string& name)) {
  if (*rc::gen::inRange<std::size_t>(0, testing_support::one_in(5)) != 0) return;
  succeeds([&] { load_model(name + "?"); });
  succeeds([&] { load_cluster(name + "?"); });
}

RC_GTEST_PROP(EditDistanceProperty, IsZeroToItselfAndSymmetric,
              (const std::string& a, const std::string& b)) {
  RC_ASSERT(edit_distance(a, a) == 0u);
  RC_ASSERT(edit_distance(a, b) == edit_distance(b, a));
}

RC_GTEST_PROP(QuantityProperty, AnyTextIsAQuantityOrNot, (const std::string& text)) {
  const auto size = parse_bytes(text);
  RC_ASSERT(size.value_or(Bytes{0}) >= Bytes{0});
  parse_bytes_per_second(text);
  parse_flops_per_second(text);
  parse_seconds(text);
}

RC_GTEST_PROP(QuantityProperty, WholeByteCountsAreExact, ()) {
  const auto value = *rc::gen::inRange<std::int64_t>(0, INT64_MAX);
  RC_ASSERT(parse_bytes(std::to_string(value) + " B") == Bytes{value});
}

}  // namespace
}  // namespace zplan
