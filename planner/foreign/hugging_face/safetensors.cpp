#include "planner/foreign/hugging_face/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "planner/core/error.h"
#include "planner/core/input_file.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMostHeader = 100'000'000;  // bytes, as the safetensors library has it
constexpr std::int64_t kMostInteger = std::numeric_limits<std::int64_t>::max();

struct Type {
  std::string_view name;
  std::int64_t bits;
};
constexpr Type kTypes[] = {{"BOOL", 8},    {"U8", 8},      {"I8", 8},   {"F8_E4M3", 8},
                           {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6},
                           {"F6_E3M2", 6}, {"I16", 16},    {"U16", 16}, {"F16", 16},
                           {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
                           {"I64", 64},    {"U64", 64},    {"F64", 64}, {"C64", 64}};

std::int64_t bits_of(const JsonNode& node) {
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.emplace_back(type.name);
  const std::string name = node.one_of(names);
  for (const Type& type : kTypes)
    if (type.name == name) return type.bits;
  return 0;
}

// Far below 2^63, so that bits and sums fit, too.
std::int64_t elements_of(const JsonNode& shape, std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
  std::int64_t elements = 1;
  for (const JsonNode& node : shape.items()) {
    const std::int64_t size = node.integer(0, kMostElements);
    if (size > 0 && elements > kMostElements / size)
      shape.fail("expected at most 2^50 elements, got more");
    elements *= size;
    sizes.push_back(size);
  }
  return elements;
}

StoredTensor read_tensor(const std::string& name, const JsonNode& node, std::int64_t data_bytes) {
  JsonObject object = node.object();
  const JsonNode type = object.member("dtype"), shape = object.member("shape");
  const JsonNode offsets = object.member("data_offsets");
  object.finish();
  StoredTensor tensor{.name = name, .type = type.string(), .shape = {}};
  const std::int64_t bits = bits_of(type);
  tensor.elements = elements_of(shape, tensor.shape);
  const std::vector<JsonNode> ends = offsets.items();
  if (ends.size() != 2) offsets.fail_expected("two offsets");
  tensor.begin = ends[0].integer(0, kMostInteger);
  tensor.end = ends[1].integer(0, kMostInteger);
  if (tensor.end < tensor.begin || tensor.end > data_bytes)
    offsets.fail(
        fmt::format("expected offsets in order and up to {}, the bytes behind the header, "
                    "got {} and {}",
                    data_bytes, tensor.begin, tensor.end));
  const std::int64_t bytes = (tensor.elements * bits + 7) / 8;
  if (tensor.end - tensor.begin != bytes)
    offsets.fail(fmt::format("expected the {} bytes of the shape, got {}", bytes,
                             tensor.end - tensor.begin));
  return tensor;
}

// Data stand side by side, from the end of the header to that of the file.
void check_cover(const std::vector<StoredTensor>& tensors, std::int64_t data_bytes,
                 const std::string& file) {
  std::int64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != end)
      throw_bad_input(
          fmt::format("{}: {}: expected data from byte {} on, where those before it "
                      "end, got {}",
                      file, in_quotes(tensor.name), end, tensor.begin));
    end = tensor.end;
  }
  if (end != data_bytes)
    throw_bad_input(
        fmt::format("{}: expected data up to the end of the file, {} bytes behind the "
                    "header, got {}",
                    file, data_bytes, end));
}

// Of the JSON text.
std::int64_t header_bytes(std::string_view start, std::int64_t file_bytes,
                          const std::string& file) {
  if (file_bytes < kLengthBytes || std::ssize(start) < kLengthBytes)
    throw_bad_input(fmt::format("{}: expected the {} bytes of a header's length, got a file of {}",
                                file, kLengthBytes, file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  const std::int64_t most = std::min(kMostHeader, file_bytes - kLengthBytes);
  if (length > static_cast<std::uint64_t>(most))
    throw_bad_input(
        fmt::format("{}: expected a header of at most {} bytes, got {}", file, most, length));
  return static_cast<std::int64_t>(length);
}

}  // namespace

std::vector<StoredTensor> parse_safetensors(std::string_view start, std::int64_t file_bytes,
                                            const std::string& file) {
  const std::int64_t header = header_bytes(start, file_bytes, file);
  const std::int64_t data_bytes = file_bytes - kLengthBytes - header;
  std::string text(start.substr(kLengthBytes, static_cast<std::size_t>(header)));
  if (std::ssize(text) != header || !text.starts_with('{'))
    throw_bad_input(fmt::format("{}: expected a header that is a JSON object", file));
  const JsonNode root = parse_json(std::move(text), file);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, node] : root.members())
    if (name != "__metadata__") tensors.push_back(read_tensor(name, node, data_bytes));
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(tensors, data_bytes, file);
  return tensors;
}

std::vector<StoredTensor> read_safetensors(const std::string& path) {
  const InputFile file(path);
  const std::int64_t bytes = file.bytes();
  std::string start(kLengthBytes, '\0');
  start.resize(file.read(start));
  const std::int64_t header = header_bytes(start, bytes, path);
  std::string text(static_cast<std::size_t>(header), '\0');
  text.resize(file.read(text));
  return parse_safetensors(start + text, bytes, path);
}

}  // namespace zplan
