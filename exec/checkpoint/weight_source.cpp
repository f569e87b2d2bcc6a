#include "exec/checkpoint/weight_source.h"

#include <algorithm>

#include "exec/checkpoint/block_copy.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/state_filler.h"
#include "exec/memory/initial_state.h"
#include "exec/scalar.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;  // that a piece has at most, if it can
constexpr std::int64_t kPartBytes = std::int64_t{256} << 10;  // that a thread puts together

}  // namespace

WeightSource::WeightSource(const ModelFiles& files) : files_(files) {
  // In the cache of a hub they are links.
  for (const ModelFile& file : files.files)
    mapped_.emplace_back(path_in(files.folder, file.name), Bytes{file.bytes}, Links::kFollowed);
  for (const FiledTensor& tensor : files.tensors) add_pieces(tensor);
}

void WeightSource::add_pieces(const FiledTensor& tensor) {
  Tensor whole;
  whole.name = tensor.name;
  whole.shape = tensor.shape;
  const std::int64_t row_bytes = tensor.columns * size_of(tensor.dtype).value;
  const std::int64_t most = std::max<std::int64_t>(1, kPieceBytes / row_bytes);
  for (std::int64_t matrix = 0; matrix < tensor.matrices; ++matrix) {
    for (std::int64_t row = 0; row < tensor.rows; row += most) {
      const std::int64_t rows = std::min(most, tensor.rows - row);
      SavedPiece saved;
      saved.dtype = tensor.dtype;
      saved.first = (matrix * tensor.rows + row) * tensor.columns;
      saved.elements = rows * tensor.columns;
      saved.tensors = {whole};
      sources_[tensor.name].push_back({0, pieces_.size(), 0});
      pieces_.push_back({std::move(saved), &tensor, matrix, row, rows});
    }
  }
}

const std::vector<StateSource::Source>& WeightSource::sources(const std::string& tensor,
                                                              State state) const {
  static const std::vector<Source> kNone;
  const auto found = sources_.find(tensor);
  return state != State::kParam || found == sources_.end() ? kNone : found->second;
}

const std::byte* WeightSource::bytes(const Source& at) {
  if (at.piece == at_hand_number_) return at_hand_.data();
  const Piece& piece = pieces_[at.piece];
  const FiledTensor& tensor = *piece.tensor;
  const std::int64_t size = size_of(tensor.dtype).value, row_bytes = tensor.columns * size;
  at_hand_.resize(static_cast<std::size_t>(piece.rows * row_bytes));
  at_hand_number_ = at.piece;
  const std::int64_t part = std::max<std::int64_t>(1, kPartBytes / row_bytes);
  const std::int64_t parts = ceil_div(piece.rows, part);
#pragma omp parallel for schedule(static) if (parts > 1)
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t from = i * part, rows = std::min(part, piece.rows - from);
    for (const FileBlock& block : tensor.blocks)
      if (block.matrix == piece.matrix)
        copy_from_block(tensor, block, mapped_[block.file].data() + block.offset,
                        {piece.row + from, rows, block.column, block.columns},
                        at_hand_.data() + from * row_bytes + block.column * size, tensor.columns);
  }
  return at_hand_.data();
}

StateSource::Source WeightSource::scales_of(const Source&) const { ZPLAN_ASSERT(false); }

std::vector<double> weight_values(WeightSource& source, const std::string& tensor) {
  std::vector<double> values;
  for (const StateSource::Source& at : source.sources(tensor, State::kParam)) {
    const SavedPiece& piece = source.piece(at);
    const std::byte* const bytes = source.bytes(at);
    for (std::int64_t i = 0; i < piece.elements; ++i)
      values.push_back(load_scalar(bytes, piece.dtype, i));
  }
  return values;
}

void load_weights(const Job& job, const ModelFiles& files, std::vector<RankMemory>& memory) {
  WeightSource source(files);
  StateFiller filler(source, job);
  for (RankMemory& m : memory) {
    filler.fill(m);
    clear_carried(m);
  }
}

}  // namespace zplan::exec
