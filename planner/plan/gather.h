// What of a model moves together: is gathered, reduced and updated as one unit. One choice, so that
// no two of its parts can contradict each other.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zplan {

class Gather {
 public:
  static const Gather kOperator;
  static const Gather kLayer;
  // Each of the unit's layers belongs to one of the ranks that share a copy, which brings it and
  // broadcasts it, and alone has its reduced gradients: what bandwidth-centric partitioning, where
  // all bring their part, is compared with [Rajbhandari21 sec 6.1]. A unit has as many layers as
  // there are such ranks. Tensors outside the layers stay cut over all.
  static const Gather kOwned;
  // FSDP-style wrapping of several layers [Zhao23 sec 3], and the size of DDP's buckets [Li20].
  static constexpr Gather of_layers(std::int32_t n) { return {Kind::kLayers, n}; }
  // By operator, every matrix of which is worked off in so many pieces, each gathered and released
  // alone: memory-centric tiling [Rajbhandari21 sec 5.1.3].
  static constexpr Gather in_tiles(std::int32_t n) { return {Kind::kTiles, n}; }

  constexpr Gather() = default;  // kOperator

  bool by_layer() const { return kind_ != Kind::kTiles; }
  bool owned() const { return kind_ == Kind::kOwned; }
  // Of a unit; where they are owned, the plan knows how many (Plan::unit_layers).
  std::int32_t layers() const { return kind_ == Kind::kLayers ? count_ : 1; }
  std::int32_t tiles() const { return kind_ == Kind::kTiles ? count_ : 1; }
  friend auto operator<=>(const Gather&, const Gather&) = default;

 private:
  enum class Kind : std::uint8_t { kTiles, kLayers, kOwned };
  constexpr Gather(Kind kind, std::int32_t count) : kind_(kind), count_(count) {}

  Kind kind_ = Kind::kTiles;
  std::int32_t count_ = 1;
};
inline constexpr Gather Gather::kOperator = Gather::in_tiles(1);
inline constexpr Gather Gather::kLayer = Gather::of_layers(1);
inline constexpr Gather Gather::kOwned{Kind::kOwned, 1};

// "operator", "layer", "layers:4", "tiles:8", "owned"
std::string name(const Gather& gather);
// "layers:1" and "tiles:1" are a layer and an operator. Nothing: no such words.
std::optional<Gather> gather_from_words(std::string_view text);
inline constexpr std::string_view kGatherForms =
    "operator, layer, layers:N or tiles:N with N from 1 to 16, or owned";

}  // namespace zplan
