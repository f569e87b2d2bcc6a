#include "planner/validate/pipeline_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/validate/record_plan.h"
#include "tests/unit/validate/second_form.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

TEST(PipelineLayout, CountsTheLayersOfEachChunk) {
  EXPECT_THAT(layers_of_layout("Et*5|t*3L"), Optional(ElementsAre(5, 3)));
  EXPECT_THAT(layers_of_layout("Et*3|(tt|)*6mL"), Optional(ElementsAre(3, 2, 2, 2, 2, 2, 2, 0)));
  EXPECT_THAT(layers_of_layout("Ett|(t|(tt|)*2)*2 L"),
              Optional(ElementsAre(2, 1, 2, 2, 1, 2, 2, 0)));
}

TEST(PipelineLayout, IsNothingElse) {
  for (const char* text : {"", "Et*5|x", "(tt", "tt)", "t*", "t*-1", "t*99999999999", "17,15",
                           "((((t*999)*999)*999)*999)"})
    EXPECT_EQ(layers_of_layout(text), std::nullopt) << text;
  EXPECT_EQ(layers_of_layout(std::string(1'000'000, '(')), std::nullopt);
}

TEST(PipelineLayout, SaysWhatStagesHave) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  const auto layout = [&](const char* text) { return with(stages, {{"/pipeline/layout", text}}); };
  const auto run = read(layout("Et*5|t*3L"));
  ASSERT_TRUE(run);
  EXPECT_THAT(plan_run(*run, RunCatalogues()).plan.stage_layers, ElementsAre(5, 3));
  EXPECT_THAT(complaint(layout("Et*5|t*2L")), HasSubstr("8 layers together"));
  const auto hybrid = read(layout("M-M*|M-M-"));
  ASSERT_TRUE(hybrid);
  EXPECT_EQ(plan_run(*hybrid, RunCatalogues()).unsupported,
            "not modelled: a pipeline layout in other letters than E, t, m and L");
  EXPECT_THAT(complaint(with(layout("Et*5|t*3L"), {{"/pipeline/stage_layers", {4, 4}}})),
              HasSubstr("/pipeline/layout: expected the layers of each chunk as in stage_layers"));
}

}  // namespace
}  // namespace zplan
