// Faults in where a rank's part lies: what a view, or a kernel's first element, gains along an
// axis.
#include <algorithm>
#include <optional>
#include <utility>

#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {
namespace {

// Shorter shards than this are of norms, whose shards but the first hold nothing but padding.
constexpr std::int64_t kAllReal = 512;

// Whether anybody reads, or the Job keeps, what the node writes. Secondary shards of units from
// which backward does not gather are written for nobody.
bool is_used(const Program& p, const Node& n) {
  const auto reads_from = [&](BufferId b) {
    return p.buffers[b].persistent ||
           std::any_of(p.views.begin(), p.views.end(),
                       [&](const View& v) { return v.buffer == b && reads(v.access); });
  };
  const auto own = p.operands(n);
  const auto gives = [](const View& v) { return writes(v.access) && v.access != Access::kScratch; };
  return std::none_of(own.begin(), own.end(), gives) ||
         std::any_of(own.begin(), own.end(),
                     [&](const View& v) { return gives(v) && reads_from(v.buffer); });
}

bool touches(const Program& p, const Node& n, const View& v) {
  return n.kind != OpKind::kMark && v.access != Access::kScratch && is_used(p, n);
}

// The axis of several places along which the view moves.
std::optional<std::size_t> moves(const Job& job, const View& v) {
  for (std::size_t a = 0; a < job.mesh.axes.size(); ++a)
    if (v.strides[a] != 0 && job.mesh.axes[a].size > 1) return a;
  return std::nullopt;
}
bool has_moving_part(const Job& job, const Program& p, const Node& n, const View& v) {
  return touches(p, n, v) && moves(job, v) && v.shape.elements() >= kAllReal;
}

Places of_strides(const std::function<void(const Job&, View&, std::size_t)>& change) {
  return at_operands(has_moving_part,
                     [=](const Job& job, View& v) { change(job, v, *moves(job, v)); });
}

// An axis of several places along which the view does not move.
std::optional<std::size_t> stands(const Job& job, const View& v) {
  for (std::size_t a = 0; a < job.mesh.axes.size(); ++a)
    if (v.strides[a] == 0 && job.mesh.axes[a].size > 1) return a;
  return std::nullopt;
}

bool may_move_otherwise(const Job& job, const Program& p, const Node& n, const View& v) {
  return has_moving_part(job, p, n, v) && stands(job, v);
}

bool is_vocabulary(KernelId k) {
  return k == KernelId::kEmbeddingForward || k == KernelId::kEmbeddingBackward;
}

// The attribute that says where a rank's part of batch or vocabulary begins.
std::optional<std::size_t> first_of(const Node& n) {
  if (n.kind != OpKind::kKernel) return std::nullopt;
  if (n.kernel == KernelId::kLoadBatch) return 2;
  if (n.kernel == KernelId::kCrossEntropyParallel) return 2;
  if (is_vocabulary(n.kernel)) return 0;
  return std::nullopt;
}

// All that a rank's first row grows by. Twice as much is left out: no byte of the text lies beyond
// the first half of the vocabulary, so that nobody looks there.
Places of_first_rows(std::int64_t divisor) {
  return at_roles(
      [](const Job& job, const Program& p, const Node& n) {
        const auto first = first_of(n);
        if (!first) return false;
        const AxisSteps& steps = p.attributes_of(n)[*first].steps;
        for (std::size_t a = 0; a < job.mesh.axes.size(); ++a)
          if (steps[a] != 0 && job.mesh.axes[a].size > 1) return true;
        return false;
      },
      [divisor](const Job&, Program& p, Node& n) {
        Attributes changed = p.attributes_of(n);
        for (std::int64_t& step : changed[*first_of(n)].steps)
          step = divisor == 0 ? 0 : step / divisor;
        n.attributes = static_cast<std::uint32_t>(p.attributes.size());
        p.attributes.push_back(changed);
      });
}

}  // namespace

std::vector<Kind> stride_kinds() {
  const auto kind = [](std::string_view name, int seeds, const Places& places) {
    return Kind{Class::kStride, name, seeds, Form::kFolded, places};
  };
  return {
      kind("stride zero", 4,
           of_strides([](const Job&, View& v, std::size_t a) { v.strides[a] = 0; })),
      kind("stride halved", 3,
           of_strides([](const Job&, View& v, std::size_t a) { v.strides[a] /= 2; })),
      kind("stride doubled", 2,
           of_strides([](const Job&, View& v, std::size_t a) { v.strides[a] *= 2; })),
      kind("stride an element less", 2, of_strides([](const Job&, View& v, std::size_t a) {
             v.strides[a] -= size_of(v.dtype).value;
           })),
      kind("stride along another axis", 3,
           at_operands(may_move_otherwise,
                       [](const Job& job, View& v) {
                         std::swap(v.strides[*moves(job, v)], v.strides[*stands(job, v)]);
                       })),
      kind("view an element further", 4,
           at_operands([](const Job&, const Program& p, const Node& n,
                          const View& v) { return touches(p, n, v); },
                       [](const Job&, View& v) { v.offset += size_of(v.dtype); })),
      kind("the same first row on all ranks", 3, of_first_rows(0)),
      kind("first rows half as far apart", 2, of_first_rows(2)),
  };
}

}  // namespace zplan::seeded
