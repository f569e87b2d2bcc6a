#include "planner/program/kernels/kernel_table.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "planner/program/kernels/fp8_products.h"
#include "planner/program/kernels/fused_attention.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using Operands = const CallViews&;

Bytes traffic(Operands operands) {
  Bytes sum{0};
  for (const View& v : operands) {
    if (v.access == Access::kScratch) continue;
    sum += v.access == Access::kUpdate ? v.bytes() * 2 : v.bytes();
  }
  return sum;
}

// Flop per element of an elementwise kernel, counted from its formula (those stand at the kernels
// of exec/cpu/kernels): an addition, product, quotient, root or comparison is 1. They only matter
// on the CPU lane; a GPU streams (cost/kernel_time.h). [derived]
// exp: 6 to reduce the range and 7 multiply-adds of a polynomial good to float. [derived]
constexpr int kExp = 20;
// A random number: ten rounds of 8 operations give four [Salmon11].
constexpr int kDraw = 20;

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

// Reads some of the heads of its first operand alone.
template <int flop_per_element, int heads>
Demand some_heads(Operands o) {
  const std::int64_t n = o[heads].shape.elements();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{n * flop_per_element},
          .bytes = size_of(o[0].dtype) * n + traffic(o.subspan(1))};
}

// Touches of its first operands, pieces of a unit, only so many elements as attribute 6 expects.
template <int flop_per_element, std::size_t pieces>
Demand part_of_pieces(Operands o) {
  const std::int64_t n = o.attributes[6];
  Demand demand{.kind = WorkKind::kMemory,
                .flops = Flops{n * flop_per_element},
                .bytes = traffic(o.subspan(pieces))};
  for (const View& v : o.first(pieces))
    demand.bytes += size_of(v.dtype) * (v.access == Access::kUpdate ? 2 * n : n);
  return demand;
}

// Touches some columns of one operand only: as many elements as `whole` has, so many times.
template <int flop_per_element, int whole, int times>
Demand some_columns(Operands o) {
  return {.kind = WorkKind::kMemory,
          .flops = Flops{o[whole].shape.elements() * flop_per_element},
          .bytes = o[whole].bytes() * times};
}

// The product that reads codes or makes them has this among its work (fp8_products.h).
Demand part_of_product(Operands) { return {.kind = WorkKind::kMemory}; }

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
  return product({.m = d.elements() / n,
                  .n = o[w].shape.elements() / n,
                  .k = n,
                  .phase = ProductPhase::kInputGradient},
                 o);
}

ProductPhase phase_of_gradient(const View& dw) {
  constexpr int kShort = 2;  // bytes of an element
  return size_of(dw.dtype).value <= kShort ? ProductPhase::kShortWeightGradient
                                           : ProductPhase::kWeightGradient;
}

// dw[k,n] = x[T,k]^T dy[T,n]
template <int x, int dw>
Demand weight_gradient(Operands o) {
  const Shape& d = o[dw].shape;
  return product({.m = d[0], .n = d[1], .k = o[x].shape[0], .phase = phase_of_gradient(o[dw])}, o);
}

// Elements of a query and of a key in qkv [b, s, g, w], where a value has v: w = (a / g + 1) d + v.
std::int64_t key_size(const Shape& qkv, std::int64_t heads, std::int64_t value_size) {
  return (qkv[3] - value_size) / (heads / qkv[2] + 1);
}

// Counts the pairs of s queries and keys that see each other: all, the earlier ones, or the last w
// of them, or both ways w on either side. [derived]
std::int64_t seen_pairs(std::int64_t s, std::int64_t window, bool both_ways) {
  const std::int64_t w = window == 0 ? s : std::min(window, s);
  if (both_ways) return s * (2 * w - 1) - w * (w - 1);
  return w * (w + 1) / 2 + (s - w) * w;
}

// [Dao22 sec 3] a product of b a (s^2/2) d, causal, for each size d of a head that it takes: those
// of keys and of values; backward computes the scores again, and has two products of either.
template <int qkv, int out, bool backward>
Demand attention(Operands o) {
  const Shape& x = o[out].shape;  // [b, s, a, v]
  const std::int64_t d = key_size(o[qkv].shape, x[2], x[3]), v = x[3];
  const std::int64_t sizes = backward ? 3 * d + 2 * v : d + v;
  const bool both_ways = o.attributes[5] != 0;
  const std::int64_t pairs = seen_pairs(x[1], o.attributes[0], both_ways);
  return {.kind = WorkKind::kAttention,
          .flops = Flops{2 * x[0] * x[2] * sizes * pairs},
          .bytes = traffic(o),
          .attention = {.batch = x[0],
                        .heads = x[2],
                        .sequence = x[1],
                        .head_size = (d + v) / 2,
                        .backward = backward,
                        .pairs = pairs,
                        .widest = std::max(d, v),
                        .groups = o[qkv].shape[2],
                        .sees_all = both_ways}};
}

// Attention with a mask: of the keys that it computes some are left out.
template <int qkv, int out, bool backward>
Demand chosen_attention(Operands o) {
  return attention<qkv, out, backward>({o, AttributeValues{}});
}

// [derived] Scores of an indexer's n heads of e elements, for each of `passes` times `pairs`.
Demand index_scores(Operands o, const Shape& q, std::int64_t passes, std::int64_t pairs,
                    bool backward) {
  return {.kind = WorkKind::kAttention,
          .flops = Flops{2 * q[0] * q[2] * q[3] * passes * pairs},
          .bytes = traffic(o),
          .attention = {.batch = q[0],
                        .heads = q[2],
                        .sequence = q[1],
                        .head_size = q[3],
                        .backward = backward,
                        .pairs = pairs,
                        .widest = q[3],
                        .groups = 1}};
}

Demand choose_keys(Operands o) {
  const Shape& q = o[0].shape;
  return index_scores(o, q, 1, seen_pairs(q[1], 0, false), false);
}
// Some queries at a time have a score and a place of each key [DeepSeek25b].
Bytes choose_keys_scratch(Operands o, const KernelSet& set) {
  constexpr std::int64_t kTogether = 1024;  // [derived] 2 GiB at 256 Ki tokens
  const Shape& q = o[0].shape;
  const std::int64_t pairs = std::min(kTogether, q[0] * q[1]) * q[1];
  return std::max(set.workspace, (size_of(DType::kF32) + size_of(DType::kI32)) * pairs);
}

// The scores again, and the gradients of queries and of keys, of the keys that were chosen.
Demand choose_keys_backward(Operands o) {
  const Shape& q = o[2].shape;
  return index_scores(o, q, 3, seen_pairs(q[1], o[1].shape[2], false), true);
}

// The scores of all heads again.
Demand chosen_shares(Operands o) {
  const Shape &qkv = o[0].shape, &lse = o[2].shape;  // [b, s, g, w], [b, a, s]
  const std::int64_t d = key_size(qkv, lse[1], o.attributes[0]);
  const std::int64_t pairs = seen_pairs(qkv[1], o[1].shape[2], false);
  return {.kind = WorkKind::kAttention,
          .flops = Flops{2 * lse[0] * lse[1] * d * pairs},
          .bytes = traffic(o),
          .attention = {.batch = lse[0],
                        .heads = lse[1],
                        .sequence = lse[2],
                        .head_size = d,
                        .pairs = pairs,
                        .widest = d,
                        .groups = qkv[2]}};
}

// The casts of a set that multiplies in fp8, and what its products have without them.
template <Demand (*demand)(Operands)>
Bytes cast_scratch(Operands o, const KernelSet& set) {
  const Product p = demand(o).product;
  if (set.layer_products != LayerProducts::kFp8 || !fits_fp8(p)) return {0};
  return fp8_scratch(p).rest + set.workspace;
}

Bytes attention_backward_scratch(Operands o, const KernelSet& set) {
  const Shape &qkv = o[1].shape, &out = o[2].shape;
  const std::int64_t d = key_size(qkv, out[2], out[3]);
  return fused_backward_scratch({out[0], out[1], out[2], qkv[2], std::max(d, out[3])}, set);
}

// [derived] of a block of keys that another rank brings: half of the s x s pairs of a query and a
// key, all of them seen, as many as causal attention sees of s tokens.
template <int qkv, int out, bool backward>
Demand block_attention(Operands o) {
  Demand demand = attention<qkv, out, backward>(o);
  const Shape& x = o[out].shape;  // [b, s, a, v]
  const std::int64_t d = key_size(o[qkv].shape, x[2], x[3]), v = x[3];
  const std::int64_t sizes = backward ? 3 * d + 2 * v : d + v;
  demand.flops = Flops{x[0] * x[2] * sizes * x[1] * x[1]};
  demand.attention.pairs = x[1] * x[1] / 2;
  demand.attention.keys = std::max<std::int64_t>(1, x[1] / 2);
  demand.attention.sees_all = true;
  return demand;
}

// Products over the whole square [b, a, s, s], masked or not, one for each size of a head.
Demand squares(Operands o, const Shape& x, std::initializer_list<std::int64_t> sizes) {
  const auto n = static_cast<std::int64_t>(sizes.size());
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  Demand demand =
      product({.m = x[2], .n = x[3], .k = sum / n, .batch = x[0] * x[1], .times = n}, o);
  demand.flops = Flops{2 * x[2] * x[3] * x[0] * x[1] * sum};
  return demand;
}

Demand attention_scores(Operands o) {
  const Shape& scores = o[1].shape;
  return squares(o, scores, {key_size(o[0].shape, scores[1], o.attributes[0])});
}

// With the probabilities, or their gradient, and what values give at these operands.
template <int square, int out>
Demand attention_context(Operands o) {
  return squares(o, o[square].shape, {o[out].shape[3]});
}

Demand attention_scores_gradient(Operands o) {
  const Shape& dout = o[2].shape;
  const std::int64_t d = key_size(o[3].shape, dout[2], dout[3]);
  return squares(o, o[0].shape, {d, d, dout[3]});
}

// Of the heads of q [b, s, a, d] and one that they share, [b, s, r], r elements turn; a sine and a
// cosine count as one exp, as those of rope. [derived]
template <int q, int shared>
Demand latent_heads(Operands o) {
  constexpr std::int64_t kFlopOfTurn = 3 + kExp;
  const std::int64_t turned = (o[q].shape[2] + 1) * o[shared].shape.elements();
  return {.kind = WorkKind::kMemory, .flops = Flops{turned * kFlopOfTurn}, .bytes = traffic(o)};
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

// Its tokens in order: on the CPU with the place of each, on CUDA keys and values before and after,
// and what sorting takes [assumed].
Bytes embedding_backward_scratch(Operands o, const KernelSet& set) {
  constexpr std::int64_t kPlace = 8, kSorted = 32, kOfSorting = 1 << 20;
  const std::int64_t tokens = o[1].shape[0] * o[1].shape[1];
  return {set.runs_on == RunsOn::kCpu ? kPlace * tokens : kSorted * tokens + kOfSorting};
}

// [derived] each expert has as many rows as all have on average. What holds rows, x and y, has room
// for more than the expected ones, which alone are counted.
template <std::size_t x, std::size_t y, std::size_t w>
Demand grouped(Operands o) {
  const std::int64_t rows = o.attributes[0];
  const Shape& matrices = o[w].shape;
  const std::int64_t n = o[y].shape[2], k = o[x].shape[2];
  Demand demand =
      product({.m = ceil_div(rows, matrices[0]), .n = n, .k = k, .batch = matrices[0]}, o);
  demand.flops = Flops{2 * rows * n * k};
  const std::int64_t passes = o[y].access == Access::kUpdate ? 2 : 1;  // over y
  demand.bytes += size_of(o[x].dtype) * (rows * (passes * n + k)) - o[x].bytes();
  demand.bytes -= o[y].bytes() * passes;
  return demand;
}

// dw[e,k,n], of each the product of k rows of x^T and n columns of dy over the expert's rows.
Demand grouped_weight_gradient(Operands o) {
  Demand demand = grouped<0, 1, 3>(o);
  std::swap(demand.product.m, demand.product.k);
  demand.product.phase = phase_of_gradient(o[3]);
  return demand;
}

// Three products in each of five steps [Jordan24]: of the shorter side q and the longer one two of
// q q p multiply-adds, and one of q q q.
Demand newton_schulz(Operands o) {
  constexpr std::int64_t kSteps = 5;
  const Shape& x = o[0].shape;
  const std::int64_t q = std::min(x[0], x[1]), p = std::max(x[0], x[1]);
  Demand demand = product({.m = q, .n = p, .k = q, .times = 3 * kSteps}, o);
  demand.flops = Flops{kSteps * 2 * q * q * (2 * p + q)};
  return demand;
}

// Reads and writes some columns of its wide operands: as many as y has, so often.
template <int y, int weight, int times>
Demand convolution(Operands o) {
  const std::int64_t taps = o[weight].shape[0];
  return {.kind = WorkKind::kMemory,
          .flops = Flops{o[y].shape.elements() * times * (taps + kExp)},
          .bytes = o[y].bytes() * times + o[weight].bytes()};
}
template <int y, int times>
Demand gated_norm(Operands o) {
  return {.kind = WorkKind::kMemory,
          .flops = Flops{o[y].shape.elements() * times * (4 + kExp)},
          .bytes = o[y].bytes() * times};
}

// Kernels go through s tokens in chunks of Q; states of Mamba-2 are in 32 bit between chunks.
constexpr std::int64_t kStateBytes = 4;

struct ScanWork {
  std::int64_t sequences, tokens, heads, chunks, chunk;

  std::int64_t all_chunks() const { return sequences * chunks * heads; }
  std::int64_t all_tokens() const { return sequences * tokens; }
};
template <int x, int vector, int chunk_at = 2>
ScanWork scan_work(Operands o) {
  const Shape& shape = o[x].shape;
  const std::int64_t chunk = std::clamp<std::int64_t>(o.attributes[chunk_at], 1, shape[1]);
  return {shape[0], shape[1], o[vector].shape[0], ceil_div(shape[1], chunk), chunk};
}

// [derived] of the chunked algorithm of [Dao24 sec 6], of a head of P elements and a group's state
// of N, as [Mamba] has it in kernels: C B^T of a chunk (Q Q N for each group), its state (Q P N),
// what it gives (half of Q Q P, and Q N P). Backward computes the first two again; each product has
// two gradients. Between kernels states and C B^T go to memory in 32 bit: forward writes and reads
// the former twice, the latter once; backward has both and their gradients, and reads each once
// more. All of it streams: of a byte it has few flop.
template <int x, int vector, int y, bool backward>
Demand mamba_scan(Operands o) {
  const ScanWork w = scan_work<x, vector>(o);
  const std::int64_t groups = o.attributes[0], state = o.attributes[1];
  const std::int64_t size = o[y].shape[2] / w.heads, q = w.chunk;
  const std::int64_t scores = groups * q * state, inside = w.heads * q * size / 2,
                     states = w.heads * size * state;
  const std::int64_t per_token =
      backward ? 3 * scores + 2 * inside + 5 * states : scores + inside + 2 * states;
  const std::int64_t of_states = w.all_chunks() * size * state * (backward ? 10 : 4);
  const std::int64_t of_scores = w.sequences * w.chunks * groups * q * q * (backward ? 6 : 2);
  const std::int64_t steps = w.all_tokens() * w.heads * (backward ? 8 : 4);
  const Bytes columns = o[x].bytes() * (backward ? 4 : 1) + o[y].bytes();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{2 * w.all_tokens() * per_token},
          .bytes = columns + Bytes{kStateBytes * (of_states + of_scores + steps)}};
}

// [derived] of the chunked algorithm of [Yang24b sec 3.3], of a head of keys of D and values of V:
// K K^T (Q Q D), the inverse of a triangle (Q Q Q / 3), what it makes of keys and values (Q Q (D +
// V) / 2), states (2 Q D V), and what queries give (Q Q (D + V) / 2 and Q D V). Backward computes
// the states again and has two gradients of each product. Between kernels go the triangle, its two
// results and the states, which are of 16 bit.
Demand chunked_delta(const ScanWork& w, std::int64_t d, std::int64_t v, Bytes columns,
                     std::int64_t element_bytes, bool backward) {
  const std::int64_t q = w.chunk;
  const std::int64_t forward = q * d + q * q / 3 + q * (d + v) + 3 * d * v;
  const std::int64_t per_token = w.heads * (backward ? 2 * forward + 3 * d * v : forward);
  const std::int64_t kept = w.all_tokens() * w.heads * (q + d + 2 * v);
  const std::int64_t states = w.all_chunks() * d * v;
  return {.kind = WorkKind::kMemory,
          .flops = Flops{2 * w.all_tokens() * per_token},
          .bytes = columns + Bytes{element_bytes * (kept + states) * (backward ? 4 : 2)}};
}
template <int x, int vector, int y, bool backward>
Demand delta_scan(Operands o) {
  const ScanWork w = scan_work<x, vector>(o);
  return chunked_delta(w, o.attributes[1], o[y].shape[2] / w.heads,
                       o[x].bytes() * (backward ? 4 : 1) + o[y].bytes(), size_of(o[x].dtype).value,
                       backward);
}

// [derived] the products are those above, of keys with the decays of their channels [KimiTeam25
// sec 4]. Decays go through memory besides: read once, their sums within a chunk in 32 bit written
// and read; backward reads both again and writes gradients of both.
template <int x, int decay, int vector, int y, bool backward>
Demand kimi_scan(Operands o) {
  const ScanWork w = scan_work<x, vector, 0>(o);
  const std::int64_t decays = o[decay].shape.elements();
  const Bytes columns = o[x].bytes() * (backward ? 4 : 1) + o[y].bytes() +
                        (o[decay].bytes() + Bytes{kStateBytes * 2 * decays}) * (backward ? 2 : 1);
  Demand demand = chunked_delta(w, decays / w.all_tokens() / w.heads, o[y].shape[2] / w.heads,
                                columns, size_of(o[x].dtype).value, backward);
  demand.flops = demand.flops + Flops{decays * kExp * (backward ? 2 : 1)};
  return demand;
}

// [derived] each number of a state takes an exp and 6 flop of a token; backward computes it again
// and takes as many for each of two gradients. Kernels of [Mamba] go through chunks of 2,048
// tokens, whose states and decays they write in 32 bit, and read in backward.
template <int x, int a_log, bool backward>
Demand selective_scan(Operands o) {
  constexpr std::int64_t kTokens = 2048;
  const Shape &shape = o[x].shape, &states = o[a_log].shape;
  const std::int64_t tokens = shape[0] * shape[1];
  const std::int64_t kept = 2 * shape[0] * ceil_div(shape[1], kTokens) * states.elements();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{tokens * states.elements() * (6 + kExp) * (backward ? 3 : 1)},
          .bytes = traffic(o) + Bytes{kStateBytes * kept}};
}

// Reads and writes so many times the columns of a channel; each tap takes a multiply-add.
template <int in, int weight, int times>
Demand short_convolution(Operands o) {
  const Shape &all = o[in].shape, &taps = o[weight].shape;
  const std::int64_t channels = all[0] * all[1] * taps[1];
  return {.kind = WorkKind::kMemory,
          .flops = Flops{channels * (2 * taps[0] + 2) * (times - 1) / 3},
          .bytes = size_of(o[in].dtype) * (channels * times) + o[weight].bytes()};
}

Demand scaled_columns(Operands o) {
  const std::int64_t elements = o[0].shape[0] * std::int64_t{o.attributes[1]};
  return {.kind = WorkKind::kMemory,
          .flops = Flops{elements},
          .bytes = size_of(o[0].dtype) * (2 * elements)};
}

// Moves the rows of images alone, whatever else is in the other operand; what is taken is zeroed.
template <int image>
Demand rows_of_images(Operands o) {
  const std::int64_t passes = image == 0 ? 2 : 3;
  return {.kind = WorkKind::kMemory, .bytes = o[image].bytes() * passes};
}

Demand host_work(Operands o) { return {.kind = WorkKind::kHost, .bytes = traffic(o)}; }

constexpr auto kMem = WorkKind::kMemory;
constexpr auto kGemm = WorkKind::kGemm;
constexpr auto kAtt = WorkKind::kAttention;
constexpr auto kHost = WorkKind::kHost;

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

std::optional<std::string> KernelDef::mismatch(std::span<const View> operands) const {
  return operand_mismatch(rows, operands);
}

bool KernelDef::may_lie_on(std::size_t i, std::size_t j) const {
  const auto& names = rows[i].in_place_of;
  return std::find(names.begin(), names.end(), rows[j].name) != names.end();
}

const KernelDef& kernel_def(KernelId id) {
  static const std::vector<KernelDef> kTable = read_rows();
  return kTable[static_cast<std::size_t>(id)];
}

Bytes scratch_of(KernelId kernel, std::span<const View> operands, const KernelSet& set) {
  const KernelDef& def = kernel_def(kernel);
  if (!def.has_scratch()) return {0};
  if (def.scratch == nullptr) return set.workspace;
  return std::max(set.workspace, def.scratch(CallViews{operands}, set));
}

}  // namespace zplan
