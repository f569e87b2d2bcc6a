// Python's pickle, protocol 2, of dictionaries, lists, strings and integers: what a program in
// Python reads with pickle.load. Strings that are put before are referred to.
// [derived] The machine of Lib/pickletools.py: a container is put, then a mark, then what goes into
// it up to `end`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace zplan {

class PickleWriter {
 public:
  PickleWriter();

  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void put(std::int64_t number);
  void put(std::string_view text);
  template <typename Value>
  void entry(std::string_view key, const Value& value) {
    put(key);
    put(value);
  }
  // The pickle; nothing may follow.
  std::string finish();

 private:
  void code(unsigned char byte) { out_ += static_cast<char>(byte); }
  void little_endian(std::uint64_t number, int bytes);

  std::string out_;
  std::map<std::string, std::uint32_t, std::less<>> known_;  // strings that can be referred to
};

}  // namespace zplan
