#include "planner/foreign/drive_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr Bytes kLeastBlock{64 << 10};  // [assumed] below, drives are bound by requests, not bytes
constexpr double kMostDepth = 1 << 20;  // that a profile may have
constexpr double kSeveral = 1.5;        // [derived] on average, half way between one and two

class Gatherer {
 public:
  explicit Gatherer(const NvmeProfile& drives) : drives_(drives) {}

  DriveValues gather(const std::vector<NamedFioRun>& runs) {
    for_groups(runs, [&](const FioGroup& group) { take_rate(group); });
    for_groups(runs, [&](const FioGroup& group) { take_rest(group); });
    return std::move(found_);
  }

 private:
  template <typename Visit>
  void for_groups(const std::vector<NamedFioRun>& runs, const Visit& visit) {
    for (const NamedFioRun& one : runs) {
      for (const FioGroup& group : one.run.groups) {
        file_ = one.file;
        ref_ = fmt::format("{}, jobs {}; {}, {}", one.run.software, visible(group.jobs), one.file,
                           one.run.date);
        visit(group);
      }
    }
  }

  static bool reads(const FioGroup& group) { return group.read.requests_per_second > 0; }
  static bool writes(const FioGroup& group) { return group.write.requests_per_second > 0; }
  static bool is_large(const FioRate& rate) {
    return rate.requests_per_second == 0 || rate.block() >= kLeastBlock;
  }
  static bool is_rate(const FioGroup& group) {
    const bool several = group.in_flight() == 0 || group.in_flight() >= kSeveral;
    return is_large(group.read) && is_large(group.write) && several;
  }

  void take_rate(const FioGroup& group) {
    if (group.drives > drives_.drives) {
      throw_bad_input(fmt::format("{}: expected at most {} drives, those of the base, got {}",
                                  group.place, drives_.drives, group.drives));
    }
    if (!is_rate(group) || (reads(group) && writes(group))) return;
    const FioRate& rate = reads(group) ? group.read : group.write;
    auto& target = reads(group) ? found_.read : found_.write;
    if (target) note(fmt::format("{} replace what was measured before", visible(group.jobs)));
    const std::string of = group.counted ? fmt::format("{} drives", group.drives)
                                         : std::string("one drive: the file does not say how many");
    const std::string ref =
        fmt::format("blocks of {} on {}; {}", format_bytes(rate.block()), of, ref_);
    target = {{rate.bytes_per_second / group.drives}, ref};
    found_.block = {rate.block(), ref};
    if (rate.in_flight == 0) return;
    const double depth = std::clamp(std::round(rate.in_flight / group.drives), 1.0, kMostDepth);
    found_.queue_depth = {static_cast<int>(depth), ref};
  }

  void take_rest(const FioGroup& group) {
    if (reads(group) && writes(group) && is_rate(group)) {
      take_both(group);
    } else if (reads(group) && !writes(group) && group.in_flight() > 0 &&
               group.in_flight() < kSeveral) {
      take_latency(group);
    } else if (!is_rate(group)) {
      note(fmt::format("{} left out: neither large transfers nor single reads",
                       visible(group.jobs)));
    }
  }

  void take_both(const FioGroup& group) {
    if (found_.read_beside_write)
      note(fmt::format("{} replace what was measured before", visible(group.jobs)));
    const double r = group.read.bytes_per_second / (read_rate() * group.drives);
    const double w = group.write.bytes_per_second / (write_rate() * group.drives);
    constexpr double kThousand = 1000;  // fractions are written in thousandths
    const double share = std::clamp(1 - (1 - r) / w, 0.0, 1.0);
    found_.read_beside_write = {
        std::round(share * kThousand) / kThousand,
        fmt::format("{} read and {} written at once by {} drives; {}",
                    format_rate(BytesPerSecond{group.read.bytes_per_second}),
                    format_rate(BytesPerSecond{group.write.bytes_per_second}), group.drives, ref_)};
  }

  void take_latency(const FioGroup& group) {
    const Seconds whole = group.read.latency();
    const Seconds moving{static_cast<double>(group.read.block().value) / read_rate()};
    if (whole <= moving) {
      note(fmt::format("{} left out: no longer than the transfer alone", visible(group.jobs)));
      return;
    }
    if (found_.latency)
      note(fmt::format("{} replace what was measured before", visible(group.jobs)));
    found_.latency = {{whole.value - moving.value},
                      fmt::format("reads of {}, one at a time, less their transfer; {}",
                                  format_bytes(group.read.block()), ref_)};
  }

  // Of one drive, as a program reaches it.
  double read_rate() const {
    return found_.read ? found_.read->value.value : drives_.drive_read.value * drives_.efficiency;
  }
  double write_rate() const {
    return found_.write ? found_.write->value.value
                        : drives_.drive_write.value * drives_.efficiency;
  }

  void note(const std::string& text) {
    found_.notes.push_back(fmt::format("{}: jobs {}", file_, text));
  }

  const NvmeProfile& drives_;
  std::string file_, ref_;  // of the group that is looked at
  DriveValues found_;
};

}  // namespace

DriveValues drive_values(const std::vector<NamedFioRun>& runs, const NvmeProfile& drives) {
  return Gatherer(drives).gather(runs);
}

}  // namespace zplan
