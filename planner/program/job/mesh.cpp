#include "planner/program/job/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

// Lower-case letters, then "." and digits.
bool is_name(std::string_view name) {
  const std::size_t letters = std::min(name.find('.'), name.size());
  const auto all = [](std::string_view text, char low, char high) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [&](char c) { return low <= c && c <= high; });
  };
  return all(name.substr(0, letters), 'a', 'z') &&
         (letters == name.size() || all(name.substr(letters + 1), '0', '9')) && name != "none" &&
         name != "ends";
}

}  // namespace

MeshPoint Mesh::point(std::int32_t rank) const {
  MeshPoint at{};
  for (std::size_t a = 0; a < axes.size(); ++a) at[a] = rank / axes[a].stride % axes[a].size;
  return at;
}

std::int32_t Mesh::rank_of(const MeshPoint& at) const {
  std::int32_t rank = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) rank += at[a] * axes[a].stride;
  return rank;
}

AxisSet Mesh::all() const {
  AxisSet set;
  for (std::size_t a = 0; a < axes.size(); ++a) set.add(a);
  return set;
}

AxisSet Mesh::named(std::string_view name) const {
  AxisSet set;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::string_view own = axes[a].name;
    if (own.substr(0, own.find('.')) == name || own == name) set.add(a);
  }
  return set;
}

std::optional<std::size_t> Mesh::find(std::string_view name) const {
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (axes[a].name == name) return a;
  return std::nullopt;
}

std::size_t Mesh::pipeline() const { return find(kPipelineAxis).value(); }

std::int32_t Mesh::size(AxisSet set) const {
  std::int32_t product = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (set.has(a)) product *= axes[a].size;
  return product;
}

std::int32_t Mesh::size(const Group& group) const {
  if (!group.ends) return size(group.axes);
  std::int32_t product = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (group.axes.has(a)) product *= std::min(2, axes[a].size);
  return product;
}

std::int32_t Mesh::index_in(AxisSet set, const MeshPoint& at) const {
  std::int32_t index = 0, places = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (!set.has(a)) continue;
    index += at[a] * places;
    places *= axes[a].size;
  }
  return index;
}

AxisSteps Mesh::steps_over(AxisSet set, std::int64_t step) const {
  AxisSteps steps{};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (!set.has(a)) continue;
    steps[a] = step;
    step *= axes[a].size;
  }
  return steps;
}

std::optional<std::int64_t> Mesh::step_over(AxisSet set, const AxisSteps& steps) const {
  std::optional<std::int64_t> step;
  std::int64_t places = 1;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (!set.has(a) || axes[a].size == 1) continue;
    if (!step) step = steps[a];
    if (steps[a] != *step * places) return std::nullopt;
    places *= axes[a].size;
  }
  return step;
}

std::int64_t Mesh::reach(const AxisSteps& steps) const {
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < axes.size(); ++a)
    sum += std::max<std::int64_t>(steps[a], 0) * (axes[a].size - 1);
  return sum;
}

std::int64_t Mesh::depth(const AxisSteps& steps) const {
  std::int64_t sum = 0;
  for (std::size_t a = 0; a < axes.size(); ++a)
    sum += std::min<std::int64_t>(steps[a], 0) * (axes[a].size - 1);
  return sum;
}

bool Mesh::is_member(const Group& group, const MeshPoint& at) const {
  if (!group.ends) return true;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (group.axes.has(a) && at[a] != 0 && at[a] != axes[a].size - 1) return false;
  return true;
}

std::optional<MeshPoint> Mesh::peer(const MeshPoint& at, const Peer& peer) const {
  MeshPoint there = at;
  const std::int32_t size = axes[peer.axis].size;
  std::int32_t& place = there[peer.axis];
  place += peer.step;
  if (peer.wraps) place = (place % size + size) % size;
  if (place < 0 || place >= size) return std::nullopt;
  return there;
}

Mesh make_mesh(std::span<const NamedSize> axes, std::span<const std::string_view> rank_order) {
  Mesh mesh{{}};
  for (const NamedSize& axis : axes) mesh.axes.push_back({std::string(axis.name), axis.size, 0});
  ZPLAN_ASSERT(mesh.axes.size() <= kMaxAxes && rank_order.size() == axes.size());
  std::int32_t stride = 1;
  for (const std::string_view name : rank_order) {
    Axis& axis = mesh.axes[mesh.find(name).value()];
    axis.stride = stride;
    stride *= axis.size;
  }
  return mesh;
}

std::optional<std::int32_t> named_twice(std::span<const std::int32_t> gpus) {
  std::vector<std::int32_t> sorted(gpus.begin(), gpus.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = std::adjacent_find(sorted.begin(), sorted.end());
  if (at == sorted.end()) return std::nullopt;
  return *at;
}

std::optional<std::string> mesh_fault(const Mesh& mesh) {
  if (mesh.axes.size() > kMaxAxes)
    return fmt::format("{} axes; a mesh has up to {}", mesh.axes.size(), kMaxAxes);
  if (!mesh.find(kPipelineAxis)) return fmt::format("no axis {}", kPipelineAxis);
  std::vector<Axis> by_stride = mesh.axes;
  for (const Axis& axis : mesh.axes) {
    if (!is_name(axis.name)) return fmt::format("an axis named '{}'", axis.name);
    if (mesh.find(axis.name) != static_cast<std::size_t>(&axis - mesh.axes.data()))
      return fmt::format("two axes named {}", axis.name);
    if (axis.size < 1) return fmt::format("axis {} of size {}", axis.name, axis.size);
  }
  std::stable_sort(by_stride.begin(), by_stride.end(), [](const Axis& a, const Axis& b) {
    return std::pair{a.stride, a.size} < std::pair{b.stride, b.size};
  });
  std::int64_t stride = 1;
  for (const Axis& axis : by_stride) {
    if (axis.stride != stride)
      return fmt::format("neighbours along axis {} are {} ranks apart, expected {}", axis.name,
                         axis.stride, stride);
    stride *= axis.size;
  }
  return std::nullopt;
}

std::string sizes_text(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
  return text;
}

std::string name(const Mesh& mesh, AxisSet axes) {
  std::string text;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if (!axes.has(a)) continue;
    if (!text.empty()) text += '+';
    text += mesh.axes[a].name;
  }
  return text.empty() ? "none" : text;
}

std::string name(const Mesh& mesh, const Group& group) {
  const std::string axes = name(mesh, group.axes);
  return group.ends ? fmt::format("ends({})", axes) : axes;
}

}  // namespace zplan
