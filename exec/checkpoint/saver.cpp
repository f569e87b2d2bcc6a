#include "exec/checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "exec/checkpoint/checkpoint_file.h"
#include "exec/checkpoint/checksum.h"
#include "exec/checkpoint/finite.h"
#include "exec/checkpoint/saved_file.h"
#include "exec/memory/all_cores.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kCopyChunk = std::int64_t{16} << 20;  // bytes that a thread copies at a time

Seconds since(Clock::time_point start) {
  return {std::chrono::duration<double>(Clock::now() - start).count()};
}

std::string failed_name(std::int32_t rank) { return fmt::format("rank-{:05}.failed", rank); }

SavedBytes& saved_bytes(RankIndex& index, std::size_t source) {
  const std::size_t pieces = index.pieces.size();
  return source < pieces ? index.pieces[source].at : index.carried[source - pieces].at;
}

struct Chunk {
  std::byte* to;
  const std::byte* from;
  std::int64_t bytes;
};

void copy_chunks(const std::vector<Chunk>& chunks) {
  on_all_cores(chunks.size(), [&](std::size_t i) {
    std::memcpy(chunks[i].to, chunks[i].from, static_cast<std::size_t>(chunks[i].bytes));
  });
}

}  // namespace

Bytes Saver::staging(const Job& job, const std::vector<RankMemory>& memory) {
  Bytes total{0};
  for (const RankMemory& m : memory) total += saved_layout(job, m).index.bytes;
  return total;
}

Saver::Saver(const Job& job, const SaveOptions& options, const std::vector<RankMemory>& memory,
             Header base, const KnownChoices& choices, std::function<void(const std::string&)> say,
             std::chrono::seconds deadline)
    : options_(options),
      base_(std::move(base)),
      say_(std::move(say)),
      deadline_(deadline),
      engine_(make_io_engine({.directory = {}, .method = options.io, .fault = options.fault})) {
  report_.folder = options.folder;
  const Bytes needed = staging(job, memory);
  report_.aside = needed <= std::min(available_memory(), options.most_staging);
  if (report_.aside) report_.staging = needed;
  for (const RankMemory& m : memory) {
    RankPart& part = parts_.emplace_back(RankPart{&m, saved_layout(job, m), {}});
    part.layout.index.choices = choices;
    if (report_.aside) part.copy = m.host_slab(part.layout.index.bytes);
  }
}

Saver::~Saver() {
  stop_ = true;
  if (writing_.valid()) writing_.wait();
}

void Saver::save(std::int64_t step, std::int64_t samples) {
  if (step == last_step_) return;
  const Clock::time_point start = Clock::now();
  finish();
  last_step_ = step;
  Header header = base_;
  header.step = step;
  header.samples = samples;
  header.loss_scale = read_loss_scale(*parts_.front().memory);
  Bytes bytes{0};
  for (const RankPart& part : parts_) bytes += part.layout.index.bytes;
  report_.saved.push_back({step, bytes, Seconds{0}, Seconds{0}});
  if (report_.aside) {
    copy_states();
    report_.saved.back().stall = since(start);
    writing_ = std::async(std::launch::async, [this, header] { write(header); });
  } else {
    write(std::move(header));
    report_.saved.back().stall = since(start);
  }
}

void Saver::finish() {
  if (writing_.valid()) writing_.get();
}

void Saver::mark_validated(std::int64_t step) const {
  if (!leads()) return;
  const std::string folder = path_in(options_.folder, checkpoint_name(step));
  try {
    const std::string name = path_in(folder, kHeaderName);
    Header header = header_from_text(read_saved_text(name), name);
    header.validated = true;
    write_durably(folder, kHeaderName, to_text(header));
  } catch (const std::exception& error) {
    say_(fmt::format("who goes on from {} validates it again: {}", folder, error.what()));
  }
}

void Saver::copy_states() {
  std::vector<Chunk> chunks;
  for (const RankPart& part : parts_) {
    for (const PieceSource& source : part.layout.sources) {
      std::byte* const to = part.copy.data() + source.at.offset;
      const std::byte* const from = part.memory->slot_address(source.buffer, source.slot);
      if (from == nullptr) {
        part.memory->load(source.buffer, source.slot, {source.at.bytes}, to);
        continue;
      }
      for (std::int64_t at = 0; at < source.at.bytes; at += kCopyChunk)
        chunks.push_back({to + at, from + at, std::min(kCopyChunk, source.at.bytes - at)});
    }
  }
  copy_chunks(chunks);
}

// Everything that fails here is told, and no more.
void Saver::write(Header header) {
  const Clock::time_point start = Clock::now();
  std::string folder;
  try {
    folder = partial_folder(options_.folder, header.step);
    for (RankPart& part : parts_) write_part(part, folder, header.step);
    conclude(header, folder);
    report_.saved.back().writing = since(start);
    report_.last_failed = false;
    report_.failure = ExitCode::kOk;
  } catch (const std::exception& error) {
    if (leads()) {
      remove_partial(options_.folder, header.step);
    } else if (!folder.empty()) {
      tell_others(folder);
    }
    report_.saved.pop_back();
    ++report_.failed;
    report_.last_failed = true;
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool is_checked = known != nullptr && known->code() == ExitCode::kCheckFailed;
    report_.failure = is_checked ? ExitCode::kCheckFailed : ExitCode::kDevice;
    say_(fmt::format("the checkpoint of step {} could not be written: {}; those before it are kept",
                     header.step, error.what()));
  }
}

// Takes the checksum. Throws Error(kCheckFailed) for parameters that are not finite.
void Saver::seal(RankPart& part, std::size_t source, const std::byte* data) {
  RankIndex& index = part.layout.index;
  SavedBytes& at = saved_bytes(index, source);
  const std::span bytes(data, static_cast<std::size_t>(at.bytes));
  at.sum = checksum(bytes);
  if (source >= index.pieces.size()) return;
  const SavedPiece& piece = index.pieces[source];
  const bool are_parameters = piece.state == State::kParam || piece.state == State::kMaster;
  if (!are_parameters) return;
  if (const auto words = not_finite(piece, bytes)) throw Error(ExitCode::kCheckFailed, *words);
}

void Saver::write_part(RankPart& part, const std::string& folder, std::int64_t step) {
  RankIndex& index = part.layout.index;
  index.step = step;
  {
    const CheckpointFile file(path_in(folder, bytes_name(index.rank)), index.bytes, options_.fault);
    if (report_.aside) {
      write_bytes(part, file);
    } else {
      write_from_memory(part, file);
    }
    file.flush();
  }
  write_durably(folder, index_name(index.rank), to_text(index));
}

// Checksums are taken while the drive is busy.
void Saver::write_bytes(RankPart& part, const CheckpointFile& file) {
  std::future<void> sums = std::async(std::launch::async, [&] {
    for (std::size_t i = 0; i < part.layout.sources.size(); ++i)
      seal(part, i, part.copy.data() + part.layout.sources[i].at.offset);
  });
  engine_->write(file, {0}, part.layout.index.bytes, part.copy.data());
  sums.get();
}

void Saver::write_from_memory(RankPart& part, const CheckpointFile& file) {
  std::int64_t largest = 0;
  for (const PieceSource& source : part.layout.sources)
    largest = std::max(largest, source.at.bytes);
  const Slab block(Bytes{largest});
  for (std::size_t i = 0; i < part.layout.sources.size(); ++i) {
    const PieceSource& source = part.layout.sources[i];
    const auto bytes = static_cast<std::size_t>(source.at.bytes);
    if (const std::byte* from = part.memory->slot_address(source.buffer, source.slot)) {
      std::memcpy(block.data(), from, bytes);
    } else {
      part.memory->load(source.buffer, source.slot, {source.at.bytes}, block.data());
    }
    seal(part, i, block.data());
    engine_->write(file, {source.at.offset}, {source.at.bytes}, block.data());
  }
}

void Saver::conclude(const Header& header, const std::string& folder) {
  if (!leads()) return;
  await_parts(folder);
  write_durably(folder, kHeaderName, to_text(header));
  finish_checkpoint(options_.folder, header.step);
  if (options_.keep > 0) prune_checkpoints(options_.folder, header.step, options_.keep);
}

// Of ranks that are other processes.
void Saver::await_parts(const std::string& folder) const {
  constexpr std::chrono::milliseconds kPause{10};
  const auto is_there = [&](const std::string& name) {
    return std::filesystem::exists(path_in(folder, name));
  };
  const Clock::time_point start = Clock::now();
  for (std::int32_t rank = 0; rank < base_.world; ++rank) {
    while (!is_there(index_name(rank))) {
      if (is_there(failed_name(rank)) || stop_ || Clock::now() - start > deadline_)
        throw Error(ExitCode::kDevice, fmt::format("rank {} has not written its part", rank));
      std::this_thread::sleep_for(kPause);
    }
  }
}

void Saver::tell_others(const std::string& folder) const noexcept {
  for (const RankPart& part : parts_) {
    try {
      write_durably(folder, failed_name(part.layout.index.rank), "");
    } catch (const std::exception&) {  // they learn it at their deadline
    }
  }
}

}  // namespace zplan::exec
