#include <fmt/format.h>

#include "models/model_config.h"
#include "models/model_formulas.h"
#include "planner/cli/catalogue/catalogue.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string list_text(const std::vector<ModelConfig>& models) {
  Table table(
      {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
       Align::kRight, Align::kRight},
      {"model", "also", "parameters", "layers", "hidden", "heads", "sequence", "global batch"});
  for (const ModelConfig& m : models) {
    table.row({m.name, fmt::format("{}", fmt::join(m.aliases, ", ")),
               format_count(static_cast<double>(parameter_count(m))), grouped(m.layers),
               grouped(m.hidden), grouped(m.heads), grouped(m.sequence), grouped(m.global_batch)});
  }
  return table.text() +
         "\nzplan models NAME shows one with its sources. Sequence in tokens; global "
         "batch in sequences per step.\n";
}

// Nothing where the source of the whole model holds.
std::string own_source(const ModelConfig& m, std::string_view field) {
  const std::string& source = m.source_of(field);
  return source == m.source ? "" : source;
}

std::string shown(std::int64_t value) { return grouped(value); }
std::string shown(bool value) { return value ? "yes" : "no"; }
std::string shown(std::string_view word) { return std::string(word); }

std::string detail_text(const ModelConfig& m) {
  Table table({Align::kLeft, Align::kRight, Align::kLeft});
  for (const ModelField& field : fields_of(m))
    table.row({std::string(field.name),
               std::visit([](auto value) { return shown(value); }, field.value),
               own_source(m, field.name)});
  table.row({"parameters", grouped(parameter_count(m)), "counted"});
  table.row({"flop per token",
             fmt::format("{:.4g}", static_cast<double>(model_flops_per_token(m).value)),
             "6 N + 6 L h s: forward and backward, no recomputation"});
  return fmt::format("{}: {}\n\n", m.name, wrap(m.source, kScreenWidth, 2, m.name.size() + 2)) +
         table.text(2);
}

}  // namespace

ExitCode execute(const ModelsCommand& command) {
  if (command.name.empty()) {
    const std::vector<ModelConfig> models = model_catalogue();
    write_stdout(command.json ? models_json(models) : list_text(models));
  } else {
    const ModelConfig model = load_model(command.name);
    write_stdout(command.json ? models_json({model}) : detail_text(model));
  }
  return ExitCode::kOk;
}

}  // namespace zplan
