#include "planner/cli/frame/pin_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "planner/cli/frame/hints.h"
#include "planner/cli/frame/split.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/plan/choice_text.h"
#include "planner/plan/schedule_file.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

bool is_product_format(std::string_view word) {
  return word == "fp8" || word == "fp8_block" || word == "mxfp8";
}

namespace {

std::optional<std::int32_t> number(std::string_view text, std::int32_t least = 1) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    return std::nullopt;
  return value;
}

// "full", "full:12,none:20", "full:12,norm+fc1"
std::vector<RecomputeRun> recompute_runs(const std::string& text) {
  std::vector<RecomputeRun> runs;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    std::optional<RecomputeRun> run = recompute_from_words(part.substr(0, colon));
    const auto layers =
        colon == part.npos ? std::optional<std::int32_t>(0) : number(part.substr(colon + 1));
    if (!run || !layers) {
      throw_bad_input(fmt::format(
          "--recompute: expected none, selective, full, operators such as norm+fc1@cpu ({}, each "
          "once, @cpu or @nvme where it is kept there) or runs of layers such as full:12,none:20, "
          "got {}",
          joined(kWordsOf<LayerOperator>, ", "), in_quotes(text)));
    }
    run->layers = *layers;
    runs.push_back(*run);
  }
  return runs;
}

// "13,11,12,12"
std::vector<std::int32_t> numbers(std::string_view option, const std::string& text) {
  std::vector<std::int32_t> numbers;
  for (const std::string& part : split(text, ',')) {
    const auto count = number(part, 0);
    if (!count)
      throw_bad_input(
          fmt::format("{}: expected numbers such as 13,11,12,12, got {}", option, in_quotes(text)));
    numbers.push_back(*count);
  }
  return numbers;
}

std::string kernel_set(const std::string& id) {
  try {
    return std::string(find_kernel_set(id).id);
  } catch (const Error& error) {
    throw_bad_input(fmt::format("--kernel-set: {}", error.what()));
  }
}

// A subject has the decisions whose pointers begin with one of these; the longest decides.
struct Subject {
  std::string_view title;
  std::vector<std::string_view> pointers;
};
constexpr std::string_view kSharding = "ZeRO and sharding", kPrecision = "Precision and kernels";

std::vector<Subject> subjects() {
  return {
      {"Batch", {"/batch/"}},
      {"Parallelism", {"/parallel/"}},
      {"Pipeline schedule",
       {"/parallel/schedule", "/parallel/chunks", "/parallel/flushes", "/parallel/stage_layers"}},
      {kSharding,
       {"/zero_stage", "/parallel/shards", "/parallel/secondary", "/parallel/parameter_shards",
        "/gather/", "/overlap/"}},
      {"Offload", {"/placement/", "/offload/", "/overlap/optimizer", "/delayed_update"}},
      {"Recomputation",
       {"/recompute", "/checkpoint_layers", "/partition_activations", "/head_chunks"}},
      {"Experts",
       {"/parallel/ep", "/parallel/expert_tp", "/experts/", "/overlap/expert_",
        "/overlap/shared_expert"}},
      {kPrecision, {"/kernel_set", "/low_precision/"}},
      {"Optimizer", {"/optimizer/", "/clip", "/dropout"}},
      {"What is trained, LoRA", {"/train/"}},
      {"Launch", {"/launch"}},
  };
}

// "lean", "standard,lean", "any"
std::vector<std::string> recipes(const std::string& text) {
  if (text == kAnyRecipe || is_product_format(text)) return {text};
  std::vector<std::string> names;
  const std::vector<std::string> known(std::begin(kRecipeNames), std::end(kRecipeNames));
  for (const std::string& part : split(text, ',')) {
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      const std::string advice = value_advice("--precision", part);
      throw_bad_input(fmt::format("--precision: expected fp8, any, or some of {}, got {}{}",
                                  joined(known, ","), in_quotes(text),
                                  advice.empty() ? did_you_mean(part, known) : advice));
    }
    names.push_back(part);
  }
  return names;
}

void pin_gather(Pins& pins, const Decision& row, const std::string& text) {
  if (!gather_from_words(text))
    throw_bad_input(
        fmt::format("{}: expected {}, got {}", row.option.name, kGatherForms, in_quotes(text)));
  pin_choice(pins, row.pointer, text);
}

// Recipes are several decisions at once. Their option follows that of the kernel set.
constexpr int kPlaceOfPrecision = 330;

void add_recipes(Syntax& syntax, Pins& pins) {
  syntax.parsed("--precision", fmt::format("{}|{}|fp8", joined(kRecipeNames, "|"), kAnyRecipe),
                "Mixed-precision policy; of a list (a,b) the best; or fp8 [standard]",
                [&pins](const std::string& text) { pins.recipes = recipes(text); });
}

constexpr int kPlaceOfBucket = 210;  // behind --gather

void add_bucket(Syntax& syntax, Pins& pins) {
  syntax.parsed("--bucket", "SIZE",
                "Bucket of gradients in place of --gather: whole layers, or an operator",
                [&pins](const std::string& text) {
                  pins.bucket = parse_bytes(text);
                  if (!pins.bucket || pins.bucket->value == 0)
                    throw_bad_input(fmt::format("--bucket: expected {}, got {}", kBytesExpected,
                                                in_quotes(text)));
                  pins.tunes_units = false;
                });
}

constexpr std::string_view kSchedule = "/parallel/schedule";

std::string schedule_advice(const std::string& text, const std::vector<std::string>& words) {
  const std::string advice = value_advice("--schedule", text);
  return advice.empty() ? nearest_or_page(text, words, "zplan help pins") : advice;
}

// A word, or the path of a file, which is looked at before anything is searched.
void add_schedule(Syntax& syntax, Pins& pins, const Decision& row) {
  std::vector<std::string> words(row.field.words.begin(), row.field.words.end());
  std::erase(words, name(Schedule::kFile));
  syntax.parsed(std::string(row.option.name), fmt::format("{}|FILE", joined(words, "|")),
                std::string(row.option.help), [&pins, words](const std::string& text) {
                  if (std::find(words.begin(), words.end(), text) != words.end())
                    return pins.set_setting(decision(kSchedule), text);
                  if (!text.ends_with(".json"))
                    throw_bad_input(
                        fmt::format("--schedule: expected a schedule such as 1f1b or a .json file, "
                                    "got {}{}",
                                    in_quotes(text), schedule_advice(text, words)));
                  load_schedule(text);
                  pins.set(kSchedule, Schedule::kFile);
                  pins.set("/parallel/schedule_file", text);
                });
}

// A plain value, the least, can be pinned where the search would choose another.
double factor(const Decision& row, const std::string& text) {
  const bool has_word = !row.word_of_zero.empty();
  if (has_word && text == row.word_of_zero) return 0;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  const auto least = static_cast<double>(row.range.min);
  const bool from_least = row.varied != Varied::kNever;
  const bool is_inside = (value > least || (from_least && value == least)) &&
                         value <= static_cast<double>(row.range.max);
  if (status != std::errc{} || stop != end || !is_inside)
    throw_bad_input(fmt::format("{}: expected a number {} {}, up to {}{}, got {}", row.option.name,
                                from_least ? "from" : "above", row.range.min, row.range.max,
                                has_word ? fmt::format(", or {}", row.word_of_zero) : "",
                                in_quotes(text)));
  return value;
}

constexpr std::string_view kSequence = "/batch/sequence";

// Tokens are counted in binary thousands, as context lengths are: 32k is 32,768.
std::int64_t sequence_of(const std::string& text, std::int64_t least, std::int64_t most) {
  constexpr double kKilo = 1024;
  const auto tokens = number_with(
      text, {{"", 1}, {"k", kKilo}, {"K", kKilo}, {"m", kKilo * kKilo}, {"M", kKilo * kKilo}});
  if (!tokens || *tokens != std::floor(*tokens) || *tokens < static_cast<double>(least) ||
      *tokens > static_cast<double>(most))
    throw_bad_input(
        fmt::format("--seq: expected a whole number from {} to {}, or 32k for 32 x 1,024, got {}",
                    least, most, in_quotes(text)));
  return static_cast<std::int64_t>(*tokens);
}

// Into the row's pin, in the form of its type.
struct OptionAdder {
  Syntax& syntax;
  Pins& pins;
  const Decision& row;

  std::string name() const { return std::string(row.option.name); }
  std::string help() const { return std::string(row.option.help); }
  template <typename Parse>
  void parsed(const std::string& type, Parse parse) const {
    syntax.parsed(name(), type, help(), [&to = pins, &row = row, parse](const std::string& text) {
      to.set_setting(row, parse(text));
    });
  }

  void operator()(std::int64_t) const {
    if (row.pointer == kSequence)
      return syntax.parsed(name(), "N", help(), [&to = pins, &row = row](const std::string& text) {
        to.set_setting(row,
                       sequence_of(text, std::max(row.range.min, row.option.least), row.range.max));
      });
    syntax.integer(name(), std::max(row.range.min, row.option.least), row.range.max, help(),
                   [&to = pins, &row = row](std::int64_t number) { to.set_setting(row, number); });
  }
  void operator()(const std::string&) const {
    if (row.field.words.empty()) return parsed("ID", kernel_set);
    if (row.pointer == kSchedule) return add_schedule(syntax, pins, row);
    const std::vector<std::string> words(row.field.words.begin(), row.field.words.end());
    syntax.choice(name(), help(), words, [&to = pins, &row = row, words](std::size_t i) {
      to.set_setting(row, words[i]);
    });
  }
  void operator()(const Gather&) const {
    syntax.parsed(name(), "operator|layer|layers:N|tiles:N|owned", help(),
                  [&to = pins, &row = row](const std::string& text) { pin_gather(to, row, text); });
  }
  void operator()(const std::vector<std::int32_t>&) const {
    parsed("LIST", [option = name()](const std::string& text) { return numbers(option, text); });
  }
  void operator()(const std::vector<RecomputeRun>&) const {
    parsed("none|selective|full|LIST", recompute_runs);
  }
  void operator()(double) const {
    const std::string type = row.word_of_zero.empty() ? "X" : fmt::format("X|{}", row.word_of_zero);
    parsed(type, [&row = row](const std::string& text) { return factor(row, text); });
  }
  void operator()(bool) const { ZPLAN_ASSERT(false); }  // a flag: PinOptions
};

}  // namespace

void PinOptions::add(std::string_view pointer, Syntax& syntax, Pins& pins) {
  const Decision& row = decision(pointer);
  added_.insert(&row);
  const Setting plain = row.plain();
  const bool* const usual = std::get_if<bool>(&plain);
  if (usual == nullptr) return std::visit(OptionAdder{syntax, pins, row}, plain);
  const auto flag = [&](std::string_view name, std::string_view help, bool value) {
    if (name.empty()) return;
    flags_.push_back({row, value});
    syntax.flag(std::string(name), flags_.back().is_given, std::string(help));
  };
  flag(row.option.name, row.option.help, !*usual);
  flag(row.option.back, row.option.back_help, *usual);
}

std::vector<const Decision*> PinOptions::others() const {
  std::vector<const Decision*> rows;
  for (const Decision& row : kChoices)
    if (!row.option.name.empty() && !added_.contains(&row)) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const Decision* a, const Decision* b) {
    return a->option.place < b->option.place;
  });
  return rows;
}

void PinOptions::add_others(Syntax& syntax, Pins& pins) {
  syntax.group(kPinsGroup, kPinsPage);
  const std::vector<const Decision*> rows = others();
  auto row = rows.begin();
  const auto add_up_to = [&](int place) {
    for (; row != rows.end() && (*row)->option.place <= place; ++row)
      add((*row)->pointer, syntax, pins);
  };
  add_up_to(kPlaceOfBucket);
  add_bucket(syntax, pins);
  add_up_to(kPlaceOfPrecision);
  add_recipes(syntax, pins);
  add_up_to(rows.back()->option.place);
}

void PinOptions::add_by_subject(Syntax& syntax, Pins& pins) {
  const std::vector<const Decision*> rows = others();
  for (const Subject& subject : subjects()) {
    syntax.group(std::string(subject.title));
    for (const Decision* const row : rows)
      if (subject_of(*row) == subject.title) add(row->pointer, syntax, pins);
    if (subject.title == kSharding) add_bucket(syntax, pins);
    if (subject.title == kPrecision) add_recipes(syntax, pins);
  }
}

std::string_view subject_of(const Decision& row) {
  std::string_view title;
  std::size_t longest = 0;
  for (const Subject& subject : subjects())
    for (const std::string_view pointer : subject.pointers)
      if (row.pointer.starts_with(pointer) && pointer.size() > longest) {
        title = subject.title;
        longest = pointer.size();
      }
  return title;
}

std::string pins_page() {
  Syntax syntax(
      "Planning choices: options that pin a decision of the plan. What is not pinned is searched, "
      "or usual.",
      "zplan plan --model M --cluster C --zero 1 --tp 8 ..",
      "\nA sweep takes each as an axis (--over tp=1..8), and --only and --not take ranges of "
      "those\n"
      "that are searched (--only zero=2,3). zplan help kernel-sets lists the kernel sets.\n"
      "\nExamples:\n"
      "  ./zplan plan --model llama3-70b --cluster dgx-h100x16 --tp 4 --pp 2 --zero 1\n"
      "  ./zplan plan --model gpt2 --cluster dgx2 --optimizer cpu --recompute full\n");
  PinOptions options;
  Pins pins;
  options.add_by_subject(syntax, pins);
  return syntax.page();
}

void PinOptions::finish(Pins& pins) const {
  if (pins.bucket && pins.has("/gather/unit"))
    throw_bad_input("--bucket and --gather both say what is gathered together: give one");
  for (const Flag& flag : flags_) {
    if (!flag.is_given) continue;
    if (pins.has(flag.row.pointer))
      throw_bad_input(fmt::format("{} and {} contradict each other", flag.row.option.name,
                                  flag.row.option.back));
    pins.set(flag.row.pointer, flag.value);
  }
}

std::vector<std::string> idle_pins(const Pins& pins, const Plan& plan, const Cluster& cluster) {
  std::vector<std::string> lines;
  const auto say = [&](bool idle, const char* option, const std::string& why) {
    if (idle) lines.push_back(fmt::format("{} has no effect: {}", option, why));
  };
  const Parallel& p = plan.parallel;
  const StatePlacement& at = plan.placement;
  const bool in_rings = plan.zero_stage >= 2 || at.params != Tier::kGpu;
  const std::string whole = fmt::format("ZeRO {} moves no units of the model", plan.zero_stage);
  say(pins.has("/gather/prefetch") && !in_rings, "--prefetch", whole);
  say(pins.values().parallel.sequence_parallel && p.tp == 1, "--sp", "tp is 1");
  say(pins.recipes.size() == 1 && pins.recipes[0] == kAnyRecipe &&
          recipes_of(plan.kernel_set).size() == 1,
      "--precision any", fmt::format("kernel set {} has one recipe only", plan.kernel_set));
  say(pins.has("/parallel/schedule") && p.pp == 1, "--schedule", "there is one pipeline stage");
  say(pins.has("/parallel/stage_layers") && p.pp == 1, "--stages", "there is one pipeline stage");
  say(pins.has("/parallel/shards") && plan.shards() == plan.replicas(), "--shards",
      plan.zero_stage == 0 ? "ZeRO 0 shards nothing" : "these are all replicas");
  bool idle = false;
  for (const RecomputeRun& run : plan.recompute) idle |= plan.effective(run.mode) != run.mode;
  say(pins.has("/recompute") && idle, "--recompute selective",
      fmt::format("kernel set {} never stores the scores of attention", plan.kernel_set));
  const std::int64_t ranks = p.ranks();
  say(pins.has("/parallel/order") && (p.pp == 1 || plan.replicas() == 1), "--rank-order",
      p.pp == 1 ? "there is one pipeline stage" : "there is one replica");
  if (pins.ranks == 0 && ranks < cluster.devices()) {
    lines.push_back(fmt::format("{} of {} GPUs stay idle: {} is {}",
                                grouped(cluster.devices() - ranks), grouped(cluster.devices()),
                                ranks_words(plan), count_of(ranks, "rank")));
  }
  return lines;
}

}  // namespace zplan
