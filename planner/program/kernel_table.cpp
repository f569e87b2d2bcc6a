#include "planner/program/kernel_table.h"

#include <algorithm>

namespace zplan {
namespace {

using Operands = std::span<const View>;

Bytes traffic(Operands operands) {
  Bytes sum{0};
  for (const View& v : operands) {
    if (v.access == Access::kScratch) continue;
    sum += v.access == Access::kUpdate ? v.bytes() * 2 : v.bytes();
  }
  return sum;
}

template <int flop_per_element, int operand>
Demand streaming(Operands o) {
  const std::int64_t n = o[static_cast<std::size_t>(operand)].shape.elements();
  return {.kind = WorkKind::kMemory, .flops = Flops{n * flop_per_element}, .bytes = traffic(o)};
}

// Works in place on some of the heads of its first operand: on as many elements as `heads` has.
template <int flop_per_element, int heads>
Demand in_heads(Operands o) {
  const std::int64_t n = o[heads].shape.elements();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{n * flop_per_element},
          .bytes = size_of(o[0].dtype) * (2 * n) + traffic(o.subspan(1))};
}

Demand product(const Product& p, Operands o) {
  return {.kind = WorkKind::kGemm,
          .flops = Flops{2 * p.m * p.n * p.k * p.batch * p.times},
          .bytes = traffic(o),
          .product = p};
}

// y[m,n] = x[m,k] w[k,n] with x and w at the given operands.
template <int x, int w>
Demand matmul(Operands o) {
  const Shape& a = o[x].shape;
  const std::int64_t k = a[a.rank - 1];
  return product({.m = a.elements() / k, .n = o[w].shape.elements() / k, .k = k}, o);
}

// dx[T,k] = dy[T,n] w[k,n]^T; the weights also lie the other way round.
template <int dy, int w>
Demand input_gradient(Operands o) {
  const Shape& d = o[dy].shape;
  const std::int64_t n = d[d.rank - 1];
  return product({.m = d.elements() / n, .n = o[w].shape.elements() / n, .k = n}, o);
}

// dw[k,n] = x[T,k]^T dy[T,n]
template <int x, int dw>
Demand weight_gradient(Operands o) {
  const Shape& d = o[dw].shape;
  return product({.m = d[0], .n = d[1], .k = o[x].shape[0]}, o);
}

// [Dao22 sec 3] two products of b a (s^2/2) d, causal; the forward is recomputed in backward: five.
template <int out, int products>
Demand attention(Operands o) {
  const Shape& x = o[out].shape;  // [b, s, a, d]
  const std::int64_t causal_pairs = x[1] * (x[1] + 1) / 2;
  return {.kind = WorkKind::kAttention,
          .flops = Flops{2 * products * x[0] * x[2] * x[3] * causal_pairs},
          .bytes = traffic(o),
          .attention = {x[0], x[2], x[1], x[3], products > 2}};
}

// Products over the whole square, masked or not: [b,a,s,s] at `scores`, d of qkv [b,s,n,d].
template <int scores, int qkv, int products>
Demand square(Operands o) {
  const Shape& x = o[scores].shape;
  const std::int64_t d = o[qkv].shape[3];
  return product({.m = x[2], .n = x[3], .k = d, .batch = x[0] * x[1], .times = products}, o);
}

// Reads only the rows of wte it looks up.
Demand embedding_forward(Operands o) {
  const Bytes x = o[2].bytes();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{o[2].shape.elements()},
          .bytes = o[0].bytes() + x * 2 + traffic(o.subspan(3))};
}

// Adding touches only the rows of the batch's tokens, at most one per token: they are read and
// written. Overwriting writes the whole table once. [derived]
Demand embedding_backward(Operands o) {
  const Shape& dx = o[1].shape;
  const View& table = o[2];
  const std::int64_t touched = std::min(dx.elements(), table.shape.elements());
  const Bytes moved =
      table.access == Access::kUpdate ? size_of(table.dtype) * (2 * touched) : table.bytes();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{2 * dx.elements()},
          .bytes = traffic(o.first(2)) + moved + traffic(o.subspan(3))};
}

Demand host_work(Operands o) { return {.kind = WorkKind::kHost, .bytes = traffic(o)}; }

constexpr auto kMem = WorkKind::kMemory;
constexpr auto kGemm = WorkKind::kGemm;
constexpr auto kAtt = WorkKind::kAttention;
constexpr auto kHost = WorkKind::kHost;

// Flop per element of an elementwise kernel, counted from its formula (those stand at the kernels
// of exec/cpu/kernels): an addition, product, quotient, root or comparison is 1. They only matter
// on the CPU lane; a GPU streams (cost/kernel_time.h). [derived]
// exp: 6 to reduce the range and 7 multiply-adds of a polynomial good to float. [derived]
constexpr int kExp = 20;
// A random number: ten rounds of 8 operations give four [Salmon11].
constexpr int kDraw = 20;

std::vector<KernelDef> read_rows() {
  std::vector<KernelDef> table;
#define ZPLAN_KERNEL(Id, name, ...) table.emplace_back(KernelId::k##Id, KernelRow{__VA_ARGS__});
#include "planner/program/kernels/rows.h"
  return table;
}

}  // namespace

KernelDef::KernelDef(KernelId kernel, const KernelRow& row)
    : KernelRow(row), id(kernel), rows(read_operands(row.operands)) {
  for (const OperandRow& operand : rows) {
    access += operand.access;
    if (!operand.may_be_absent) ++min_operands;
    if (operand.access == 's') continue;
    types += operand.type;
    shapes += (shapes.empty() ? "" : " ") + std::string(operand.name) + std::string(operand.shape);
  }
  std::string_view rest = attributes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const bool may_be_absent = rest[end - 1] == '?';
    needs_attributes = needs_attributes || !may_be_absent;
    attribute_names.push_back(rest.substr(0, may_be_absent ? end - 1 : end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

bool KernelDef::may_lie_on(std::size_t i, std::size_t j) const {
  const auto& names = rows[i].in_place_of;
  return std::find(names.begin(), names.end(), rows[j].name) != names.end();
}

const KernelDef& kernel_def(KernelId id) {
  static const std::vector<KernelDef> kTable = read_rows();
  return kTable[static_cast<std::size_t>(id)];
}

}  // namespace zplan
