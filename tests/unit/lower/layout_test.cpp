#include "planner/lower/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/model_formulas.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/lower/ranks.h"

namespace zplan {
namespace {

Plan plan_of(Gather gather, std::int32_t dp, std::int64_t sequence) {
  Plan plan;
  plan.gather = gather;
  plan.parallel.dp = dp;
  plan.batch.sequence = sequence;
  return plan;
}

// The units of a model, and the handles of its parameters.
struct Units : Layout {
  Units(const ModelConfig& model, const Plan& plan)
      : Units(Decoder(model, plan, find_kernel_set("cpu.f32")), plan) {}
  Units(const Decoder& decoder, const Plan& plan)
      : Layout(make_layout(decoder.params(), plan, mesh_of(plan))), params(decoder.params()) {}

  // By the end of its name.
  Param param(std::string_view name) const {
    for (const Operator& op : params.operators())
      for (const Param p : op.params)
        if (params.spec(p).name.ends_with(name)) return p;
    return {};
  }
  const ParamPlace& of(std::string_view name, std::int32_t member = 0) const {
    return Layout::of(param(name), member);
  }

  ParamTable params;
};

class LayoutOf : public testing::TestWithParam<Gather> {};

TEST_P(LayoutOf, UnitsHoldEveryParameterOnce) {
  for (const char* name :
       {"tiny-gpt", "gpt2-124m", "gpt3-175b", "tiny-llama", "llama3-8b", "qwen3-0.6b", "tiny-mla",
        "tiny-gemma", "tiny-neox", "tiny-bloom", "tiny-bert", "tiny-bert-published", "tiny-oss",
        "tiny-gpt-oss", "gemma2-9b", "gpt-neox-20b", "bloom-176b", "opt-30b"}) {
    const ModelConfig model = load_model(name);
    const Units layout(model, plan_of(GetParam(), 4, model.sequence));
    std::int64_t sum = 0;
    for (const Unit& u : layout.units) sum += u.elements * (u.per_layer ? model.layers : 1);
    EXPECT_EQ(sum, parameter_count(model)) << name;
  }
}

TEST_P(LayoutOf, TensorsOfAUnitDoNotOverlapAndMatricesComeFirst) {
  const ModelConfig model = load_model("gpt2-124m");
  const Units layout(model, plan_of(GetParam(), 4, model.sequence));
  for (const Unit& u : layout.units) {
    std::int64_t end = 0;
    for (const Tensor& t : u.tensors) {
      EXPECT_GE(t.offset, end) << t.name;
      EXPECT_EQ(t.decay, t.offset < u.decay_elements) << t.name;
      end = t.offset + t.shape.elements();
    }
    EXPECT_LE(end, u.flat_elements) << u.name;
  }
}

TEST_P(LayoutOf, ShardsAreEqualAlignedAndCoverTheUnit) {
  const ModelConfig model = load_model("tiny-gpt");
  for (std::int32_t dp : {1, 3, 4, 7, 512}) {
    const Units layout(model, plan_of(GetParam(), dp, model.sequence));
    for (const Unit& u : layout.units) {
      EXPECT_EQ(u.flat_elements, u.shard_elements * dp) << u.name;
      EXPECT_EQ(u.shard_elements % kShardAlignment, 0) << u.name;
      EXPECT_LT(u.flat_elements - u.elements, kShardAlignment * dp + dp) << u.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Units, LayoutOf, testing::Values(Gather::kLayer, Gather::kOperator));

TEST(Layout, AUnitOfSeveralLayersHoldsEachOnceMatricesFirst) {
  for (const char* name : {"tiny-gpt", "tiny-llama", "tiny-mla", "tiny-gemma", "tiny-oss"}) {
    const ModelConfig model = load_model(name);
    Plan plan = plan_of(Gather::kLayer, 2, model.sequence);
    plan.parallel.tp = 2;
    const auto layer_unit = [&](std::int32_t layers) {
      plan.gather = Gather::of_layers(layers);
      const Units layout(model, plan);
      EXPECT_EQ(layout.layer_units.size(), 1U);
      return layout.units[layout.layer_units[0]];
    };
    const Unit one = layer_unit(1), two = layer_unit(2);
    EXPECT_EQ(two.elements, 2 * one.elements) << name;
    EXPECT_EQ(two.decay_elements, 2 * one.decay_elements) << name;
    EXPECT_EQ(two.shared_elements, 2 * one.shared_elements) << name;
    ASSERT_EQ(two.tensors.size(), 2 * one.tensors.size()) << name;
    std::map<std::string, std::set<std::int32_t>> members;
    std::int64_t before = -1;
    for (const Tensor& t : two.tensors) {
      EXPECT_GT(t.offset, before) << t.name;
      before = t.offset;
      members[t.name].insert(t.member);
      EXPECT_EQ(t.decay, t.offset < two.decay_elements) << t.name;
      EXPECT_EQ(t.offset >= two.shared_from, t.split.kind == Split::Kind::kNone) << t.name;
    }
    for (const auto& [tensor, of] : members) EXPECT_EQ(of, (std::set{0, 1})) << tensor;
  }
}

TEST(Layout, AUnitWithOwnersHasALayerInEachShard) {
  for (const char* name : {"tiny-gpt", "tiny-llama", "tiny-mla", "tiny-gemma", "tiny-oss"}) {
    const ModelConfig model = load_model(name);
    Plan plan = plan_of(Gather::kLayer, 4, model.sequence);
    const Units cut(model, plan);
    plan.gather = Gather::kOwned;
    const Units layout(model, plan);
    const UnitIndex layer = layout.layer_units[0];
    const Unit &unit = layout.units[layer], &one = cut.units[cut.layer_units[0]];
    EXPECT_EQ(unit.elements, 4 * one.elements) << name;
    EXPECT_EQ(unit.decay_elements, one.decay_elements) << name;
    EXPECT_EQ(unit.shard_elements, round_up(one.elements, kShardAlignment)) << name;
    EXPECT_EQ(unit.flat_elements, 4 * unit.shard_elements) << name;
    EXPECT_EQ(layout.gathered_elements(layer), unit.shard_elements) << name;
    EXPECT_EQ(layout.touched_elements(layer), one.elements) << name;
    for (const Tensor& t : unit.tensors) {
      const std::int64_t in_layer = t.offset - t.member * unit.shard_elements;
      EXPECT_GE(in_layer, 0) << t.name;
      EXPECT_LE(in_layer + t.shape.elements(), unit.shard_elements) << t.name;
      EXPECT_EQ(t.decay, in_layer < unit.decay_elements) << t.name;
    }
    const char* first_product =
        name == std::string("tiny-gpt") ? "c_fc.weight" : "gate_up_proj.weight";
    for (std::int32_t member = 0; member < 4; ++member)
      EXPECT_EQ(layout.of(first_product, member).offset, cut.of(first_product).offset);
    const UnitIndex table = 0;  // of the tokens
    EXPECT_FALSE(layout.is_owned(table));
    EXPECT_EQ(layout.gathered_elements(table), layout.units[table].flat_elements);
  }
}

// Of one rank and tile; what is not split counts on each rank once.
TEST(Layout, RanksAndTilesShareTheSplitParameters) {
  for (const char* name : {"tiny-gpt", "tiny-llama", "tiny-mla", "tiny-gemma", "tiny-oss"}) {
    const ModelConfig model = load_model(name);
    for (const auto& [tp, tiles] : {std::pair{2, 1}, {1, 2}}) {
      Plan plan = plan_of(Gather::kOperator, 2, model.sequence);
      plan.parallel.tp = tp;
      plan.gather = Gather::in_tiles(tiles);
      const Units layout(model, plan);
      std::int64_t split = 0, shared = 0;
      for (const Unit& u : layout.units) {
        const std::int64_t instances = (u.per_layer ? model.layers : 1) * u.tiles;
        split += (u.elements - u.shared_elements) * instances;
        shared += u.shared_elements * instances;
      }
      EXPECT_EQ(split * tp + shared, parameter_count(model)) << name << tp << tiles;
    }
  }
}

// Kinds of h x h and h matrices in turn.
TEST(Layout, EachKindOfLayerHasUnitsOfItsOwnOnceInAnIteration) {
  ParamTable params;
  params.begin("embedding", Part::kEmbedding, Held::kFirstStage);
  const Param table = params.add({"table", {8, 8}, {8, 8}});
  std::vector<Param> weights;
  for (const std::int64_t columns : {8, 1}) {
    params.begin_kind("kind" + std::to_string(columns));
    params.begin("qkv", Part::kQkv);
    weights.push_back(params.add({"weight{}", {8, columns}, {8, columns}}));
  }
  Plan plan = plan_of(Gather::kOperator, 1, 32);
  const Layout apart = make_layout(params, plan, mesh_of(plan));
  EXPECT_EQ(apart.layers_together(), 2);
  EXPECT_EQ(apart.units[1].name, "kind8.qkv");
  EXPECT_EQ(apart.units[2].name, "kind1.qkv");
  for (const std::int32_t member : {0, 1}) {
    const auto at = static_cast<std::size_t>(member);
    const UnitIndex unit = apart.unit_of(weights[at], member);
    EXPECT_EQ(unit, apart.layer_units[at]);
    EXPECT_EQ(apart.units[unit].tensors.at(0).member, member);
    EXPECT_EQ(apart.touched_elements(unit), params.spec(weights[at]).stored.elements());
    EXPECT_EQ(apart.of(table, member).unit, 0U);
  }
  plan.gather = Gather::of_layers(4);
  const Layout together = make_layout(params, plan, mesh_of(plan));
  ASSERT_EQ(together.layer_units.size(), 1U);
  EXPECT_EQ(together.units[1].elements, 2 * (64 + 8));
  EXPECT_GT(together.of(weights[1], 3).offset, together.of(weights[1], 1).offset);
}

TEST(Layout, SharedParametersComeLastInTheirUnit) {
  const ModelConfig model = load_model("tiny-gpt");
  Plan plan = plan_of(Gather::kLayer, 1, model.sequence);
  plan.parallel.tp = 2;
  for (const Unit& u : Units(model, plan).units)
    for (const Tensor& t : u.tensors)
      EXPECT_EQ(t.offset >= u.shared_from, t.split.kind == Split::Kind::kNone) << t.name;
}

// They lie side by side, so that one all-reduce has them all.
TEST(Layout, WhatIsSummedOverRanksComesFirstOfWhatTheyShare) {
  for (const char* name : {"tiny-llama", "tiny-mla", "qwen3-0.6b", "tiny-moe"}) {
    const ModelConfig model = load_model(name);
    Plan plan = plan_of(Gather::kLayer, 1, model.sequence);
    plan.parallel.tp = 2;
    const Units layout(model, plan);
    std::set<std::pair<UnitIndex, std::int64_t>> summed;
    for (const Operator& op : layout.params.operators())
      for (const Param p : op.params) {
        const ParamPlace& at = layout.Layout::of(p);
        if (layout.params.spec(p).summed) summed.emplace(at.unit, at.offset);
      }
    for (UnitIndex u = 0; u < layout.units.size(); ++u) {
      const std::int64_t from = layout.units[u].shared_from;
      for (const Tensor& t : layout.units[u].tensors) {
        const bool is_first = from <= t.offset && t.offset < from + layout.summed_elements[u];
        EXPECT_EQ(is_first, summed.contains({u, t.offset})) << name << " " << t.name;
      }
    }
  }
}

TEST(Layout, AShorterSequenceKeepsAllPositions) {
  const ModelConfig model = load_model("tiny-gpt");
  const Units layout(model, plan_of(Gather::kLayer, 1, 8));
  const Unit& position = layout.units[layout.of("wpe.weight").unit];
  EXPECT_EQ(position.elements, model.sequence * model.hidden);
  EXPECT_EQ(layout.touched_elements(layout.of("wpe.weight").unit), 8 * model.hidden);
}

TEST(Layout, TheVocabularyIsPaddedForKernelsOnly) {
  const ModelConfig model = load_model("gpt2-124m");
  const Units layout(model, plan_of(Gather::kLayer, 1, model.sequence));
  EXPECT_EQ(layout.of("wte.weight").shape[0], 50304);  // a multiple of 128
  EXPECT_EQ(layout.units[layout.of("wte.weight").unit].tensors[0].shape[0], 50257);
}

}  // namespace
}  // namespace zplan
