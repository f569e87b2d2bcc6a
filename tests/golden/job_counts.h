// What the golden tests count in lowered Jobs: how often a node runs in a step, what its
// collectives move, what its buffers hold.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/place/memory_report.h"
#include "planner/program/job/job.h"

namespace zplan::testing_support {

inline std::int64_t instances(const Program& p, const Node& n) {
  std::int64_t times = 1;
  for (BlockIndex b = n.block; b != 0; b = p.blocks[b].parent) times *= p.blocks[b].count;
  return times;
}

// Elements that one rank sends in a step, in rings of n ranks over B elements [Patarasuk09]:
// all-gather and reduce-scatter B (n-1)/n, all-reduce twice that; broadcast and reduce all of B.
struct Moved {
  double gathered = 0, reduce_scattered = 0, all_reduced = 0, broadcast = 0, reduced = 0;
  double exchanged = 0;  // [derived] of an all-to-all all but the own part
  double shifted = 0;    // all of it
  double sum() const {
    return gathered + reduce_scattered + all_reduced + broadcast + reduced + exchanged + shifted;
  }
};

// Of the collectives of one rank class in `group` on values of `dtype`; sums of the loss and of the
// gradient norm have another type.
inline Moved moved(const Job& job, const RankClass& c, const Group& group, DType dtype) {
  Moved result;
  const auto n = static_cast<double>(job.mesh.size(group));
  for (const Node& node : c.program.nodes) {
    if (node.kind != OpKind::kCollective || node.group != group) continue;
    const View& in = c.program.operands(node)[0];
    const View& out = c.program.operands(node)[1];
    if (in.dtype != dtype) continue;
    const auto whole = static_cast<double>(instances(c.program, node) * in.shape.elements());
    const auto times = static_cast<double>(instances(c.program, node)) * (n - 1) / n;
    const auto all_in = times * static_cast<double>(in.shape.elements());
    switch (node.collective) {
      case CollectiveKind::kAllGather:
        result.gathered += times * static_cast<double>(out.shape.elements());
        break;
      case CollectiveKind::kReduceScatter:
        result.reduce_scattered += all_in;
        break;
      case CollectiveKind::kAllReduce:
        result.all_reduced += 2 * all_in;
        break;
      case CollectiveKind::kBroadcast:
        result.broadcast += whole;
        break;
      case CollectiveKind::kReduce:
        result.reduced += whole;
        break;
      case CollectiveKind::kAllToAll:
        result.exchanged += all_in;
        break;
      case CollectiveKind::kShift:
        result.shifted += whole;
        break;
    }
  }
  return result;
}

// Elements of a type that a rank class copies between two tiers in a step.
inline double copied(const RankClass& c, Tier from, Tier to, DType dtype) {
  double sum = 0;
  for (const Node& node : c.program.nodes) {
    if (node.kind != OpKind::kCopy) continue;
    const View& source = c.program.operands(node)[0];
    const View& target = c.program.operands(node)[1];
    const auto tier = [&](const View& v) { return c.program.buffers[v.buffer].tier; };
    if (tier(source) != from || tier(target) != to || source.dtype != dtype) continue;
    sum += static_cast<double>(instances(c.program, node)) *
           static_cast<double>(source.shape.elements());
  }
  return sum;
}

// Of the first rank class.
inline std::int64_t bytes_of(const Job& job, Category category, Tier tier) {
  const ClassMemory memory = measure(job).classes[0];
  return memory.tiers[static_cast<std::size_t>(tier)]
      .by_category[static_cast<std::size_t>(category)]
      .value;
}

// Parameters outside the layers: before the first one and after the last, which a norm of two
// vectors is.
struct Ends {
  std::int64_t before, after;
};
inline Ends ends_of(const ModelConfig& model) {
  const std::int64_t after = 2 * model.hidden;
  const std::int64_t layers = model.layers * layer_parameter_count(model);
  return {parameter_count(model) - layers - after, after};
}

// What one more layer adds to a count of a Job: everything outside the layers cancels.
template <typename Count>
auto per_layer(const Plan& plan, ModelConfig model, const Count& count) {
  const auto all = count(lower(plan, model));
  --model.layers;
  return all - count(lower(plan, model));
}

inline std::vector<RecomputeRun> recompute_all(Recompute mode) { return {{mode, 0}}; }

// A GPT whose matrices and vectors shard without padding over up to four ranks.
inline ModelConfig round_model() {
  ModelConfig model;
  model.name = "round";
  model.layers = 4;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  model.ffn = 2048;
  model.vocab = 1024;
  model.sequence = 128;
  model.global_batch = 12;
  return model;
}

}  // namespace zplan::testing_support
