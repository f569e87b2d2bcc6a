#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

#include "planner/core/json_edit.h"
#include "planner/program/job/names.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/trace/trace.h"

namespace zplan {
namespace {

// Chrome's unit is the microsecond; with three decimals nothing of a nanosecond is lost.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class Writer {
 public:
  Writer(const Job& job, const std::function<void(std::string_view)>& sink)
      : job_(job), sink_(sink) {}

  void write(const Trace& trace) {
    put(R"({{"displayTimeUnit":"ms","otherData":{{"source":{},"fingerprint":{}}},"traceEvents":[)",
        ascii_json_string(trace.source), ascii_json_string(trace.fingerprint));
    for (std::size_t i = 0; i < trace.ranks.size(); ++i) rank(trace.ranks[i], i);
    if (!trace.links.empty()) links(trace);
    text_ += "\n]}\n";
    sink_(text_);
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 18;

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    put(format, std::forward<Args>(args)...);
    if (text_.size() < kPiece) return;
    sink_(text_);
    text_.clear();
  }

  void rank(const RankTrace& rank, std::size_t place) {
    process_ = place + 1;
    program_ = &job_.classes[static_cast<std::size_t>(rank.stage)].program;
    names(rank);
    for (const TraceCounter& c : rank.counters) counter(c);
    for (const TraceSlice& s : rank.slices) slice(s);
    for (const TraceFold& f : rank.folds) fold(f);
    for (const TraceFlow& f : rank.flows) flow(f);
  }

  // Links are shared by ranks, and are shown below them.
  void links(const Trace& trace) {
    process_ = trace.ranks.size() + 1;
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"links"}}}})", process_);
    event(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
          process_);
    for (const TraceCounter& link : trace.links) counter(link);
  }

  // Viewers take the threads of all processes for one set, and 0 for no thread.
  std::size_t thread(std::size_t lane) const { return process_ * 100 + lane; }
  std::size_t thread(Lane lane) const { return thread(static_cast<std::size_t>(lane)); }

  // The names of a process and its threads, and their places on the screen.
  void names(const RankTrace& rank) {
    event(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"stage {}, rank {}"}}}})",
          process_, rank.stage, rank.rank);
    event(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
          process_);
    std::array<bool, kLaneCount> used{};
    for (const TraceSlice& s : rank.slices) used[static_cast<std::size_t>(s.lane)] = true;
    for (const TraceFold& f : rank.folds) used[static_cast<std::size_t>(f.span.lane)] = true;
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      if (!used[lane]) continue;
      event(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
            process_, thread(lane), name(static_cast<Lane>(lane)));
      event(R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},)"
            R"("args":{{"sort_index":{1}}}}})",
            process_, thread(lane));
    }
  }

  void counter(const TraceCounter& c) {
    for (const TraceCounter::Point& p : c.points)
      event(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"{}":{:.6g}}}}})",
            ascii_json_string(c.name), process_, microseconds(p.ns), c.unit, p.value);
  }

  void slice(const TraceSlice& s) {
    event(R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{})",
          name(role_of(s.op)), process_, thread(s.lane), microseconds(s.start_ns),
          microseconds(s.end_ns - s.start_ns), s.step);
    put(R"(,"micro_batch":{},"layer":{})", s.op & 0xfffff, (s.op >> 28) & 0xffff);
    if (const auto tile = (s.op >> 20) & 0xff; tile != 0) put(R"(,"tile":{})", tile);
    work(program_->nodes[s.node], s.end_ns - s.start_ns);
    wait(s.wait);
    text_ += "}}";
  }

  // flop per nanosecond are GFLOP/s, bytes per nanosecond GB/s.
  void work(const Node& node, std::int64_t ns) {
    const Bytes bytes = moved_bytes(*program_, node);
    if (node.kind == OpKind::kKernel) put(R"(,"kernel":"{}")", name(node.kernel));
    if (node.kind == OpKind::kCollective) put(R"(,"collective":"{}")", name(node.collective));
    if (bytes.value > 0) put(R"(,"bytes":{})", bytes.value);
    if (bytes.value > 0 && ns > 0)
      put(R"(,"GB/s":{:.4g})", static_cast<double>(bytes.value) / static_cast<double>(ns));
    if (node.kind != OpKind::kKernel) return;
    const Flops flops = demand_of(*program_, node).flops;
    if (flops.value > 0) put(R"(,"flop":{})", flops.value);
    if (flops.value > 0 && ns > 0)
      put(R"(,"TFLOP/s":{:.4g})",
          static_cast<double>(flops.value) / static_cast<double>(ns) / 1000);
  }

  void wait(const WaitReason& wait) {
    if (wait.what == WaitFor::kNothing) return;
    put(R"(,"waited_us":{},"waited_for":")", microseconds(wait.waited.value / 1000));
    switch (wait.what) {
      case WaitFor::kNothing:
        break;
      case WaitFor::kOperation:
        text_ += op_name(wait.op);
        break;
      case WaitFor::kMemory:
        text_ += "memory used by " + op_name(wait.op);
        break;
      case WaitFor::kPeers:
        text_ += "its peers";
        break;
      case WaitFor::kLaunch:
        text_ += "its launch by the host";
        break;
      case WaitFor::kUnseen:
        text_ += "an operation that is not shown";
        break;
    }
    text_ += '"';
  }

  void fold(const TraceFold& f) {
    const std::int64_t times = f.span.last - f.span.first + 1;
    event(R"({{"ph":"X","name":"micro-batches: iterations {}..{}, {} times","cname":"grey",)"
          R"("pid":{},"tid":{},"ts":{},"dur":{},)",
          f.span.first, f.span.last, times, process_, thread(f.span.lane), microseconds(f.start_ns),
          microseconds(f.end_ns - f.start_ns));
    put(R"("args":{{"step":{},"operations":{},"busy_us":{},"first_iteration":{},)"
        R"("last_iteration":{}}}}})",
        f.span.step, f.span.ops, microseconds(f.span.busy.value / 1000), f.span.first, f.span.last);
  }

  void flow(const TraceFlow& f) {
    ++flows_;
    event(R"({{"ph":"s","cat":"flow","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})", f.name,
          flows_, process_, thread(f.from), microseconds(f.from_ns));
    event(R"({{"ph":"f","bp":"e","cat":"flow","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})",
          f.name, flows_, process_, thread(f.to), microseconds(f.to_ns));
  }

  const Job& job_;
  const std::function<void(std::string_view)>& sink_;
  const Program* program_ = nullptr;
  std::string text_;
  std::size_t process_ = 0;
  std::int64_t flows_ = 0;
  bool first_ = true;
};

}  // namespace

void write(const Job& job, const Trace& trace, const std::function<void(std::string_view)>& sink) {
  Writer(job, sink).write(trace);
}

}  // namespace zplan
