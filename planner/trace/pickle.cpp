#include "planner/trace/pickle.h"

#include <limits>
#include <utility>

namespace zplan {
namespace {

// Opcodes of Lib/pickletools.py.
constexpr unsigned char kProtocol = 0x80, kMark = '(', kStop = '.', kEmptyDict = '}',
                        kEmptyList = ']', kSetItems = 'u', kAppends = 'e', kInt32 = 'J',
                        kLong = 0x8a, kUnicode = 'X', kRemember = 'r', kRecall = 'j';

}  // namespace

PickleWriter::PickleWriter() {
  code(kProtocol);
  code(2);
}

void PickleWriter::little_endian(std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) code(static_cast<unsigned char>(number >> (8 * i)));
}

void PickleWriter::begin_dict() {
  code(kEmptyDict);
  code(kMark);
}
void PickleWriter::end_dict() { code(kSetItems); }
void PickleWriter::begin_list() {
  code(kEmptyList);
  code(kMark);
}
void PickleWriter::end_list() { code(kAppends); }

void PickleWriter::put(std::int64_t number) {
  using Int32 = std::numeric_limits<std::int32_t>;
  const auto bits = static_cast<std::uint64_t>(number);
  if (Int32::min() <= number && number <= Int32::max()) {
    code(kInt32);
    little_endian(bits, 4);
  } else {
    constexpr int kBytes = 8;
    code(kLong);
    code(kBytes);
    little_endian(bits, kBytes);
  }
}

void PickleWriter::put(std::string_view text) {
  if (const auto known = known_.find(text); known != known_.end()) {
    code(kRecall);
    little_endian(known->second, 4);
    return;
  }
  code(kUnicode);
  little_endian(text.size(), 4);
  out_ += text;
  const auto number = static_cast<std::uint32_t>(known_.size());
  known_.emplace(text, number);
  code(kRemember);
  little_endian(number, 4);
}

std::string PickleWriter::finish() {
  code(kStop);
  return std::move(out_);
}

}  // namespace zplan
