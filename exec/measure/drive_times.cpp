#include "exec/measure/drive_times.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "exec/measure/cold_timing.h"
#include "exec/memory/slab.h"
#include "exec/offload/io_engine.h"
#include "exec/offload/slab_file.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kPlaces = 4;  // each transfer goes to another part of the file
constexpr int kMostTimes = 40;
constexpr double kDriveEffort = 4;  // [assumed] drives vary more than cores

}  // namespace

struct DriveTimes::State {
  State(const StorageOptions& options, Bytes most)
      : file(options, 0, most * kPlaces),
        reader(make_io_engine(options)),
        writer(make_io_engine(options)),
        in(most),
        out(most) {}
  SlabFile file;
  std::unique_ptr<IoEngine> reader, writer;
  Slab in, out;
};

DriveTimes::DriveTimes(const std::string& directory, std::int64_t most_bytes, const Effort& effort)
    : state_(std::make_unique<State>(StorageOptions{.directory = directory, .checks = false},
                                     Bytes{most_bytes})),
      most_(most_bytes),
      effort_{effort.seconds * kDriveEffort, effort.batches} {
  for (std::int64_t i = 0; i < kPlaces; ++i)  // what was never written is not read from the drive
    state_->writer->write(state_->file, Bytes{i * most_}, Bytes{most_}, state_->out.data());
}

DriveTimes::~DriveTimes() = default;

namespace {

double median_transfer(const Effort& effort, std::int64_t most,
                       const std::function<void(Bytes offset)>& move) {
  std::vector<double> times;
  double spent = 0;
  for (std::int64_t i = 0; std::ssize(times) < effort.batches ||
                           (spent < effort.seconds && std::ssize(times) < kMostTimes);
       ++i) {
    times.push_back(seconds_of([&] { move(Bytes{i % kPlaces * most}); }));
    spent += times.back();
  }
  return median_of(std::move(times));
}

}  // namespace

double DriveTimes::read(std::int64_t bytes) const {
  return median_transfer(effort_, most_, [&](Bytes offset) {
    state_->reader->read(state_->file, offset, Bytes{bytes}, state_->in.data());
  });
}

double DriveTimes::write(std::int64_t bytes) const {
  return median_transfer(effort_, most_, [&](Bytes offset) {
    state_->writer->write(state_->file, offset, Bytes{bytes}, state_->out.data());
  });
}

double DriveTimes::read_beside_write() const {
  const double alone = read(most_);
  std::atomic<bool> stop = false;
  std::jthread other([&] {
    for (std::int64_t i = 0; !stop; ++i)
      state_->writer->write(state_->file, Bytes{i % kPlaces * most_}, Bytes{most_},
                            state_->out.data());
  });
  const double beside = read(most_);
  stop = true;
  return std::clamp(alone / beside, 0.0, 1.0);
}

}  // namespace zplan::exec
