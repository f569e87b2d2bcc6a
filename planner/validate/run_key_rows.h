// Rows of run_keys.h from members of RunRecord: the type of the member gives the kind of the value,
// how it is read and how it is written.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "planner/core/error.h"
#include "planner/validate/run_keys.h"

namespace zplan::rows {

// Values of one kind, checked against the row.
void read_value(const JsonNode& node, const RunKey& key, std::string& to);
void read_value(const JsonNode& node, const RunKey& key, bool& to);
void read_value(const JsonNode& node, const RunKey& key, std::int32_t& to);
void read_value(const JsonNode& node, const RunKey& key, std::int64_t& to);
void read_value(const JsonNode& node, const RunKey& key, double& to);
void read_value(const JsonNode& node, const RunKey& key, std::vector<std::string>& to);
void read_value(const JsonNode& node, const RunKey& key, std::vector<std::int32_t>& to);

std::string write_value(const std::string& value);
std::string write_value(bool value);
std::string write_value(std::int32_t value);
std::string write_value(std::int64_t value);
std::string write_value(double value);
std::string write_value(const std::vector<std::string>& values);
std::string write_value(const std::vector<std::int32_t>& values);

template <typename T>
struct Held {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <typename T>
struct Held<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};

template <typename T>
constexpr RunKeyKind kind_of() {
  if constexpr (std::same_as<T, bool>) return RunKeyKind::kFlag;
  if constexpr (std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>)
    return RunKeyKind::kCount;
  if constexpr (std::same_as<T, double>) return RunKeyKind::kNumber;
  if constexpr (std::same_as<T, std::vector<std::string>>) return RunKeyKind::kTexts;
  if constexpr (std::same_as<T, std::vector<std::int32_t>>) return RunKeyKind::kCounts;
  return RunKeyKind::kText;
}

// The member of a member .. of a record.
template <auto First, auto... Rest>
auto& reach(auto& object) {
  if constexpr (sizeof...(Rest) == 0)
    return object.*First;
  else
    return reach<Rest...>(object.*First);
}

template <auto... Path>
void read_member(const JsonNode& node, const RunKey& key, RunRecord& run) {
  auto& member = reach<Path...>(run);
  using Member = Held<std::remove_cvref_t<decltype(member)>>;
  if constexpr (Member::kOptional)
    read_value(node, key, member.emplace());
  else
    read_value(node, key, member);
}

template <auto... Path>
std::string write_member(const RunRecord& run) {
  const auto& member = reach<Path...>(run);
  using Member = Held<std::remove_cvref_t<decltype(member)>>;
  if constexpr (Member::kOptional) {
    return member ? write_value(*member) : "";
  } else {
    return write_value(member);
  }
}

// Returns a record that says nothing.
inline const RunRecord& empty_record() {
  static const RunRecord record;
  return record;
}

// A value that every record has anyway is not written: an absent key means it, too.
template <auto... Path>
std::string write_changed(const RunRecord& run) {
  return reach<Path...>(run) == reach<Path...>(empty_record()) ? "" : write_member<Path...>(run);
}

// A row whose value is a member of the record.
template <auto... Path>
RunKey bound(std::string_view pointer, RunKey row) {
  using Member = std::remove_cvref_t<decltype(reach<Path...>(std::declval<RunRecord&>()))>;
  row.pointer = pointer;
  row.kind = kind_of<typename Held<Member>::Type>();
  row.read = read_member<Path...>;
  row.write = row.required ? write_member<Path...> : write_changed<Path...>;
  return row;
}

// A row of facts.
RunKey fact(std::string_view pointer, RunKeyKind kind, RunKeyUse use, RunKey row);

// Rows of several objects, one after the other.
std::vector<RunKey> together(std::initializer_list<std::vector<RunKey>> parts);

}  // namespace zplan::rows
