#include "hwprofiles/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/memory_quantity.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// The profile of zplan's own executor.
constexpr std::string_view kOwnStack = "own";

constexpr double kLeastFactor = 0.01, kMostFactor = 100;

constexpr std::array<StackRate, 39> kRates{{
    {"overall", &StackRates::overall, false, kLeastFactor, kMostFactor, 1, 0, "time of everything"},
    {"gemm", &StackRates::gemm, false, kLeastFactor, kMostFactor, 1.05, 0.15,
     "time of matrix products"},
    {"gemm_fp8", &StackRates::gemm_fp8, false, kLeastFactor, kMostFactor, 1, 0.2,
     "time of matrix products in fp8, on top"},
    {"fp8_casts", &StackRates::fp8_casts, false, 0, kMostFactor, 0, 0,
     "traffic of casts of operands to fp8; 0: part of gemm_fp8"},
    {"grouped_apart", &StackRates::grouped_apart, false, 0, 1, 0, 0,
     "1: products of experts are kernels that share no wave of the device"},
    {"scores", &StackRates::scores, false, kLeastFactor, kMostFactor, 1.2, 0.3,
     "time of the products of unfused attention"},
    {"unaligned_head", &StackRates::unaligned_head, false, kLeastFactor, kMostFactor, 1.5, 0.5,
     "time of the products of an LM head whose vocabulary is no multiple of 8"},
    {"attention_forward", &StackRates::attention_forward, false, kLeastFactor, kMostFactor, 1.3,
     0.4, "time of fused attention, forward"},
    {"attention_backward", &StackRates::attention_backward, false, kLeastFactor, kMostFactor, 1.3,
     0.4, "time of fused attention, backward"},
    {"attention_older", &StackRates::attention_older, false, kLeastFactor, kMostFactor, 1.7, 0.2,
     "time of fused attention where the table is of a newer generation than the stack's kernel"},
    {"vectors_forward", &StackRates::vectors_forward, false, 0, kMostFactor, 0, 0,
     "time of own attention kernels on vector units over that of their loads, forward; 0: has "
     "none"},
    {"vectors_backward", &StackRates::vectors_backward, false, 0, kMostFactor, 0, 0,
     "the same, backward"},
    {"elementwise", &StackRates::elementwise, false, kLeastFactor, kMostFactor, 1, 0.4,
     "traffic of norms, activations and residuals"},
    {"softmax", &StackRates::softmax, false, kLeastFactor, kMostFactor, 1, 0.5,
     "traffic of unfused softmax"},
    {"loss", &StackRates::loss, false, kLeastFactor, kMostFactor, 1, 0.4,
     "traffic of the cross entropy"},
    {"optimizer", &StackRates::optimizer, false, kLeastFactor, kMostFactor, 1, 0.4,
     "traffic of gradient norm and update"},
    {"host_forward", &StackRates::host_forward, true, 0, 1, 1e-05, 0.4,
     "host time per operator dispatched, forward"},
    {"host_backward", &StackRates::host_backward, true, 0, 1, 0, 0,
     "host time per operator dispatched, backward; 0: half of host_forward"},
    {"host_collective", &StackRates::host_collective, true, 0, 1, 8e-05, 0.8,
     "host time per collective of 8 ranks, in proportion to them, on top"},
    {"host_sync", &StackRates::host_sync, true, 0, 1, 3e-05, 1,
     "after the host waited for the device, at each layer of each pass"},
    {"host_step", &StackRates::host_step, true, 0, 10, 0.008, 1, "once per step"},
    {"tensor_exposed", &StackRates::tensor_exposed, false, 0, 1, 0.6, 0.6,
     "share of tensor parallel collectives that is not hidden in products"},
    {"backward_exposed", &StackRates::backward_exposed, false, 0, 1, 0.5, 0.6,
     "the same of sums of input gradients beside the product of weight gradients, on top"},
    {"overlap_slowdown", &StackRates::overlap_slowdown, false, 0, 10, 0.15, 0.8,
     "compute takes longer by this share beside a collective"},
    {"network", &StackRates::network, false, kLeastFactor, 1, 0.8, 0.25,
     "share of the network's rate that collectives reach"},
    {"gather_network", &StackRates::gather_network, false, kLeastFactor, 1, 0.5, 0.8,
     "share of that of all ports of a node with which one group gathers updated parameters of "
     "ZeRO 1 and 2"},
    {"token_links", &StackRates::token_links, false, kLeastFactor, 1, 0.94, 0.15,
     "share of a ring's rate in a node that libraries reach which send tokens to experts once"},
    {"transport", &StackRates::transport, true, 0, 1, 0, 0,
     "what messages between nodes take longer than over InfiniBand verbs"},
    {"bucket", &StackRates::bucket, false, 0, 1e12, 0, 0,
     "bytes of gradients that are summed at once; 0: those of a unit"},
    {"summed_whole", &StackRates::summed_whole, false, 0, 1, 0, 0,
     "1: with ZeRO 1 all gradients in one all-reduce, all updated parameters in one gather"},
    {"list_copy", &StackRates::list_copy, true, 0, 1, 0, 0,
     "host time per parameter and rank of a gather of updated parameters"},
    {"sliced_boundary", &StackRates::sliced_boundary, false, 0, 1, 0, 0,
     "1: tensor parallel ranks send a slice each of what goes to the next stage"},
    {"cpu_update", &StackRates::cpu_update, false, kLeastFactor, kMostFactor, 1, 0.4,
     "time of the update on the host"},
    {"cpu_accumulate", &StackRates::cpu_accumulate, false, kLeastFactor, kMostFactor, 1, 0.5,
     "time of adding up gradients on the host"},
    {"host_copies", &StackRates::host_copies, false, kLeastFactor, kMostFactor, 1, 0.4,
     "time of copies between host and device"},
    {"staged_copies", &StackRates::staged_copies, false, 1, kMostFactor, 6, 0.4,
     "time of copies of gradients and checkpoints over that of the device's link; compute waits"},
    {"copy_slowdown", &StackRates::copy_slowdown, false, 0, 10, 0.2, 0.8,
     "compute takes longer by this share beside a copy between host and device"},
    {"drives", &StackRates::drives, false, kLeastFactor, kMostFactor, 1.2, 0.3,
     "time of reads and writes of drives"},
    {"host_drives", &StackRates::host_drives, true, 0, 1, 0, 0,
     "host time per GB of drives, which wait for it and read and write in turn; 0: all is queued"},
}};

// Classes of devices that a rate may be given for, 0: all.
constexpr std::array kCapabilities{0, 70, 80, 89, 90, 100, 120};

// Those that the file has rates for.
std::vector<int> capabilities_of(const JsonNode& rates) {
  std::vector<int> found;
  for (const int capability : kCapabilities) {
    const std::string ending = rate_key("", capability);
    const auto has_ending = [&](const auto& member) { return member.first.ends_with(ending); };
    if (capability == 0 || std::ranges::any_of(rates.members(), has_ending))
      found.push_back(capability);
  }
  return found;
}

StackValue read_value(const StackRate& rate, const JsonNode& node) {
  // Its own form: sourced values have no uncertainty.
  JsonObject in = node.object();
  StackValue value;
  value.name = rate.name;
  const JsonNode number = in.member("value");
  if (rate.seconds) {
    value.value = number.seconds().value;
    if (value.value > rate.most) number.fail_expected(fmt::format("at most {} s", rate.most));
  } else {
    value.value = number.number(rate.least, rate.most);
  }
  value.source = in.member("source").one_of({"datasheet", "measured", "fitted", "assumed"});
  value.ref = in.member("ref").non_empty_string();
  if (const auto spread = in.optional_member("uncertainty")) {
    value.uncertainty = spread->number(0, 10);
  } else if (value.source == "fitted") {
    node.fail("expected an \"uncertainty\" beside a fitted value, got none");
  }
  in.finish();
  return value;
}

Modules read_modules(const JsonNode& node) {
  const std::vector<std::string> words{"native", "megatron", "eager", "compiled"};
  const auto at = std::find(words.begin(), words.end(), node.one_of(words));
  return static_cast<Modules>(at - words.begin());
}

std::string value_text(const JsonNode& node) {
  if (node.is_boolean()) return node.boolean() ? "true" : "false";
  if (node.is_number()) return fmt::format("{}", node.number(-1e18, 1e18));
  return node.string();
}

std::vector<RecomputedShare> read_selective(const JsonNode& node) {
  std::vector<RecomputedShare> shares;
  double layers = 0;
  for (const JsonNode& item : node.items()) {
    JsonObject in = item.object();
    shares.push_back({in.member("layers").number(0, 1), in.member("recompute").non_empty_string(),
                      in.member("ref").non_empty_string()});
    in.finish();
    layers += shares.back().layers;
  }
  if (shares.empty() || layers != 1) node.fail_expected("shares of layers that add up to 1");
  return shares;
}

// The member "for": the names that people type, and what the software can express. A user's own
// file may leave it out.
void read_for(const JsonNode& node, StackProfile& stack) {
  JsonObject in = node.object();
  stack.title = in.member("title").non_empty_string();
  stack.year = static_cast<int>(in.member("year").integer(2019, 2100));
  for (const auto& [name, target] : in.member("names").members())
    stack.names.push_back({name, target.string()});
  if (!stack.names.empty()) stack.target = stack.names.front().target;
  if (const auto oldest = in.optional_member("oldest_capability"))
    stack.oldest_capability = static_cast<int>(oldest->integer(1, kMostCapability));
  ExpressedPlans& plans = stack.expressed;
  if (const auto only = in.optional_member("only")) plans.only = only->words();
  if (const auto never = in.optional_member("not")) plans.never = never->words();
  if (const auto experts = in.optional_member("experts")) plans.experts = experts->boolean();
  if (const auto ref = in.optional_member("ref")) plans.ref = ref->non_empty_string();
  in.finish();
}

StackProfile read_stack(const JsonNode& root) {
  JsonObject in = root.object();
  in.schema("zplan.stack/1");
  StackProfile stack;
  stack.name = stack.title = in.member("name").non_empty_string();
  stack.description = in.member("description").non_empty_string();
  if (const auto named = in.optional_member("for")) read_for(*named, stack);
  stack.software = in.member("software").words();
  if (const auto library = in.optional_member("library")) stack.library = library->boolean();
  if (const auto weak = in.optional_member("weak_software")) stack.weak_software = weak->words();
  if (const auto other = in.optional_member("without_experts"))
    stack.without_experts = other->non_empty_string();
  if (const auto newest = in.optional_member("newest_capability"))
    stack.newest_capability = static_cast<int>(newest->integer(1, kMostCapability));
  stack.fused = in.member("fused").boolean();
  if (const auto modules = in.optional_member("modules"))
    stack.rates.modules = read_modules(*modules);
  if (const auto sums = in.optional_member("sums_apart")) stack.rates.sums_apart = sums->boolean();
  if (const auto batch = in.optional_member("batch_first"))
    stack.rates.batch_first = batch->boolean();
  if (const auto even = in.optional_member("even_neighbours"))
    stack.rates.even_neighbours = even->boolean();
  if (const auto recipe = in.optional_member("recipe")) stack.recipe = recipe->non_empty_string();
  if (const auto selective = in.optional_member("selective"))
    stack.selective = read_selective(*selective);
  const auto read_choices = [&](std::string_view key, auto& out) {
    const auto choices = in.optional_member(key);
    if (!choices) return;
    for (const auto& [pointer, node] : choices->members())
      out.emplace_back(pointer, value_text(node));
  };
  read_choices("plan", stack.choices);
  read_choices("plan_sharded", stack.sharded);
  read_choices("plan_fp8", stack.codes);
  const JsonNode rate_node = in.member("rates");
  const std::vector<int> capabilities = capabilities_of(rate_node);
  JsonObject rates = rate_node.object();
  for (const StackRate& rate : kRates) {
    for (const int capability : capabilities) {
      const auto node = rates.optional_member(rate_key(rate.name, capability));
      if (!node) continue;
      StackValue& value = stack.values.emplace_back(read_value(rate, *node));
      value.capability = capability;
      if (capability == 0) stack.rates.*rate.member = value.value;
    }
  }
  rates.finish();
  if (const auto memory = in.optional_member("memory")) stack.memory = read_stack_memory(*memory);
  in.finish();
  return stack;
}

}  // namespace

std::span<const StackRate> stack_rates() { return kRates; }

std::string rate_key(std::string_view rate, int capability) {
  return capability == 0 ? std::string(rate) : fmt::format("{}@{}", rate, capability);
}

const StackValue* StackProfile::value_of(std::string_view rate, int capability) const {
  const StackValue* found = nullptr;
  for (const StackValue& value : values) {
    if (value.name != rate || value.capability > capability) continue;
    if (found == nullptr || value.capability > found->capability) found = &value;
  }
  return found;
}

StackRates StackProfile::rates_on(int capability) const {
  StackRates found = rates;
  for (const StackRate& rate : kRates) {
    const StackValue* const value = value_of(rate.name, capability);
    if (value != nullptr && value->capability > 0) found.*rate.member = value->value;
  }
  return found;
}

StackProfile parse_stack(std::string text, std::string file_name) {
  return read_stack(parse_json(std::move(text), std::move(file_name)));
}

std::vector<StackProfile> stack_catalogue() {
  std::vector<StackProfile> stacks;
  for (const EmbeddedFile& file : embedded_stacks()) {
    stacks.push_back(parse_stack(std::string(file.text), std::string(file.name)));
  }
  std::sort(stacks.begin(), stacks.end(),
            [](const StackProfile& a, const StackProfile& b) { return a.name < b.name; });
  return stacks;
}

bool is_for(const StackProfile& stack, int capability) {
  return capability == 0 ||
         (stack.oldest_capability <= capability &&
          (stack.newest_capability == 0 || stack.newest_capability >= capability));
}

std::string software_title(const StackProfile& stack) {
  const bool has_year = stack.year > 0 && stack.name != kOwnStack;
  return has_year ? fmt::format("{} {}", stack.title, stack.year) : stack.title;
}

namespace {

// "megatron@2022" is {"megatron", "2022"}, "megatron" {"megatron", ""}.
std::pair<std::string, std::string> name_and_year(std::string_view typed) {
  const std::size_t at = typed.find('@');
  if (at == typed.npos) return {to_lower(typed), ""};
  return {to_lower(typed.substr(0, at)), std::string(typed.substr(at + 1))};
}

const SoftwareName* name_among(const StackProfile& stack, std::string_view name) {
  const auto at = std::ranges::find(stack.names, name, &SoftwareName::name);
  return at == stack.names.end() ? nullptr : &*at;
}

// The years of the profiles with a name, "2020, 2022 and 2025".
std::string years_of(const std::vector<StackProfile>& all, std::string_view name) {
  std::vector<int> years;
  for (const StackProfile& stack : all)
    if (name_among(stack, name) != nullptr) years.push_back(stack.year);
  std::ranges::sort(years);
  return fmt::format("{}", joined(years, ", "));
}

[[noreturn]] void fail_unknown(std::string_view typed, const std::vector<StackProfile>& all) {
  std::vector<std::string> names;
  for (const StackProfile& stack : all) {
    names.push_back(stack.name);
    for (const SoftwareName& one : stack.names) names.push_back(one.name);
  }
  throw_bad_input(fmt::format(
      "--for: expected a software, as in --for megatron (zplan software lists them), got {}{}",
      in_quotes(typed), did_you_mean(typed, names)));
}

}  // namespace

StackProfile load_stack(std::string_view name_or_path, int capability) {
  if (looks_like_path(name_or_path)) {
    return read_stack(read_json_file(std::string(name_or_path)));
  }
  const auto [name, year] = name_and_year(name_or_path);
  std::vector<StackProfile> all = stack_catalogue();
  StackProfile* found = nullptr;
  bool is_known = false;
  for (StackProfile& stack : all) {
    const SoftwareName* const named = name_among(stack, name);
    const bool is_exact = year.empty() && stack.name == name;
    if (is_exact && named == nullptr) return std::move(stack);
    if (named == nullptr) continue;
    is_known = true;
    if (!year.empty() ? std::to_string(stack.year) != year : !is_for(stack, capability)) continue;
    if (found != nullptr && found->year > stack.year) continue;
    found = &stack;
    found->target = named->target;
  }
  if (found != nullptr) return std::move(*found);
  if (!is_known) fail_unknown(name_or_path, all);
  if (!year.empty())
    throw_bad_input(fmt::format("--for {}: expected one of the years {}, as in --for {}@{}",
                                name_or_path, years_of(all, name), name,
                                years_of(all, name).substr(0, 4)));
  throw_bad_input(
      fmt::format("--for {0}: no profile of {0} is for these devices; expected a year, {1}, as in "
                  "--for {0}@{2}, to take its rates all the same",
                  name, years_of(all, name), years_of(all, name).substr(0, 4)));
}

}  // namespace zplan
