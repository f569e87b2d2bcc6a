#include "exec/memory/poison.h"

#include "exec/memory/all_cores.h"

namespace zplan::exec {

void poison_slab(std::byte* data, Bytes size) {
  constexpr std::int64_t kPart = std::int64_t{16} << 20;
  const std::int64_t parts = (size.value + kPart - 1) / kPart;
  on_all_cores(static_cast<std::size_t>(parts), [&](std::size_t part) {
    const std::int64_t begin = static_cast<std::int64_t>(part) * kPart;
    fill_poison(data + begin, Bytes{std::min(kPart, size.value - begin)});
  });
}

}  // namespace zplan::exec
