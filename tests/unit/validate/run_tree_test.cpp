// The tree of a record's objects has each key once.
#include "planner/validate/run_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::Field;

// Keys at and below an object.
void collect(std::string_view pointer, std::multiset<const RunKey*>& keys) {
  std::set<std::string> names;
  for (const RunMember& member : run_members(pointer)) {
    EXPECT_TRUE(names.insert(member.name).second) << member.pointer;
    EXPECT_EQ(member.pointer, std::string(pointer) + "/" + member.name);
    if (member.key == nullptr) {
      collect(member.pointer, keys);
    } else {
      EXPECT_EQ(member.key->pointer, member.pointer);
      keys.insert(member.key);
    }
  }
}

TEST(RunTree, HasEachKeyOnce) {
  std::multiset<const RunKey*> keys;
  collect("", keys);
  EXPECT_EQ(keys.size(), run_keys().size());
  for (const RunKey& key : run_keys()) EXPECT_EQ(keys.count(&key), 1) << key.pointer;
}

TEST(RunTree, HasMembersInTheOrderOfTheRows) {
  const auto named = [](const char* name) { return Field(&RunMember::name, Eq(name)); };
  EXPECT_THAT(run_members("/trained/lora"),
              ElementsAre(named("rank"), named("alpha"), named("targets"), named("adapters_held"),
                          named("saved")));
  EXPECT_TRUE(run_members("/trained/what").empty()) << "a value has no members";
}

TEST(RunTree, MarksOfAKeyAreThoseOfTheObjectsAboveIt) {
  EXPECT_TRUE(has_below("/model", &RunKey::required));
  EXPECT_FALSE(has_below("/model/experts", &RunKey::required));
  EXPECT_TRUE(has_below("/recompute", &RunKey::shown));
  EXPECT_FALSE(has_below("/model/mod", &RunKey::required)) << "no object";
}

}  // namespace
}  // namespace zplan
