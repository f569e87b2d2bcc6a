#include "planner/program/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/core/error.h"
#include "tests/support/meshes.h"
#include "tests/support/same_stream.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_zprog(text, "x.zprog");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_THAT(message, HasSubstr(": expected ")) << message;
    EXPECT_THAT(message, HasSubstr(", got ")) << message;
    return message;
  }
  return "accepted";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Text, ReadsBackByteForByte) {
  for (const Job& job : {sample_job(), placed_sample_job()}) {
    const std::string text = to_text(job);
    EXPECT_EQ(to_text(parse_zprog(text, "sample.zprog")), text);
  }
}

TEST(Text, ReadsBackMirroredBlocks) {
  Job job = sample_job();
  std::vector<Block>& blocks = job.classes[0].program.blocks;
  const auto block = std::ranges::find(blocks, Var::kLayer, &Block::var);
  ASSERT_NE(block, blocks.end());
  block->relative = block->mirrored = true;
  const std::string text = to_text(job);
  EXPECT_THAT(text, HasSubstr(" layer mirrored from "));
  EXPECT_EQ(to_text(parse_zprog(text, "mirrored.zprog")), text);
}

TEST(Text, ReadsBackTheLaunchMode) {
  Job job = placed_sample_job();
  EXPECT_EQ(to_text(job).find("launch"), std::string::npos);
  EXPECT_EQ(parse_zprog(to_text(job), "stream.zprog").launch, LaunchMode::kStream);
  job.launch = LaunchMode::kGraph;
  EXPECT_EQ(parse_zprog(to_text(job), "graph.zprog").launch, LaunchMode::kGraph);
}

TEST(Text, ReadsBackTheDevicesOfTheRanks) {
  Job job = sample_job();
  job.mesh.gpus = {12, 0, 4};
  const std::string text = to_text(job);
  EXPECT_THAT(text, HasSubstr("\ngpus 12 0 4\n"));
  EXPECT_EQ(to_text(parse_zprog(text, "gpus.zprog")), text);
}

TEST(Text, ReadsBackTheWholeJob) {
  const Job job = placed_sample_job();
  const Job read = parse_zprog(to_text(job), "sample.zprog");
  EXPECT_EQ(read.model, "two words");
  EXPECT_EQ(read.kernel_set, job.kernel_set);
  EXPECT_EQ(read.world(), job.world());
  EXPECT_EQ(read.micro_steps, job.micro_steps);
  EXPECT_TRUE(read.placed);
  ASSERT_EQ(read.units.size(), 1u);
  EXPECT_EQ(read.units[0].tensors[0].init_std, 0.02);
  EXPECT_EQ(read.units[0].tensors[1].offset, 64);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const RankClass &a = job.classes[c], &b = read.classes[c];
    EXPECT_EQ(a.placement.slab, b.placement.slab);
    EXPECT_EQ(a.placement.offset, b.placement.offset);
    EXPECT_EQ(a.program.buffers[0].unpadded, b.program.buffers[0].unpadded);
    ASSERT_EQ(a.homes[0].moments.size(), b.homes[0].moments.size());
    EXPECT_EQ(a.homes[0].moments[1].buffer, b.homes[0].moments[1].buffer);
    EXPECT_EQ(a.program.edges, b.program.edges);
    expect_same_stream(a.program, b.program, 2);
  }
}

TEST(Text, ShowsWhatAPersonLooksFor) {
  const std::string text = to_text(placed_sample_job());
  EXPECT_THAT(text, HasSubstr("zprog 1\n# model \"two words\"\njob cpu.f32 placed\n"
                              "mesh tp 1 every 1 dp.0 2 every 1 dp.1 1 every 2 pp 2 every 2\n"
                              "batch global 12 micro 2 micro_steps 3 "));
  EXPECT_THAT(text, HasSubstr("  buffer @0 param gpu parameters f32 slot 256 slots 2 persistent "
                              "unpadded 576 shards 2 at 0\n"));
  EXPECT_THAT(text, HasSubstr("    repeat 3 micro from 0 step 1 {\n"));
  EXPECT_THAT(text, HasSubstr("%3 forward.layer.gather comm_gather all_gather dp.0 "
                              "r param@0[l]:f32[64], w full@1[l]:f32[128] "
                              "after %13:0-1 %4:1-1:same@2\n"));
  EXPECT_THAT(text, HasSubstr("w dfull@5+dp.0*256:f32[64]"));
  EXPECT_THAT(text, HasSubstr("w x@2[l-1]:f32[4,8]"));
  EXPECT_THAT(text, HasSubstr(" attr 0+dp.0*64 64 0 0 after"));
  EXPECT_THAT(text, HasSubstr("\"host grad\"@10"));
}

TEST(Text, IgnoresCommentsBlankLinesAndIndentation) {
  const std::string text = to_text(sample_job());
  std::string loose;
  for (char c : text) {
    loose += c;
    if (c == '\n') loose += "   # remark\n\n\t";
  }
  const Job read = parse_zprog(loose, "loose.zprog");
  EXPECT_EQ(read.model, "");
  EXPECT_EQ(to_text(read), replaced(text, "# model \"two words\"", "# model \"\""));
}

TEST(Text, ReadsOddNames) {
  Job job = sample_job();
  const std::string odd = "a\"b\\c\nd#e\xff {";
  job.model = odd;
  job.classes[0].program.buffers[1].name = odd;
  job.units[0].tensors[0].name = "";
  const Job read = parse_zprog(to_text(job), "odd.zprog");
  EXPECT_EQ(read.model, odd);
  EXPECT_EQ(read.classes[0].program.buffers[1].name, odd);
  EXPECT_EQ(read.units[0].tensors[0].name, "");
}

// Four pieces: two ranks, two tiles.
Job cut_job() {
  Job job = sample_job();
  job.mesh = testing_support::mesh_of({.dp = 2, .tp = 2, .pp = 2});
  Unit unit{.name = "layer.qkv",
            .per_layer = true,
            .tiles = 2,
            .elements = 60,
            .decay_elements = 48,
            .shared_elements = 8,
            .shared_from = 52,
            .shards = testing_support::groups::kShard.axes,
            .shard_elements = 64,
            .flat_elements = 128,
            .tensors = {}};
  Tensor qkv{.name = "qkv", .shape = {4, 16}, .init = Init::kNormal, .init_std = 0.02};
  qkv.split = {Split::Kind::kColumns, {8, 4, 4}};
  Tensor wte{.name = "wte", .shape = {10, 4}, .offset = 16};
  wte.split.kind = Split::Kind::kRows;
  wte.piece_rows = 3;
  Tensor fc2{.name = "fc2", .shape = {8, 2}, .decay = true, .offset = 28};
  fc2.split.kind = Split::Kind::kRows;
  unit.tensors = {qkv, wte, fc2, {.name = "bias", .shape = {8}, .offset = 52}};
  job.units.push_back(unit);
  View& v = job.classes[0].program.views[1];
  v.strides[testing_support::kTp] = 128;
  v.shape = {32};
  v.slot.per_tile = -2;
  job.classes[0].program.blocks[1].var = Var::kTile;
  return job;
}

TEST(Text, ReadsBackTensorParallelPiecesAndTiles) {
  const Job job = cut_job();
  const std::string text = to_text(job);
  EXPECT_THAT(text, HasSubstr("mesh tp 2 every 1 dp.0 2 every 2 dp.1 1 every 4 pp 2 every 4\n"));
  EXPECT_THAT(text, HasSubstr("unit layer.qkv per_layer tiles 2 elements 60 decay 48 "
                              "shared 8 from 52 shard 64 over dp.0 flat 128\n"
                              "  tensor qkv [4,16] normal 0.02 offset 0 columns [8,4,4]\n"
                              "  tensor wte [10,4] zero offset 16 rows padded 3\n"
                              "  tensor fc2 [8,2] zero decay offset 28 rows\n"
                              "  tensor bias [8] zero offset 52\n"));
  EXPECT_THAT(text, HasSubstr("repeat 2 tile from 0 step 1 {"));
  EXPECT_THAT(text, HasSubstr("w grad@4[l-2t]+tp*128:f32[32]"));
  const Job read = parse_zprog(text, "cut.zprog");
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.mesh, job.mesh);
  const Unit& unit = read.units[1];
  EXPECT_EQ(unit.tiles, 2);
  EXPECT_EQ(unit.shared_elements, 8);
  EXPECT_EQ(unit.shared_from, 52);
  EXPECT_EQ(unit.tensors[0].split, job.units[1].tensors[0].split);
  EXPECT_EQ(unit.tensors[1].piece_rows, 3);
  EXPECT_EQ(read.classes[0].program.views[1].slot.per_tile, -2);
  EXPECT_EQ(read.classes[0].program.views[1].strides[testing_support::kTp], 128);
}

TEST(Text, ReadsBackUnitsOfSeveralLayers) {
  Job job = sample_job();
  job.classes[0].program.unit_layers = 2;
  job.classes[0].program.nodes[1].member = 1;
  job.classes[0].program.nodes[1].group = testing_support::groups::kShard;
  job.units[0].tensors[0].member = 1;
  const std::string text = to_text(job);
  EXPECT_THAT(text, HasSubstr(" unit_layers 2\n"));
  EXPECT_THAT(text, HasSubstr(std::string(name(job.classes[0].program.nodes[1].role)) +
                              " member 1 owned dp.0 "));
  const Job read = parse_zprog(text, "units.zprog");
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.classes[0].program.unit_layers, 2);
  EXPECT_EQ(read.classes[0].program.nodes[1].member, 1);
  EXPECT_EQ(read.classes[0].program.nodes[1].group, testing_support::groups::kShard);
  EXPECT_EQ(read.classes[0].program.nodes[0].group, Group{});
  EXPECT_EQ(read.units[0].tensors[0].member, 1);
  EXPECT_THAT(refusal(replaced(text, "unit_layers 2", "unit_layers 17")),
              HasSubstr("expected unit_layers from 1 to 16, got 17"));
  EXPECT_THAT(refusal(replaced(text, "member 1 owned", "member 65536 owned")),
              HasSubstr("expected member from 0 to 65535, got 65536"));
}

TEST(Text, ReadsBackTheLayersOfChunks) {
  Job job = cut_job();
  job.classes[0].layers = {{0, 1}, {4, 2}};
  const std::string text = to_text(job);
  EXPECT_THAT(text, HasSubstr("class stage 0 first_layer 0 layers 1 first_layer 4 layers 2\n"));
  EXPECT_EQ(parse_zprog(text, "chunks.zprog").classes[0].layers, job.classes[0].layers);
}

TEST(Text, RefusesPiecesThatDoNotFit) {
  const std::string text = to_text(cut_job());
  const auto refused = [&](std::string_view from, std::string_view to) {
    return refusal(replaced(text, from, to));
  };
  EXPECT_THAT(refused("over dp.0 flat", "over dp.2 flat"), HasSubstr("expected axes of the mesh"));
  EXPECT_THAT(refused("over dp.0 flat", "over dp.0+dp.0 flat"), HasSubstr("each axis once"));
  EXPECT_THAT(refused("tiles 2", "tiles 17"), HasSubstr("expected tiles from 1 to 16"));
  EXPECT_THAT(refused("from 52 shard", "from 121 shard"), HasSubstr("expected flat from 129"));
  EXPECT_THAT(refused("[8,4,4]", "[8,4,2]"), HasSubstr("a width that 4 pieces share equally"));
  EXPECT_THAT(refused("[8,4,4]", "[8,4]"), HasSubstr("expected 16 columns, got 12"));
  EXPECT_THAT(refused("padded 3", "padded 2"), HasSubstr("expected rows of a piece from 3"));
  EXPECT_THAT(refused("rows padded 3", "rows"), HasSubstr("rows that 4 pieces share equally"));
  EXPECT_THAT(refused("[8,2] zero", "[800,2] zero"), HasSubstr("within the 128 elements"));
  EXPECT_THAT(refused("+tp*128", "+tp*256"), HasSubstr("expected a view within the slot"));
  EXPECT_THAT(refused("+tp*128", "+tp*128+tp*1"), HasSubstr("expected tp once, got it twice"));
  EXPECT_THAT(refused("[l-2t]", "[t-2t]"), HasSubstr("each term of a slot once"));
}

TEST(Text, ReadsUnitsWhosePaddingDecays) {  // a padded vocabulary
  Job job = sample_job();
  job.units[0].decay_elements = 100;
  EXPECT_EQ(parse_zprog(to_text(job), "x").units[0].decay_elements, 100);
}

struct Mistake {
  const char* from;
  const char* to;
  const char* message;
};

class TextMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(TextMistakes, AreNamed) {
  const auto& [from, to, message] = GetParam();
  EXPECT_THAT(refusal(replaced(to_text(placed_sample_job()), from, to)), HasSubstr(message));
}

INSTANTIATE_TEST_SUITE_P(
    All, TextMistakes,
    testing::Values(
        Mistake{"zprog 1", "zprog 2", "x.zprog:1: expected version from 1 to 1, got 2"},
        Mistake{"# model \"two words\"", "# model", "x.zprog:2: expected the name of the model"},
        Mistake{"dp.0 2", "dp.0 0",
                "x.zprog:4: expected places along an axis from 1 to 1073741824"},
        Mistake{"pp 2", "pp 256", "expected places along an axis from 1 to 255, got 256"},
        Mistake{"dp.0 2", "dp.0 99999999999999999999", "expected places along an axis from 1"},
        Mistake{"dp.0 2 every 1", "dp.0 2 every 2", "expected strides that number the ranks, got"},
        Mistake{"dp.1 1", "dp.0 1", "got two axes named dp.0"},
        Mistake{"pp 2 every 2", "qq 2 every 2", "got no axis pp"},
        Mistake{" placed", " misplaced", "expected 'unplaced', got misplaced"},
        Mistake{"sequence 2", "sequence 2 3", "expected the end of the line, got 3"},
        Mistake{"normal 0.02", "normal nan", "expected standard deviation"},
        Mistake{"normal 0.02", "normal -1", "expected standard deviation"},
        Mistake{"[8,8] normal", "[8,800] normal", "a piece within the 128 elements of the unit"},
        Mistake{"offset 64", "offset 129", "expected offset from 0 to 128"},
        Mistake{"class stage 0", "class stage 1", "expected stage from 0 to 0, got 1"},
        Mistake{"slab cpu", "slab gpu", "expected 'cpu', got gpu"},
        Mistake{"buffer @1 full gpu", "buffer @1 full vram", "expected a tier (gpu, cpu or nvme)"},
        Mistake{"buffer @1", "buffer @2", "expected the number of a buffer from 1 to 1, got 2"},
        Mistake{"slot 512 slots 2", "slot 500 slots 2",
                "expected a multiple of 256 bytes in gpu memory, got 500"},
        Mistake{"slot 512 slots 2", "slot 512 slots 0", "expected slots from 1"},
        Mistake{"slots 2 persistent unpadded", "slots 2147483647 persistent unpadded",
                "expected a buffer within its slab"},
        Mistake{"slot 4096 slots 2", "slot 4352 slots 2",
                "expected a multiple of 4096 bytes in cpu memory, got 4352"},
        Mistake{"shards 2 at 0", "shards 2 at 99999", "expected at from 0 to"},
        Mistake{"home layer@0", "home layer@1", "expected the number of a unit from 0 to 0, got 1"},
        Mistake{"param param@0 ", "param grad@0 ",
                "expected the name of buffer 0, param, got grad"},
        Mistake{"over dp.0 master", "over dp.0 moment", "expected 'master', got moment"},
        Mistake{"%1 begin", "%2 begin", "expected the number of a node from 1 to 1, got 2"},
        Mistake{"begin.layer.zero", "begin.layer", "expected a role such as"},
        Mistake{"all_gather dp.0", "all_gather everyone", "expected axes of the mesh, such as tp"},
        Mistake{"linear_forward", "linear_fwd", "expected a kernel, a collective, copy, send"},
        Mistake{"send to pp +1", "send to pp +3",
                "expected places along the axis from 1 to 2, got 3"},
        Mistake{"r param@0[l]", "x param@0[l]", "expected an access (r, w, u or scratch), got x"},
        Mistake{"param@0[l]", "param@0[l+l]", "expected each term of a slot once"},
        Mistake{"param@0[l]", "param@0[]",
                "expected a number, 'm', 'l' or 't', got \"]:f32[64],\""},
        Mistake{"param@0[l]", "param@0[3000000000l]", "expected a factor from 0 to 2147483647"},
        Mistake{"param@0[l]:f32[64]", "param@0[l]:f32[65]", "expected a view within the slot"},
        Mistake{"param@0[l]:f32[64]", "param@0[l]:f32[1,1,1,1,1,1]", "at most 5 dimensions"},
        Mistake{"param@0[l]:f32[64]", "param@0[l]:f32[0]", "expected a dimension from 1"},
        Mistake{"+dp.0*256", "+dp.0*257", "expected a view within the slot of 512 bytes"},
        Mistake{"r x@2[l]:f32[4,8], r full", "r x@2[l]:f32[8,4], r full",
                "expected x[T,k] w[k,n] bias[n] y[T,n] of types cccc for linear_forward, got "
                "x:f32[8,4] w:f32[8,8]"},
        Mistake{", scratch scratch@6:f32[256]", "", "expected 5 operands, got 4"},
        Mistake{"repeat 3 micro", "repeat 0 micro", "expected iterations from 1"},
        Mistake{"repeat 3 micro from 0", "repeat 3 micro from 2000000000", "expected loop values"},
        Mistake{"repeat 3 micro from 0 step 1", "repeat 2147483647 micro from 0 step 0",
                "accepted"},
        Mistake{"%4:1-1:same@2", "%99:1-1:same@2", "expected an edge to a node below"},
        Mistake{"%4:1-1:same@2", "%4:3", "at the level of a common block, got level 3"},
        Mistake{"%4:1-1:same@2", "%1:1", "at the level of a common block, got level 1"},
        Mistake{"%4:1-1:same@2", "%4:0:same@1:same@1", "expected one match, got two"},
        Mistake{"%4:1-1:same@2", "%1:0:same@3",
                "expected loops of equal count for a match with %1"},
        Mistake{"after %13", "before %13", "expected the end of the line, got before"}),
    [](const auto& info) { return std::to_string(info.index); });

TEST(Text, NamesTheLineOfAMistake) {
  const std::string text = to_text(sample_job());
  const std::string before = text.substr(0, text.find("comm_gather"));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  EXPECT_THAT(refusal(replaced(text, "comm_gather", "comm")),
              testing::StartsWith("x.zprog:" + std::to_string(line) + ": expected a lane ("));
}

TEST(Text, RefusesEveryTruncation) {
  const std::string text = to_text(sample_job());
  std::size_t end = text.rfind("class");
  EXPECT_THAT(refusal(text.substr(0, end)), HasSubstr("expected 2 classes, one per stage, got 1"));
  for (end = 0; end < text.size(); end = text.find('\n', end + 1)) {
    if (end + 1 == text.size()) break;
    EXPECT_NE(refusal(text.substr(0, end)), "accepted") << end;
  }
}

TEST(Text, BoundsNestingAndIssuedNodes) {
  const std::string head =
      "zprog 1\njob cpu.f32 unplaced\nmesh pp 1 every 1\n"
      "batch global 1 micro 1 micro_steps 1 sequence 1\nclass stage 0 first_layer 0 layers 1\n"
      "step {\n";
  const auto nested = [&](int levels, const std::string& loop) {
    std::string text = head;
    for (int i = 0; i < levels; ++i) text += loop + " {\n";
    text += "%0 begin.batch.report cpu mark\n";
    for (int i = 0; i < levels; ++i) text += "}\n";
    return text + "}\n";
  };
  EXPECT_EQ(refusal(nested(6, "repeat 2")), "accepted");
  EXPECT_THAT(refusal(nested(7, "repeat 2")), HasSubstr("at most 7 blocks inside each other"));
  EXPECT_THAT(refusal(nested(2, "repeat 2147483647")), HasSubstr("nodes issued per step"));
  EXPECT_THAT(refusal(nested(5, "repeat 2147483647")), HasSubstr("nodes issued per step"));
  EXPECT_THAT(refusal(head + "repeat 3 {\n}\n}\n"), HasSubstr("expected a node, got '}'"));
}

}  // namespace
}  // namespace zplan
