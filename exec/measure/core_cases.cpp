#include "exec/measure/core_cases.h"

#include <algorithm>

namespace zplan::exec {
namespace {

using Sizes = std::map<std::string, std::int64_t>;

// y[T, n] = x[T, k] w[k, n] of layers: hidden size to itself, to the MLP and back.
struct Layer {
  std::int64_t k, n;
};
constexpr Layer kLayers[] = {{256, 256}, {256, 1024}, {1024, 256}, {512, 1536},
                             {768, 768}, {768, 3072}, {3072, 768}, {1024, 4096}};
constexpr std::int64_t kTokens[] = {32, 128, 512, 1024};
constexpr Layer kHeads[] = {{256, 4096}, {256, 16384}, {768, 16384}, {768, 50304}};
constexpr std::int64_t kHeadTokens[] = {32, 128, 512};
constexpr std::int64_t kMostFlop = std::int64_t{1} << 35;  // [assumed] half a second of one core

constexpr KernelId kLayerProducts[] = {
    KernelId::kLinearForward, KernelId::kMatmulForward, KernelId::kLinearInputGradient,
    KernelId::kLinearWeightGradient, KernelId::kMatmulWeightGradient};
constexpr KernelId kHeadProducts[] = {KernelId::kHeadForward, KernelId::kHeadInputGradient,
                                      KernelId::kHeadWeightGradient};

constexpr std::int64_t kSequences[] = {32, 64, 128, 256, 1024};
constexpr std::int64_t kHeadSizes[] = {32, 64, 128};
constexpr std::int64_t kHeadCounts[] = {4, 12};

// Kernels that stream, on so many elements of their largest operand.
constexpr std::int64_t kElements[] = {1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
constexpr std::int64_t kRow = 512;          // elements of a row
constexpr std::int64_t kVocabulary = 8192;  // of a row of logits
constexpr std::int64_t kSquare = 128;       // sequence of stored probabilities

struct Stream {
  KernelId kernel;
  Sizes (*sizes)(std::int64_t elements);
  AttributeValues (*attributes)(std::int64_t elements) = nullptr;
  bool adds = false;
  bool of_states = false;  // passes over parameters, gradients or states of the optimizer
};
constexpr std::size_t kAllOperands = 100;

Sizes flat(std::int64_t n) { return {{"*", n}, {"n", n}}; }
Sizes rows(std::int64_t n) { return {{"T", n / kRow}, {"h", kRow}, {"n", kRow}, {"f", kRow}}; }
Sizes tokens(std::int64_t n) {
  return {{"b", 1}, {"s", n / kRow}, {"h", kRow}, {"Vp", kVocabulary}, {"V", kVocabulary}};
}
Sizes logits(std::int64_t n) {
  return {{"b", 1},
          {"s", std::max<std::int64_t>(1, n / kVocabulary)},
          {"Vp", kVocabulary},
          {"V", kVocabulary},
          {"k", 2}};
}
Sizes heads(std::int64_t n) {
  return {{"b", 1}, {"s", n / kRow}, {"a", 4}, {"n", 12}, {"d", kRow / 12 / 2 * 2}};
}
Sizes squares(std::int64_t n) {
  return {{"b", 1}, {"a", std::max<std::int64_t>(1, n / (kSquare * kSquare))}, {"s", kSquare}};
}
AttributeValues loss(std::int64_t n) {
  return {kVocabulary, std::max<std::int64_t>(1, n / kVocabulary)};
}
AttributeValues halves_of_vocabulary(std::int64_t n) {
  return {2 * kVocabulary, std::max<std::int64_t>(1, n / kVocabulary)};
}
AttributeValues all_decay(std::int64_t n) { return {0, n, 0}; }
AttributeValues all_count(std::int64_t) { return {0, -1, 0, 0}; }
AttributeValues forward_rotation(std::int64_t) { return {8, 10000, 1}; }

const Stream kStreams[] = {
    {KernelId::kResidualAdd, flat},
    {KernelId::kGeluForward, flat},
    {KernelId::kGeluBackward, flat},
    {KernelId::kFillZero, flat, nullptr, false, true},
    {KernelId::kAccumulate, flat, nullptr, false, true},
    {KernelId::kSumSquares, flat, all_count, false, true},
    {KernelId::kAdamW, flat, all_decay, false, true},
    {KernelId::kCast, flat, nullptr, false, true},
    {KernelId::kLayerNormForward, rows},
    {KernelId::kLayerNormBackward, rows, nullptr, true},
    {KernelId::kRmsNormForward, rows},
    {KernelId::kRmsNormBackward, rows, nullptr, true},
    {KernelId::kBiasResidualAdd, rows},
    {KernelId::kResidualLayerNormForward, rows},
    {KernelId::kResidualRmsNormForward, rows},
    {KernelId::kBiasGradient, rows, nullptr, true},
    {KernelId::kSwigluForward, rows},
    {KernelId::kSwigluBackward, rows},
    {KernelId::kRope, heads, forward_rotation},
    {KernelId::kEmbeddingForward, tokens},
    {KernelId::kEmbeddingBackward, tokens, nullptr, true},
    {KernelId::kCrossEntropy, logits, loss},
    {KernelId::kCrossEntropyStatistics, logits, halves_of_vocabulary},
    {KernelId::kCrossEntropyParallel, logits, halves_of_vocabulary},
    {KernelId::kSoftmaxForward, squares},
    {KernelId::kSoftmaxBackward, squares},
};

class Cases {
 public:
  Cases(const KernelSet& set, int cores, bool quick) : set_(&set), quick_(quick) {
    if (cores > 1) threads_.push_back(cores);
  }

  std::vector<CoreCase> all() {
    for (const int threads : threads_) {
      products(threads);
      attention(threads);
      streams(threads);
    }
    return std::move(cases_);
  }

 private:
  void product(KernelId kernel, int threads, const Sizes& sizes) {
    const bool weights = kernel == KernelId::kLinearWeightGradient ||
                         kernel == KernelId::kMatmulWeightGradient ||
                         kernel == KernelId::kHeadWeightGradient;
    const Case call{.kernel = kernel, .sizes = sizes, .adds = weights};
    const Demand demand = demand_of(call, *set_);
    if (demand.flops.value > kMostFlop) return;
    const Product& p = demand.product;
    cases_.push_back({call, threads, {p.m, p.n, p.k}, 1});
  }
  void products(int threads) {
    for (const std::int64_t t : kTokens) {
      if (quick_ && t != 32) continue;
      for (const Layer& layer : kLayers) {
        if (quick_ && layer.k > 256) continue;
        for (const KernelId kernel : kLayerProducts)
          product(kernel, threads, {{"T", t}, {"k", layer.k}, {"n", layer.n}});
      }
    }
    for (const std::int64_t t : kHeadTokens) {
      if (quick_ && t != 32) continue;
      for (const Layer& head : kHeads) {
        if (quick_ && head.n > 4096) continue;
        for (const KernelId kernel : kHeadProducts)
          product(kernel, threads, {{"T", t}, {"h", head.k}, {"Vp", head.n}});
      }
    }
  }
  void attention(int threads) {
    for (const std::int64_t s : kSequences)
      for (const std::int64_t d : kHeadSizes)
        for (const std::int64_t a : kHeadCounts) {
          if (quick_ && (s > 64 || d > 32 || a > 4)) continue;
          for (const KernelId kernel : {KernelId::kAttentionForward, KernelId::kAttentionBackward})
            cases_.push_back({{.kernel = kernel,
                               .sizes = {{"b", 1}, {"s", s}, {"a", a}, {"n", 3 * a}, {"d", d}}},
                              threads,
                              {a * s, s, d},
                              1});
        }
  }
  void streams(int threads) {
    for (const Stream& stream : kStreams)
      for (const std::int64_t n : kElements) {
        if (quick_ && n > (1 << 16)) continue;
        Case call{.kernel = stream.kernel, .sizes = stream.sizes(n), .adds = stream.adds};
        if (stream.attributes != nullptr) call.attributes = stream.attributes(n);
        const std::size_t warm = stream.of_states ? 0 : kAllOperands;
        cases_.push_back({call, threads, {demand_of(call, *set_).bytes.value, 1, 1}, warm});
      }
  }

  const KernelSet* set_;
  bool quick_;
  std::vector<int> threads_{1};
  std::vector<CoreCase> cases_;
};

}  // namespace

std::vector<CoreCase> core_cases(const KernelSet& set, int cores, bool quick) {
  return Cases(set, cores, quick).all();
}

}  // namespace zplan::exec
