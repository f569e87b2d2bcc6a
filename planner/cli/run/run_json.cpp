#include <nlohmann/json.hpp>

#include "planner/cli/run/run_report.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json seconds_or_null(const std::optional<Seconds>& time) {
  return time ? Json(time->value) : Json();
}

Json storage_part(const std::optional<exec::StorageReport>& storage) {
  if (!storage) return nullptr;
  return {{"directory", storage->directory}, {"files", storage->files},
          {"bytes", storage->bytes.value},   {"io", exec::name(storage->method)},
          {"direct", storage->direct},       {"pinned", storage->pinned},
          {"reason", storage->method_reason}};
}

Json rows_part(const std::vector<ComparedRow>& rows) {
  Json out = Json::array();
  for (const ComparedRow& row : rows)
    out.push_back({{"name", row.name},
                   {"operations", row.measured.operations},
                   {"predicted_s", row.predicted.time.value},
                   {"measured_s", row.measured.time.value}});
  return out;
}

Json split_part(const std::optional<Comparison>& split) {
  if (!split) return nullptr;
  return {{"kinds", rows_part(split->kinds)}, {"lanes", rows_part(split->lanes)}};
}

Json memory_part(const std::optional<RunMemory>& memory) {
  if (!memory) return nullptr;
  const ProcessUse& use = memory->predicted;
  return {{"slab_bytes", memory->placed.value},
          {"resident_bytes", memory->measured.resident.value},
          {"locked_bytes", memory->measured.locked.value},
          {"maps", memory->measured.maps},
          {"beside_slabs_bytes", memory->beside_slabs().value},
          {"predicted_beside_slabs_bytes", use.total().value},
          {"predicted_parts",
           {{"program", use.program.value},
            {"text", use.text.value},
            {"programs", use.programs.value},
            {"stacks", use.stacks.value},
            {"engines", use.engines.value},
            {"timeline", use.timeline.value}}}};
}

}  // namespace

std::string run_json(const PlannedJob& planned, const RunReport& report) {
  const Batch& batch = planned.plan.batch;
  Json out = {
      {"schema", "zplan.run/1"},          {"fingerprint", planned.fingerprint},
      {"model", planned.plan.model},      {"kernel_set", planned.plan.kernel_set},
      {"ranks", planned.job.world()},     {"tokens_per_step", batch.global_batch * batch.sequence},
      {"interrupted", report.interrupted}};
  out["steps"] = Json::array();
  for (const exec::StepResult& step : report.steps) {
    // Without clipping nothing computes the norm.
    out["steps"].push_back(
        {{"loss", step.loss},
         {"gradient_norm", planned.plan.clip ? Json(step.gradient_norm) : Json()},
         {"skipped", step.skipped},
         {"loss_scale", step.loss_scale},
         {"wall_s", step.wall.value}});
  }
  out["nvme"] = storage_part(report.storage);
  out["measured_step_s"] = seconds_or_null(report.measured);
  out["predicted_step_s"] = seconds_or_null(report.predicted);
  out["split"] = split_part(report.split);
  out["memory"] = memory_part(report.memory);
  if (!report.checked) {
    out["check"] = nullptr;
    return out.dump(2) + "\n";
  }
  Json rows = Json::array();
  for (const CheckRow& row : report.check) {
    rows.push_back({{"quantity", row.quantity},
                    {"difference", row.difference},
                    {"tolerance", row.tolerance},
                    {"unit", row.unit},
                    {"where", row.where},
                    {"only_zeros", row.only_zeros},
                    {"agrees", row.agrees()}});
  }
  out["check"] = {{"agrees", report.agrees()}, {"rows", std::move(rows)}};
  return out.dump(2) + "\n";
}

}  // namespace zplan
