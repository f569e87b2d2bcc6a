// The names by which people call hardware of the catalogue, as its files state them:
//   nodes     name, aliases and "spellings" of a node file
//   racks     names of the cluster files
//   devices   "spellings" of devices.json: one of the names, with any of the words beside it, each
//             once and in any order ("A100-SXM4-80GB", "nvidia a100 80g"); a word of memory,
//             "80gb", may be typed as 80, 80g and 80gib
// Case, spaces, underscores, hyphens and parentheses tell no names apart; neither does the word of
// the vendor that a name of the catalogue begins with ("nd-h100-v5", "v5p-128").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Letters, digits and points, in lower case.
std::string squashed(std::string_view text);

struct SpelledDevice {
  std::string id, name;  // of devices.json
  std::string server;    // a node or a rack of the catalogue; empty: there is none
  std::vector<std::string> names, words;
  std::string memory;  // "80gb", the word of its memory; empty: none

  // Returns whether a squashed text means it.
  bool is_called(std::string_view text) const;
  // As people type it: "a100-80gb".
  std::string typed() const {
    return memory.empty() ? names.front() : names.front() + "-" + memory;
  }
};

// An instance of a cloud of which only the devices are in the catalogue.
struct SpelledInstance {
  std::string name;
  std::string device;  // id
  int gpus = 0;
};

// Returns those that have a spelling, in the order of the catalogue.
std::vector<SpelledDevice> read_spelled_devices();

struct ClusterVocabulary {
  struct Name {
    std::string squashed;
    std::string target;  // a node or a rack, by its own name
  };
  std::vector<Name> nodes, racks;
  std::vector<SpelledDevice> devices;
  std::vector<SpelledInstance> instances;
  std::vector<std::string> shown;  // all that an error may propose

  // These look up a squashed text.
  const Name* node(std::string_view text) const;
  const Name* rack(std::string_view text) const;
  const SpelledInstance* instance(std::string_view text) const;
  // Returns all that it may mean, in the order of the catalogue.
  std::vector<const SpelledDevice*> devices_called(std::string_view text) const;
};
ClusterVocabulary read_cluster_vocabulary();

}  // namespace zplan
