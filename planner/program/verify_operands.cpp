#include "planner/program/verify_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "planner/program/kernel_table.h"

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

// Those that no attributes, all zero, make sense for.
bool takes_attributes(KernelId kernel) {
  constexpr std::array kTake{KernelId::kLoadBatch, KernelId::kCrossEntropy,
                             KernelId::kAdamW,     KernelId::kCrossEntropyStatistics,
                             KernelId::kRope,      KernelId::kCrossEntropyParallel};
  return std::find(kTake.begin(), kTake.end(), kernel) != kTake.end();
}

// May write over what they read, element by element.
bool is_elementwise(KernelId kernel) {
  return kernel == KernelId::kResidualAdd || kernel == KernelId::kGeluForward ||
         kernel == KernelId::kBiasResidualAdd;
}

bool is_p2p(Lane lane) { return lane == Lane::kP2pForward || lane == Lane::kP2pBackward; }
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

bool same_strides(const View& a, const View& b) {
  return a.dp_stride == b.dp_stride && a.tp_stride == b.tp_stride;
}

bool same_place(const View& a, const View& b) {
  return a.buffer == b.buffer && a.slot == b.slot && a.offset == b.offset && same_strides(a, b);
}

class OperandCheck {
 public:
  OperandCheck(const Job& job, const RankClass& rank_class, ClassFindings& findings)
      : job_(job), class_(rank_class), p_(rank_class.program), findings_(findings) {}

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
          peer(node, operands, Access::kRead, node.lane == Lane::kP2pForward);
          break;
        case OpKind::kReceive:
          peer(node, operands, Access::kWrite, node.lane == Lane::kP2pBackward);
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
    const bool roots = node.kind == OpKind::kCollective && has_root(node.collective);
    if (node.owned && node.kind != OpKind::kKernel && node.kind != OpKind::kCopy)
      return add("only kernels and copies are of one owner");
    if ((node.owned || roots) && node.member >= job_.shards)
      add("is of shard {} of {}", node.member, job_.shards);
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
    const bool together = same_strides(a, b);
    const auto end = [&](const View& v) {
      const Bytes reach = v.dp_stride * (job_.shards - 1) + v.tp_stride * (job_.tp - 1);
      return v.offset + v.bytes() + (together ? Bytes{0} : reach);
    };
    return a.offset < end(b) && b.offset < end(a);
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
      if (fits(pattern[i], operands[i].access)) continue;
      accesses_fit = false;
      add("operand {} of {}, '{}', is a {}, expected '{}' of {}", i, name(node.kernel),
          buffer(operands[i]).name, name(operands[i].access), pattern[i], pattern);
    }
    if (const auto got = accesses_fit ? def.mismatch(operands) : std::nullopt)
      add("{} takes {} of types {}, got {}", name(node.kernel), def.shapes, def.types, *got);
    if (takes_attributes(node.kernel) && node.attributes >= p_.attributes.size())
      add("{} has no attributes", name(node.kernel));
    kernel_overlaps(node, operands);
    kernel_lane(node, operands);
  }

  void kernel_overlaps(const Node& node, std::span<const View> operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!writes(operands[i].access)) continue;
      for (std::size_t j = 0; j < operands.size(); ++j) {
        if (i == j || !overlap(operands[i], operands[j])) continue;
        if (is_elementwise(node.kernel) && same_place(operands[i], operands[j])) continue;
        add("operand {} of {} writes '{}' where operand {} lies", i, name(node.kernel),
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
      if (is_file && (v.offset.value != 0 || v.dp_stride.value != 0 || v.tp_stride.value != 0))
        add("a copy from {} to {} memory starts within a slot of '{}'", name(buffer(from).tier),
            name(buffer(to).tier), buffer(v).name);
  }

  void collective(const Node& node, std::span<const View> operands) {
    if (!in_and_out(operands)) return;
    const View &in = operands[0], &out = operands[1];
    const std::int64_t ranks = job_.group_size(node.group);
    const bool fits_lane = node.lane != Lane::kCommTensor || node.group == GroupKind::kTensor;
    if (!is_collective(node.lane) || !fits_lane)
      add("a collective over group {} on lane {}", name(node.group), name(node.lane));
    if (node.group == GroupKind::kEmbedding && job_.pp == 1)
      return add("group {} does not exist with one stage", name(node.group));
    const bool by_shard = node.group == GroupKind::kShard ||
                          (node.group == GroupKind::kData && job_.shards == job_.dp);
    if (has_root(node.collective) && !by_shard)
      add("{} over group {}, whose members are not one per shard", name(node.collective),
          name(node.group));
    if (in.dtype != out.dtype) add("reads {} and writes {}", name(in.dtype), name(out.dtype));
    std::int64_t n = in.shape.elements(), m = out.shape.elements();
    if (node.collective == CollectiveKind::kAllGather) n *= ranks;
    if (node.collective == CollectiveKind::kReduceScatter) m *= ranks;
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
  std::optional<Bytes> member_stride(const View& v, GroupKind group) const {
    switch (group) {
      case GroupKind::kShard:
        return v.dp_stride;
      case GroupKind::kData:
        if (job_.shards == job_.dp) return v.dp_stride;
        break;
      case GroupKind::kTensor:
        return v.tp_stride;
      case GroupKind::kWorld:
        if (job_.shards == job_.world()) return v.dp_stride;
        break;
      case GroupKind::kEmbedding:
      case GroupKind::kReplica:
        break;
    }
    return std::nullopt;
  }
  // Of the coordinate that the group does not run over.
  static Bytes other_stride(const View& v, GroupKind group) {
    return group == GroupKind::kTensor ? v.dp_stride : v.tp_stride;
  }

  // The shard lies where its rank's part of the whole lies, or the two are apart.
  void in_place(const Node& node, const View& in, const View& out) {
    if (in.buffer != out.buffer || in.slot != out.slot) return;
    bool ok = same_place(in, out);
    if (node.collective == CollectiveKind::kAllGather ||
        node.collective == CollectiveKind::kReduceScatter) {
      const bool gather = node.collective == CollectiveKind::kAllGather;
      const View &shard = gather ? in : out, &whole = gather ? out : in;
      ok = shard.offset == whole.offset && member_stride(whole, node.group) == Bytes{0} &&
           member_stride(shard, node.group) == shard.bytes() &&
           other_stride(shard, node.group) == other_stride(whole, node.group);
    }
    if (!ok && overlap(in, out))
      add("in place in '{}', but not on the rank's own part", buffer(in).name);
  }

  // `upwards`: to the next stage, or from it.
  void peer(const Node& node, std::span<const View> operands, Access access, bool upwards) {
    if (operands.size() != 1 || operands[0].access != access)
      return add("takes one operand, {}", name(access));
    const std::int32_t expected = class_.stage + (upwards ? 1 : -1);
    if (!is_p2p(node.lane)) return add("a send or receive on lane {}", name(node.lane));
    if (expected < 0 || expected >= job_.pp || node.peer_stage != expected)
      add("exchanges '{}' with stage {} of {}, lane {} leads to {}", buffer(operands[0]).name,
          node.peer_stage, job_.pp, name(node.lane), expected);
    if (buffer(operands[0]).tier != Tier::kGpu)
      add("cannot reach '{}' in {} memory", buffer(operands[0]).name,
          name(buffer(operands[0]).tier));
  }

  const Job& job_;
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
