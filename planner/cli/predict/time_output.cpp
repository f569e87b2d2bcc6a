#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/cli/predict/split_output.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

Value interval(const TimeInterval& interval) {
  return {Sheet{{"share", kIntervalPct / 100}, {"low_s", interval.low}, {"high_s", interval.high}},
          fmt::format("{:.0f} % interval {} .. {}", kIntervalPct, format_seconds(interval.low),
                      format_seconds(interval.high))};
}

// "compute 81.2 %, ..", the greatest shares.
Value limits(const std::vector<sim::Limit>& limits) {
  constexpr std::size_t kShown = 3;
  Value rows = empty_array();
  std::vector<std::string> words;
  for (const sim::Limit& limit : limits) {
    rows.append(Sheet{{"resource", limit.resource}, {"share", limit.share}});
    if (words.size() < kShown)
      words.push_back(fmt::format("{} {}", limit.resource, percent(limit.share)));
  }
  return {rows, joined(words, ", ")};
}

Value rests_on(const std::vector<double>& reliances) {
  constexpr double kWorthTelling = 0.005;  // elasticity
  Value rows = empty_array();
  for (std::size_t k = 0; k < reliances.size(); ++k)
    if (std::abs(reliances[k]) >= kWorthTelling)
      rows.append(Sheet{{"constant", constant_name(static_cast<Constant>(k))},
                        {"elasticity", reliances[k]}});
  return rows;
}

Value exceeds(const std::optional<BestRun>& best) {
  if (!best) return nullptr;
  return {Sheet{{"device", best->device},
                {"format", best->format},
                {"mfu", best->mfu},
                {"run", best->run}},
          fmt::format("above the best measured on {} in {}: {} MFU ({})", best->device,
                      best->format, percent(best->mfu), best->run)};
}

// Joins what no run of the software speaks for into one sentence: "no run of own on
// V100-SXM3-32GB, in fp16". Every reason begins with the same three words and the name of the
// profile (certainty/knowledge.cpp).
std::vector<std::string> in_one(const std::vector<std::string>& reasons) {
  constexpr std::string_view kBegin = "no run of ";
  std::vector<std::string> out;
  for (const std::string& reason : reasons)
    if (!out.empty() && reason.starts_with(kBegin))
      out.back() += "," + reason.substr(reason.find(' ', kBegin.size()));
    else
      out.push_back(reason);
  return out;
}

std::string certainty_words(const Sheet& time, const Certainty& certainty) {
  std::vector<std::string> parts = in_one(certainty.unknown);
  if (certainty.exceeded) parts.push_back(time["exceeds"].words);
  if (parts.empty()) return "measured runs of the same software, device, format and features";
  return joined(parts, "; ");
}

// Where the time of a stage goes, by lanes. People read step_split in its place.
Sheet split_sheet(const sim::SimResult& sim) {
  Value parts = empty_array();
  for (std::size_t i = 0; i < sim.split.parts.size(); ++i)
    parts.append(
        Sheet{{"part", name(static_cast<sim::TimePart>(i))}, {"time_s", sim.split.parts[i]}});
  return {{"stage", sim.split.stage}, {"parts", parts}};
}

// Attention that is causal, without windows, and as wide as the model, has 6 L h s flop per token.
std::string attention_words(const ModelConfig& model) {
  const LayerFeatures& layer = model.layer;
  const bool is_plain = !layer.bidirectional && model.encoder_layers == 0 && layer.window == 0 &&
                        !model.has_pattern() && !model.latent &&
                        model.heads * model.head_size() == model.hidden;
  return is_plain ? "6 L h s flop" : "attention's flop";
}

// How the flop of the model are counted (prediction.cpp).
std::string model_words(const Plan& plan, const ModelConfig& model) {
  const bool has_lora = plan.train.has_lora();
  const std::string_view more = has_lora                              ? ", of frozen matrices"
                                : plan.train.what == Trained::kLayers ? ", 4 of the frozen head's"
                                                                      : "";
  return fmt::format("{} N + {} per token{}{}", has_lora ? 4 : 6, attention_words(model), more,
                     model.experts ? ", N active" : "") +
         (model.vision ? ", and the vision tower's" : "");
}

Value experts_value(const std::optional<ExpertLoad>& load) {
  if (!load) return left_out();
  const Sheet out{{"imbalance", load->imbalance},
                  {"twice", load->twice},
                  {"step_s", load->step},
                  {"fits", load->fits}};
  return {out,
          fmt::format("experts: the busiest rank is taken to have {} times the mean to do; with {} "
                      "times a step would take {}{}",
                      load->imbalance, load->twice, duration_words(load->step),
                      load->fits ? "" : " and would not fit")};
}

}  // namespace

Sheet time_sheet(const PlannedJob& planned, const TimePrediction& time, std::size_t indent) {
  const Throughput& t = time.throughput;
  const Certainty& certainty = time.certainty;
  Sheet out{
      {"step_s", {time.sim.period, duration_words(time.sim.period)}},
      {"interval", interval(certainty.interval)},
      {"rests_on", rests_on(time.sim.reliances)},
      {"unknown", certainty.unknown},
      {"exceeds", exceeds(certainty.exceeded)},
      {"attention", time.attention.empty() ? left_out() : Value(time.attention)},
      {"experts", experts_value(time.experts)},
      {"first_step_s", time.sim.first_step},
      {"tokens_per_s", {t.tokens_per_second, grouped(std::llround(t.tokens_per_second))}},
      {"model_tflops_per_gpu", {t.model_tflops_per_gpu, tflops(t.model_tflops_per_gpu)}},
      {"hardware_tflops_per_gpu", {t.hardware_tflops_per_gpu, tflops(t.hardware_tflops_per_gpu)}},
      {"peak_tflops_per_gpu", {t.peak_tflops, tflops(t.peak_tflops)}},
      {"mfu", share(t.mfu)},
      {"hfu", share(t.hfu)},
      {"limited_by", time.sim.limited_by},
      {"limits", limits(time.sim.limits)},
      {"split", split_sheet(time.sim)},
      {"step_split", step_split_sheet(time.split, 2)}};
  out.fact("certainty", only_words(certainty_words(out, certainty)));
  Table table({"", "", ""});
  const auto row = [&](const char* what, std::string_view key, Form remark) {
    table.words_row({what, out[key], out.filled(remark)});
  };
  row("step", "step_s",
      time.sim.steady ? Form("{interval}; steady; cold first step {first_step_s}")
                      : Form("{interval}; not yet steady; cold first step {first_step_s}"));
  row("tokens/s", "tokens_per_s", "global batch x sequence / step");
  out.fact("counted", only_words(model_words(planned.plan, planned.model)));
  row("model", "model_tflops_per_gpu", "TFLOP/s per GPU, {mfu} MFU: {counted}");
  row("hardware", "hardware_tflops_per_gpu",
      "TFLOP/s per GPU, {hfu} of the peak {peak_tflops_per_gpu}: with recomputation");
  out.print(table.text(indent));
  if (!time.attention.empty()) out.print(paragraph(time.attention, indent));
  if (time.experts) out.print(paragraph(out["experts"].words, indent));
  return out;
}

}  // namespace zplan
