// YAML as the JSON that it stands for, so that configurations in either are read in one way and
// messages name places in the text as it is.
//
// Plain scalars are resolved as PyYAML does, by YAML 1.1: yes, no, on and off are booleans, 1_000
// is a number; 1e8, which PyYAML takes for a string, is a number here. "<<" merges mappings.
// Of a key that is there twice PyYAML takes the last; whoever asks for the places where keys are
// repeated gets that, others a refusal. Refused, in one line with the place: syntax errors,
// duplicate keys, keys that are no scalars, several documents, more than kMostYamlValues values
// once aliases are followed, and nesting beyond kMaxJsonDepth.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "planner/core/json_reader.h"

namespace zplan {

inline constexpr std::size_t kMostYamlValues = 100'000;

struct RepeatedKey {
  std::string place, key;
};

JsonNode parse_yaml(std::string text, std::string name,
                    std::vector<RepeatedKey>* repeated = nullptr);

}  // namespace zplan
