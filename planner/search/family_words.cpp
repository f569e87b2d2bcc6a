#include "planner/search/family_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/plan/plan.h"

namespace zplan {
namespace {

// What a word says that plans have: a trait of constraints.
struct Word {
  std::string_view typed, trait;
};
constexpr Word kWords[] = {
    {"tp", "tensor"},
    {"tensor", "tensor"},
    {"pp", "pipeline"},
    {"pipeline", "pipeline"},
    {"offload", "offload"},
    {"cpu", "cpu"},
    {"nvme", "nvme"},
    {"recomputation", "recomputation"},
    {"recompute", "recomputation"},
    {"sharding", "sharding"},
    {"tiles", "tiles"},
};

std::string lower_case(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

class Reader {
 public:
  FamilyWords read(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;)
      if (!stage(lower_case(word)) && !tiers(lower_case(word)) && !trait(lower_case(word)) &&
          !recipe(lower_case(word)))
        fail(word);
    if (found_.empty()) fail(text);
    if (stage_ && tiers_) close();
    return std::move(found_);
  }

 private:
  // "zero-2", "zero2"
  bool stage(const std::string& word) {
    if (!word.starts_with("zero") || word.size() < 5) return false;
    const std::string number = word.substr(word[4] == '-' ? 5 : 4);
    if (number.size() != 1 || number[0] < '0' || number[0] > '3') return false;
    found_.only.push_back("zero=" + number);
    return stage_ = true;
  }

  // "gpu", "gpu+cpu+nvme": these and no others.
  bool tiers(const std::string& word) {
    if (word != "gpu" && !word.starts_with("gpu+")) return false;
    const bool cpu = word == "gpu+cpu" || word == "gpu+cpu+nvme";
    const bool nvme = word == "gpu+nvme" || word == "gpu+cpu+nvme";
    if (!cpu && !nvme && word != "gpu") return false;
    (cpu ? found_.only : found_.never).emplace_back("cpu");
    (nvme ? found_.only : found_.never).emplace_back("nvme");
    return tiers_ = true;
  }

  bool trait(const std::string& word) {
    const auto* const at = std::find_if(std::begin(kWords), std::end(kWords),
                                        [&](const Word& w) { return w.typed == word; });
    if (at == std::end(kWords)) return false;
    if (traits_.insert(std::string(at->trait)).second) found_.only.emplace_back(at->trait);
    return true;
  }

  bool recipe(const std::string& word) {
    const auto* const at = std::find(std::begin(kRecipeNames), std::end(kRecipeNames), word);
    if (at == std::end(kRecipeNames)) return false;
    found_.recipes = {word};
    return true;
  }

  // A whole name: what it leaves out is not there.
  void close() {
    for (const char* kind : {"tensor", "pipeline"})
      if (!traits_.contains(kind)) found_.never.emplace_back(kind);
  }

  [[noreturn]] static void fail(const std::string& word) {
    std::vector<std::string> known = {"ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3", "gpu"};
    for (const Word& one : kWords) known.emplace_back(one.typed);
    throw_bad_input(
        fmt::format("FAMILY: expected a family as the answer names it, \"ZeRO-2 gpu "
                    "tp\", or words such as pipeline, offload, nvme, tensor, got {}{}",
                    in_quotes(word), did_you_mean(word, known)));
  }

  FamilyWords found_;
  std::set<std::string> traits_;
  bool stage_ = false, tiers_ = false;
};

}  // namespace

FamilyWords parse_family(const std::string& text) { return Reader().read(text); }

}  // namespace zplan
