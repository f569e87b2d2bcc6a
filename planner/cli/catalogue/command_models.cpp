#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/model_config.h"
#include "models/model_formulas.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hub_cache.h"
#include "planner/foreign/hugging_face/weights.h"
#include "planner/foreign/model_file.h"

namespace zplan {
namespace {

Value counted_parameters(std::int64_t parameters) {
  return {parameters, format_count(static_cast<double>(parameters))};
}

// Returns the parameters that a token goes through, if the model has experts.
Value active_count(const ModelConfig& model) {
  return model.experts ? counted_parameters(active_parameter_count(model)) : left_out();
}

// The aliases of the hub are shown of a single model only.
std::string short_aliases(const ModelConfig& model) {
  std::vector<std::string> names;
  std::ranges::remove_copy_if(model.aliases, std::back_inserter(names), has_hub_form);
  return joined(names, ", ");
}

Sheet model_sheet(const ModelConfig& model) {
  const std::int64_t parameters = parameter_count(model);
  const std::int64_t flops = model_flops_per_token(model).value;
  Sheet out{{"name", model.name},
            {"aliases", {model.aliases, short_aliases(model)}},
            {"parameters", counted_parameters(parameters)},
            {"active_parameters", active_count(model)}};
  if (model.vision)
    out.fact("vision_parameters", counted_parameters(vision_parameter_count(model)));
  Sheet sources;
  for (const ModelField& field : fields_of(model))
    std::visit([&](auto value) { out.fact(field.name, value); }, field.value);
  for (const auto& [field, source] : model.field_sources) sources.fact(field, source);
  if (model.trained_positions > 0) out.fact("trained_positions", model.trained_positions);
  out.facts({{"model_flop_per_token", {flops, fmt::format("{:.4g}", static_cast<double>(flops))}},
             {"source", model.source},
             {"sources", sources}});
  return out;
}

Sheet models_sheet() {
  Table table({"name: model", "parameters", "active_parameters: active", "layers", "hidden",
               "heads", "sequence", "global_batch: global batch"});
  for (const ModelConfig& model : model_catalogue()) table.row(model_sheet(model));
  Sheet out("zplan.models/1");
  out.table("models", table);
  out.print("\n" + paragraph("zplan models NAME shows one with its other names and sources. Active "
                             "are the parameters that a token goes through, of models with "
                             "experts. Sequence in tokens; global batch in sequences per step."));
  return out;
}

// Nothing where the source of the whole model holds.
std::string own_source(const ModelConfig& m, std::string_view field) {
  const std::string& source = m.source_of(field);
  return source == m.source ? "" : source;
}

std::string weights_words(const StoredWeights& weights, std::int64_t counted) {
  const std::string files = count_of(weights.files, "file");
  if (!weights.headers)
    return fmt::format("{} named by the index and not here, {} of {} tensors; nothing is compared",
                       files, format_bytes(Bytes{weights.bytes}), grouped(weights.tensors));
  const std::string apart = weights.apart == 0
                                ? ""
                                : fmt::format(", beside them {} of buffers, copies and other parts",
                                              grouped(weights.apart));
  return fmt::format("{}, {} tensors in {}: {} parameters{}{}", files, grouped(weights.tensors),
                     weights.types, grouped(weights.parameters),
                     weights.parameters == counted ? ", as counted" : "", apart);
}

Sheet weights_sheet(const StoredWeights& weights, std::int64_t counted) {
  Sheet out{{"files", weights.files}, {"tensors", weights.tensors},
            {"bytes", weights.bytes}, {"compared", weights.headers},
            {"types", weights.types}, {"parameters", weights.parameters},
            {"apart", weights.apart}, {"differences", weights.differences}};
  out.say("weights: {}", {weights_words(weights, counted)}, 2);
  for (const std::string& one : weights.differences) out.say("{}", {one}, 4);
  return out;
}

Value weights_value(const NamedModel& named) {
  if (named.folder.empty()) return left_out();
  const auto weights = read_weights(named.folder, named.model);
  return weights ? Value(weights_sheet(*weights, parameter_count(named.model))) : left_out();
}

Sheet detail_sheet(const NamedModel& named) {
  const ModelConfig& m = named.model;
  Sheet model = model_sheet(m);
  if (!named.left_out.empty()) model.fact("left_out", named.left_out);
  model.fact("weights", weights_value(named));
  Table table({"", "", ""});
  for (const ModelField& field : fields_of(m))
    table.words_row({field.name, model[field.name], own_source(m, field.name)});
  table.words_row({"parameters", parameter_count(m), "counted"});
  if (m.vision) {
    table.words_row({"of which vision tower", vision_parameter_count(m), "counted"});
    table.words_row({"tokens of images", m.vision->tokens(), "counted: of each sequence"});
    table.words_row({"flop of the tower", vision_flops_per_sequence(m).value,
                     "forward of a sequence's images; three times of a step"});
  }
  if (m.experts)
    table.words_row({"active parameters", active_parameter_count(m),
                     "counted: what a token goes through, with the experts chosen for it"});
  const char* attention = m.layer.bidirectional  ? "12 L a s"
                          : m.encoder_layers > 0 ? "12 or, of a decoder's layers, 18 L a s"
                          : m.layer.window > 0   ? "6 L a s, less in windows"
                          : m.has_states()  ? "6 L a s of layers with attention + those of states"
                          : m.has_pattern() ? "6 L a s of layers with attention"
                                            : "6 L a s";
  table.words_row(
      {"flop per token", model["model_flop_per_token"],
       fmt::format("6 N{} + {}, a columns of heads: forward and backward, no recomputation",
                   m.mtp_layers > 0 ? " with the head of each module" : "", attention)});
  Sheet out("zplan.models/1");
  out.fact("models", each(std::vector{model}, [](const Sheet& one) { return one; }));
  if (named.folder.empty())
    for (const Assumption& one : named.assumed) out.say("{}", {one.sentence});
  out.say("{}: {}", {m.name, m.source});
  if (!m.aliases.empty()) out.say("also: {}", {joined(m.aliases, ", ")}, 2);
  out.print("\n" + table.text(2));
  for (const std::string& one : named.left_out) out.say("{}", {one}, 2);
  out.print(model["weights"].words);
  return out;
}

}  // namespace

ExitCode execute(const ModelsCommand& command) {
  write_answer(command.name.empty() ? models_sheet() : detail_sheet(load_named_model(command.name)),
               command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
