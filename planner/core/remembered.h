// What was found for each key, found once and kept: for results that depend on the key alone and
// take long. Several threads may ask at a time; those that ask for the same new key at once each
// find it, and the first result stays. References stay good as long as the Remembered does.
#pragma once

#include <map>
#include <mutex>
#include <utility>

namespace zplan {

template <typename Key, typename Value>
class Remembered {
 public:
  // `find()` runs without the lock; what it throws is not remembered.
  template <typename Find>
  const Value& at(const Key& key, const Find& find) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = known_.find(key); known != known_.end()) return known->second;
    }
    Value found = find();
    const std::lock_guard lock(mutex_);
    return known_.try_emplace(key, std::move(found)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> known_;
};

}  // namespace zplan
