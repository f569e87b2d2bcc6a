#include "planner/cost/group_traffic.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/cost/step_totals.h"
#include "planner/program/job/collectives.h"

namespace zplan {
namespace {

// Sums with fewer elements are of norms and losses.
constexpr std::int64_t kSingleValues = 64;

struct Sent {
  double gathered = 0, reduced = 0, other = 0;
};

Sent sent_by(const Program& program, const Node& node, double ranks) {
  const auto in = static_cast<double>(program.operands(node)[0].shape.elements());
  const double ring = (ranks - 1) / ranks;
  const auto out = static_cast<double>(program.operands(node)[1].shape.elements());
  const CollectiveKind kind = node.collective;
  const double share = is_cut(kind) || sums_for_all(kind) ? ring : 1;
  const double sent = share * std::max(in, out);
  if (hands_on(kind)) return {.other = sent};
  const bool comes_to_all = !adds_up(kind) || sums_for_all(kind);
  return {.gathered = comes_to_all ? sent : 0, .reduced = adds_up(kind) ? sent : 0};
}

class Counter {
 public:
  Counter(const CostModel& model, int stage)
      : model_(model),
        stage_(stage),
        program_(model.job().classes[static_cast<std::size_t>(stage)].program),
        instances_(instances_per_step(program_)) {}

  void count(NodeIndex index) {
    const Node& node = program_.nodes[index];
    const bool collective = node.kind == OpKind::kCollective;
    if (!collective && node.kind != OpKind::kSend) return;
    const View& view = program_.operands(node)[0];
    if (view.shape.elements() < kSingleValues) return;
    const Mesh& mesh = model_.job().mesh;
    const std::int32_t ranks = collective ? mesh.size(node.group) : 2;
    const std::string group = collective ? name(mesh, node.group) : mesh.axes[node.peer.axis].name;
    const bool states = node.lane == Lane::kCommGather || node.lane == Lane::kCommReduce;
    Sum& sum = sums_[{group, states}];
    sum.traffic.group = group;
    sum.traffic.states = states;
    sum.traffic.ranks = ranks;
    const Sent sent = collective ? sent_by(program_, node, ranks)
                                 : Sent{.other = static_cast<double>(view.shape.elements())};
    const auto times = static_cast<double>(instances_[index]);
    sum.traffic.gathered += times * sent.gathered;
    sum.traffic.reduced += times * sent.reduced;
    sum.traffic.other += times * sent.other;
    GroupOp& op = sum.ops[node.role];
    op.role = node.role;
    op.runs += instances_[index];
    const double elements = times * (sent.gathered + sent.reduced + sent.other);
    op.elements += elements;
    op.bytes += elements * static_cast<double>(size_of(view.dtype).value);
    sum.traffic.bytes += elements * static_cast<double>(size_of(view.dtype).value);
    const OpCost& cost = model_.costs(stage_)[index];
    for (const LinkShare& share : model_.shares(cost))
      sum.links[share.link] += times * static_cast<double>(cost.bytes.value) * share.weight;
  }

  std::vector<GroupTraffic> result() const {
    std::vector<GroupTraffic> out;
    for (const auto& [key, sum] : sums_) {
      GroupTraffic& traffic = out.emplace_back(sum.traffic);
      for (const auto& [role, op] : sum.ops) traffic.ops.push_back(op);
      for (const auto& [link, bytes] : sum.links) {
        if (bytes <= traffic.link_bytes) continue;
        traffic.link_bytes = bytes;
        traffic.link = model_.links()[link];
      }
    }
    std::stable_sort(out.begin(), out.end(), [](const GroupTraffic& a, const GroupTraffic& b) {
      return a.bytes > b.bytes;
    });
    return out;
  }

 private:
  struct Sum {
    GroupTraffic traffic;
    std::map<std::uint32_t, double> links;  // bytes
    std::map<Role, GroupOp> ops;
  };

  const CostModel& model_;
  int stage_;
  const Program& program_;
  std::vector<std::int64_t> instances_;
  std::map<std::pair<std::string, bool>, Sum> sums_;
};

}  // namespace

std::vector<GroupTraffic> group_traffic(const CostModel& model, int stage) {
  Counter counter(model, stage);
  const Program& program = model.job().classes[static_cast<std::size_t>(stage)].program;
  for (NodeIndex n = 0; n < program.nodes.size(); ++n) counter.count(n);
  return counter.result();
}

}  // namespace zplan
