// The kernel table: what kernels/rows.h says of each kernel, read once. A row names its operands
// and says, from their shapes and types, how much work it is (flop) and how many bytes it must
// move. Whether it has scratch is an operand; how much is the kernel set's declared workspace, or
// more where the row asks for it. Cost model, verification and backends all read this table and
// nothing else. [derived] flop and bytes: multiply-adds count 2; bytes are compulsory traffic, each
// operand once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/product_phase.h"
#include "planner/core/units.h"
#include "planner/program/job/program.h"
#include "planner/program/kernels/kernel_signature.h"

namespace zplan {

// What kind of work a kernel is: picks the efficiency of the device that applies.
enum class WorkKind : std::uint8_t { kGemm, kAttention, kMemory, kHost };
// Whether its flop are those of products, which the peak of a device is of.
constexpr bool multiplies(WorkKind kind) {
  return kind == WorkKind::kGemm || kind == WorkKind::kAttention;
}

// A matrix product [m, k] x [k, n], `batch` of them at once, so often one after the other.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  std::int64_t times = 1;
  ProductPhase phase = ProductPhase::kForward;
};

// Fused attention of so many sequences and query heads. The size of a head is that of its keys and
// of its values, on average.
struct AttentionWork {
  std::int64_t batch = 0, heads = 0, sequence = 0, head_size = 0;
  bool backward = false;
  std::int64_t pairs = 0;   // of a query and a key that it sees, of one head of one sequence
  std::int64_t widest = 0;  // the larger size of a head, of keys or of values
  std::int64_t groups = 0;  // heads of keys and values; 0: as many as of queries
  std::int64_t keys = 0;    // of a sequence; 0: as many as queries
  bool sees_all = false;    // each query sees every key; otherwise only those up to its own place
};

struct Demand {
  WorkKind kind = WorkKind::kMemory;
  Flops flops{0};
  Bytes bytes{0};
  Product product{};          // of WorkKind::kGemm
  AttentionWork attention{};  // of WorkKind::kAttention
};

// This says which kernel sets have a kernel: those that fuse attention or do not, that merge what
// attention to several blocks of keys gives, that fuse neighbours, that have dropout, that round
// the operands of products to fp8, that store operands as codes (with no body for CUDA);
// kPlannedOnCuda and kExperts: all, but those for CUDA without a body of it.
enum class Sets : std::uint8_t {
  kAll,
  kPlannedOnCuda,
  kFusedAttention,
  kUnfusedAttention,
  kMergedAttention,
  kFusedNeighbours,
  kDropout,
  kExperts,
  kRoundsToFp8,
  kCodes
};

// Which kernels of WorkKind::kMemory move alike over their compulsory traffic: a stack has a rate
// for each group but the last, which moves just that.
enum class Traffic : std::uint8_t { kElementwise, kSoftmax, kLoss, kOptimizer, kCompulsory };

// What the work of a call is counted from.
struct CallViews : std::span<const View> {
  CallViews(std::span<const View> operands, const AttributeValues& values = {})
      : span(operands), attributes(values) {}

  AttributeValues attributes;
};

struct KernelSet;

// A row as kernels/rows.h writes it; its fields are explained there.
struct KernelRow {
  std::string_view operands;
  std::string_view attributes = {};
  WorkKind kind = WorkKind::kMemory;
  Demand (*demand)(const CallViews& call) = nullptr;
  Sets sets = Sets::kAll;
  bool layer_product = false;
  Traffic traffic = Traffic::kElementwise;
  Bytes (*scratch)(const CallViews& call, const KernelSet& set) = nullptr;
  std::string_view source = {}, what = {};
};

struct KernelDef : KernelRow {
  KernelDef(KernelId kernel, const KernelRow& row);

  KernelId id;
  std::vector<OperandRow> rows;  // of the operands
  int min_operands = 0;
  // `access` and `types` have a letter for each operand, but none for the type of scratch; `shapes`
  // has names and shapes, "x[T,k] ..".
  std::string access, types, shapes;
  std::vector<std::string_view> attribute_names;
  bool needs_attributes = false;  // all zero would make no sense

  // The operands as they are when they do not fit shapes and types.
  std::optional<std::string> mismatch(std::span<const View> operands) const;
  int max_operands() const { return static_cast<int>(rows.size()); }
  bool has_scratch() const { return !access.empty() && access.back() == 's'; }
  // The row of operand i of so many: scratch is the last one, whatever is absent before it.
  std::size_t row_of(std::size_t i, std::size_t count) const {
    return has_scratch() && i + 1 == count ? rows.size() - 1 : i;
  }
  // Whether the operand of row i, which the kernel writes, may lie where that of row j lies.
  bool may_lie_on(std::size_t i, std::size_t j) const;
};

const KernelDef& kernel_def(KernelId id);
// Attributes that depend on the rank, as the first has them.
inline Demand demand_of(const Program& p, const Node& n) {
  return kernel_def(n.kernel).demand({p.operands(n), resolve(p.attributes_of(n), {})});
}

// What a call of the kernel may use, by its operands; 0: it has no scratch.
Bytes scratch_of(KernelId kernel, std::span<const View> operands, const KernelSet& set);

}  // namespace zplan
