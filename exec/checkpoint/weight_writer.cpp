#include "exec/checkpoint/weight_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "exec/checkpoint/block_copy.h"
#include "exec/checkpoint/finite.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/piece_runs.h"
#include "exec/checkpoint/saved_states.h"
#include "exec/comm/rendezvous.h"
#include "exec/offload/open_file.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

// A file of its final size, mapped for writing. Its blocks are reserved: to write into it cannot
// fail for want of room.
class WrittenFile {
 public:
  WrittenFile(const std::string& folder, const ModelFile& file, bool creates)
      : path_(path_in(folder, file.name)), size_(static_cast<std::size_t>(file.bytes)) {
    const int create = creates ? O_CREAT | O_EXCL : 0;
    const int descriptor =
        ::open(path_.c_str(), O_RDWR | create | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
    if (descriptor < 0) fail_file(path_, creates ? "cannot be created" : "cannot be opened", errno);
    int error = creates ? posix_fallocate(descriptor, 0, file.bytes) : 0;
    void* address = nullptr;
    if (error == 0)
      address = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) error = errno;
    ::close(descriptor);
    if (error != 0) fail_file(path_, "cannot be given its size", error);
    data_ = static_cast<std::byte*>(address);
  }
  ~WrittenFile() { munmap(data_, size_); }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  std::byte* data() const { return data_; }
  // What was written is on the drive when this returns.
  void flush() const {
    if (msync(data_, size_, MS_SYNC) != 0) fail_file(path_, "cannot be written", errno);
  }

 private:
  std::string path_;
  std::size_t size_;
  std::byte* data_ = nullptr;
};

// Consecutive elements of one row, of the columns of one block.
struct RowRun {
  const FileBlock* block;
  BlockRows at;
  std::int64_t local;
};

class Writer {
 public:
  Writer(const Job& job, const ModelFiles& files, const std::string& folder, bool creates)
      : job_(job), folder_(files.folder) {
    for (const ModelFile& file : files.files) {
      files_.push_back(std::make_unique<WrittenFile>(folder, file, creates));
      if (creates) std::memcpy(files_.back()->data(), file.start.data(), file.start.size());
    }
    for (const FiledTensor& tensor : files.tensors) tensors_[tensor.name] = &tensor;
  }

  void write(const RankMemory& memory) {
    const RankLayout layout = weight_layout(job_, memory);
    for (std::size_t i = 0; i < layout.sources.size(); ++i) {
      const PieceSource& source = layout.sources[i];
      if (const std::byte* data = memory.slot_address(source.buffer, source.slot)) {
        write(layout.index.pieces[i], source, data);
        continue;
      }
      const Slab block(Bytes{source.at.bytes});
      memory.load(source.buffer, source.slot, {source.at.bytes}, block.data());
      write(layout.index.pieces[i], source, block.data());
    }
  }
  void flush() const {
    for (const auto& file : files_) file->flush();
  }

 private:
  void write(const SavedPiece& piece, const PieceSource& source, const std::byte* data) {
    if (const auto words = not_finite(piece, {data, static_cast<std::size_t>(source.at.bytes)}))
      throw Error(ExitCode::kCheckFailed,
                  fmt::format("{}: not written, for {}; an earlier checkpoint is exported by "
                              "--resume-from it and --steps with its number",
                              folder_, *words));
    for (const Tensor& own : piece.tensors) {
      const FiledTensor& tensor = *tensors_.at(own.name);
      ZPLAN_ASSERT(tensor.dtype == piece.dtype && tensor.shape == own.shape);
      const std::vector<PieceRun> runs =
          piece_runs(own, piece.piece, piece.pieces, piece.first, piece.elements);
      std::vector<RowRun> rows;
      for (const PieceRun& run : runs) cut(tensor, run, rows);
      write_rows(tensor, rows, data);
    }
  }

  // A run may be of several rows, and a row of several blocks.
  static void cut(const FiledTensor& tensor, PieceRun run, std::vector<RowRun>& rows) {
    while (run.length > 0) {
      const std::int64_t row = run.global / tensor.columns, column = run.global % tensor.columns;
      const std::int64_t matrix = row / tensor.rows;
      const auto block =
          std::find_if(tensor.blocks.begin(), tensor.blocks.end(), [&](const FileBlock& b) {
            return b.matrix == matrix && b.column <= column && column < b.column + b.columns;
          });
      ZPLAN_ASSERT(block != tensor.blocks.end());
      const std::int64_t n = std::min(run.length, block->column + block->columns - column);
      rows.push_back({&*block, {row % tensor.rows, 1, column, n}, run.local});
      run = {run.global + n, run.local + n, run.length - n};
    }
  }

  // Rows that follow one another at equal distances are copied together.
  void write_rows(const FiledTensor& tensor, std::vector<RowRun>& rows, const std::byte* data) {
    std::stable_sort(rows.begin(), rows.end(), [](const RowRun& a, const RowRun& b) {
      return std::pair(a.block, a.at.column) < std::pair(b.block, b.at.column);
    });
    const std::int64_t size = size_of(tensor.dtype).value;
    for (std::size_t i = 0; i < rows.size();) {
      RowRun first = rows[i];
      std::int64_t stride = 0;
      std::size_t next = i + 1;
      for (; next < rows.size(); ++next) {
        const RowRun& other = rows[next];
        const std::int64_t distance = other.local - rows[next - 1].local;
        if (next == i + 1) stride = distance;
        const bool follows = other.block == first.block && other.at.column == first.at.column &&
                             other.at.columns == first.at.columns &&
                             other.at.row == rows[next - 1].at.row + 1 && distance == stride;
        if (!follows) break;
      }
      first.at.rows = static_cast<std::int64_t>(next - i);
      copy_to_block(tensor, *first.block, files_[first.block->file]->data() + first.block->offset,
                    first.at, data + first.local * size, stride);
      i = next;
    }
  }

  const Job& job_;
  std::string folder_;  // as it is named when all is there
  std::vector<std::unique_ptr<WrittenFile>> files_;
  std::map<std::string, const FiledTensor*> tensors_;
};

// Does its part and throws what went wrong in any process, with the exit code of that.
template <typename Part>
void together(Rendezvous* rendezvous, const Part& part) {
  std::string wrong;  // a byte that is the exit code, and the words
  const auto note = [&](ExitCode code, const char* words) {
    wrong = static_cast<char>(code);
    wrong += words;
  };
  try {
    part();
  } catch (const std::exception& error) {
    if (rendezvous == nullptr) throw;
    const auto* known = dynamic_cast<const Error*>(&error);
    note(known != nullptr ? known->code() : ExitCode::kDevice, error.what());
  }
  if (rendezvous == nullptr) return;
  for (const std::string& each : rendezvous->exchange(wrong))
    if (!each.empty()) throw Error(static_cast<ExitCode>(each.front()), each.substr(1));
}

}  // namespace

DType weight_dtype(const Job& job, const TensorRef& tensor) {
  for (const RankClass& c : job.classes)
    for (const UnitHome& home : c.homes)
      if (home.unit == tensor.unit)
        return c.program.buffers[state_home(home, weight_state(home))->buffer].dtype;
  ZPLAN_ASSERT(false);
}

ExportReport write_weights(const Job& job, const ModelFiles& files,
                           const std::vector<RankMemory>& memory, ExportFolder* folder,
                           Rendezvous* rendezvous) {
  const auto start = std::chrono::steady_clock::now();
  const bool leads = folder != nullptr;
  const std::string partial = partial_export(files.folder);
  std::unique_ptr<Writer> writer;
  together(rendezvous, [&] {
    if (leads) writer = std::make_unique<Writer>(job, files, partial, true);
  });
  together(rendezvous, [&] {
    if (!leads) writer = std::make_unique<Writer>(job, files, partial, false);
    for (const RankMemory& m : memory) writer->write(m);
    writer->flush();
  });
  together(rendezvous, [&] {
    if (!leads) return;
    for (const auto& [name, text] : files.texts) write_durably(partial, name, text);
    folder->finish();
  });
  ExportReport report{.folder = files.folder, .files = std::ssize(files.files)};
  for (const ModelFile& file : files.files) report.bytes += Bytes{file.bytes};
  report.time = {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  return report;
}

}  // namespace zplan::exec
