#include "planner/cli/frame/question_words.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "hwprofiles/cluster_spelling.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hub_cache.h"
#include "planner/foreign/model_file.h"

namespace zplan {
namespace {

using Arguments = std::vector<std::string>;

const DescribedOption* find_option(const DescribedCommand& command, const std::string& word) {
  const auto found = std::ranges::find_if(command.options, [&](const DescribedOption& option) {
    return !option.is_argument() && std::ranges::find(option.names, word) != option.names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

bool is_given(const Arguments& arguments, const DescribedOption& option) {
  return std::ranges::any_of(arguments, [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    return std::ranges::find(option.names, name) != option.names.end();
  });
}

// Returns the places of the words that are no option and no value of one.
std::vector<std::size_t> places_of_words(const Arguments& arguments,
                                         const DescribedCommand& command) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].size() < 2 || arguments[i][0] != '-') {
      places.push_back(i);
    } else if (const DescribedOption* const option = find_option(command, arguments[i]);
               option != nullptr && !option->type.empty()) {
      ++i;  // and its value
    }
  }
  return places;
}

struct Stretch {
  std::size_t begin = 0, end = 0;
};
struct Found {
  std::optional<Stretch> model, cluster;
};

class Finder {
 public:
  // `takes_files`: the subcommand has files of its own, for which no path is taken.
  Finder(Arguments words, bool takes_files) : words_(std::move(words)), takes_files_(takes_files) {}

  std::string text(Stretch range) const {
    return joined(std::span(words_).subspan(range.begin, range.end - range.begin), " ");
  }

  // Model and cluster side by side.
  Found both() const {
    const std::size_t all = words_.size();
    for (std::size_t begin = 0; begin < all; ++begin)
      for (std::size_t end = all; end > begin + 1; --end)
        for (std::size_t cut = begin + 1; cut < end; ++cut) {
          const Stretch left{begin, cut}, right{cut, end};
          if (is_model(left) && is_cluster(right)) return {left, right};
          if (is_cluster(left) && is_model(right)) return {right, left};
        }
    if (!takes_files_) return one_of_them();
    const bool has_file = !words_.empty() && looks_like_path(words_.front());
    return has_file ? only_cluster() : Found{};  // "memory plan.json 2x4090"
  }

  Found only_model() const {
    return {longest([&](Stretch range) { return is_model(range); }), {}};
  }
  Found only_cluster() const {
    return {{}, longest([&](Stretch range) { return is_cluster(range); })};
  }

 private:
  bool is_model(Stretch range) const {
    const std::string name = text(range);
    const bool is_file = takes_files_ && looks_like_path(name) && !has_hub_form(name);
    return !is_file && remembered(models_, name, means_model);
  }
  bool is_cluster(Stretch range) const {
    const std::string name = text(range);
    return !(takes_files_ && looks_like_path(name)) && remembered(clusters_, name, means_cluster);
  }

  // The catalogues are read for each look-up.
  static bool remembered(std::map<std::string, bool>& known, const std::string& name,
                         bool (*look_up)(std::string_view)) {
    const auto found = known.find(name);
    return found != known.end() ? found->second : (known[name] = look_up(name));
  }

  std::optional<Stretch> longest(const std::function<bool(Stretch)>& is_meant) const {
    for (std::size_t size = words_.size(); size > 0; --size)
      for (std::size_t begin = 0; begin + size <= words_.size(); ++begin)
        if (is_meant({begin, begin + size})) return Stretch{begin, begin + size};
    return std::nullopt;
  }

  // Of words that are to be both: the other is then said to be unknown.
  Found one_of_them() const {
    const std::size_t all = words_.size();
    for (std::size_t end = all; end > 0; --end)
      if (is_model({0, end}))
        return {Stretch{0, end}, end < all ? std::optional(Stretch{end, all}) : std::nullopt};
    for (std::size_t begin = 0; begin < all; ++begin)
      if (const Stretch tail{begin, all}; !looks_like_path(text(tail)) && is_cluster(tail))
        return {begin > 0 ? std::optional(Stretch{0, begin}) : std::nullopt, tail};
    return {};
  }

  Arguments words_;
  bool takes_files_;
  mutable std::map<std::string, bool> models_, clusters_;
};

// Returns the arguments with these words behind options.
Arguments with_options(const Arguments& arguments, const std::vector<std::size_t>& places,
                       const Finder& finder, const Found& found) {
  Arguments out, rest = arguments;
  std::vector<std::size_t> taken;
  for (const auto& [option, range] :
       {std::pair("--model", found.model), {"--cluster", found.cluster}}) {
    if (!range) continue;
    out.insert(out.end(), {option, finder.text(*range)});
    for (std::size_t i = range->begin; i < range->end; ++i) taken.push_back(places[i]);
  }
  std::ranges::sort(taken, std::greater());
  for (const std::size_t place : taken)
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(place));
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace

Arguments with_question(const Arguments& arguments, const DescribedCommand& command,
                        bool is_named) {
  const DescribedOption* const model = find_option(command, "--model");
  const DescribedOption* const cluster = find_option(command, "--cluster");
  const bool lacks_model = model != nullptr && !is_given(arguments, *model);
  const bool lacks_cluster = cluster != nullptr && !is_given(arguments, *cluster);
  const std::vector<std::size_t> places = places_of_words(arguments, command);
  if (places.empty() || (!lacks_model && !lacks_cluster)) return arguments;
  Arguments words;
  for (const std::size_t place : places) words.push_back(arguments[place]);
  const bool takes_files =
      std::ranges::any_of(command.options, [](const auto& option) { return option.is_argument(); });
  const Finder finder(std::move(words), takes_files);
  Found found = lacks_model && lacks_cluster ? finder.both()
                : lacks_model                ? finder.only_model()
                                             : finder.only_cluster();
  if (is_named && !takes_files && !found.model && !found.cluster) {
    const std::size_t cut = !lacks_cluster ? places.size() : lacks_model ? 1 : 0;
    if (cut > 0) found.model = Stretch{0, cut};
    if (cut < places.size()) found.cluster = Stretch{cut, places.size()};
  }
  return with_options(arguments, places, finder, found);
}

}  // namespace zplan
