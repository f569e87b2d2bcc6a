// What each kind of optimizer keeps, where, and which kernels update with it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "models/model_formulas.h"
#include "planner/lower/factored_moments.h"
#include "planner/lower/lower.h"
#include "planner/program/instances/cursor.h"

namespace zplan {
namespace {

Plan plan_of(OptimizerKind kind, const std::string& kernel_set = "cpu.bf16") {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 32};
  plan.optimizer.kind = kind;
  return plan;
}

Job job_of(const Plan& plan) { return lower(plan, load_model(plan.model)); }

// Bytes of optimizer states, without padding.
std::int64_t optimizer_bytes(const Job& job, Tier tier = Tier::kGpu) {
  std::int64_t sum = 0;
  for (const Buffer& b : job.classes[0].program.buffers)
    if (b.category == Category::kOptimizer && b.persistent && b.tier == tier)
      sum += b.unpadded.value;
  return sum;
}

// Elements of the matrices of layers, and of all else.
std::pair<std::int64_t, std::int64_t> matrices_and_others(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t matrices =
      model.layers * (h * model.qkv_width() + h * h + h * model.up_width() + model.ffn * h);
  return {matrices, parameter_count(model) - matrices};
}

std::set<KernelId> updates(const Job& job) {
  std::set<KernelId> kernels;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.role.action == Action::kAdam || node.role.action == Action::kSgd)
      kernels.insert(node.kernel);
  return kernels;
}

// A master copy and moments, all in fp32 but what is said to be a byte.
TEST(OptimizerKinds, KeepTheBytesOfTheirRules) {
  const ModelConfig model = load_model("tiny-gpt");
  const std::int64_t n = parameter_count(model);
  EXPECT_EQ(optimizer_bytes(job_of(plan_of(OptimizerKind::kAdamW))), 12 * n);
  EXPECT_EQ(optimizer_bytes(job_of(plan_of(OptimizerKind::kSgdMomentum))), 8 * n);
  EXPECT_EQ(optimizer_bytes(job_of(plan_of(OptimizerKind::kSgd))), 4 * n);
  const auto [matrices, others] = matrices_and_others(model);
  EXPECT_EQ(optimizer_bytes(job_of(plan_of(OptimizerKind::kMuon))), 8 * matrices + 12 * others);
  for (const std::int32_t block : {64, 256}) {
    Plan plan = plan_of(OptimizerKind::kAdamW8Bit);
    plan.optimizer.block = block;
    EXPECT_EQ(optimizer_bytes(job_of(plan)),
              (4 + 2) * matrices + 8 * matrices / block + 12 * others)
        << block;
  }
}

// One for each row and column of a matrix and for each element of a vector, on every rank.
TEST(OptimizerKinds, AdafactorKeepsMomentsOfRowsAndColumns) {
  const ModelConfig model = load_model("tiny-gpt");
  const std::int64_t n = parameter_count(model), h = model.hidden, f = model.ffn;
  const std::int64_t matrices = (h + model.qkv_width()) + (h + h) + 2 * (h + f);
  const std::int64_t vectors = 4 * h + model.qkv_width() + h + f + h;
  const std::int64_t ends = (model.vocab + h) + (32 + h) + 2 * h;
  const std::int64_t moments = model.layers * (matrices + vectors) + ends;
  for (const int stage : {0, 1, 3}) {
    Plan plan = plan_of(OptimizerKind::kAdafactor);
    plan.parallel.dp = 4;
    plan.zero_stage = stage;
    const Job job = job_of(plan);
    EXPECT_EQ(optimizer_bytes(job), 4 * n + 4 * moments) << stage;
    std::int64_t whole = 0;
    for (const Buffer& b : job.classes[0].program.buffers)
      if (b.name.starts_with("moment2.")) whole += b.unpadded.value / b.shards;
    EXPECT_EQ(whole, 4 * moments);
  }
}

// Two all-reduces of each unit where ranks share it; all its tensors together.
// torch.optim.Adafactor takes the means of a tensor of three dimensions over its last and over the
// one before it.
TEST(OptimizerKinds, AdafactorTakesEachExpertForAMatrix) {
  Unit unit;
  unit.tensors.push_back({.name = "norm", .shape = {64}});
  unit.tensors.push_back({.name = "experts", .shape = {4, 64, 48}, .offset = 64});
  const std::vector<FactoredTensor> parts = factored_tensors(unit);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].rows, 64);
  EXPECT_EQ(parts[0].columns, 0);
  EXPECT_EQ(parts[1].matrices, 4);
  EXPECT_EQ(parts[1].rows, 64);
  EXPECT_EQ(parts[1].columns, 48);
  EXPECT_EQ(parts[1].moments_from, 64);
  EXPECT_EQ(factored_moments(unit), 64 + 4 * (64 + 48));
}

TEST(OptimizerKinds, AdafactorAddsUpOverTheRanksThatShareAUnit) {
  for (const int stage : {0, 1}) {
    Plan plan = plan_of(OptimizerKind::kAdafactor);
    plan.parallel.dp = 4;
    plan.zero_stage = stage;
    plan.gather = Gather::kLayer;
    const Job job = job_of(plan);
    std::map<std::pair<Part, Action>, int> actions;
    for (const Node& node : job.classes[0].program.nodes)
      ++actions[{node.role.part, node.role.action}];
    EXPECT_EQ((actions[{Part::kLayer, Action::kFactors}]), 12);
    EXPECT_EQ((actions[{Part::kLayer, Action::kReduceFactors}]), stage > 0 ? 1 : 0);
    EXPECT_EQ((actions[{Part::kLayer, Action::kReduceUpdate}]), stage > 0 ? 1 : 0);
  }
}

TEST(OptimizerKinds, APlanSaysTheBytesOfAMatrix) {
  EXPECT_EQ(plan_of(OptimizerKind::kAdafactor).optimizer_bytes().value, 4);
  EXPECT_EQ(plan_of(OptimizerKind::kAdamW).optimizer_bytes().value, 12);
  EXPECT_EQ(plan_of(OptimizerKind::kSgdMomentum).optimizer_bytes().value, 8);
  EXPECT_EQ(plan_of(OptimizerKind::kSgd).optimizer_bytes().value, 4);
  EXPECT_EQ(plan_of(OptimizerKind::kAdamW8Bit).optimizer_bytes().value, 6);
  EXPECT_EQ(plan_of(OptimizerKind::kMuon).optimizer_bytes().value, 8);
}

TEST(OptimizerKinds, UpdateEveryUnitByItsRule) {
  using enum KernelId;
  EXPECT_EQ(updates(job_of(plan_of(OptimizerKind::kAdamW))), std::set{kAdamW});
  EXPECT_EQ(updates(job_of(plan_of(OptimizerKind::kSgdMomentum))), std::set{kSgdMomentum});
  EXPECT_EQ(updates(job_of(plan_of(OptimizerKind::kSgd))), std::set{kSgd});
  const Job job = job_of(plan_of(OptimizerKind::kAdamW8Bit));
  EXPECT_EQ(updates(job), (std::set{kAdamW, kAdamW8Bit}));
  for (const UnitHome& home : job.classes[0].homes) {
    const Unit& unit = job.units[home.unit];
    const bool is_apart = !unit.per_layer || unit.name.ends_with("shared");
    EXPECT_EQ(home.moments.size(), is_apart ? 2U : 4U) << unit.name;
    if (is_apart) continue;
    for (const Tensor& tensor : unit.tensors) {
      EXPECT_TRUE(tensor.decay) << tensor.name;
      EXPECT_EQ(tensor.offset % 256, 0) << tensor.name;
    }
  }
}

// Each of the four matrices of a layer, once in an iteration.
TEST(OptimizerKinds, MuonGathersAUnitAndMakesItsMatricesOrthogonal) {
  for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer)}) {
    Plan plan = plan_of(OptimizerKind::kMuon);
    plan.parallel.dp = 4;
    plan.zero_stage = 1;
    plan.gather = gather;
    const Job job = job_of(plan);
    std::map<Action, int> actions;
    for (const Node& node : job.classes[0].program.nodes) ++actions[node.role.action];
    EXPECT_EQ(actions[Action::kOrthogonalise], 4);
    EXPECT_EQ(actions[Action::kMomentum], gather.by_layer() ? 1 : 4);
    EXPECT_EQ(actions[Action::kGatherUpdate], gather.by_layer() ? 1 : 4);
  }
}

// In a step no two operations have one id: matrices of a unit are told apart by the tile.
TEST(OptimizerKinds, MuonNamesEachMatrixOfALayer) {
  Plan plan = plan_of(OptimizerKind::kMuon);
  plan.gather = Gather::kLayer;
  const Job job = job_of(plan);
  const Program& program = job.classes[0].program;
  const ProgramIndex index(program);
  std::set<OpId> ids;
  for (Cursor at(index, Lane::kCompute); at->step() == 0; at.advance()) {
    const Node& node = program.nodes[at->node];
    if (node.role.action != Action::kOrthogonalise) continue;
    EXPECT_TRUE(ids.insert(op_id(program, node, at->env)).second);
  }
  EXPECT_EQ(std::ssize(ids), 4 * load_model(plan.model).layers);
}

// This is so by operator and by layer. Each rank has two of the four experts, one after the other.
TEST(OptimizerKinds, MuonMakesTheMatrixOfEachExpertOrthogonal) {
  for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer)}) {
    Plan plan = plan_of(OptimizerKind::kMuon);
    plan.model = "tiny-moe";
    plan.parallel.dp = 4;
    plan.parallel.ep = 2;
    plan.zero_stage = 1;
    plan.gather = gather;
    const Job job = job_of(plan);
    const Program& program = job.classes[0].program;
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Bytes>> places;
    for (const Node& node : program.nodes)
      if (node.role.action == Action::kOrthogonalise &&
          (node.role.part == Part::kExpertUp || node.role.part == Part::kExpertDown)) {
        const View& x = program.operands(node).front();
        places[{x.shape[0], x.shape[1]}].push_back(x.begin({}));
      }
    ASSERT_EQ(places.size(), 2U);
    for (const auto& [sides, begins] : places) {
      EXPECT_EQ(sides.first * sides.second, sides.second == 64 ? 48 * 64 : 64 * 96);
      ASSERT_EQ(begins.size(), 2U);
      EXPECT_EQ((begins[1] - begins[0]).value, 4 * sides.first * sides.second);
    }
  }
}

TEST(OptimizerKinds, MuonNamesSoManyMatricesOfAUnit) {
  ModelShape shape = shape_of(load_model("tiny-moe"));
  Plan plan = plan_of(OptimizerKind::kMuon);
  plan.model = "tiny-moe";
  shape.experts = 256;
  EXPECT_EQ(illegal(plan, shape), std::nullopt);
  plan.gather = Gather::kLayer;
  EXPECT_EQ(
      illegal(plan, shape),
      "muon updates the matrices of each expert by themselves, of up to 124 experts of a rank "
      "where it gathers by layer, not 256: a greater ep, or gathering by operator, has fewer");
  plan.batch.global_batch = plan.parallel.dp = 4;
  plan.parallel.ep = 2;
  EXPECT_EQ(illegal(plan, shape), std::nullopt);
}

TEST(OptimizerKinds, ShardsEndWhereBlocksEnd) {
  for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer)}) {
    Plan plan = plan_of(OptimizerKind::kAdamW8Bit);
    plan.parallel.dp = 4;
    plan.batch.micro_batch = 1;
    plan.zero_stage = 3;
    plan.gather = gather;
    const Job job = job_of(plan);
    for (const UnitHome& home : job.classes[0].homes)
      if (home.moments.size() == 4) {
        EXPECT_EQ(job.units[home.unit].shard_elements % 256, 0);
      }
  }
}

TEST(OptimizerKinds, OffloadTheirScalesWithTheirMoments) {
  Plan plan = plan_of(OptimizerKind::kAdamW8Bit);
  const std::int64_t all = optimizer_bytes(job_of(plan));
  plan.offload = {.moment1 = true};
  const auto [matrices, others] = matrices_and_others(load_model("tiny-gpt"));
  const Job job = job_of(plan);
  EXPECT_EQ(optimizer_bytes(job, Tier::kCpu), matrices + matrices / 64 + 4 * others);
  EXPECT_EQ(optimizer_bytes(job, Tier::kCpu) + optimizer_bytes(job), all);
}

TEST(OptimizerKinds, AreRefusedInOneLine) {
  const auto refusal = [](OptimizerKind kind, auto change) {
    Plan plan = plan_of(kind, "cpu.f32");
    change(plan);
    return illegal(plan, shape_of(load_model(plan.model))).value_or("");
  };
  using enum OptimizerKind;
  EXPECT_EQ(refusal(kSgd, [](Plan& p) { p.offload.moment1 = true; }),
            "sgd has no first moments that could be on cpu");
  EXPECT_EQ(refusal(kSgdMomentum, [](Plan& p) { p.offload.moment2 = true; }),
            "sgd-momentum has no second moments that could be on cpu");
  EXPECT_EQ(refusal(kAdamW, [](Plan& p) { p.optimizer.block = 64; }),
            "adamw keeps no states in blocks: blocks of 64 need adamw-8bit");
  EXPECT_EQ(refusal(kAdamW8Bit, [](Plan& p) { p.optimizer.block = 100; }),
            "blocks of 100 parameters are no power of two; the nearest that is: 128");
  EXPECT_EQ(refusal(kAdamW8Bit, [](Plan& p) { p.optimizer.block = 8192; }),
            "parameters per block of states 8192 is outside 8..4096");
  EXPECT_EQ(refusal(kAdamW8Bit, [](Plan& p) { p.parallel.tp = 2; }),
            "blocks of 256 parameters do not fill the matrices of layers at tp 2; blocks of 32 do");
  EXPECT_EQ(refusal(kMuon, [](Plan& p) { p.parallel.tp = 2; }),
            "muon makes whole matrices orthogonal: it needs tp 1, not 2");
  EXPECT_EQ(refusal(kMuon, [](Plan& p) { p.placement.optimizer = Tier::kCpu; }),
            "muon gathers what it updates with on the gpu: the optimizer cannot be on cpu");
  EXPECT_EQ(refusal(kMuon, [](Plan& p) { p.gather = Gather::of_layers(2); }),
            "muon updates one layer after the other, not units of 2 layers");
  EXPECT_EQ(refusal(kMuon, [](Plan& p) { p.model = "tiny-moe"; }), "");
  EXPECT_EQ(refusal(kAdamW8Bit, [](Plan& p) { p.model = "tiny-moe"; }),
            "adamw-8bit keeps states in blocks of whole matrices, experts have none: adamw, sgd, "
            "muon and adafactor keep them by parameter or matrix");
  EXPECT_EQ(refusal(kAdafactor, [](Plan& p) { p.parallel.tp = 2; }),
            "adafactor adds up rows and columns of whole matrices: it needs tp 1, not 2");
  EXPECT_EQ(refusal(kAdafactor, [](Plan& p) { p.gather = Gather::in_tiles(2); }),
            "adafactor adds up rows and columns of whole matrices: it needs 1 tile, not 2");
  EXPECT_EQ(refusal(kAdafactor,
                    [](Plan& p) {
                      p.model = "tiny-moe";
                      p.parallel.dp = p.parallel.ep = 2;
                    }),
            "adafactor takes means over all experts: it needs ep 1, not 2");
  EXPECT_EQ(refusal(kAdafactor,
                    [](Plan& p) {
                      p.parallel.dp = 4;
                      p.zero_stage = 1;
                      p.placement.optimizer = Tier::kCpu;
                    }),
            "adafactor adds up over ranks on the gpu: with ZeRO 1 over 4 ranks the optimizer "
            "cannot be on cpu, with ZeRO 0 it can");
  EXPECT_EQ(refusal(kAdafactor, [](Plan& p) { p.offload.moment1 = true; }),
            "adafactor has no first moments that could be on cpu");
  EXPECT_EQ(refusal(kAdamW8Bit, [](Plan& p) { p.gather = Gather::in_tiles(2); }),
            "adamw-8bit updates parts of a layer in two ways: it needs 1 tile, not 2");
  EXPECT_EQ(refusal(kAdamW8Bit,
                    [](Plan& p) {
                      p.parallel.dp = 2;
                      p.batch.micro_batch = 2;
                      p.zero_stage = 3;
                      p.gather = Gather::kOwned;
                    }),
            "adamw-8bit updates parts of a layer in two ways: no one rank owns it");
}

}  // namespace
}  // namespace zplan
