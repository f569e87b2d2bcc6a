#include "hwprofiles/measured_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "hwprofiles/embedded_profiles.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostRuns = 1'000'000'000;

MeasuredStack read_measured_stack(const JsonNode& node) {
  JsonObject in = node.object();
  MeasuredStack stack;
  stack.name = in.member("name").non_empty_string();
  stack.runs = static_cast<int>(in.member("runs").integer(1, kMostRuns));
  stack.run_sd = in.member("run_sd").number(0, 10);
  stack.most_devices = static_cast<int>(in.member("most_devices").integer(1, kMostRuns));
  stack.devices = in.member("devices").words();
  stack.formats = in.member("formats").words();
  stack.features = in.member("features").words();
  stack.fitted = in.member("fitted").words();
  const JsonNode rows = in.member("correlation");
  for (const JsonNode& row : rows.items()) {
    std::vector<double>& values = stack.correlation.emplace_back();
    for (const JsonNode& value : row.items()) values.push_back(value.number(-1, 1));
    if (values.size() != stack.fitted.size())
      row.fail_expected(fmt::format("{} numbers, one per fitted rate", stack.fitted.size()));
  }
  if (stack.correlation.size() != stack.fitted.size())
    rows.fail_expected(fmt::format("{} rows, one per fitted rate", stack.fitted.size()));
  in.finish();
  return stack;
}

BestRun read_best(const JsonNode& node) {
  JsonObject in = node.object();
  BestRun best;
  best.device = in.member("device").non_empty_string();
  best.format = in.member("format").non_empty_string();
  best.mfu = in.member("mfu").number(0, 1);
  best.run = in.member("run").non_empty_string();
  in.finish();
  return best;
}

std::string words_json(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  return "[" + text + "]";
}

std::string matrix_json(const std::vector<std::vector<double>>& rows) {
  std::string text;
  for (const std::vector<double>& row : rows) {
    std::string line;
    for (const double value : row) line += fmt::format("{}{:.3f}", line.empty() ? "" : ", ", value);
    text += fmt::format("{}\n        [{}]", text.empty() ? "" : ",", line);
  }
  return "[" + text + "]";
}

}  // namespace

std::vector<MeasuredStack> MeasuredRuns::of_stack(std::string_view name) const {
  std::vector<MeasuredStack> found;
  std::ranges::copy_if(stacks, std::back_inserter(found),
                       [&](const MeasuredStack& stack) { return stack.name == name; });
  return found;
}

const BestRun* MeasuredRuns::best_of(std::string_view device, std::string_view format) const {
  const auto at = std::ranges::find_if(
      best, [&](const BestRun& run) { return run.device == device && run.format == format; });
  return at == best.end() ? nullptr : &*at;
}

MeasuredRuns parse_measured_runs(std::string text, std::string file_name) {
  JsonObject in = parse_json(std::move(text), std::move(file_name)).object();
  in.schema("zplan.measured/1");
  MeasuredRuns runs;
  for (const JsonNode& node : in.member("stacks").items())
    runs.stacks.push_back(read_measured_stack(node));
  for (const JsonNode& node : in.member("best").items()) runs.best.push_back(read_best(node));
  in.finish();
  return runs;
}

MeasuredRuns load_measured_runs() {
  MeasuredRuns all;
  for (const EmbeddedFile& file : embedded_measured()) {
    MeasuredRuns runs = parse_measured_runs(std::string(file.text), std::string(file.name));
    std::ranges::move(runs.stacks, std::back_inserter(all.stacks));
    std::ranges::move(runs.best, std::back_inserter(all.best));
  }
  return all;
}

std::string to_json(const MeasuredRuns& runs) {
  std::string stacks, best;
  for (const MeasuredStack& s : runs.stacks)
    stacks += fmt::format(
        "{}\n    {{\n      \"name\": \"{}\",\n      \"runs\": {},\n      \"run_sd\": {:.3f},\n"
        "      \"most_devices\": {},\n      \"devices\": {},\n      \"formats\": {},\n"
        "      \"features\": {},\n      \"fitted\": {},\n      \"correlation\": {}\n    }}",
        stacks.empty() ? "" : ",", s.name, s.runs, s.run_sd, s.most_devices, words_json(s.devices),
        words_json(s.formats), words_json(s.features), words_json(s.fitted),
        matrix_json(s.correlation));
  for (const BestRun& b : runs.best)
    best += fmt::format(
        "{}\n    {{\"device\": \"{}\", \"format\": \"{}\", \"mfu\": {:.3f}, \"run\": \"{}\"}}",
        best.empty() ? "" : ",", b.device, b.format, b.mfu, b.run);
  return fmt::format(
      "{{\n  \"schema\": \"zplan.measured/1\",\n  \"stacks\": [{}\n  ],\n  \"best\": [{}\n  "
      "]\n}}\n",
      stacks, best);
}

}  // namespace zplan
