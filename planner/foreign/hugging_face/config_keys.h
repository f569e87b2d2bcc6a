// The keys of one config.json: what it says, else the default of its model_type. A key that is null
// in the file has no value, whatever the default. Refuses with one line, the place in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {

class ConfigKeys {
 public:
  // One thing, as versions of transformers and families spell it.
  using Spellings = const Names&;

  // The object that has the sizes, the defaults of its type, and what it is a part of, if of
  // anything: there it may stand whether embeddings are tied.
  ConfigKeys(JsonObject config, JsonObject defaults, JsonObject whole);

  // A value that is not null.
  std::optional<JsonNode> find(Spellings keys);
  std::optional<JsonNode> stated(Spellings keys);  // in the file itself
  JsonNode must(Spellings keys);

  std::int64_t whole(Spellings keys, std::int64_t max);  // from 1
  std::int64_t whole_or(Spellings keys, std::int64_t max, std::int64_t otherwise);
  double number_or(Spellings keys, double min, double max, double otherwise);
  bool flag(Spellings keys, bool otherwise);
  std::string word(Spellings keys);

  // Refuses what models here cannot have: any other value than this one.
  void demand(Spellings keys, bool value, bool otherwise, std::string_view why);

  // What is read, and what is meant otherwise there: a sentence each.
  void note(std::string sentence);
  const std::vector<std::string>& notes() const { return notes_; }
  // Keys of the file that nobody asked for and that say something of a model: they are not off.
  std::vector<std::string> unread() const;

  const JsonNode& node() const { return config_.node(); }

 private:
  JsonObject config_, defaults_, whole_;
  std::vector<std::string> asked_, notes_;
};

// A number without a fraction: 10000.0 is one.
std::int64_t whole_number(const JsonNode& node, std::int64_t min, std::int64_t max);

}  // namespace zplan
