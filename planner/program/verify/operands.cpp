#include "planner/program/verify/operands.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "planner/program/job/collectives.h"
#include "planner/program/job/meetings.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

bool fits(char letter, Access access) {
  switch (letter) {
    case 'r':
      return access == Access::kRead;
    case 'w':
      return access == Access::kWrite;
    case 'u':
      return access == Access::kUpdate;
    case 'a':
      return access == Access::kWrite || access == Access::kUpdate;
    case 's':
      return access == Access::kScratch;
  }
  return false;
}

bool is_collective(Lane lane) {
  return lane == Lane::kCommGather || lane == Lane::kCommReduce || lane == Lane::kCommTensor;
}

// The lane of a copy; none: there is no way.
std::optional<Lane> copy_lane(Tier from, Tier to) {
  constexpr std::optional<Lane> kNone;
  constexpr std::optional<Lane> kLanes[kTierCount][kTierCount] = {
      {Lane::kCompute, Lane::kD2h, kNone},
      {Lane::kH2d, Lane::kCpu, Lane::kIoWrite},
      {kNone, Lane::kIoRead, kNone},
  };
  return kLanes[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

bool same_place(const View& a, const View& b) {
  return a.buffer == b.buffer && a.slot == b.slot && a.offset == b.offset && a.strides == b.strides;
}

class OperandCheck {
 public:
  OperandCheck(const Job& job, const RankClass& rank_class, ClassFindings& findings)
      : mesh_(job.mesh), class_(rank_class), p_(rank_class.program), findings_(findings) {}

  void run() {
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      at_ = n;
      const Node& node = p_.nodes[n];
      const auto operands = p_.operands(node);
      owner(node);
      switch (node.kind) {
        case OpKind::kKernel:
          kernel(node, operands);
          break;
        case OpKind::kCopy:
          copy(node, operands);
          break;
        case OpKind::kCollective:
          collective(node, operands);
          break;
        case OpKind::kSend:
          peer(node, operands, Access::kRead);
          break;
        case OpKind::kReceive:
          peer(node, operands, Access::kWrite);
          break;
        case OpKind::kMark:
          mark(operands);
          break;
      }
    }
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    findings_.add(node_name(p_, at_) + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  const Buffer& buffer(const View& v) const { return p_.buffers[v.buffer]; }

  void owner(const Node& node) {
    const bool meets = node.kind == OpKind::kCollective;
    const bool owned = !meets && node.group != Group{};
    if (owned && node.kind != OpKind::kKernel && node.kind != OpKind::kCopy)
      return add("only kernels and copies are of one owner");
    if (owned && node.group.ends) return add("is of an owner among the ends of a group");
    const std::int32_t members = mesh_.size(node.group);
    if ((owned || (meets && has_root(node.collective))) && node.member >= members)
      add("is of member {} of {}", node.member, members);
  }

  void mark(std::span<const View> operands) {
    if (operands.size() > 1) return add("a mark has one operand at most, got {}", operands.size());
    for (const View& v : operands)
      if (v.access == Access::kWrite) add("a mark leaves no new content behind");
  }

  // Whether two operands share bytes on some rank. Views that move differently over the ranks are
  // taken for all the bytes that they touch on any rank: those of one rank and the whole.
  bool overlap(const View& a, const View& b) const {
    if (a.buffer != b.buffer || a.slot != b.slot) return false;
    const bool together = a.strides == b.strides;
    const auto begin = [&](const View& v) {
      return v.offset + (together ? Bytes{0} : Bytes{mesh_.depth(v.strides)});
    };
    const auto end = [&](const View& v) {
      return v.offset + v.bytes() + (together ? Bytes{0} : Bytes{mesh_.reach(v.strides)});
    };
    return begin(a) < end(b) && begin(b) < end(a);
  }

  void kernel(const Node& node, std::span<const View> operands) {
    const KernelDef& def = kernel_def(node.kernel);
    const auto count = static_cast<int>(operands.size());
    if (count < def.min_operands || count > def.max_operands())
      return add("{} takes {} to {} operands, got {}", name(node.kernel), def.min_operands,
                 def.max_operands(), count);
    const std::string_view pattern = def.access;
    bool accesses_fit = true;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const char expected = pattern[def.row_of(i, operands.size())];
      if (fits(expected, operands[i].access)) continue;
      accesses_fit = false;
      add("operand {} of {}, '{}', is a {}, expected '{}' of {}", i, name(node.kernel),
          buffer(operands[i]).name, name(operands[i].access), expected, pattern);
    }
    if (const auto got = accesses_fit ? def.mismatch(operands) : std::nullopt)
      add("{} takes {} of types {}, got {}", name(node.kernel), def.shapes, def.types, *got);
    if (def.needs_attributes && node.attributes >= p_.attributes.size())
      add("{} has no attributes", name(node.kernel));
    kernel_overlaps(def, operands);
    kernel_lane(node, operands);
  }

  void kernel_overlaps(const KernelDef& def, std::span<const View> operands) {
    const auto row = [&](std::size_t i) { return def.row_of(i, operands.size()); };
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!writes(operands[i].access)) continue;
      for (std::size_t j = 0; j < operands.size(); ++j) {
        if (i == j || !overlap(operands[i], operands[j])) continue;
        if (def.may_lie_on(row(i), row(j)) && same_place(operands[i], operands[j])) continue;
        add("operand {} of {} writes '{}' where operand {} lies", i, name(def.id),
            buffer(operands[i]).name, j);
      }
    }
  }

  void kernel_lane(const Node& node, std::span<const View> operands) {
    const bool on_host = is_host(node.lane);
    const bool beside_collectives =
        node.lane == Lane::kCommGather || node.lane == Lane::kCommReduce;
    if (!on_host && node.lane != Lane::kCompute && !beside_collectives)
      return add("a kernel on lane {}", name(node.lane));
    for (const View& v : operands)
      if (buffer(v).tier != (on_host ? Tier::kCpu : Tier::kGpu))
        add("a kernel on lane {} cannot reach '{}' in {} memory", name(node.lane), buffer(v).name,
            name(buffer(v).tier));
  }

  bool in_and_out(std::span<const View> operands) {
    const bool ok = operands.size() == 2 && operands[0].access == Access::kRead &&
                    operands[1].access == Access::kWrite;
    if (!ok) add("takes a read and a written operand");
    return ok;
  }

  void copy(const Node& node, std::span<const View> operands) {
    if (!in_and_out(operands)) return;
    const View &from = operands[0], &to = operands[1];
    if (from.bytes() != to.bytes() || from.dtype != to.dtype)
      add("copies {} bytes of {} in '{}' to {} bytes of {} in '{}'", from.bytes().value,
          name(from.dtype), buffer(from).name, to.bytes().value, name(to.dtype), buffer(to).name);
    if (overlap(from, to)) add("copies '{}' onto itself", buffer(from).name);
    const std::optional<Lane> expected = copy_lane(buffer(from).tier, buffer(to).tier);
    if (!expected)
      return add("no copy leads from {} to {} memory", name(buffer(from).tier),
                 name(buffer(to).tier));
    if (node.lane != *expected)
      add("a copy from {} to {} memory belongs on lane {}, got {}", name(buffer(from).tier),
          name(buffer(to).tier), name(*expected), name(node.lane));
    const bool is_file = *expected == Lane::kIoRead || *expected == Lane::kIoWrite;
    for (const View& v : {from, to})
      if (is_file && (v.offset.value != 0 || v.strides != AxisSteps{}))
        add("a copy from {} to {} memory starts within a slot of '{}'", name(buffer(from).tier),
            name(buffer(to).tier), buffer(v).name);
  }

  void collective(const Node& node, std::span<const View> operands) {
    if (!in_and_out(operands)) return;
    const View &in = operands[0], &out = operands[1];
    const std::int64_t ranks = mesh_.size(node.group);
    const bool fits_lane = node.lane != Lane::kCommTensor || !spans_stages(mesh_, node.group);
    if (!is_collective(node.lane) || !fits_lane)
      add("a collective over group {} on lane {}", name(mesh_, node.group), name(node.lane));
    if (node.group.axes.empty()) return add("a collective over a group of no axes");
    if (node.group.ends && ranks == 1)
      return add("group {} does not exist with one stage", name(mesh_, node.group));
    if (has_root(node.collective) && (node.group.ends || spans_stages(mesh_, node.group)))
      add("{} over group {}, whose members are no shards", name(node.collective),
          name(mesh_, node.group));
    if (in.dtype != out.dtype) add("reads {} and writes {}", name(in.dtype), name(out.dtype));
    const CollectiveRow& row = row_of(node.collective);
    const std::int64_t n = in.shape.elements() * parts_of(row.output, ranks);
    const std::int64_t m = out.shape.elements() * parts_of(row.input, ranks);
    if (exchanges(node.collective) && in.shape.elements() % ranks != 0)
      add("{} of {} elements in '{}', which {} ranks cannot exchange in equal parts",
          name(node.collective), in.shape.elements(), buffer(in).name, ranks);
    if (n != m)
      add("{} over {} ranks of {} elements in '{}' into {} in '{}'", name(node.collective), ranks,
          in.shape.elements(), buffer(in).name, out.shape.elements(), buffer(out).name);
    for (const View& v : {in, out})
      if (buffer(v).tier != Tier::kGpu)
        add("a collective cannot reach '{}' in {} memory", buffer(v).name, name(buffer(v).tier));
    in_place(node, in, out);
  }

  // By how many bytes a view moves from one member of a group to the next; none: it does not move
  // with the members' places in the group.
  std::optional<std::int64_t> member_stride(const View& v, const Group& group) const {
    return group.ends ? std::nullopt : mesh_.step_over(group.axes, v.strides);
  }
  // Along the axes that the group does not run over.
  bool same_elsewhere(const View& a, const View& b, AxisSet axes) const {
    for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis)
      if (!axes.has(axis) && a.strides[axis] != b.strides[axis]) return false;
    return true;
  }

  // The shard lies where its rank's part of the whole lies, or the two are apart.
  void in_place(const Node& node, const View& in, const View& out) {
    if (in.buffer != out.buffer || in.slot != out.slot) return;
    bool ok = same_place(in, out) && !hands_on(node.collective);
    if (keeps_part_in_place(node.collective)) {
      const bool joins = has_parts(row_of(node.collective).output);
      const View &shard = joins ? in : out, &whole = joins ? out : in;
      ok = shard.offset == whole.offset && member_stride(whole, node.group) == 0 &&
           member_stride(shard, node.group) == shard.bytes().value &&
           same_elsewhere(shard, whole, node.group.axes);
    }
    if (!ok && overlap(in, out))
      add("in place in '{}', but not on the rank's own part", buffer(in).name);
  }

  void peer(const Node& node, std::span<const View> operands, Access access) {
    if (operands.size() != 1 || operands[0].access != access)
      return add("takes one operand, {}", name(access));
    if (node.kind == OpKind::kSend ? !sends(node.lane) : !receives(node.lane))
      return add("a send or receive on lane {}", name(node.lane));
    if (node.peer.axis >= mesh_.axes.size()) return add("has a peer along no axis");
    const auto there = peer_stage(mesh_, class_.stage, node.peer);
    if (mesh_.axes[node.peer.axis].name != kPipelineAxis || !there || *there == class_.stage)
      add("exchanges '{}' with no other stage: {:+} along {}", buffer(operands[0]).name,
          node.peer.step, mesh_.axes[node.peer.axis].name);
    if ((node.peer.step > 0) != (sends(node.lane) == leads_up(node.lane)))
      add("exchanges '{}' with {:+} along {}, lane {} leads the other way",
          buffer(operands[0]).name, node.peer.step, mesh_.axes[node.peer.axis].name,
          name(node.lane));
    if (buffer(operands[0]).tier != Tier::kGpu)
      add("cannot reach '{}' in {} memory", buffer(operands[0]).name,
          name(buffer(operands[0]).tier));
  }

  const Mesh& mesh_;
  const RankClass& class_;
  const Program& p_;
  ClassFindings& findings_;
  NodeIndex at_ = 0;
};

}  // namespace

void check_operands(const Job& job, const RankClass& rank_class, ClassFindings& findings) {
  OperandCheck(job, rank_class, findings).run();
}

}  // namespace zplan
