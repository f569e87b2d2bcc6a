#include "tests/gpu/case_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/cpu/cpu_device.h"
#include "exec/cpu/kernels/round_fp8.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/program/kernels/fp8_products.h"

namespace zplan::gpu {
namespace {

std::int64_t size_at(const Case& c, const char* letter) { return c.sizes.at(letter); }

std::size_t index_of(const std::vector<CaseOperand>& operands, const std::string& name) {
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [&](const CaseOperand& o) { return o.name == name; });
  ZPLAN_ASSERT(found != operands.end());
  return static_cast<std::size_t>(found - operands.begin());
}

// Backward takes the output and the log-sum-exp of forward.
void draw_attention(const Case& c, const KernelSet& set, const std::vector<CaseOperand>& operands,
                    Values& values) {
  Case forward = c;
  forward.kernel = KernelId::kAttentionForward;
  forward.adds = false;
  const Values results = reference(forward, set, {values[index_of(operands, "qkv")], {}, {}});
  values[index_of(operands, "out")] = results[1];
  values[index_of(operands, "lse")] = results[2];
}

// The statistics of all pieces; the logits drawn are the last piece, the others are drawn here.
void draw_statistics(const Case& c, const KernelSet& set, const std::vector<CaseOperand>& operands,
                     Values& values, std::mt19937_64& random) {
  std::vector<double>& all = values[index_of(operands, "statistics")];
  all.clear();
  const std::vector<double>& logits = values[index_of(operands, "logits")];
  for (std::int32_t piece = 0; piece < size_at(c, "k"); ++piece) {
    Case statistics = c;
    statistics.kernel = KernelId::kCrossEntropyStatistics;
    statistics.attributes[2] = piece * size_at(c, "Vp");
    const auto own =
        statistics.attributes[2] == c.attributes[2]
            ? logits
            : exec::draw_values(c, "logits", static_cast<std::int64_t>(logits.size()), random);
    const Values results =
        reference(statistics, set, {own, values[index_of(operands, "tokens")], {}});
    all.insert(all.end(), results[2].begin(), results[2].end());
  }
}

// ---- cases
// ---------------------------------------------------------------------------------------

using Sizes = std::map<std::string, std::int64_t>;

std::vector<Sizes> flat(const char* letter, bool large) {
  if (large) return {{{letter, std::int64_t{1} << 26}}};
  return {{{letter, 1}}, {{letter, 1023}}, {{letter, 4096}}, {{letter, 300007}}};
}

std::vector<Sizes> rows_and(const char* width, bool large, std::int64_t wide) {
  if (large) return {{{"T", 16384}, {width, wide}}};
  return {{{"T", 3}, {width, 5}},
          {{"T", 37}, {width, 96}},
          {{"T", 17}, {width, 1023}},
          {{"T", 256}, {width, 768}}};
}

std::vector<Sizes> products(const char* k, const char* n, bool large) {
  if (large) return {{{"T", 8192}, {k, 4096}, {n, 4096}}, {{"T", 8192}, {k, 4096}, {n, 16384}}};
  return {{{"T", 5}, {k, 3}, {n, 7}},
          {{"T", 32}, {k, 64}, {n, 96}},
          {{"T", 33}, {k, 65}, {n, 97}},
          {{"T", 256}, {k, 768}, {n, 512}}};
}

std::vector<Sizes> heads(bool large) {
  if (large) return {{{"b", 4}, {"s", 4096}, {"n", 48}, {"m", 40}, {"d", 128}}};
  return {{{"b", 2}, {"s", 33}, {"n", 9}, {"m", 6}, {"d", 16}},
          {{"b", 1}, {"s", 128}, {"n", 8}, {"m", 6}, {"d", 64}},
          {{"b", 2}, {"s", 197}, {"n", 6}, {"m", 5}, {"d", 128}}};
}

// The last has values of a size of their own.
std::vector<Sizes> attentions(bool large) {
  if (large)
    return {exec::attention_sizes(4, 4096, 32, 8, 128), exec::attention_sizes(1, 8192, 32, 8, 128),
            exec::attention_sizes(16, 1024, 12, 12, 64)};
  std::vector<Sizes> all = {exec::attention_sizes(2, 33, 3, 3, 16),
                            exec::attention_sizes(1, 128, 4, 2, 64),
                            exec::attention_sizes(2, 197, 4, 1, 128)};
  all.push_back({{"b", 2}, {"s", 100}, {"a", 4}, {"g", 4}, {"v", 128}, {"w", 2 * 192 + 128}});
  return all;
}

// Cut into c pieces.
std::vector<Sizes> columns(bool large) {
  if (large) return {{{"c", 8}, {"T", 8192}, {"m", 1536}}};
  return {{{"c", 2}, {"T", 3}, {"m", 3}},
          {{"c", 4}, {"T", 37}, {"m", 24}},
          {{"c", 3}, {"T", 256}, {"m", 96}}};
}

// Of n + r and n + v elements.
std::vector<Sizes> latent_heads(bool large) {
  const auto sizes = [](std::int64_t b, std::int64_t s, std::int64_t a, std::int64_t n,
                        std::int64_t r, std::int64_t v) {
    return Sizes{
        {"b", b}, {"s", s}, {"a", a}, {"d", n + r}, {"e", n + v}, {"r", r}, {"w", 2 * (n + r) + v}};
  };
  if (large) return {sizes(4, 4096, 32, 128, 64, 128)};
  return {sizes(2, 33, 3, 5, 2, 7), sizes(2, 100, 16, 128, 64, 128)};
}

// V tokens in k pieces of Vp rows.
std::vector<Sizes> vocabularies(bool large) {
  if (large) return {{{"b", 8}, {"s", 1024}, {"Vp", 50304}, {"V", 50257}, {"h", 4096}, {"k", 1}}};
  return {{{"b", 2}, {"s", 5}, {"Vp", 8}, {"V", 7}, {"h", 5}, {"k", 1}},
          {{"b", 2}, {"s", 16}, {"Vp", 256}, {"V", 250}, {"h", 64}, {"k", 1}},
          {{"b", 3}, {"s", 40}, {"Vp", 1000}, {"V", 999}, {"h", 96}, {"k", 1}}};
}

std::vector<Sizes> sizes_of(KernelId kernel, bool large) {
  switch (kernel) {
    case KernelId::kEmbeddingForward:
    case KernelId::kEmbeddingBackward:
    case KernelId::kCrossEntropy:
      return vocabularies(large);
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel: {
      auto all = vocabularies(large);
      for (Sizes& sizes : all) {
        sizes["k"] = 2;
        sizes["V"] = 2 * sizes["Vp"] - 1;
      }
      return all;
    }
    case KernelId::kLayerNormForward:
    case KernelId::kLayerNormBackward:
    case KernelId::kRmsNormForward:
    case KernelId::kRmsNormBackward:
    case KernelId::kBiasResidualAdd:
    case KernelId::kResidualLayerNormForward:
    case KernelId::kResidualRmsNormForward:
      return rows_and("h", large, 4096);
    case KernelId::kBiasGradient:
      return rows_and("n", large, 4096);
    case KernelId::kSwigluForward:
    case KernelId::kSwigluBackward:
      return rows_and("f", large, 14336);
    case KernelId::kLinearForward:
    case KernelId::kLinearInputGradient:
    case KernelId::kLinearWeightGradient:
    case KernelId::kMatmulForward:
    case KernelId::kMatmulWeightGradient:
    case KernelId::kLinearGeluForward:
    case KernelId::kGeluInputGradient:
      return products("k", "n", large);
    case KernelId::kHeadForward:
    case KernelId::kHeadInputGradient:
    case KernelId::kHeadWeightGradient:
      return products("h", "Vp", large);
    case KernelId::kAttentionForward:
    case KernelId::kAttentionBackward:
    case KernelId::kSinksForward:
    case KernelId::kSinksBackward:
      return attentions(large);
    case KernelId::kLatentHeadsForward:
    case KernelId::kLatentHeadsBackward:
      return latent_heads(large);
    case KernelId::kRope:
    case KernelId::kHeadNormForward:
    case KernelId::kHeadNormBackward:
      return heads(large);
    case KernelId::kSplitColumns:
    case KernelId::kJoinColumns:
      return columns(large);
    case KernelId::kGeluForward:
    case KernelId::kGeluBackward:
    case KernelId::kResidualAdd:
    case KernelId::kFillZero:
    case KernelId::kScale:
      return flat("*", large);
    case KernelId::kAccumulate:
    case KernelId::kSumSquares:
    case KernelId::kAdamW:
    case KernelId::kSgd:
    case KernelId::kSgdMomentum:
    case KernelId::kCast:
      return flat("n", large);
    case KernelId::kClipCoefficient:
      return {Sizes{}};
    default:  // of the host, and of kernel sets without fused attention
      return {};
  }
}

// Attributes that a call with these sizes may have, the plain ones first.
std::vector<Case> variants(const Case& c) {
  const auto size = [&](const char* letter) { return c.sizes.at(letter); };
  std::vector<Case> all;
  const auto with = [&](AttributeValues attributes, int operands = 0) {
    all.push_back(c);
    all.back().attributes = attributes;
    all.back().operands = operands;
  };
  switch (c.kernel) {
    case KernelId::kEmbeddingForward:
    case KernelId::kEmbeddingBackward:
      with({0});
      with({0}, 3);            // no positions
      with({size("Vp") / 2});  // tokens outside the piece
      with({0, size("h")});    // scaled
      break;
    case KernelId::kCrossEntropy:
      with({size("V"), 2 * size("b") * size("s")}, 3);  // no loss scale
      with({size("V"), 2 * size("b") * size("s")});
      break;
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel:
      for (std::int64_t piece : {0, 1})
        with({size("V"), 2 * size("b") * size("s"), piece * size("Vp")});
      break;
    case KernelId::kRope:
      for (std::int64_t direction : {1, -1}) with({size("m"), 10000, direction});
      with({size("m"), 10000, 1, 5, size("d") / 2, 4});  // half of each head, positions from 5 on
      break;
    case KernelId::kGeluForward:
    case KernelId::kGeluBackward:
    case KernelId::kSwigluForward:
    case KernelId::kSwigluBackward:
      for (std::int64_t function = 0; function <= 5; ++function) with({function});
      if (c.kernel == KernelId::kSwigluForward || c.kernel == KernelId::kSwigluBackward)
        with({5, 500'000'000, 1});  // values of at most 0.5, and 1 more
      break;
    case KernelId::kLayerNormForward:
    case KernelId::kRmsNormForward:
      with({0});
      with({1'000'000});  // epsilon, in units of 1e-12
      break;
    case KernelId::kSplitColumns:
    case KernelId::kJoinColumns:  // one segment; three
      with({0, 0});
      with({size("c") * (size("m") / 3), size("c")});
      break;
    case KernelId::kLatentHeadsForward:
    case KernelId::kLatentHeadsBackward:
      with({10000, 0});
      with({10000, 3});
      with({0, 0});
      break;
    case KernelId::kScale:
      with({1, 2});
      with({48, 16});
      break;
    case KernelId::kHeadNormForward:
    case KernelId::kHeadNormBackward:
      with({0});
      with({size("n") - size("m")});
      break;
    case KernelId::kSumSquares:
      with({0, -1});
      with({0, size("n") / 2, 1});
      break;
    case KernelId::kAdamW:
    case KernelId::kSgd:
    case KernelId::kSgdMomentum:
      with({0, size("n") / 2});
      with({size("n"), size("n") + size("n") / 3});
      break;
    case KernelId::kClipCoefficient:
      with({0});
      with({1});
      break;
    default:
      with({});
  }
  return all;
}

bool has_letter(std::string_view text, char letter) {
  return text.find(letter) != std::string_view::npos;
}
bool has_gradients(const KernelDef& row) {
  return row.types.find_first_of("gq*") != std::string::npos;
}

// With the two operands of a product as the set casts them: gradients to e5m2, others to e4m3.
Values as_multiplied(const Case& c, const KernelSet& set, Values values) {
  const auto operands = operands_of(c, set);
  std::vector<View> views;
  for (const CaseOperand& operand : operands) views.push_back(operand.view);
  if (!multiplies_in_fp8(set, c.kernel, views)) return values;
  for (const std::size_t i : {0, 1}) {
    const Shape& shape = operands[i].view.shape;
    const auto& format = operands[i].name == "dy" ? exec::cpu::kE5m2 : exec::cpu::kE4m3;
    exec::cpu::round_fp8(values[i].data(), values[i].data(),
                         {shape[0], shape[1], shape[0], shape[1], format});
  }
  return values;
}

}  // namespace

std::string describe(const Case& c) {
  std::string text;
  for (const auto& [letter, size] : c.sizes) text += fmt::format(" {}={}", letter, size);
  text += fmt::format(" attr={}", joined(c.attributes, ","));
  if (c.operands != 0) text += fmt::format(" {} operands", c.operands);
  return text.substr(1) + (c.adds ? " adds" : "") + (c.wide_gradients ? " wide gradients" : "");
}

std::vector<Case> cases_of(KernelId kernel, bool large) {
  const KernelDef& row = kernel_def(kernel);
  std::vector<Case> all;
  for (const Sizes& sizes : sizes_of(kernel, large)) {
    Case c{.kernel = kernel, .sizes = sizes};
    const std::vector<Case> own = variants(c);
    if (large) {
      all.push_back(own.front());
      continue;
    }
    for (const Case& variant : own)
      for (const bool adds : {false, true})
        for (const bool wide : {false, true}) {
          if ((adds && !has_letter(row.access, 'a')) || (wide && !has_gradients(row))) continue;
          all.push_back(variant);
          all.back().adds = adds;
          all.back().wide_gradients = wide;
        }
  }
  return all;
}

Values consistent_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random) {
  const auto operands = operands_of(c, set);
  Values values = draw_inputs(c, set, random);
  if (c.kernel == KernelId::kAttentionBackward) draw_attention(c, set, operands, values);
  if (c.kernel == KernelId::kCrossEntropyParallel)
    draw_statistics(c, set, operands, values, random);
  round_values(operands, values);
  return values;
}

Values reference(const Case& c, const KernelSet& set, const Values& inputs) {
  exec::cpu::CpuDevice cpu;
  CaseRun run(cpu, find_kernel_set("cpu.f64"), c, as_multiplied(c, set, inputs));
  run.launch();
  return run.outputs();
}

}  // namespace zplan::gpu
