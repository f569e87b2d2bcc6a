// A decision of a Plan as data: where it stands in a plan file, what it may be, the option that
// pins it, what the search does with it. choices.h has a row for each.
//
// What is derived from a row: reading and writing plan files, pins and their options with the help,
// the range that legality holds it to, its words on the screen, the plan that runs are checked
// against, the levels that the tests cover. What it means is said in planner/lower alone; which
// combinations there are, in legality.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/program/job/names.h"

namespace zplan {

// A value of any decision; of an enumeration its word.
using Setting = std::variant<bool, std::int64_t, double, std::string, Gather,
                             std::vector<std::int32_t>, std::vector<RecomputeRun>>;

// The words of an enumeration, in the order in which they are listed.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kWordsOf{};
template <>
inline constexpr std::array<std::string_view, 4> kWordsOf<Recompute>{"none", "selective", "full",
                                                                     "operators"};
template <>
inline constexpr std::array<std::string_view, 7> kWordsOf<LayerOperator>{
    "norm", "qkv", "attention", "projection", "fc1", "activation", "experts"};
template <>
inline constexpr std::array<std::string_view, 10> kWordsOf<Schedule>{
    "1f1b",       "gpipe",    "interleaved",   "zb-v",      "zb-h1",
    "dualpipe-v", "dualpipe", "pipedream-2bw", "pipedream", "file"};
template <>
inline constexpr std::array<std::string_view, 4> kWordsOf<Dispatcher>{"alltoall", "allgather",
                                                                      "deepep", "hybridep"};
template <>
inline constexpr std::array<std::string_view, 2> kWordsOf<LaunchMode>{"stream", "graph"};
template <>
inline constexpr std::array<std::string_view, 3> kWordsOf<GradientCast>{"none", "before_reduction",
                                                                        "after_reduction"};
template <>
inline constexpr std::array<std::string_view, 3> kWordsOf<Tier>{"gpu", "cpu", "nvme"};
template <>
inline constexpr std::array<std::string_view, 2> kWordsOf<RankOrder>{"data_first",
                                                                     "pipeline_first"};
template <>
inline constexpr auto kWordsOf<OptimizerKind> = [] {
  std::array<std::string_view, std::size(kOptimizers)> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kOptimizers[i].word;
  return words;
}();
template <>
inline constexpr auto kWordsOf<Trained> = kTrainedWords;
template <>
inline constexpr auto kWordsOf<LoraTargets> = kLoraTargetWords;
template <>
inline constexpr auto kWordsOf<BaseType> = kBaseTypeWords;
template <>
inline constexpr auto kWordsOf<LoraSaved> = kLoraSavedWords;
template <>
inline constexpr auto kWordsOf<VisionTrained> = kVisionTrainedWords;
template <>
inline constexpr std::array<std::string_view, 4> kWordsOf<DType>{"f64", "f32", "f16", "bf16"};

template <typename T>
Setting to_setting(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<std::int64_t>(value);
  } else {
    return value;
  }
}

template <typename T>
T from_setting(const Setting& setting) {
  if constexpr (std::is_enum_v<T>) {
    const std::span<const std::string_view> words = kWordsOf<T>;
    const std::string& word = std::get<std::string>(setting);
    if constexpr (std::is_same_v<T, Tier> || std::is_same_v<T, DType>) {
      return *parse_name<T>(word);
    } else {
      return static_cast<T>(std::find(words.begin(), words.end(), word) - words.begin());
    }
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(std::get<std::int64_t>(setting));
  } else {
    return std::get<T>(setting);
  }
}

// In the order of a layer: "norm", "fc1@cpu", "attention@nvme".
std::vector<std::string> words_of(const RecomputeRun& run);
// One such word more; false: it is none, or its operator is named already.
bool add_word(RecomputeRun& run, std::string_view word);
// "full", or operators as "norm+fc1@cpu"; of all layers. Nothing: no such words.
std::optional<RecomputeRun> recompute_from_words(std::string_view text);

// The member of a Plan that holds a decision.
struct PlanField {
  Setting (*get)(const Plan& plan);
  void (*set)(Plan& plan, const Setting& setting);
  std::span<const std::string_view> words;  // of an enumeration; else empty
};

// Both ends allowed.
struct Range {
  std::int64_t min = 0, max = 0;
};

// What the search does with a decision that is not pinned (search.h).
enum class Varied : std::uint8_t {
  kNever,   // left plain, or as the model, the cluster or another decision has it
  kSpace,   // part of the space
  kTuned,   // outside the space: on the winner, or to make a plan fit
  kRecipe,  // as the recipe says (plan.h)
};

// An option of the command line. Of a switch: it turns it from its plain value, `back` to it.
struct DecisionOption {
  std::string_view name{};  // "--zero"; empty: none
  std::string_view help{};
  std::string_view back{};  // "--no-sp"
  std::string_view back_help{};
  int place = 1000;         // among the options in the help; equal ones in the order of the rows
  std::int64_t least = -1;  // above the least of the range, where that stands for "by itself"
};

struct Decision {
  std::string_view pointer;  // RFC 6901, at most two deep
  PlanField field;
  Range range{};  // of numbers
  Varied varied = Varied::kNever;
  DecisionOption option{};
  // The plan that runs are checked against keeps it; all others are plain there.
  bool kept = false;
  // Plan files leave it out where it is plain.
  bool optional = false;
  // A word for 0, of a number that is something else there than the least of its range.
  std::string_view word_of_zero{};
  // It multiplies the ranks of the job.
  bool counts_ranks = false;
  // Of parallelism: it cuts the operands of kernels, and not only what lies on a rank.
  bool cuts_kernels = false;
  // On the screen when a switch is not plain.
  std::string_view said{};

  std::string_view word() const { return pointer.substr(pointer.rfind('/') + 1); }
  bool is_plain(const Plan& plan) const;
  Setting plain() const;  // as in a Plan that nobody has changed
};

}  // namespace zplan
