// The entry point of libFuzzer: runs the target named by the macro ZPLAN_FUZZ_TARGET.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const zplan::fuzz::Target& target : zplan::fuzz::targets())
    if (target.name == ZPLAN_FUZZ_TARGET) target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
