// The header of a *.safetensors file: 8 bytes, the length of a JSON text in little-endian order,
// then that text, {"NAME": {"dtype": "BF16", "shape": [4, 2], "data_offsets": [0, 16]}, ..}, with
// strings under "__metadata__"; offsets count from its end. The data behind it are never read.
//
// Refused with one line: a length beyond the file or beyond what the safetensors library reads
// (100,000,000 bytes), a type that is not known, a shape that overflows or is not that of the
// bytes, data that overlap, leave holes or end elsewhere than the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

struct StoredTensor {
  std::string name, type;  // "BF16"
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;
  std::int64_t begin = 0, end = 0;  // bytes of the data
};

// In the order of their data. `start`: of the file, header and all; `file_bytes`: all of it; `file`
// stands for it in messages. Throws Error.
std::vector<StoredTensor> parse_safetensors(std::string_view start, std::int64_t file_bytes,
                                            const std::string& file);
std::vector<StoredTensor> read_safetensors(const std::string& path);

}  // namespace zplan
