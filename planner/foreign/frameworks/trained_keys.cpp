#include "planner/foreign/frameworks/trained_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "planner/core/text.h"
#include "planner/plan/limits.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

enum class Says : std::uint8_t {
  kSwitch,  // that factors are trained
  kKind,    // what is: "lora"
  kRank,
  kAlpha,
  kTargets,
  kByRoot,
  kMagnitudes,
  kBias,
  kSaved,
  kFourBits,
  kEightBits,
  kBits,
  kFormat,  // of 4 bits
  kDouble,
};

struct TrainedKey {
  std::string_view key;
  Says says;
};
constexpr TrainedKey kKeys[] = {
    {"use_peft", Says::kSwitch},
    {"use_lora", Says::kSwitch},
    {"lora_enable", Says::kSwitch},
    {"finetuning_type", Says::kKind},
    {"adapter", Says::kKind},
    {"train_type", Says::kKind},
    {"peft_type", Says::kKind},
    {"lora_r", Says::kRank},
    {"lora_rank", Says::kRank},
    {"r", Says::kRank},
    {"dim", Says::kRank},
    {"lora_alpha", Says::kAlpha},
    {"alpha", Says::kAlpha},
    {"lora_target_modules", Says::kTargets},
    {"lora_target", Says::kTargets},
    {"target_modules", Says::kTargets},
    {"use_rslora", Says::kByRoot},
    {"use_dora", Says::kMagnitudes},
    {"lora_bias", Says::kBias},
    {"bias", Says::kBias},
    {"lora_modules_to_save", Says::kSaved},
    {"modules_to_save", Says::kSaved},
    {"additional_target", Says::kSaved},
    {"load_in_4bit", Says::kFourBits},
    {"load_in_8bit", Says::kEightBits},
    {"quantization_bit", Says::kBits},
    {"bnb_4bit_quant_type", Says::kFormat},
    {"quantization_type", Says::kFormat},
    {"use_bnb_nested_quant", Says::kDouble},
    {"bnb_4bit_use_double_quant", Says::kDouble},
    {"double_quantization", Says::kDouble},
};

// Software with such a key takes these values where a file leaves them out.
struct Usual {
  std::string_view key;  // the switch or kind that tells whose keys these are
  std::int32_t rank, alpha;
  LoraTargets targets;
  bool is_double;
};
constexpr std::int32_t kTwiceTheRank = 0;
constexpr Usual kUsual[] = {
    {"use_peft", 16, 32, LoraTargets::kQkv, false},                  // TRL's ModelConfig
    {"finetuning_type", 8, kTwiceTheRank, LoraTargets::kAll, true},  // LLaMA-Factory
    {"peft_type", 8, 8, LoraTargets::kQkv, false},                   // PEFT's LoraConfig
    {"adapter", 8, 16, LoraTargets::kAll, true},                     // Axolotl
    {"peft", 32, 32, LoraTargets::kAll, false},                      // Megatron-Bridge's LoRA
    {"", 8, 16, LoraTargets::kAll, false},
};

// The modules of a layer that have factors, by the names of the families.
enum Modules : std::uint8_t { kQueriesKeysValues = 1, kProjection = 2, kMlp = 4 };
struct ModuleName {
  std::string_view name;
  Modules of;
};
constexpr ModuleName kModuleNames[] = {
    {"q_proj", kQueriesKeysValues},
    {"k_proj", kQueriesKeysValues},
    {"v_proj", kQueriesKeysValues},
    {"qkv_proj", kQueriesKeysValues},
    {"query_key_value", kQueriesKeysValues},
    {"c_attn", kQueriesKeysValues},
    {"Wqkv", kQueriesKeysValues},
    {"linear_qkv", kQueriesKeysValues},
    {"o_proj", kProjection},
    {"out_proj", kProjection},
    {"dense", kProjection},
    {"linear_proj", kProjection},
    {"gate_proj", kMlp},
    {"up_proj", kMlp},
    {"down_proj", kMlp},
    {"gate_up_proj", kMlp},
    {"fc1", kMlp},
    {"fc2", kMlp},
    {"w1", kMlp},
    {"w2", kMlp},
    {"w3", kMlp},
    {"c_fc", kMlp},
    {"dense_h_to_4h", kMlp},
    {"dense_4h_to_h", kMlp},
    {"linear_fc1", kMlp},
    {"linear_fc2", kMlp},
};

// "a,b", "['a', 'b']", a regular expression, or a list.
std::vector<std::string> words_in(const JsonNode& node) {
  if (node.is_array()) return node.words();
  std::vector<std::string> words(1);
  for (const char c : node.string()) {
    const bool is_in_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (is_in_word) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_on(const JsonNode& node) {
  if (node.is_boolean()) return node.boolean();
  return node.is_string() && to_lower(node.string()) == "true";
}

class TrainedReading {
 public:
  TrainedReading(const TrainedKeys& keys, const ModelConfig& model) : keys_(keys), model_(model) {}

  std::optional<TrainedChoice> read() {
    const std::optional<std::string_view> sign = sign_of_lora();
    if (!sign) return std::nullopt;
    const Usual& usual = *std::ranges::find_if(
        kUsual, [&](const Usual& each) { return each.key == *sign || each.key.empty(); });
    train_.what = Trained::kLora;
    train_.rank = number(Says::kRank, kMaxLoraRank).value_or(usual.rank);
    train_.alpha = number(Says::kAlpha, kMaxLoraAlpha)
                       .value_or(usual.alpha == kTwiceTheRank ? 2 * train_.rank : usual.alpha);
    train_.targets = usual.targets;
    read_targets();
    train_.by_root = flag(Says::kByRoot);
    read_base(usual);
    read_saved();
    say_what_is_left_out();
    return train_;
  }

 private:
  std::optional<std::pair<std::string_view, JsonNode>> find(Says says) const {
    for (const TrainedKey& row : kKeys)
      if (row.says == says)
        if (auto node = keys_.find(row.key); node && !node->is_null()) return {{row.key, *node}};
    return std::nullopt;
  }
  bool flag(Says says) const {
    const auto found = find(says);
    return found && is_on(found->second);
  }
  std::optional<std::int32_t> number(Says says, std::int64_t most) const {
    const auto found = find(says);
    if (!found) return std::nullopt;
    return static_cast<std::int32_t>(found->second.number(1, static_cast<double>(most)));
  }
  void say(Says of, std::string message, Trouble trouble = Trouble::kNotModelled) const {
    const auto found = find(of);
    keys_.add(trouble, found ? found->first : "", std::move(message));
  }

  // The key that says that factors are trained.
  std::optional<std::string_view> sign_of_lora() const {
    if (const auto section = keys_.find("peft"); section && section->is_object()) return "peft";
    for (const TrainedKey& row : kKeys) {
      if (row.says != Says::kSwitch && row.says != Says::kKind) continue;
      const auto node = keys_.find(row.key);
      if (!node || node->is_null()) continue;
      if (row.says == Says::kSwitch && is_on(*node)) return row.key;
      if (row.says != Says::kKind || !node->is_string()) continue;
      const std::string kind = to_lower(node->string());
      if (kind == "lora" || kind == "qlora") return row.key;
      if (kind != "full" && kind != "none")
        keys_.add(Trouble::kNotModelled, row.key,
                  fmt::format("{}: counted as training all", in_quotes(node->string())));
    }
    return std::nullopt;
  }

  void read_targets() {
    const auto found = find(Says::kTargets);
    if (!found) return;
    unsigned modules = 0;
    std::vector<std::string> unknown;
    std::set<std::string_view> named;
    for (const std::string& word : words_in(found->second)) {
      const std::string_view last = std::string_view(word).substr(word.rfind('.') + 1);
      if (last == "all" || last == "all-linear") {
        train_.targets = LoraTargets::kAll;
        return;
      }
      const auto* const row = std::ranges::find(kModuleNames, last, &ModuleName::name);
      if (row == std::end(kModuleNames)) {
        unknown.push_back(word);
        continue;
      }
      named.insert(row->name);
      modules |= row->of;
    }
    if (modules == 0 && found->second.is_array() && !unknown.empty())
      say(Says::kTargets,
          fmt::format("{}: no modules that are known here; counted as all", joined(unknown, ", ")));
    choose_targets(modules, named);
  }

  // The least set of products that has them all.
  void choose_targets(unsigned modules, const std::set<std::string_view>& named) {
    const bool has_mlp = (modules & kMlp) != 0;
    const bool has_attention = (modules & (kQueriesKeysValues | kProjection)) != 0;
    train_.targets = modules == kQueriesKeysValues ? LoraTargets::kQkv
                     : !has_mlp && has_attention   ? LoraTargets::kAttention
                     : has_mlp && !has_attention   ? LoraTargets::kMlp
                                                   : LoraTargets::kAll;
    const bool names_some =
        named.contains("q_proj") || named.contains("k_proj") || named.contains("v_proj");
    const bool names_all =
        named.contains("q_proj") && named.contains("k_proj") && named.contains("v_proj");
    const bool whole = modules == 0 || modules == kQueriesKeysValues || modules == kMlp ||
                       modules == (kQueriesKeysValues | kProjection) ||
                       modules == (kQueriesKeysValues | kProjection | kMlp);
    if ((names_some && !names_all) || !whole)
      say(Says::kTargets,
          fmt::format("counted as those of {}: queries, keys and values have factors together",
                      name(train_.targets)));
  }

  void read_base(const Usual& usual) {
    const auto bits = find(Says::kBits);
    const double count = bits && bits->second.is_number() ? bits->second.number(1, 64) : 0;
    const auto kind = keys_.find("adapter");
    const bool is_qlora = kind && kind->is_string() && kind->string() == "qlora";
    if (flag(Says::kEightBits) || count == 8)
      say(count == 8 ? Says::kBits : Says::kEightBits,
          "a base of 8 bits is counted in the type that kernels compute in");
    if (!flag(Says::kFourBits) && count != 4 && !is_qlora) return;
    const auto format = find(Says::kFormat);
    const bool is_fp4 = format && format->second.is_string() && format->second.string() == "fp4";
    const auto doubles = find(Says::kDouble);
    const bool is_double = doubles ? is_on(doubles->second) : usual.is_double;
    train_.base = is_fp4 ? (is_double ? BaseType::kFp4Double : BaseType::kFp4)
                         : (is_double ? BaseType::kNf4Double : BaseType::kNf4);
  }

  void read_saved() {
    const auto found = find(Says::kSaved);
    if (!found) return;
    bool embedding = false, head = false;
    std::vector<std::string> others;
    for (const std::string& word : words_in(found->second)) {
      const std::string_view last = std::string_view(word).substr(word.rfind('.') + 1);
      if (last == "embed_tokens" || last == "wte" || last == "word_embeddings") {
        embedding = true;
      } else if (last == "lm_head" || last == "embed_out" || last == "output") {
        head = true;
      } else {
        others.push_back(word);
      }
    }
    if (model_.tied_embeddings && (embedding || head)) embedding = head = true;
    train_.saved = embedding && head ? LoraSaved::kBoth
                   : embedding       ? LoraSaved::kEmbedding
                   : head            ? LoraSaved::kHead
                                     : LoraSaved::kNone;
    if (!others.empty())
      say(Says::kSaved, fmt::format("{}: counted as frozen", joined(others, ", ")));
  }

  void say_what_is_left_out() const {
    if (flag(Says::kMagnitudes))
      say(Says::kMagnitudes, "magnitudes of DoRA and the norms that they need: counted as LoRA");
    const auto bias = find(Says::kBias);
    const bool trains_biases =
        bias && bias->second.is_string() && to_lower(bias->second.string()) != "none";
    if (trains_biases)
      say(Says::kBias,
          fmt::format("{}: biases are counted as frozen", in_quotes(bias->second.string())));
  }

  const TrainedKeys& keys_;
  const ModelConfig& model_;
  TrainedChoice train_;
};

constexpr std::string_view kTrainPointers = "/train/";

}  // namespace

std::optional<TrainedChoice> read_trained_keys(const TrainedKeys& keys, const ModelConfig& model) {
  return TrainedReading(keys, model).read();
}

void take_trained(const Pins& asked, Plan& plan) {
  if (asked.has("/train/what") && asked.values().train.what != plan.train.what)
    plan.train = {.what = asked.values().train.what};
  for (const Decision& row : kChoices)
    if (row.pointer.starts_with(kTrainPointers) && asked.has(row.pointer))
      row.field.set(plan, row.field.get(asked.values()));
}

std::string lora_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const TrainedChoice& train = plan.train;
  if (!train.has_lora()) return "";
  const bool has_attention = train.targets != LoraTargets::kMlp;
  const bool has_mlp = train.targets == LoraTargets::kMlp;
  Json targets = Json::array();
  for (const ModuleName& row : kModuleNames) {
    const bool is_it = row.of == kMlp ? has_mlp
                                      : has_attention && (row.of == kQueriesKeysValues ||
                                                          train.targets != LoraTargets::kQkv);
    if (is_it) targets.push_back(row.name);
  }
  Json saved = Json::array();
  if (train.saved == LoraSaved::kEmbedding || train.saved == LoraSaved::kBoth)
    saved.push_back("embed_tokens");
  if (train.saved == LoraSaved::kHead || train.saved == LoraSaved::kBoth)
    saved.push_back("lm_head");
  Json root;
  root["lora"] = {{"r", train.rank},
                  {"lora_alpha", train.alpha},
                  {"target_modules",
                   train.targets == LoraTargets::kAll ? Json("all-linear") : std::move(targets)},
                  {"use_rslora", train.by_root},
                  {"modules_to_save", saved.empty() ? Json(nullptr) : std::move(saved)},
                  {"task_type", "CAUSAL_LM"}};
  root["quantization"] = nullptr;
  if (train.has_codes()) {
    const bool is_fp16 = find_kernel_set(plan.kernel_set).compute == DType::kF16;
    const char* const compute = is_fp16 ? "float16" : "bfloat16";
    root["quantization"] = {{"load_in_4bit", true},
                            {"bnb_4bit_quant_type", train.is_fp4() ? "fp4" : "nf4"},
                            {"bnb_4bit_use_double_quant", train.has_scale_codes()},
                            {"bnb_4bit_compute_dtype", compute},
                            {"bnb_4bit_quant_storage", compute}};
  }
  return root.dump(2) + "\n";
}

void take_adapter(const std::string& path, const ModelConfig& model, Pins& pins,
                  std::vector<Finding>& findings) {
  const JsonNode root = read_json_file(path);
  const TrainedKeys keys{
      [&](std::string_view key) -> std::optional<JsonNode> {
        return root.object().optional_member(key);
      },
      [&](Trouble trouble, std::string_view key, std::string message) {
        findings.push_back({trouble, root.location(), std::string(key), std::move(message)});
      }};
  const std::optional<TrainedChoice> train = read_trained_keys(keys, model);
  if (!train)
    root.fail("expected PEFT's adapter_config.json of LoRA, with \"peft_type\": \"LORA\"");
  Plan plan;
  plan.train = *train;
  for (const Decision& row : kChoices)
    if (row.pointer.starts_with(kTrainPointers) && !pins.has(row.pointer))
      pins.set_setting(row, row.field.get(plan));
}

}  // namespace zplan
