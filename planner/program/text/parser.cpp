// Reads the text form of a Job (text.h). A Job it returns is safe for every reader: all indices
// point at something, operands fit their kernels and slots, and sums of sizes and counts stay
// within the bounds of text.h. Whether the work makes sense (order, matched communication, reads of
// written data) is the business of verify.h. This file reads all but the nodes (step.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/program/job/piece_axes.h"
#include "planner/program/text/fields.h"
#include "planner/program/text/text.h"

namespace zplan {
namespace {

constexpr double kMaxInitStd = 1e9;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 30;
constexpr std::size_t kMaxSegments = 16;
constexpr std::int64_t kMostEvery = 1 << 16;

class JobParser {
 public:
  JobParser(std::string_view text, const std::string& file_name) : in_(text, file_name) {}

  Job parse() {
    if (!in_.next_line()) in_.fail("'zprog 1'", "an empty file");
    in_.expect("zprog");
    in_.integer("version", 1, 1);
    model();
    job_line();
    mesh_line();
    gpus_line();
    batch_line();
    while (in_.statement("unit")) unit();
    while (in_.statement("class")) rank_class();
    if (in_.has_statement()) in_.fail("'unit' or 'class'");
    if (job_.classes.size() != static_cast<std::size_t>(job_.stages())) {
      in_.fail(fmt::format("{} classes, one per stage", job_.stages()),
               fmt::to_string(job_.classes.size()));
    }
    return std::move(job_);
  }

 private:
  std::int64_t field(std::string_view label, std::int64_t min, std::int64_t max) {
    in_.expect(label);
    return in_.integer(label, min, max);
  }

  // The comment on the second line; any other text there is an ordinary comment or statement.
  void model() {
    in_.end_line();
    if (in_.accept('#')) {
      if (in_.accept("model")) {
        job_.model = in_.word("the name of the model");
        in_.end_line();
      } else {
        in_.next_line();
      }
    }
    in_.find_statement();
  }

  void job_line() {
    if (!in_.statement("job")) in_.fail_statement("'job'");
    job_.kernel_set = in_.word("a kernel set");
    if (in_.accept("launch")) {
      in_.expect("graph");
      job_.launch = LaunchMode::kGraph;
    }
    job_.placed = in_.accept("placed");
    if (!job_.placed) in_.expect("unplaced");
    in_.end_statement();
  }

  void mesh_line() {
    if (!in_.statement("mesh")) in_.fail_statement("'mesh'");
    std::int64_t world = 1;
    job_.mesh.axes.clear();
    while (!in_.at_end()) {
      if (job_.mesh.axes.size() == kMaxAxes)
        in_.fail(fmt::format("at most {} axes", kMaxAxes), "more");
      Axis& axis = job_.mesh.axes.emplace_back();
      axis.name = in_.word("the name of an axis");
      const std::int64_t most = axis.name == kPipelineAxis ? kMaxStages : kMaxRanks / world;
      axis.size = static_cast<std::int32_t>(in_.integer("places along an axis", 1, most));
      world *= axis.size;
      axis.stride = static_cast<std::int32_t>(field("every", 1, kMaxRanks));
    }
    if (const auto fault = mesh_fault(job_.mesh)) in_.fail("strides that number the ranks", *fault);
    in_.end_statement();
  }

  void gpus_line() {
    if (!in_.statement("gpus")) return;
    while (!in_.at_end())
      job_.mesh.gpus.push_back(
          static_cast<std::int32_t>(in_.integer("a GPU of a node", 0, kMaxDevices - 1)));
    if (const auto twice = named_twice(job_.mesh.gpus))
      in_.fail("each GPU of a node once", fmt::format("{} twice", *twice));
    in_.end_statement();
  }

  void batch_line() {
    if (!in_.statement("batch")) in_.fail_statement("'batch'");
    job_.global_batch = field("global", 1, kMaxBatch);
    job_.micro_batch = field("micro", 1, kMaxBatch);
    job_.micro_steps = field("micro_steps", 1, kMaxMicroSteps);
    job_.sequence = field("sequence", 1, kMaxBatch);
    in_.end_statement();
  }

  void unit() {
    Unit u;
    u.name = in_.word("the name of a unit");
    u.per_layer = in_.accept("per_layer");
    if (in_.accept("from_layer")) {
      u.layers.first = static_cast<std::int32_t>(in_.integer("from_layer", 0, kMaxLayers));
      u.layers.count = static_cast<std::int32_t>(field("layers", 1, kMaxLayers));
    }
    if (in_.accept("tiles"))
      u.tiles = static_cast<std::int32_t>(in_.integer("tiles", 1, kMaxTiles));
    u.elements = field("elements", 0, kMaxUnitElements);
    u.decay_elements = field("decay", 0, kMaxUnitElements);
    if (in_.accept("shared")) {
      u.shared_elements = in_.integer("shared elements", 0, kMaxUnitElements);
      u.shared_from = field("from", 0, kMaxUnitElements);
    }
    if (in_.accept("experts")) u.experts = read_axes(in_, job_.mesh);
    u.shard_elements = field("shard", 0, kMaxUnitElements);
    in_.expect("over");
    u.shards = read_axes(in_, job_.mesh);
    const std::int64_t used =
        std::max({u.elements, u.decay_elements, u.shared_from + u.shared_elements});
    u.flat_elements = field("flat", used, kMaxUnitElements);
    in_.end_statement();
    while (in_.statement("tensor")) u.tensors.push_back(tensor(u));
    job_.units.push_back(std::move(u));
  }

  Tensor tensor(const Unit& u) {
    Tensor t;
    t.name = in_.word("the name of a tensor");
    t.shape = read_shape(in_);
    t.init = read_enum<Init>(in_, "an initialiser");
    if (t.init == Init::kNormal) t.init_std = in_.number("standard deviation", 0, kMaxInitStd);
    t.decay = in_.accept("decay");
    t.offset = field("offset", 0, u.flat_elements);
    if (in_.accept("member"))
      t.member = static_cast<std::int32_t>(in_.integer("member", 0, kMaxUnitLayers - 1));
    const std::int64_t pieces =
        std::int64_t{job_.mesh.size(piece_axes(job_.mesh, u.experts))} * u.tiles;
    split(t, pieces);
    blocks(t, job_.mesh.size(u.experts));
    const std::int64_t piece = piece_elements(t, pieces) / t.blocks;
    if (t.offset + piece > u.flat_elements) {
      in_.fail(fmt::format("a piece within the {} elements of the unit", u.flat_elements),
               fmt::format("one that ends at {}", t.offset + piece));
    }
    in_.end_statement();
    return t;
  }

  void split(Tensor& t, std::int64_t pieces) {
    if (in_.accept("rows")) {
      t.split.kind = Split::Kind::kRows;
      if (t.shape.rank == 0) in_.fail("a tensor with rows", "a number");
      const std::int64_t least = (t.shape[0] + pieces - 1) / pieces;
      if (in_.accept("padded")) {
        const std::int64_t row = t.shape.elements() / t.shape[0];
        t.piece_rows = in_.integer("rows of a piece", least, kMaxViewElements / row);
      } else if (t.shape[0] % pieces != 0) {
        in_.fail(fmt::format("rows that {} pieces share equally", pieces),
                 fmt::to_string(t.shape[0]));
      }
    } else if (in_.accept("columns")) {
      t.split.kind = Split::Kind::kColumns;
      t.split.segments = segments(pieces);
      const std::int64_t width = t.shape.rank == 0 ? 0 : t.shape[t.shape.rank - 1];
      const auto& widths = t.split.segments;
      const std::int64_t sum = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
      if (sum != width) in_.fail(fmt::format("{} columns", width), fmt::to_string(sum));
    }
  }

  // Rows that ranks with other experts have, whole or of the pieces by columns.
  void blocks(Tensor& t, std::int64_t ranks) {
    t.blocks = ranks;
    if (ranks == 1) return;
    if (t.split.kind == Split::Kind::kRows)
      in_.fail("a tensor that is whole or cut by columns, as those of experts are", "another");
    if (t.shape.rank == 0) in_.fail("a tensor with rows", "a number");
    const std::int64_t rows = t.shape.elements() / t.shape[t.shape.rank - 1];
    if (rows % ranks != 0)
      in_.fail(fmt::format("rows that {} ranks share equally", ranks), fmt::to_string(rows));
  }

  // Widths that all pieces share equally.
  std::vector<std::int64_t> segments(std::int64_t pieces) {
    std::vector<std::int64_t> result;
    in_.expect('[');
    do {
      if (result.size() == kMaxSegments) in_.fail(fmt::format("{} segments", kMaxSegments), "more");
      result.push_back(in_.integer("the width of a segment", 1, kMaxViewElements));
      if (result.back() % pieces != 0) {
        in_.fail(fmt::format("a width that {} pieces share equally", pieces),
                 fmt::to_string(result.back()));
      }
    } while (in_.accept(','));
    in_.expect(']');
    return result;
  }

  static std::int64_t piece_elements(const Tensor& t, std::int64_t pieces) {
    if (t.split.kind == Split::Kind::kNone) return t.shape.elements();
    if (t.piece_rows == 0) return t.shape.elements() / pieces;
    return t.shape.elements() / t.shape[0] * t.piece_rows;
  }

  void rank_class() {
    RankClass c;
    const auto stage = static_cast<std::int64_t>(job_.classes.size());
    if (stage == job_.stages())
      in_.fail(fmt::format("{} classes, one per stage", job_.stages()), "one more");
    c.stage = static_cast<std::int32_t>(field("stage", stage, stage));
    while (in_.accept("first_layer")) {
      LayerRange& range = c.layers.emplace_back();
      range.first = static_cast<std::int32_t>(in_.integer("first_layer", 0, kMaxLayers));
      range.count = static_cast<std::int32_t>(field("layers", 0, kMaxLayers));
    }
    if (in_.accept("unit_layers"))
      c.program.unit_layers =
          static_cast<std::int32_t>(in_.integer("unit_layers", 1, kMaxUnitLayers));
    in_.end_statement();
    for (std::size_t t = 0; job_.placed && t < kTierCount; ++t) slab(c.placement, t);
    std::int64_t bytes = 0;
    while (in_.statement("buffer")) {
      buffer(c);
      bytes += c.program.buffers.back().size().value;
      if (bytes > kMaxClassBytes) {
        in_.fail(fmt::format("at most {} bytes in a class", kMaxClassBytes), "more");
      }
    }
    while (in_.statement("home")) home(c);
    if (!in_.statement("step")) in_.fail_statement("'buffer', 'home' or 'step'");
    read_step(in_, job_, c.program);
    job_.classes.push_back(std::move(c));
  }

  void slab(Placement& placement, std::size_t tier) {
    const std::string_view tier_name = name(static_cast<Tier>(tier));
    if (!in_.statement("slab")) in_.fail_statement(fmt::format("'slab {}'", tier_name));
    placement.slab[tier] = {field(tier_name, 0, kMaxClassBytes)};
    placement.live_peak[tier] = {field("live_peak", 0, kMaxClassBytes)};
    in_.end_statement();
  }

  void buffer(RankClass& c) {
    const auto id = static_cast<std::int64_t>(c.program.buffers.size());
    in_.expect('@');
    in_.integer("the number of a buffer", id, id);
    Buffer b;
    b.name = in_.word("the name of a buffer");
    b.tier = read_enum<Tier>(in_, "a tier");
    b.category = read_enum<Category>(in_, "a category");
    b.dtype = read_enum<DType>(in_, "a data type");
    b.slot_size = {field("slot", 1, kMaxBufferBytes)};
    if (b.slot_size.value % alignment(b.tier).value != 0) {
      in_.fail(
          fmt::format("a multiple of {} bytes in {} memory", alignment(b.tier).value, name(b.tier)),
          fmt::to_string(b.slot_size.value));
    }
    const std::int64_t max_slots = std::min(kMaxInt32, kMaxBufferBytes / b.slot_size.value);
    b.slots = static_cast<std::int32_t>(field("slots", 1, max_slots));
    b.persistent = in_.accept("persistent");
    if (in_.accept("unpadded")) {
      b.unpadded = {in_.integer("unpadded bytes", 0, kMaxClassBytes)};
      b.shards = static_cast<std::int32_t>(field("shards", 1, kMaxRanks));
    }
    if (job_.placed) {
      const Bytes slab = c.placement.slab[static_cast<std::size_t>(b.tier)];
      if (b.size() > slab) {
        in_.fail(fmt::format("a buffer within its slab of {} bytes", slab.value),
                 fmt::to_string(b.size().value));
      }
      c.placement.offset.push_back({field("at", 0, (slab - b.size()).value)});
    }
    c.program.buffers.push_back(std::move(b));
    in_.end_statement();
  }

  StateHome state_home(std::string_view label, const std::vector<Buffer>& buffers) {
    in_.expect(label);
    return state_home(buffers);
  }

  StateHome state_home(const std::vector<Buffer>& buffers) {
    StateHome home;
    home.buffer = read_reference(in_, buffers, "buffer");
    if (in_.accept("then")) home.rest = read_reference(in_, buffers, "buffer");
    if (in_.accept("over")) home.shards = read_axes(in_, job_.mesh);
    if (in_.accept("every")) home.every = in_.integer("every", 1, kMostEvery);
    return home;
  }

  void home(RankClass& c) {
    UnitHome home;
    home.unit = read_reference(in_, job_.units, "unit");
    home.is_frozen = in_.accept("frozen");
    if (in_.accept("nf4")) home.codes = Codes::kNf4;
    if (in_.accept("fp4")) home.codes = Codes::kFp4;
    home.param = state_home("param", c.program.buffers);
    home.master = state_home("master", c.program.buffers);
    while (in_.accept(fmt::format("moment{}", home.moments.size() + 1)))
      home.moments.push_back(state_home(c.program.buffers));
    c.homes.push_back(home);
    in_.end_statement();
  }

  TextScanner in_;
  Job job_;
};

}  // namespace

Job parse_zprog(std::string_view text, const std::string& file_name) {
  return JobParser(text, file_name).parse();
}

}  // namespace zplan
