// Copies between rows of a tensor and a block of a file that has some of its columns
// (planner/program/job/model_files.h). Types are those of the file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planner/program/job/model_files.h"

namespace zplan::exec {

// Consecutive rows of a matrix, and columns of it that the block has.
struct BlockRows {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
};

// `block`: its first byte in the file. `memory`: the first of the elements in a tensor's order,
// whose rows begin `stride` elements after one another.
void copy_from_block(const FiledTensor& tensor, const FileBlock& at, const std::byte* block,
                     const BlockRows& rows, std::byte* memory, std::int64_t stride);
void copy_to_block(const FiledTensor& tensor, const FileBlock& at, std::byte* block,
                   const BlockRows& rows, const std::byte* memory, std::int64_t stride);

}  // namespace zplan::exec
