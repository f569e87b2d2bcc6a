#include "exec/checkpoint/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "exec/checkpoint/checksum.h"
#include "planner/core/error.h"
#include "planner/core/json_edit.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"
#include "planner/program/job/names.h"

namespace zplan::exec {
namespace {

constexpr std::string_view kHeaderSchema = "zplan.checkpoint/1";
constexpr std::string_view kIndexSchema = "zplan.checkpoint_rank/1";
constexpr std::string_view kSum = "\"xxh3\": \"";
constexpr std::string_view kEnd = "\"\n}\n";
constexpr std::size_t kSumDigits = 16;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
constexpr std::int64_t kMostElements = std::int64_t{1} << 38;  // times ranks: below kMost
constexpr std::array<std::string_view, 3> kSplits{"none", "rows", "columns"};

template <typename... Args>
void put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

void check_seal(const std::string& text, const std::string& name) {
  const std::size_t end = kSum.size() + kSumDigits + kEnd.size();
  const auto damaged = [&] { throw_bad_input(fmt::format("{}: damaged or cut short", name)); };
  if (text.size() < end) damaged();
  const std::string_view all(text);
  const std::string expected =
      fmt::format("{}{}{}", kSum, checksum_text(checksum(all.substr(0, all.size() - end))), kEnd);
  if (all.substr(all.size() - end) != expected) damaged();
}

std::uint64_t read_hex(const JsonNode& node) {
  const std::string text = node.string();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    node.fail_expected("hexadecimal digits");
  return value;
}

// ---- writing ---------------------------------------------------------------------------------

void put_place(std::string& out, const SavedBytes& at) {
  put(out, "\"offset\": {}, \"bytes\": {}, \"sum\": \"{}\"", at.offset, at.bytes,
      checksum_text(at.sum));
}

template <typename Numbers>
std::string list(const Numbers& numbers) {
  return fmt::format("[{}]", joined(numbers, ", "));
}

void put_tensor(std::string& out, const Tensor& t) {
  const std::span<const std::int64_t> dims(t.shape.dims.data(),
                                           static_cast<std::size_t>(t.shape.rank));
  put(out, "\n        {{\"name\": {}, \"shape\": {}, \"offset\": {}", ascii_json_string(t.name),
      list(dims), t.offset);
  const bool is_split = t.split.kind != Split::Kind::kNone;
  if (is_split)
    put(out, ", \"split\": \"{}\", \"segments\": {}, \"piece_rows\": {}",
        kSplits[static_cast<std::size_t>(t.split.kind)], list(t.split.segments), t.piece_rows);
  if (is_split || t.blocks > 1) put(out, ", \"blocks\": {}", t.blocks);
  out += "}";
}

void put_piece(std::string& out, const SavedPiece& p) {
  out += "\n    {";
  put_place(out, p.at);
  put(out,
      ", \"state\": \"{}\", \"dtype\": \"{}\", \"piece\": {}, \"pieces\": {}, \"first\": {}, "
      "\"elements\": {}, \"every\": {}, \"tensors\": [",
      name(p.state), zplan::name(p.dtype), p.piece, p.pieces, p.first, p.elements, p.every);
  const char* comma = "";
  for (const Tensor& tensor : p.tensors) {
    out += std::exchange(comma, ",");
    put_tensor(out, tensor);
  }
  out += "]}";
}

// ---- reading ---------------------------------------------------------------------------------

SavedBytes read_place(JsonObject& object) {
  SavedBytes at;
  const JsonNode offset = object.member("offset");
  at.offset = offset.integer(0, kMost);
  if (at.offset % kIoAlignment.value != 0)
    offset.fail_expected(fmt::format("a multiple of {}", kIoAlignment.value));
  at.bytes = object.member("bytes").integer(0, kMost - at.offset);
  at.sum = read_hex(object.member("sum"));
  return at;
}

std::vector<std::int64_t> read_numbers(const JsonNode& node) {
  std::vector<std::int64_t> numbers;
  for (const JsonNode& item : node.items()) numbers.push_back(item.integer(1, kMost));
  return numbers;
}

Shape read_shape(const JsonNode& node) {
  Shape shape;
  std::int64_t elements = 1;
  for (const std::int64_t size : read_numbers(node)) {
    if (shape.rank == kMaxRank || size > kMostElements / elements)
      node.fail_expected("the shape of a tensor");
    elements *= size;
    shape.dims[static_cast<std::size_t>(shape.rank++)] = size;
  }
  if (shape.rank == 0) node.fail_expected("the shape of a tensor");
  return shape;
}

// What TensorPart divides by must go into what it divides.
void check_split(const Tensor& t, std::int64_t pieces, const JsonNode& node) {
  const auto demand = [&](bool good, const char* what) {
    if (!good) node.fail_expected(what);
  };
  demand(pieces % t.blocks == 0, "blocks that the pieces are divided into");
  if (t.split.kind == Split::Kind::kRows && t.piece_rows == 0)
    demand(t.shape[0] % pieces == 0, "rows that the pieces divide");
  if (t.split.kind == Split::Kind::kNone)
    demand(t.shape.elements() % t.blocks == 0, "elements that the blocks divide");
  if (t.split.kind != Split::Kind::kColumns) return;
  const std::int64_t own = pieces / t.blocks, columns = t.shape[t.shape.rank - 1];
  std::int64_t left = columns;
  for (const std::int64_t width : t.split.segments) {
    demand(width % own == 0 && width <= left, "segments that the pieces divide");
    left -= width;
  }
  demand(left == 0, "segments as wide as the tensor");
  demand(t.shape.elements() / columns % t.blocks == 0, "rows that the blocks divide");
}

Tensor read_tensor(const JsonNode& node, std::int64_t pieces) {
  JsonObject object = node.object();
  Tensor t;
  t.name = object.member("name").non_empty_string();
  t.shape = read_shape(object.member("shape"));
  t.offset = object.member("offset").integer(0, kMostElements);
  if (const auto split = object.optional_member("split")) {
    const std::string word = split->one_of({kSplits[1], kSplits[2]});
    t.split.kind =
        static_cast<Split::Kind>(std::find(kSplits.begin(), kSplits.end(), word) - kSplits.begin());
    t.split.segments = read_numbers(object.member("segments"));
    t.piece_rows = object.member("piece_rows").integer(0, t.shape[0]);
    t.blocks = object.member("blocks").integer(1, pieces);
  } else if (const auto blocks = object.optional_member("blocks")) {
    t.blocks = blocks->integer(1, pieces);
  }
  check_split(t, pieces, node);
  object.finish();
  return t;
}

State read_state(const JsonNode& node) {
  const std::string word = node.string();
  for (const State state : kStates)
    if (name(state) == word) return state;
  node.fail_expected("a state, such as \"param\"");
}

DType read_dtype(const JsonNode& node) {
  const auto dtype = parse_name<DType>(node.string());
  if (!dtype || *dtype == DType::kI32) node.fail_expected("a type of states, such as \"f32\"");
  return *dtype;
}

SavedPiece read_piece(const JsonNode& node) {
  JsonObject object = node.object();
  SavedPiece p;
  p.at = read_place(object);
  p.state = read_state(object.member("state"));
  p.dtype = read_dtype(object.member("dtype"));
  p.pieces = object.member("pieces").integer(1, kMostRanks);
  p.piece = object.member("piece").integer(0, p.pieces - 1);
  p.first = object.member("first").integer(0, kMostElements);
  const JsonNode elements = object.member("elements");
  p.elements = elements.integer(1, kMostElements);
  p.every = static_cast<std::int32_t>(
      object.member("every").integer(1, std::numeric_limits<std::int32_t>::max()));
  if (p.elements / p.every * size_of(p.dtype).value != p.at.bytes)
    elements.fail_expected("as many elements as there are bytes");
  for (const JsonNode& tensor : object.member("tensors").items())
    p.tensors.push_back(read_tensor(tensor, p.pieces));
  object.finish();
  return p;
}

SavedLossScale read_loss_scale(const JsonNode& node) {
  constexpr double kMostScale = 1e300;
  JsonObject object = node.object();
  SavedLossScale saved;
  saved.scale = object.member("scale").number(0, kMostScale);
  saved.good_steps = object.member("good_steps").number(0, kMostScale);
  saved.skipped_steps = object.member("skipped_steps").number(0, kMostScale);
  saved.overflowed = object.member("overflowed").boolean();
  object.finish();
  return saved;
}

}  // namespace

std::string sealed(std::string text) {
  text += ",\n  ";
  const std::string sum = checksum_text(checksum(text));
  return text.append(kSum).append(sum).append(kEnd);
}

std::string index_name(std::int32_t rank) { return fmt::format("rank-{:05}.json", rank); }
std::string bytes_name(std::int32_t rank) { return fmt::format("rank-{:05}.bin", rank); }

std::string to_text(const Header& header) {
  std::string out;
  put(out,
      "{{\n  \"schema\": \"{}\",\n  \"step\": {},\n  \"samples\": {},\n  \"seed\": \"{:x}\",\n"
      "  \"world\": {},\n  \"fingerprint\": {},\n  \"loss_scale\": ",
      kHeaderSchema, header.step, header.samples, header.seed, header.world,
      ascii_json_string(header.fingerprint));
  if (const auto& scale = header.loss_scale) {
    put(out,
        "{{\"scale\": {:.17g}, \"good_steps\": {:.17g}, \"skipped_steps\": {:.17g}, "
        "\"overflowed\": {}}}",
        scale->scale, scale->good_steps, scale->skipped_steps, scale->overflowed);
  } else {
    out += "null";
  }
  put(out, ",\n  \"validated\": {},\n  \"plan\": {}", header.validated,
      ascii_json_string(header.plan));
  return sealed(std::move(out));
}

std::string to_text(const RankIndex& index) {
  std::string out;
  put(out,
      "{{\n  \"schema\": \"{}\",\n  \"step\": {},\n  \"rank\": {},\n  \"bytes\": {},\n"
      "  \"pieces\": [",
      kIndexSchema, index.step, index.rank, index.bytes.value);
  const char* comma = "";
  for (const SavedPiece& piece : index.pieces) {
    out += std::exchange(comma, ",");
    put_piece(out, piece);
  }
  out += "],\n  \"carried\": [";
  comma = "";
  for (const SavedCarried& carried : index.carried) {
    put(out, "{}\n    {{\"buffer\": {}, ", std::exchange(comma, ","),
        ascii_json_string(carried.buffer));
    put_place(out, carried.at);
    out += "}";
  }
  out += "],\n  \"choices\": {";
  comma = "";
  for (const auto& [key, value] : index.choices)
    put(out, "{}\n    {}: {}", std::exchange(comma, ","), ascii_json_string(key),
        ascii_json_string(value));
  out += "}";
  return sealed(std::move(out));
}

Header header_from_text(const std::string& text, const std::string& name) {
  check_seal(text, name);
  JsonObject object = parse_json(text, name).object();
  object.schema(kHeaderSchema);
  Header header;
  header.step = object.member("step").integer(0, kMost / 2);
  header.samples = object.member("samples").integer(0, kMost / 2);
  header.seed = read_hex(object.member("seed"));
  header.world = static_cast<std::int32_t>(object.member("world").integer(1, kMostRanks));
  header.fingerprint = object.member("fingerprint").string();
  if (const JsonNode scale = object.member("loss_scale"); !scale.is_null())
    header.loss_scale = read_loss_scale(scale);
  if (const auto validated = object.optional_member("validated"))
    header.validated = validated->boolean();
  header.plan = object.member("plan").string();
  object.member("xxh3");
  object.finish();
  return header;
}

RankIndex index_from_text(const std::string& text, const std::string& name) {
  check_seal(text, name);
  JsonObject object = parse_json(text, name).object();
  object.schema(kIndexSchema);
  RankIndex index;
  index.step = object.member("step").integer(0, kMost / 2);
  index.rank = static_cast<std::int32_t>(object.member("rank").integer(0, kMostRanks));
  index.bytes = {object.member("bytes").integer(0, kMost)};
  for (const JsonNode& piece : object.member("pieces").items())
    index.pieces.push_back(read_piece(piece));
  for (const JsonNode& node : object.member("carried").items()) {
    JsonObject carried = node.object();
    index.carried.push_back({read_place(carried), carried.member("buffer").non_empty_string()});
    carried.finish();
  }
  for (const auto& [key, value] : object.member("choices").members())
    index.choices[key] = value.string();
  object.member("xxh3");
  object.finish();
  return index;
}

}  // namespace zplan::exec
