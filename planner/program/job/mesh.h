// The ranks of a Job as a mesh of named axes, and what a rank's place in it decides.
//
// Axes stand in index order: that of the members of a group, whose first axis varies fastest. Each
// has its stride in rank numbers, so that the order of the ranks is another matter. Usual names:
//   tp  tensor parallel ranks      cp  context parallel ranks
//   dp  data parallel replicas     pp  pipeline stages; a rank class each (job.h)
// Where sharding groups split the replicas, dp.0, dp.1 .. are its parts, the innermost first.
//
// Whatever differs between ranks of a class is a sum over the axes of steps times coordinates: the
// offset of a view, an attribute of a kernel. It is resolved by along(), and nowhere else.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zplan {

inline constexpr std::size_t kMaxAxes = 8;
inline constexpr std::string_view kTensorAxis = "tp";
inline constexpr std::string_view kDataAxis = "dp";
inline constexpr std::string_view kPipelineAxis = "pp";

struct Axis {
  std::string name;
  std::int32_t size = 1;
  std::int32_t stride = 1;  // ranks from one place to the next
  friend bool operator==(const Axis&, const Axis&) = default;
};

// A rank's place along each axis, in the order of the mesh.
using MeshPoint = std::array<std::int32_t, kMaxAxes>;

// By how much a number grows from one place to the next along each axis.
using AxisSteps = std::array<std::int64_t, kMaxAxes>;

constexpr std::int64_t along(const AxisSteps& steps, const MeshPoint& at) {
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < kMaxAxes; ++a) sum += steps[a] * at[a];
  return sum;
}

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr void add(std::size_t axis) { bits_ = static_cast<std::uint8_t>(bits_ | 1U << axis); }
  constexpr bool has(std::size_t axis) const { return (bits_ >> axis & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool holds(AxisSet others) const { return (others.bits_ & ~bits_) == 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ = static_cast<std::uint8_t>(a.bits_ | b.bits_);
    return a;
  }
  friend constexpr AxisSet operator-(AxisSet a, AxisSet b) {
    a.bits_ = static_cast<std::uint8_t>(a.bits_ & ~b.bits_);
    return a;
  }
  friend constexpr auto operator<=>(const AxisSet&, const AxisSet&) = default;

 private:
  std::uint8_t bits_ = 0;
};
static_assert(kMaxAxes <= 8);

// The ranks that have all coordinates but those along `axes` in common; with `ends` only those of
// them that stand at the first or the last place along each of these axes.
struct Group {
  AxisSet axes;
  bool ends = false;
  friend constexpr auto operator<=>(const Group&, const Group&) = default;
};

// The rank `step` places further along an axis; where it wraps, the first follows the last.
struct Peer {
  std::uint8_t axis = 0;
  std::int8_t step = 0;
  bool wraps = false;
  friend constexpr auto operator<=>(const Peer&, const Peer&) = default;
};

// One rank unless it is told otherwise.
struct Mesh {
  std::vector<Axis> axes{{std::string(kPipelineAxis)}};
  // Of a node the devices that its ranks have, in the order of the ranks; empty: all, in order.
  std::vector<std::int32_t> gpus{};

  std::int32_t world() const { return size(all()); }
  MeshPoint point(std::int32_t rank) const;
  std::int32_t rank_of(const MeshPoint& at) const;

  AxisSet all() const;
  // The axis of this name, or the parts that it is split into; none: the mesh has no such axis.
  AxisSet named(std::string_view name) const;
  std::optional<std::size_t> find(std::string_view name) const;  // exactly so
  std::size_t pipeline() const;                                  // its axis, which every mesh has

  std::int32_t size(AxisSet axes) const;  // of none: 1
  std::int32_t size(std::string_view name) const { return size(named(name)); }
  std::int32_t size(const Group& group) const;
  // The place of a rank among those that differ along these axes only; the first axis is fastest.
  std::int32_t index_in(AxisSet axes, const MeshPoint& at) const;
  // Steps of a number that grows by `step` from one such place to the next.
  AxisSteps steps_over(AxisSet axes, std::int64_t step) const;
  // The step that steps_over() would make these steps of; none: there is no such step. Axes of size
  // 1 do not matter.
  std::optional<std::int64_t> step_over(AxisSet axes, const AxisSteps& steps) const;
  // The most and the least that along() gives.
  std::int64_t reach(const AxisSteps& steps) const;
  std::int64_t depth(const AxisSteps& steps) const;

  // The points whose places along each axis are those that `places_of(axis)` lists.
  template <typename Places>
  std::vector<MeshPoint> points(const Places& places_of) const {
    std::vector<MeshPoint> found{{}};
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      std::vector<MeshPoint> more;
      for (const std::int32_t place : places_of(axis))
        for (const MeshPoint& at : found) more.emplace_back(at)[axis] = place;
      found = std::move(more);
    }
    return found;
  }

  bool is_member(const Group& group, const MeshPoint& at) const;
  std::optional<MeshPoint> peer(const MeshPoint& at, const Peer& peer) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

struct NamedSize {
  std::string_view name;
  std::int32_t size;
};
// Axes in index order; `rank_order`: their names, that of the axis of neighbouring ranks first.
Mesh make_mesh(std::span<const NamedSize> axes, std::span<const std::string_view> rank_order);

// Why the strides do not number the ranks, each once, in one line; or nothing.
std::optional<std::string> mesh_fault(const Mesh& mesh);

// One of the devices of a node that the list names again; or nothing.
std::optional<std::int32_t> named_twice(std::span<const std::int32_t> gpus);

// "tp 2 x dp 4 x pp 1"
std::string sizes_text(const Mesh& mesh);
// "tp", "dp.0+dp.1", "ends(pp)"; of no axes "none".
std::string name(const Mesh& mesh, AxisSet axes);
std::string name(const Mesh& mesh, const Group& group);

}  // namespace zplan
