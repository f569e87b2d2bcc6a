#include "planner/plan/gather.h"

#include <fmt/format.h>

#include <charconv>

#include "planner/program/job/limits.h"

namespace zplan {
namespace {

static_assert(kMaxUnitLayers == 16 && kMaxTiles == 16);  // kGatherForms says so

// Behind a prefix such as "tiles:".
std::optional<std::int32_t> count_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  std::int32_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + prefix.size(), end, count);
  if (status != std::errc{} || stop != end || count < 1 || count > kMaxTiles) return std::nullopt;
  return count;
}

}  // namespace

std::string name(const Gather& gather) {
  if (gather.owned()) return "owned";
  if (gather == Gather::kLayer) return "layer";
  if (gather == Gather::kOperator) return "operator";
  return gather.by_layer() ? fmt::format("layers:{}", gather.layers())
                           : fmt::format("tiles:{}", gather.tiles());
}

std::optional<Gather> gather_from_words(std::string_view text) {
  for (const Gather& gather : {Gather::kOperator, Gather::kLayer, Gather::kOwned})
    if (text == name(gather)) return gather;
  if (const auto layers = count_after("layers:", text)) return Gather::of_layers(*layers);
  if (const auto tiles = count_after("tiles:", text)) return Gather::in_tiles(*tiles);
  return std::nullopt;
}

}  // namespace zplan
