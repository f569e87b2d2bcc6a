#include "tests/gpu/kernel_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "exec/cpu/cpu_device.h"
#include "exec/poison.h"
#include "exec/queues.h"
#include "exec/scalar.h"
#include "planner/core/error.h"
#include "planner/program/kernel_set.h"
#include "planner/program/step_scalars.h"

namespace zplan::gpu {
namespace {

constexpr std::size_t kGap = 256;  // bytes between operands that nobody may touch
// Larger operands repeat what was drawn.
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 20;

std::int64_t size_at(const Case& c, const std::string& letter) {
  if (letter.find_first_not_of("0123456789") == std::string::npos) return std::stoll(letter);
  const auto found = c.sizes.find(letter);
  if (found != c.sizes.end()) return found->second;
  throw_bad_input(fmt::format("{}: no size {}", name(c.kernel), letter));
}

// "s+1", "b*s", "Vp", "3"
std::int64_t dimension(const Case& c, const std::string& text) {
  const std::size_t at = text.find_first_of("+*");
  if (at == std::string::npos || text == "*") return size_at(c, text);
  const std::int64_t left = size_at(c, text.substr(0, at)),
                     right = dimension(c, text.substr(at + 1));
  return text[at] == '+' ? left + right : left * right;
}

// "x[T,k]"
Shape shape_of(const Case& c, const std::string& word) {
  Shape shape;
  std::string text;
  for (std::size_t i = word.find('[') + 1; i < word.size(); ++i) {
    if (word[i] != ',' && word[i] != ']') {
      text += word[i];
      continue;
    }
    shape.dims[static_cast<std::size_t>(shape.rank++)] = dimension(c, text);
    text.clear();
  }
  return shape;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') words.emplace_back();
    if (c != ' ') words.back() += c;
  }
  return words;
}

// What the letters of KernelDef::types stand for in a mixed precision recipe.
DType type_of(char letter, const Case& c, const KernelSet& set) {
  switch (letter) {
    case 'i':
      return DType::kI32;
    case 'd':
      return DType::kF64;
    case 'g':
      return c.wide_gradients ? set.statistics : set.compute;
    case 't':  // statistics
    case 'o':  // master
    case 'v':  // moments
    case 'b':  // what is cast to
    case 'h':  // what is accumulated to
      return set.statistics;
    default:
      return set.compute;
  }
}

Access access_of(char letter, const Case& c) {
  switch (letter) {
    case 'r':
      return Access::kRead;
    case 'u':
      return Access::kUpdate;
    case 'a':
      return c.adds ? Access::kUpdate : Access::kWrite;
    case 's':
      return Access::kScratch;
    default:
      return Access::kWrite;
  }
}

void store(std::byte* to, DType type, std::size_t i, double value) {
  if (type == DType::kI32) {
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(to + i * sizeof integer, &integer, sizeof integer);
    return;
  }
  exec::with_float_type(type, [&](auto kind) {
    using T = decltype(kind);
    const T rounded = exec::rounded<T>(value);
    std::memcpy(to + i * sizeof rounded, &rounded, sizeof rounded);
  });
}

// The values, over and over.
void fill(std::byte* to, const View& view, const std::vector<double>& values) {
  if (values.empty()) return;
  for (std::size_t i = 0; i < values.size(); ++i) store(to, view.dtype, i, values[i]);
  const auto bytes = static_cast<std::size_t>(view.bytes().value);
  const std::size_t drawn = values.size() * static_cast<std::size_t>(size_of(view.dtype).value);
  for (std::size_t at = drawn; at < bytes; at += drawn)
    std::memcpy(to + at, to, std::min(drawn, bytes - at));
}

double load(const std::byte* from, DType type, std::size_t i) {
  if (type != DType::kI32) return exec::load_scalar(from, type, static_cast<std::int64_t>(i));
  std::int32_t integer = 0;
  std::memcpy(&integer, from + i * sizeof integer, sizeof integer);
  return integer;
}

double rounded_to(DType type, double value) {
  std::byte place[8];
  store(place, type, 0, value);
  return load(place, type, 0);
}

// ---- values
// --------------------------------------------------------------------------------------

std::vector<double> step_scalars() {
  std::vector<double> scalars(kStepScalarCount);
  scalars[kLearningRate] = 0.01;
  scalars[kBeta1] = 0.9;
  scalars[kBeta2] = 0.95;
  scalars[kEpsilon] = 1e-8;
  scalars[kWeightDecay] = 0.1;
  scalars[kBiasCorrection1] = 1 - 0.9 * 0.9;
  scalars[kBiasCorrection2] = 1 - 0.95 * 0.95;
  scalars[kMaxGradientNorm] = 1;
  scalars[kLossScale] = 4;
  scalars[kStepNumber] = 1;
  return scalars;
}

std::vector<double> draw(const Case& c, const std::string& operand, std::int64_t n,
                         std::mt19937_64& random) {
  if (operand == "scalars") return step_scalars();
  if (operand == "clip") return {0.75, 2.0};
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<double> values(static_cast<std::size_t>(std::min(n, kMostDrawn)));
  for (double& value : values) {
    if (operand == "tokens") {
      value = static_cast<double>(random() % static_cast<std::uint64_t>(size_at(c, "V")));
    } else if (operand == "rstd" || operand == "gain" || operand == "sum" || operand == "loss") {
      value = uniform(random);
    } else if (operand == "mean" || operand == "m") {
      value = 0.1 * normal(random);
    } else if (operand == "v") {
      value = 0.01 * uniform(random);
    } else {
      value = normal(random);
    }
  }
  return values;
}

// What the call writes before it reads: nothing to draw.
bool is_output(const CaseOperand& operand) { return operand.view.access == Access::kWrite; }

std::size_t index_of(const std::vector<CaseOperand>& operands, const std::string& name) {
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [&](const CaseOperand& o) { return o.name == name; });
  ZPLAN_ASSERT(found != operands.end());
  return static_cast<std::size_t>(found - operands.begin());
}

// The values that the type of an operand holds.
void round_values(const std::vector<CaseOperand>& operands, Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    for (double& value : values[i]) value = rounded_to(operands[i].view.dtype, value);
}

// Backward takes the output and the log-sum-exp of forward.
void draw_attention(const Case& c, const std::vector<CaseOperand>& operands, Values& values) {
  Case forward = c;
  forward.kernel = KernelId::kAttentionForward;
  forward.adds = false;
  const Values results = reference(forward, {values[index_of(operands, "qkv")], {}, {}});
  values[index_of(operands, "out")] = results[1];
  values[index_of(operands, "lse")] = results[2];
}

// The statistics of all pieces; the logits drawn are the last piece, the others are drawn here.
void draw_statistics(const Case& c, const std::vector<CaseOperand>& operands, Values& values,
                     std::mt19937_64& random) {
  std::vector<double>& all = values[index_of(operands, "statistics")];
  all.clear();
  const std::vector<double>& logits = values[index_of(operands, "logits")];
  for (std::int32_t piece = 0; piece < size_at(c, "k"); ++piece) {
    Case statistics = c;
    statistics.kernel = KernelId::kCrossEntropyStatistics;
    statistics.tp_index = piece;
    const auto own = piece == c.tp_index
                         ? logits
                         : draw(c, "logits", static_cast<std::int64_t>(logits.size()), random);
    const Values results = reference(statistics, {own, values[index_of(operands, "tokens")], {}});
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
  if (large) return {{{"b", 4}, {"s", 4096}, {"a", 32}, {"n", 48}, {"d", 128}}};
  return {{{"b", 2}, {"s", 33}, {"a", 3}, {"n", 9}, {"d", 16}},
          {{"b", 1}, {"s", 128}, {"a", 4}, {"n", 8}, {"d", 64}},
          {{"b", 2}, {"s", 197}, {"a", 4}, {"n", 6}, {"d", 128}}};
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
    case KernelId::kRope:
      return heads(large);
    case KernelId::kGeluForward:
    case KernelId::kGeluBackward:
    case KernelId::kResidualAdd:
    case KernelId::kFillZero:
      return flat("*", large);
    case KernelId::kAccumulate:
    case KernelId::kSumSquares:
    case KernelId::kAdamW:
    case KernelId::kCast:
      return flat("n", large);
    case KernelId::kClipCoefficient:
      return {Sizes{}};
    default:  // of the host, and of kernel sets without fused attention
      return {};
  }
}

// Attributes and coordinates that a call with these sizes may have, the plain ones first.
std::vector<Case> variants(const Case& c) {
  const auto size = [&](const char* letter) { return c.sizes.at(letter); };
  std::vector<Case> all;
  const auto with = [&](Attributes attributes, std::int32_t tp_index = 0, int operands = 0) {
    all.push_back(c);
    all.back().attributes = attributes;
    all.back().tp_index = tp_index;
    all.back().operands = operands;
  };
  switch (c.kernel) {
    case KernelId::kEmbeddingForward:
    case KernelId::kEmbeddingBackward:
      with({0});
      with({0}, 0, 3);            // no positions
      with({size("Vp") / 2}, 1);  // tokens outside the piece
      break;
    case KernelId::kCrossEntropy:
      with({size("V"), 2 * size("b") * size("s")}, 0, 3);  // no loss scale
      with({size("V"), 2 * size("b") * size("s")});
      break;
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel:
      for (std::int32_t piece : {0, 1}) with({size("V"), 2 * size("b") * size("s")}, piece);
      break;
    case KernelId::kRope:
      for (std::int64_t direction : {1, -1})
        with({size("a") + (size("n") - size("a")) / 2, 10000, direction});
      break;
    case KernelId::kSumSquares:
      with({0, size("n"), -1, 0});
      with({0, size("n"), size("n") / 2, 0}, 1);
      break;
    case KernelId::kAdamW:
      with({0, size("n"), size("n") / 2, 0});
      with({1, size("n"), size("n") / 3, 0});
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

}  // namespace

std::string describe(const Case& c) {
  std::string text;
  for (const auto& [letter, size] : c.sizes) text += fmt::format(" {}={}", letter, size);
  text += fmt::format(" attr={}", fmt::join(c.attributes, ","));
  if (c.tp_index != 0) text += fmt::format(" tp index {}", c.tp_index);
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
          if ((adds && !has_letter(row.access, 'a')) || (wide && !has_letter(row.types, 'g')))
            continue;
          all.push_back(variant);
          all.back().adds = adds;
          all.back().wide_gradients = wide;
        }
  }
  return all;
}

std::vector<CaseOperand> operands_of(const Case& c, const KernelSet& set) {
  const KernelDef& row = kernel_def(c.kernel);
  const auto words = words_of(row.shapes);
  std::vector<CaseOperand> operands;
  const auto add = [&](std::string name, Access access, DType type, Shape shape) {
    CaseOperand& operand = operands.emplace_back();
    operand.name = std::move(name);
    operand.view.buffer = static_cast<BufferId>(operands.size() - 1);
    operand.view.access = access;
    operand.view.dtype = type;
    operand.view.shape = shape;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (c.operands != 0 && i >= static_cast<std::size_t>(c.operands)) break;
    const DType type = type_of(row.types[i], c, set);
    // The updated master is the parameter when both have one type.
    if (c.kernel == KernelId::kAdamW && words[i] == "param[n]" && set.compute == DType::kF32) break;
    add(words[i].substr(0, words[i].find('[')), access_of(row.access[i], c), type,
        shape_of(c, words[i]));
  }
  if (row.access.back() == 's')
    add("scratch", Access::kScratch, DType::kF32,
        {set.workspace.value / size_of(DType::kF32).value});
  return operands;
}

Values draw_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random, bool consistent) {
  const auto operands = operands_of(c, set);
  Values values(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_drawn = !is_output(operands[i]) && operands[i].view.access != Access::kScratch;
    if (is_drawn) values[i] = draw(c, operands[i].name, operands[i].view.shape.elements(), random);
  }
  round_values(operands, values);
  if (!consistent) return values;
  if (c.kernel == KernelId::kAttentionBackward) draw_attention(c, operands, values);
  if (c.kernel == KernelId::kCrossEntropyParallel) draw_statistics(c, operands, values, random);
  round_values(operands, values);
  return values;
}

CaseRun::CaseRun(exec::Device& device, const KernelSet& set, const Case& c, const Values& inputs)
    : device_(&device), operands_(operands_of(c, set)) {
  std::size_t end = kGap;
  for (const CaseOperand& o : operands_) {
    offsets_.push_back(end);
    const auto bytes = static_cast<std::size_t>(o.view.bytes().value);
    end = (end + bytes + kGap - 1) / kGap * kGap + kGap;
  }
  image_.resize(end);
  exec::fill_poison(image_.data(), Bytes{static_cast<std::int64_t>(end)});
  for (std::size_t i = 0; i < operands_.size() && i < inputs.size(); ++i)
    fill(image_.data() + offsets_[i], operands_[i].view, inputs[i]);
  slab_ = device.make_slab(Tier::kGpu, Bytes{static_cast<std::int64_t>(end)});
  device.upload(slab_.data(), image_.data(), Bytes{static_cast<std::int64_t>(end)});

  job_.kernel_set = std::string(set.id);
  job_.model = "kernel";
  RankClass& only = job_.classes.emplace_back();
  Program& program = only.program;
  program.blocks.push_back({.items = {{false, 0}}});
  program.attributes = {c.attributes};
  for (const CaseOperand& o : operands_) {
    program.buffers.push_back({.name = o.name,
                               .slot_size = round_up(o.view.bytes(), kBufferAlignment),
                               .dtype = o.view.dtype,
                               .persistent = true});
    program.views.push_back(o.view);
  }
  Node node;
  node.role = {Phase::kForward, Part::kLayer, Action::kCompute};
  node.kind = OpKind::kKernel;
  node.kernel = c.kernel;
  node.operands_end = static_cast<std::uint32_t>(operands_.size());
  program.nodes = {node};

  backend_ = device.make_backend(job_, 0, 1);
  backend_->prepare_thread();
  for (std::size_t i = 0; i < operands_.size(); ++i)
    call_operands_.push_back(
        {&program.views[i], address(i), Bytes{static_cast<std::int64_t>(offsets_[i])}});
  call_.node = &program.nodes[0];
  call_.operands = call_operands_;
  call_.attributes = c.attributes;
  call_.tp_index = c.tp_index;
  call_.services = &services_;
}

std::byte* CaseRun::address(std::size_t operand) const { return slab_.data() + offsets_[operand]; }

void CaseRun::launch() { backend_->run_kernel(call_); }

void CaseRun::finish() {
  if (exec::Queues* queues = backend_->queues()) queues->finish();
}

template <typename Queue>
double CaseRun::time(int launches, const Queue& queue) {
  queue();  // the first one may be slower
  finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) queue();
  finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / launches;
}

double CaseRun::seconds(int launches) {
  return time(launches, [this] { launch(); });
}

double CaseRun::copy_seconds(int launches) {
  return time(launches,
              [this] { backend_->copy(Lane::kCompute, call_operands_[0], call_operands_[1]); });
}

Values CaseRun::outputs() {
  std::vector<std::byte> now(image_.size());
  device_->download(now.data(), slab_.data(), Bytes{static_cast<std::int64_t>(now.size())});
  Values values(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const View& view = operands_[i].view;
    if (view.access == Access::kRead) continue;
    const auto bytes = static_cast<std::size_t>(view.bytes().value);
    if (view.access != Access::kScratch) {
      for (std::int64_t j = 0; j < view.shape.elements(); ++j)
        values[i].push_back(
            load(now.data() + offsets_[i], view.dtype, static_cast<std::size_t>(j)));
    }
    std::memcpy(now.data() + offsets_[i], image_.data() + offsets_[i], bytes);
  }
  const auto changed = std::mismatch(now.begin(), now.end(), image_.begin()).first - now.begin();
  if (changed == std::ssize(now)) return values;
  std::size_t nearest = 0;
  while (nearest + 1 < offsets_.size() &&
         offsets_[nearest + 1] <= static_cast<std::size_t>(changed))
    ++nearest;
  throw Error(ExitCode::kCheckFailed,
              fmt::format("changed byte {} from the begin of {}, which it does not write",
                          changed - static_cast<std::ptrdiff_t>(offsets_[nearest]),
                          operands_[nearest].name));
}

Values reference(const Case& c, const Values& inputs) {
  exec::cpu::CpuDevice cpu;
  CaseRun run(cpu, find_kernel_set("cpu.f64"), c, inputs);
  run.launch();
  return run.outputs();
}

}  // namespace zplan::gpu
