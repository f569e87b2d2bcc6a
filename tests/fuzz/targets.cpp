#include "tests/fuzz/targets.h"

#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "exec/checkpoint/format.h"
#include "exec/checkpoint/piece_runs.h"
#include "hwprofiles/cluster_count.h"
#include "hwprofiles/cluster_file.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/quantities.h"
#include "models/model_config.h"
#include "models/model_formulas.h"
#include "models/model_spelling.h"
#include "models/size_ladder.h"
#include "planner/core/bundle.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/quantity.h"
#include "planner/foreign/drive_values.h"
#include "planner/foreign/frameworks/config_file.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/foreign/hugging_face/safetensors.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/foreign/measured_file.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/schedule_file.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/schedule/fold.h"
#include "planner/program/text/text.h"
#include "planner/program/timeline/timeline.h"
#include "planner/program/train_config.h"
#include "planner/program/verify/verify.h"
#include "planner/validate/record_plan.h"

namespace zplan::fuzz {
namespace {

void demand(bool condition, const std::string& what) {
  if (condition) return;
  std::cerr << "broken promise: " << what << '\n';
  std::abort();
}

// Runs `read`; bad input may be refused with one line, and no other way.
template <typename Read>
void refuse_or(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    const std::string message = error.what();
    demand(error.code() == ExitCode::kBadInput, message);
    demand(!message.empty() && message.find('\n') == std::string::npos, message);
  }
}

// Reads everything below the node as what it is.
void walk(const JsonNode& node) {
  if (node.is_array())
    for (const JsonNode& item : node.items()) walk(item);
  if (node.is_object())
    for (const auto& member : node.members()) walk(member.second);
  if (node.is_string()) refuse_or([&] { node.bytes(); });
  if (node.is_number()) refuse_or([&] { node.integer(0, 1); });
  demand(!node.location().empty() && !node.describe().empty(), "a node without a place");
}

void json(std::string_view bytes) {
  refuse_or([&] { walk(parse_json(std::string(bytes), "x.json")); });
}

void plan(std::string_view bytes) {
  refuse_or([&] {
    const Plan read = plan_from_json(std::string(bytes), "plan.json");
    const std::string text = to_json(read);
    demand(to_json(plan_from_json(text, "again.json")) == text, "a plan that does not read back");
    illegal(read, ModelShape{.layers = 2,
                             .hidden = 8,
                             .ffn = 32,
                             .vocab = 50,
                             .heads = 2,
                             .kv_heads = 2,
                             .positions = 16});
  });
}

// Each of its parts reads alone, and its plan is written with what it was made with.
void bundle(std::string_view bytes) {
  const std::string text(bytes);
  refuse_or([&] {
    const PlanFile read = parse_plan_file(text, "bundle.json");
    if (!read.seal) return;
    const std::string written = to_json(read.plan, *read.seal);
    const PlanFile again = parse_plan_file(written, "again.json");
    demand(to_json(again.plan, again.seal.value()) == written, "a plan that does not read back");
  });
  refuse_or([&] { parse_model(text, "bundle.json"); });
  refuse_or([&] {
    const auto part = bundle_part(parse_json(text, "bundle.json"), "hardware");
    if (part && is_cluster_file(*part))
      demand(read_cluster_file(*part, text, "").nodes > 0, "no nodes");
  });
}

void schedule(std::string_view bytes) {
  refuse_or([&] {
    for (const PassOrder& order : schedule_from_json(std::string(bytes), "s.json").ranks)
      demand(unfold(fold(order)) == order.passes, "loops that are not the passes");
  });
}

void model(std::string_view bytes) {
  refuse_or([&] { parse_model(std::string(bytes), "model.json"); });
}

void hw_profile(std::string_view bytes) {
  refuse_or([&] { parse_hw_profile(std::string(bytes), "node.json"); });
}

void cluster(std::string_view bytes) {
  refuse_or([&] {
    const std::string text(bytes);
    const JsonNode root = parse_json(text, "cluster.json");
    if (is_cluster_file(root)) demand(read_cluster_file(root, text, "").nodes > 0, "no nodes");
  });
}

// "dgx2x32{gpu.memory=40GiB}", or a model by its size.
void name(std::string_view bytes) {
  refuse_or([&] {
    const VariedName name = split_settings(bytes);
    demand(with_settings(name.plain, name.settings) == bytes, "a name that does not read back");
    parse_changes(name.settings);
  });
  for (const CountedKind& read : readings_of(bytes))
    demand(read.before.size() + read.after.size() <= 2, "more counts than a name has");
  for (const std::string& word : model_words(bytes)) demand(!word.empty(), "an empty word");
  if (const auto size = parse_model_size(bytes)) demand(*size >= 1'000'000, "a model of no size");
}

void train_config(std::string_view bytes) {
  refuse_or([&] { parse_train_config(std::string(bytes), "train.json"); });
}

void timeline(std::string_view bytes) {
  refuse_or([&] {
    const Timeline read = timeline_from_json(std::string(bytes), "timeline.json");
    demand(timeline_from_json(to_json(read), "again.json") == read,
           "a timeline that does not read back");
  });
}

// Whether verify takes no longer than a moment.
bool is_small(const Job& job) {
  constexpr std::int64_t kMostNodes = 3000, kMostSlots = 20000;
  for (const RankClass& c : job.classes) {
    if (ProgramIndex(c.program).all_nodes() > kMostNodes) return false;
    std::int64_t slots = 0;
    for (const View& v : c.program.views) slots += c.program.buffers[v.buffer].slots;
    if (slots > kMostSlots) return false;
  }
  return true;
}

void zprog(std::string_view bytes) {
  refuse_or([&] {
    const Job job = parse_zprog(bytes, "x.zprog");
    const std::string text = to_text(job);
    demand(to_text(parse_zprog(text, "again.zprog")) == text, "a job that does not read back");
    if (is_small(job)) verify(job);
  });
}

void quantity(std::string_view bytes) {
  if (const auto size = parse_bytes(bytes)) demand(size->value >= 0, "a size below zero");
  if (const auto rate = parse_bytes_per_second(bytes))
    demand(rate->value >= 0, "a rate below zero");
  if (const auto rate = parse_flops_per_second(bytes))
    demand(rate->value >= 0, "a rate below zero");
  if (const auto time = parse_seconds(bytes)) demand(time->value >= 0, "a time below zero");
}

// Every record that is read has a plan, or a reason why not.
void runs(std::string_view bytes) {
  static const RunCatalogues catalogues;
  const RunFile file = parse_runs(bytes, "runs.jsonl");
  for (const std::string& line : file.malformed)
    demand(!line.empty() && line.find('\n') == std::string::npos, line);
  for (const RunRecord& run : file.runs) plan_run(run, catalogues);
}

// What other tools measured: every run says something, and drives reach what is above zero.
void measured(std::string_view bytes) {
  refuse_or([&] {
    const MeasuredFile file = parse_measured(std::string(bytes), "x.txt");
    for (const NcclRun& run : file.runs) demand(!run.times.empty() && run.ranks > 1, "an idle run");
    if (!file.fio) return;
    NvmeProfile drives;
    drives.drives = 8;
    drives.drive_read = drives.drive_write = {1e9};
    const DriveValues values = drive_values({{"x.json", *file.fio}}, drives);
    if (values.read) demand(values.read->value.value > 0, "a drive that does not read");
    if (values.latency) demand(values.latency->value.value > 0, "a request without a latency");
  });
}

// A framework's configuration, in each syntax; what can be read is written and read again.
void config(std::string_view bytes) {
  static const ModelConfig model = load_model("llama3-8b");
  static const Cluster cluster = load_cluster("dgx-h100");
  for (const char* name : {"x.json", "x.yaml", "x.toml", "x.sh"}) {
    refuse_or([&] {
      const ConfigFile file = parse_config(std::string(bytes), name);
      const auto own = file.framework->model ? file.framework->model(file.root) : std::nullopt;
      const ModelConfig& of = own ? *own : model;
      const Surroundings around{.model = of, .device = cluster.node.device, .ranks = 8};
      const Setup setup = file.framework->read(file.root, around);
      for (const Finding& finding : setup.findings)
        demand(!finding.message.empty() && finding.message.find('\n') == std::string::npos,
               finding.message);
      if (illegal(setup.plan, shape_of(of))) return;
      demand(!file.framework->render(file.framework->keys(setup.plan, of)).empty(), "no keys");
    });
  }
}

// A foreign model is one of ours, with parameters to count, and says what was left out. What is
// written of it is read again as that.
void hugging_face(std::string_view bytes) {
  refuse_or([&] {
    const HuggingFaceModel read =
        read_hugging_face(parse_json(std::string(bytes), "config.json"), "config.json", "x");
    validate(read.model);
    demand(parameter_count(read.model) > 0, "a model without parameters");
    for (const std::string& one : read.left_out)
      demand(!one.empty() && one.find('\n') == std::string::npos, one);
    const WrittenConfig written = write_hugging_face(read.model);
    if (written.text.empty()) return;
    const ModelConfig again =
        read_hugging_face(parse_json(written.text, "written.json"), "written.json", "x").model;
    demand(parameter_count(again) == parameter_count(read.model), written.text);
  });
}

// Behind the header the file may have as many bytes as the tensors say, or those that are there.
void safetensors(std::string_view bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  for (const std::int64_t behind : {0, 16, 1 << 20}) {
    refuse_or([&] {
      std::int64_t end = 0;
      for (const StoredTensor& tensor : parse_safetensors(bytes, size + behind, "x.safetensors")) {
        demand(tensor.begin == end && tensor.elements >= 0,
               "tensors that do not stand side by side");
        end = tensor.end;
      }
      demand(end <= size + behind, "a tensor behind the end of the file");
    });
  }
}

// The bytes stand before the checksum, which the reader asks for first.
void checkpoint(std::string_view bytes) {
  constexpr std::int64_t kMostElements = 1 << 16;  // of which runs are counted
  const std::string text = exec::sealed(std::string(bytes));
  refuse_or([&] {
    const std::string again = to_text(exec::header_from_text(text, "checkpoint.json"));
    demand(to_text(exec::header_from_text(again, "again.json")) == again, "another header");
  });
  refuse_or([&] {
    const exec::RankIndex index = exec::index_from_text(text, "rank-00000.json");
    const std::string again = to_text(index);
    demand(to_text(exec::index_from_text(again, "again.json")) == again, "another index");
    for (const exec::SavedPiece& piece : index.pieces)
      for (const Tensor& tensor : piece.tensors) {
        if (tensor.shape.elements() > kMostElements) continue;
        for (const exec::PieceRun& run :
             exec::piece_runs(tensor, piece.piece, piece.pieces, piece.first, piece.elements))
          demand(run.length > 0 && run.global >= 0 && run.local >= 0 &&
                     run.global + run.length <= tensor.shape.elements() &&
                     run.local + run.length <= piece.elements,
                 "a run outside its tensor or piece");
      }
  });
  refuse_or([&] { exec::header_from_text(std::string(bytes), "checkpoint.json"); });
}

constexpr std::array<Target, 18> kTargets{{{"json", json},
                                           {"plan", plan},
                                           {"bundle", bundle},
                                           {"schedule", schedule},
                                           {"model", model},
                                           {"hw_profile", hw_profile},
                                           {"cluster", cluster},
                                           {"name", name},
                                           {"train_config", train_config},
                                           {"timeline", timeline},
                                           {"zprog", zprog},
                                           {"quantity", quantity},
                                           {"runs", runs},
                                           {"measured", measured},
                                           {"config", config},
                                           {"hugging_face", hugging_face},
                                           {"safetensors", safetensors},
                                           {"checkpoint", checkpoint}}};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace zplan::fuzz
