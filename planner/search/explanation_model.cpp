// Counts of the model and the cluster.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/model_formulas.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

constexpr std::string_view kForm = "models/model_formulas.h";

double of(std::int64_t count) { return static_cast<double>(count); }

Term layers(std::int64_t count, std::int64_t each, std::string_view what,
            const ModelConfig& model) {
  return term(fmt::format("{} layers{} of {}", count, what, each), of(count) * of(each),
              TermUnit::kNone, model.source);
}

// Layers of a pattern, kind by kind.
void add_kinds(const ModelConfig& model, Explanation& out) {
  std::vector<LayerParts> kinds;
  for (const LayerParts& parts : model.pattern)
    if (std::ranges::find(kinds, parts) == kinds.end()) kinds.push_back(parts);
  for (const LayerParts& parts : kinds)
    out.terms.push_back(layers(std::ranges::count(model.pattern, parts),
                               parts_parameter_count(model, parts),
                               fmt::format(" \"{}\"", layer_word(parts)), model));
}

// Layers with experts and those without; what is left is outside layers, or what some layers have
// besides.
Explanation parameters(const ModelConfig& model) {
  const std::int64_t all = parameter_count(model);
  Explanation out = sum_of("model.parameters", of(all), TermUnit::kNone,
                           model.tied_embeddings ? "layers + V h + positions and norms"
                                                 : "layers + 2 V h + positions and norms");
  if (model.has_pattern()) {
    add_kinds(model, out);
  } else if (model.experts) {
    ModelConfig dense = model;
    dense.experts.reset();
    out.terms.push_back(layers(model.expert_layers(), layer_parameter_count(model),
                               fmt::format(" with {} experts", model.experts->count), model));
    if (model.dense_layers() > 0)
      out.terms.push_back(
          layers(model.dense_layers(), layer_parameter_count(dense), " without", model));
  } else {
    out.terms.push_back(layers(model.layers, layer_parameter_count(model), "", model));
  }
  if (model.mtp_layers > 0) {
    out.terms.push_back(layers(model.mtp_layers, layer_parameter_count(model),
                               " of modules that predict further tokens", model));
    out.terms.push_back(term("a matrix 2h h ahead of each of these",
                             of(mtp_projection_count(model)), TermUnit::kNone, kForm));
  }
  if (model.vision)
    out.terms.push_back(
        term(fmt::format("vision tower of {} layers, and its projectors", model.vision->layers),
             of(vision_parameter_count(model)), TermUnit::kNone, kForm));
  const double table = of(model.vocab) * of(model.hidden);
  out.terms.push_back(term(model.tied_embeddings ? "embedding, which is the output head, too: V h"
                                                 : "embedding and output head: 2 V h",
                           model.tied_embeddings ? table : 2 * table, TermUnit::kNone,
                           model.source_of("vocab")));
  double rest = of(all);
  for (const Term& one : out.terms) rest -= one.value;
  out.terms.push_back(
      term("positions, norms and what not all layers have", rest, TermUnit::kNone, kForm));
  return out;
}

// Of the experts a token goes through the chosen and the shared ones.
Explanation active_parameters(const ModelConfig& model) {
  const ExpertShape& experts = *model.experts;
  const double all = of(parameter_count(model)), active = of(active_parameter_count(model));
  return sum_of("model.active_parameters", active, TermUnit::kNone,
                "parameters that a token goes through",
                {term("all", all, TermUnit::kNone, "model.parameters"),
                 term(fmt::format("{} of {} experts in {} layers, not chosen for it",
                                  experts.count - experts.per_token, experts.count,
                                  model.expert_layers() + model.mtp_layers),
                      active - all, TermUnit::kNone, kForm)});
}

}  // namespace

void explain_model(const Explained& plan, Explanations& out) {
  const ModelConfig& model = plan.model;
  out.push_back(parameters(model));
  if (model.experts) out.push_back(active_parameters(model));
  const auto given = [&](const char* what, std::int64_t number, const char* formula,
                         std::string_view source) {
    out.push_back(single(what, of(number), TermUnit::kNone, formula, source));
  };
  given("model.layers", model.layers, "of the model", model.source_of("layers"));
  given("model.hidden", model.hidden, "width of a token between layers", model.source_of("hidden"));
  given("model.heads", model.heads, "of queries in attention", model.source_of("heads"));
  given("model.sequence", plan.job.sequence, "tokens per sequence, as asked for or of the model",
        model.source_of("sequence"));
  given("model.global_batch", plan.job.global_batch,
        "sequences per step, as asked for or of the model", model.source_of("global_batch"));
  const Cluster& cluster = plan.cluster;
  given("cluster.nodes", cluster.nodes, "of the cluster", "as asked for");
  given("cluster.devices_per_node", cluster.node.devices_per_node, "of the kind of node",
        profile_source(cluster, "/devices_per_node"));
  out.push_back(quotient("cluster.devices", cluster.devices(), TermUnit::kNone,
                         "nodes x devices per node",
                         {term("nodes", cluster.nodes, TermUnit::kNone, "cluster.nodes"),
                          term("devices per node", cluster.node.devices_per_node, TermUnit::kNone,
                               "cluster.devices_per_node")},
                         {}));
}

}  // namespace zplan
