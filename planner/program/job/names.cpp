#include "planner/program/job/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>

#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/program/job/collectives.h"

namespace zplan {
namespace {

using Words = std::span<const std::string_view>;

// One word per enumerator, in order; does not compile when one is missing.
template <auto last, std::size_t n>
constexpr std::array<std::string_view, n> table(const std::string_view (&words)[n]) {
  static_assert(n == static_cast<std::size_t>(last) + 1);
  return std::to_array(words);
}

constexpr auto kDTypes = table<DType::kU8>({"f64", "f32", "f16", "bf16", "i32", "u8"});
constexpr auto kTiers = table<Tier::kNvme>({"gpu", "cpu", "nvme"});
constexpr auto kCategories =
    table<Category::kInput>({"parameters", "gradients", "optimizer", "activations", "checkpoints",
                             "gathered", "workspace", "input"});
constexpr auto kLanes = table<Lane::kInput>(
    {"compute", "comm_gather", "comm_reduce", "comm_tensor", "send_forward_up", "send_forward_down",
     "send_backward_up", "send_backward_down", "receive_forward_up", "receive_forward_down",
     "receive_backward_up", "receive_backward_down", "h2d", "d2h", "cpu", "io_read", "io_write",
     "input"});
constexpr auto kAccesses = table<Access::kScratch>({"r", "w", "u", "scratch"});
constexpr auto kPhases =
    table<Phase::kEnd>({"begin", "forward", "recompute", "backward", "norm", "update", "end"});
constexpr std::string_view kParts[] = {
#define ZPLAN_PART(Id, word) word,
#include "planner/program/job/parts.h"
};
constexpr auto kActions = table<Action::kWholeIsKept>({"compute",
                                                       "input_gradient",
                                                       "weight_gradient",
                                                       "bias_gradient",
                                                       "zero",
                                                       "gather",
                                                       "reduce",
                                                       "accumulate",
                                                       "send",
                                                       "receive",
                                                       "upload",
                                                       "download",
                                                       "read",
                                                       "write",
                                                       "move",
                                                       "cast",
                                                       "square",
                                                       "clip",
                                                       "adam",
                                                       "report",
                                                       "hold",
                                                       "gather_ranks",
                                                       "sum_ranks",
                                                       "sum_shared",
                                                       "sum_copies",
                                                       "read_gradient",
                                                       "read_master",
                                                       "read_moment1",
                                                       "read_moment2",
                                                       "write_master",
                                                       "write_moment1",
                                                       "write_moment2",
                                                       "cast_gradient",
                                                       "drop",
                                                       "move_bias",
                                                       "exchange",
                                                       "pack",
                                                       "unpack",
                                                       "choose",
                                                       "place",
                                                       "balance",
                                                       "join",
                                                       "cut",
                                                       "sgd",
                                                       "momentum",
                                                       "gather_update",
                                                       "orthogonalise",
                                                       "factor_sums",
                                                       "reduce_factors",
                                                       "factors",
                                                       "reduce_update",
                                                       "scale_update",
                                                       "round_input",
                                                       "round_weight",
                                                       "round_gradient",
                                                       "encode",
                                                       "decode",
                                                       "dequantise",
                                                       "lora_down",
                                                       "lora_scale",
                                                       "lora_up",
                                                       "lora_down_weight",
                                                       "lora_up_weight",
                                                       "read_scale1",
                                                       "read_scale2",
                                                       "write_scale1",
                                                       "write_scale2",
                                                       "gather_tokens",
                                                       "sum_tokens",
                                                       "before_gather",
                                                       "after_gather",
                                                       "before_reduce",
                                                       "after_reduce",
                                                       "whole_is_kept"});
constexpr std::string_view kKernels[] = {
#define ZPLAN_KERNEL(Id, name, ...) name,
#include "planner/program/kernels/rows.h"
};
constexpr std::string_view kCollectives[] = {
#define ZPLAN_COLLECTIVE(Id, word, ...) word,
#include "planner/program/job/collective_rows.h"
};
constexpr auto kMatches = table<Match::kMirror>({"last", "same", "mirror"});
constexpr auto kVars = table<Var::kTile>({"none", "micro", "layer", "tile"});
constexpr auto kInits = table<Init::kNormal>({"zero", "one", "normal"});

static_assert(kDTypes.size() == kDTypeCount && kTiers.size() == kTierCount &&
              kCategories.size() == kCategoryCount && kLanes.size() == kLaneCount);

Words words(DType) { return kDTypes; }
Words words(Tier) { return kTiers; }
Words words(Category) { return kCategories; }
Words words(Lane) { return kLanes; }
Words words(Access) { return kAccesses; }
Words words(Phase) { return kPhases; }
Words words(Part) { return kParts; }
Words words(Action) { return kActions; }
Words words(KernelId) { return kKernels; }
Words words(CollectiveKind) { return kCollectives; }
Words words(Match) { return kMatches; }
Words words(Var) { return kVars; }
Words words(Init) { return kInits; }

template <typename Enum>
std::string_view word(Enum value) {
  const Words all = words(value);
  const auto i = static_cast<std::size_t>(value);
  ZPLAN_ASSERT(i < all.size());
  return all[i];
}

// Reads "<label><number>" off the front of text.
bool take_number(std::string_view& text, std::string_view label, std::int64_t max,
                 std::int64_t& value) {
  if (!text.starts_with(label)) return false;
  text.remove_prefix(label.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0 || value > max) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string_view name(DType dtype) { return word(dtype); }
std::string_view name(Tier tier) { return word(tier); }
std::string_view name(Category category) { return word(category); }
std::string_view name(Lane lane) { return word(lane); }
std::string_view name(Access access) { return word(access); }
std::string_view name(Phase phase) { return word(phase); }
std::string_view name(Part part) { return word(part); }
std::string_view name(Action action) { return word(action); }
std::string_view name(KernelId kernel) { return word(kernel); }
std::string_view name(CollectiveKind kind) { return word(kind); }
std::string_view name(Match match) { return word(match); }
std::string_view name(Var var) { return word(var); }
std::string_view name(Init init) { return word(init); }

std::vector<CollectiveKind> measured_kinds() {
  std::vector<CollectiveKind> kinds;
  for (int i = 0; i < kCollectiveKindCount; ++i)
    if (const auto kind = static_cast<CollectiveKind>(i); is_measured(kind)) kinds.push_back(kind);
  return kinds;
}

std::string name(Role role) {
  return fmt::format("{}.{}.{}", name(role.phase), name(role.part), name(role.action));
}

template <typename Enum>
std::optional<Enum> parse_name(std::string_view text) {
  const Words all = words(Enum{});
  const auto found = std::find(all.begin(), all.end(), text);
  if (found == all.end()) return std::nullopt;
  return static_cast<Enum>(found - all.begin());
}

template <typename Enum>
std::string all_names() {
  const Words all = words(Enum{});
  return fmt::format("{} or {}", joined(all.first(all.size() - 1), ", "), all.back());
}

#define ZPLAN_INSTANTIATE(Enum)                                    \
  template std::optional<Enum> parse_name<Enum>(std::string_view); \
  template std::string all_names<Enum>()
ZPLAN_INSTANTIATE(DType);
ZPLAN_INSTANTIATE(Tier);
ZPLAN_INSTANTIATE(Category);
ZPLAN_INSTANTIATE(Lane);
ZPLAN_INSTANTIATE(Access);
ZPLAN_INSTANTIATE(Phase);
ZPLAN_INSTANTIATE(Part);
ZPLAN_INSTANTIATE(Action);
ZPLAN_INSTANTIATE(KernelId);
ZPLAN_INSTANTIATE(CollectiveKind);
ZPLAN_INSTANTIATE(Match);
ZPLAN_INSTANTIATE(Var);
ZPLAN_INSTANTIATE(Init);
#undef ZPLAN_INSTANTIATE

std::optional<Role> parse_role(std::string_view text) {
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto phase = parse_name<Phase>(text.substr(0, first));
  const auto part = parse_name<Part>(text.substr(first + 1, second - first - 1));
  const auto action = parse_name<Action>(text.substr(second + 1));
  if (!phase || !part || !action) return std::nullopt;
  return Role{*phase, *part, *action};
}

// On the lanes of collectives: what is done to their input or output.
static bool is_kernel_beside_collectives(Action action) {
  return action == Action::kAccumulate || action == Action::kCast ||
         action == Action::kCastGradient;
}

OpKind kind_of(Action action, Lane lane) {
  if (action >= Action::kBeforeGather) return OpKind::kMark;
  switch (lane) {
    case Lane::kCommGather:
    case Lane::kCommReduce:
    case Lane::kCommTensor:
      return is_kernel_beside_collectives(action) ? OpKind::kKernel : OpKind::kCollective;
    case Lane::kSendForwardUp:
    case Lane::kSendForwardDown:
    case Lane::kSendBackwardUp:
    case Lane::kSendBackwardDown:
      return OpKind::kSend;
    case Lane::kReceiveForwardUp:
    case Lane::kReceiveForwardDown:
    case Lane::kReceiveBackwardUp:
    case Lane::kReceiveBackwardDown:
      return OpKind::kReceive;
    case Lane::kH2d:
    case Lane::kD2h:
    case Lane::kIoRead:
    case Lane::kIoWrite:
      return OpKind::kCopy;
    case Lane::kCompute:
    case Lane::kCpu:
    case Lane::kInput:
      break;
  }
  const bool moves =
      action == Action::kMove || action == Action::kMoveBias || action == Action::kHold;
  return moves ? OpKind::kCopy : OpKind::kKernel;
}

std::string op_name(OpId id) {
  const Role role = role_of(id);
  const std::uint64_t tile = (id >> 20) & 0xff;
  const std::string last = tile == 0 ? "" : fmt::format(",t{}", tile);
  return fmt::format("{}[m{},l{}{}]", name(role), id & 0xfffff, (id >> 28) & 0xffff, last);
}

std::optional<OpId> parse_op_name(std::string_view text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) return std::nullopt;
  const auto role = parse_role(text.substr(0, bracket));
  std::string_view rest = text.substr(bracket);
  Env env;
  if (!role || !take_number(rest, "[m", 0xfffff, env.micro) ||
      !take_number(rest, ",l", 0xffff, env.layer)) {
    return std::nullopt;
  }
  if (rest.starts_with(",t") && !take_number(rest, ",t", 0xff, env.tile)) return std::nullopt;
  if (rest != "]") return std::nullopt;
  return op_id(*role, env);
}

}  // namespace zplan
