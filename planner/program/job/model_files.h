// Where the files of another program have the tensors of a model. Whoever reads or writes their
// data (exec/checkpoint) need not know how such files begin or what their tensors are called.
//
// A tensor is seen as matrices [rows, columns], one after the other, row-major. A block is some
// columns of one of them, or all; in its file it lies row-major as [rows, columns], or transposed
// as [columns, rows].
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan {

struct FileBlock {
  std::size_t file = 0;     // of ModelFiles::files
  std::int64_t offset = 0;  // bytes from the begin of the file
  std::int64_t matrix = 0;
  std::int64_t column = 0, columns = 0;
  bool transposed = false;
};

// The blocks cover the tensor, each element once.
struct FiledTensor {
  std::string name;  // that of the Job, with the layer in it
  Shape shape;
  DType dtype = DType::kF32;  // of all blocks
  std::int64_t matrices = 1, rows = 1, columns = 1;
  std::vector<FileBlock> blocks;
};

struct ModelFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string start;  // what a file that is written begins with
};

struct ModelFiles {
  std::string folder;
  std::vector<ModelFile> files;
  std::vector<FiledTensor> tensors;
  std::vector<std::pair<std::string, std::string>> texts;  // name and content of files beside them
};

}  // namespace zplan
