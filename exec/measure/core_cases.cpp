#include "exec/measure/core_cases.h"

#include <algorithm>
#include <string>

#include "exec/kernels/four_bits.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec {
namespace {

using Sizes = std::map<std::string, std::int64_t>;

// y[T, n] = x[T, k] w[k, n] of layers: hidden size to itself, to the MLP and back.
struct CoreLayer {
  std::int64_t k, n;
};
constexpr CoreLayer kCoreLayers[] = {{256, 256}, {256, 1024}, {1024, 256}, {512, 1536},
                                     {768, 768}, {768, 3072}, {3072, 768}, {1024, 4096}};
constexpr std::int64_t kTokens[] = {32, 128, 512, 1024};
constexpr CoreLayer kCoreHeads[] = {{256, 4096}, {256, 16384}, {768, 16384}, {768, 50304}};
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
constexpr std::int64_t kStateBlock = 256;   // moments that share a scale
constexpr std::size_t kAllOperands = 100;

Sizes flat(std::int64_t n) { return {{"*", n}, {"n", n}}; }
Sizes rows(std::int64_t n) { return {{"T", n / kRow}, {"h", kRow}, {"n", kRow}, {"f", kRow}}; }
Sizes tokens(std::int64_t n) {
  return {{"b", 1},           {"s", n / kRow}, {"h", kRow}, {"Vp", kVocabulary},
          {"V", kVocabulary}, {"n", 2}};
}
Sizes logits(std::int64_t n) {
  return {{"b", 1},
          {"s", std::max<std::int64_t>(1, n / kVocabulary)},
          {"Vp", kVocabulary},
          {"V", kVocabulary},
          {"k", 2}};
}
Sizes heads(std::int64_t n) {
  return {{"b", 1}, {"s", n / kRow}, {"a", 4}, {"n", 12}, {"m", 8}, {"d", kRow / 12 / 2 * 2}};
}
Sizes columns(std::int64_t n) { return {{"c", 4}, {"T", n / kRow}, {"m", kRow / 4}}; }
Sizes latent_heads(std::int64_t n) {  // queries and keys of 32 + 16 elements, values of 32
  return {{"b", 1}, {"s", n / kRow}, {"a", 4}, {"d", 48}, {"e", 64}, {"r", 16}, {"w", kRow / 4}};
}
Sizes results_of_heads(std::int64_t n) {
  return {{"b", 1}, {"s", n / kRow}, {"a", 4}, {"v", kRow / 4}};
}
Sizes gates(std::int64_t n) {  // of a mixer with a state
  return {{"b", 1},    {"s", n / kRow}, {"w", 2 * kRow}, {"c", kRow},
          {"v", kRow}, {"e", kRow},     {"m", 8},        {"k", 4}};
}
Sizes short_convolutions(std::int64_t n) {
  return {{"b", 1}, {"s", n / kRow}, {"w", 3 * kRow}, {"c", kRow}, {"k", 4}};
}
Sizes image_rows(std::int64_t n) {  // as long as a quarter of the tokens
  return {{"T", n / kRow}, {"R", std::max<std::int64_t>(1, n / kRow / 4)}, {"h", kRow}};
}
Sizes squares(std::int64_t n) {
  return {{"b", 1},
          {"a", std::max<std::int64_t>(1, n / (kSquare * kSquare))},
          {"s", kSquare},
          {"r", 2 * kSquare - 1}};
}
Sizes biases(std::int64_t n) { return {{"n", 32}, {"a", 8}, {"r", n / 8 - 1}}; }

// Vectors are as long as the operand, matrices have rows of kRow; others are told here.
Sizes sizes_of(const KernelDef& def, std::int64_t n) {
  if (def.rows[0].shape == "[b,s,n,d]") return heads(n);
  switch (def.id) {
    case KernelId::kLatentHeadsForward:
    case KernelId::kLatentHeadsBackward:
      return latent_heads(n);
    case KernelId::kShortConvolutionForward:
    case KernelId::kShortConvolutionBackward:
      return short_convolutions(n);
    case KernelId::kConvolutionForward:
    case KernelId::kConvolutionBackward:
    case KernelId::kGatedNormForward:
    case KernelId::kGatedNormBackward:
    case KernelId::kSiluGateForward:
    case KernelId::kSiluGateBackward:
      return gates(n);
    case KernelId::kScaleColumns:
      return {{"T", n / kRow}, {"w", kRow}};
    case KernelId::kEmbeddingForward:
    case KernelId::kEmbeddingBackward:
    case KernelId::kSegmentForward:
    case KernelId::kSegmentBackward:
      return tokens(n);
    case KernelId::kCrossEntropy:
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel:
      return logits(n);
    case KernelId::kSoftmaxForward:
    case KernelId::kSoftmaxBackward:
    case KernelId::kRelativeScores:
    case KernelId::kRelativeScoresGradient:
      return squares(n);
    case KernelId::kRelativePositions:
    case KernelId::kRelativePositionsGradient:
      return biases(n);
    case KernelId::kSinksForward:
    case KernelId::kSinksBackward:
      return results_of_heads(n);
    case KernelId::kPutRows:
    case KernelId::kTakeRows:
    case KernelId::kMeanRows:
    case KernelId::kMeanRowsGradient:
      return image_rows(n);
    case KernelId::kSplitColumns:
    case KernelId::kJoinColumns:
      return columns(n);
    case KernelId::kRoundFp8:
      return {{"r", n / kRow}, {"c", kRow}};
    case KernelId::kDequantise:
    case KernelId::kDequantiseDouble:
      return {{"e", n},
              {"m", n / 2},
              {"n", ceil_div(n, kCodeBlock)},
              {"p", ceil_div(n, kCodeBlock * kScalesOfConstant)}};
    case KernelId::kAdamW8Bit:
      return {{"n", n}, {"k", ceil_div(n, kStateBlock)}};
    case KernelId::kAdafactorSums:
    case KernelId::kAdafactorFactors:
    case KernelId::kAdafactorScale:
      return {{"n", n}, {"m", n / kRow + kRow}};
    default:
      return def.rows[0].dims.size() == 1 ? flat(n) : rows(n);
  }
}

AttributeValues attributes_of(KernelId kernel, std::int64_t n) {
  const std::int64_t of_logits = std::max<std::int64_t>(1, n / kVocabulary);
  switch (kernel) {
    case KernelId::kCrossEntropy:
      return {kVocabulary, of_logits};
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel:  // halves of a vocabulary
      return {2 * kVocabulary, of_logits};
    case KernelId::kAdamW:  // all decay
    case KernelId::kAdamW8Bit:
    case KernelId::kSgd:
    case KernelId::kSgdMomentum:
    case KernelId::kMuon:
    case KernelId::kMuonMomentum:
    case KernelId::kAdafactorGradient:
      return {0, n, 0};
    case KernelId::kAdafactorSums:  // one matrix
    case KernelId::kAdafactorFactors:
    case KernelId::kAdafactorScale:
      return {0, 0, 0, 1, n / kRow, kRow, n};
    case KernelId::kRoundFp8:
      return {1, kFp8Block, 0};
    case KernelId::kSumSquares:  // all count
      return {0, -1, 0, 0};
    case KernelId::kRope:
      return {8, 10000, 1};
    case KernelId::kScale:
      return {1, 2};
    case KernelId::kSoftCapForward:
    case KernelId::kSoftCapBackward:
      return {50};
    case KernelId::kRelativePositions:
    case KernelId::kRelativePositionsGradient:
      return {128};
    case KernelId::kScaleColumns:
      return {0, kRow, 1'000'000'000};
    case KernelId::kSegmentForward:
    case KernelId::kSegmentBackward:
      return {ceil_div(n, 2 * kRow)};
    case KernelId::kPutRows:
    case KernelId::kTakeRows:
      return {n / kRow, std::max<std::int64_t>(1, n / kRow / 4)};
    default:
      return {};
  }
}

// Recurrences have scratch by their chunks, which the other kernels have not.
bool is_recurrence(KernelId id) {
  return id == KernelId::kMambaScanForward || id == KernelId::kMambaScanBackward ||
         id == KernelId::kDeltaScanForward || id == KernelId::kDeltaScanBackward ||
         id == KernelId::kKimiScanForward || id == KernelId::kKimiScanBackward ||
         id == KernelId::kSelectiveScanForward || id == KernelId::kSelectiveScanBackward;
}

// The factor of clipping is as good as no work; what experts are given follows a router, which no
// numbers that can be drawn do; dropout draws for a run; casts to codes count with products.
bool is_timed(const KernelDef& def) {
  return def.kind == WorkKind::kMemory && !is_planned_only(def.id, RunsOn::kCpu) &&
         def.sets != Sets::kExperts && def.sets != Sets::kDropout && def.sets != Sets::kCodes &&
         def.id != KernelId::kClipCoefficient && !is_recurrence(def.id);
}

// Passes over parameters, gradients or states of the optimizer find nothing in the cache.
bool is_of_states(const KernelDef& def) {
  return def.traffic == Traffic::kOptimizer || def.traffic == Traffic::kCompulsory;
}

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
      for (const CoreLayer& layer : kCoreLayers) {
        if (quick_ && layer.k > 256) continue;
        for (const KernelId kernel : kLayerProducts)
          product(kernel, threads, {{"T", t}, {"k", layer.k}, {"n", layer.n}});
      }
    }
    for (const std::int64_t t : kHeadTokens) {
      if (quick_ && t != 32) continue;
      for (const CoreLayer& head : kCoreHeads) {
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
            cases_.push_back({{.kernel = kernel, .sizes = attention_sizes(1, s, a, a, d)},
                              threads,
                              {a * s, s, d},
                              1});
        }
  }
  void streams(int threads) {
    for (int k = 0; k < kKernelCount; ++k) {
      const KernelDef& def = kernel_def(static_cast<KernelId>(k));
      for (const std::int64_t n : kElements) {
        if (!is_timed(def) || (quick_ && n > (1 << 16))) continue;
        const Case call{.kernel = def.id,
                        .sizes = sizes_of(def, n),
                        .attributes = attributes_of(def.id, n),
                        .adds = def.access.find('a') != std::string::npos};
        const std::size_t warm = is_of_states(def) ? 0 : kAllOperands;
        cases_.push_back({call, threads, {demand_of(call, *set_).bytes.value, 1, 1}, warm});
      }
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
