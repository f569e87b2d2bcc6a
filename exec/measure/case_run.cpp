#include "exec/measure/case_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/measure/element.h"
#include "exec/memory/poison.h"
#include "exec/schedule/queues.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::size_t kGap = 256;  // bytes between operands that nobody may touch

// The values, over and over.
void fill(std::byte* to, const View& view, const std::vector<double>& values) {
  if (values.empty()) return;
  for (std::size_t i = 0; i < values.size(); ++i) store_value(to, view.dtype, i, values[i]);
  const auto bytes = static_cast<std::size_t>(view.bytes().value);
  const std::size_t drawn = values.size() * static_cast<std::size_t>(size_of(view.dtype).value);
  for (std::size_t at = drawn; at < bytes; at += drawn)
    std::memcpy(to + at, to, std::min(drawn, bytes - at));
}

}  // namespace

CaseRun::CaseRun(Device& device, const KernelSet& set, const Case& c, const Values& inputs,
                 std::span<const Lane> more_lanes, int threads)
    : device_(&device), operands_(operands_of(c, set)) {
  std::size_t end = kGap;
  for (const CaseOperand& o : operands_) {
    offsets_.push_back(end);
    const auto bytes = static_cast<std::size_t>(o.view.bytes().value);
    end = (end + bytes + kGap - 1) / kGap * kGap + kGap;
  }
  image_.resize(end);
  fill_poison(image_.data(), Bytes{static_cast<std::int64_t>(end)});
  for (std::size_t i = 0; i < operands_.size() && i < inputs.size(); ++i)
    fill(image_.data() + offsets_[i], operands_[i].view, inputs[i]);
  slab_ = device.make_slab(Tier::kGpu, Bytes{static_cast<std::int64_t>(end)});
  device.upload(slab_.data(), image_.data(), Bytes{static_cast<std::int64_t>(end)});

  job_.kernel_set = std::string(set.id);
  job_.model = "kernel";
  RankClass& only = job_.classes.emplace_back();
  Program& program = only.program;
  program.blocks.push_back({.items = {{false, 0}}});
  program.attributes.emplace_back();
  std::copy(c.attributes.begin(), c.attributes.end(), program.attributes[0].begin());
  for (const CaseOperand& o : operands_) {
    program.buffers.push_back({.name = o.name,
                               .slot_size = round_up(o.view.bytes(), kBufferAlignment),
                               .dtype = o.view.dtype,
                               .persistent = true});
    program.views.push_back(o.view);
  }
  Node node;
  node.role = {Phase::kForward, Part::kLayer, Action::kCompute};
  node.kind = OpKind::kKernel;
  node.kernel = c.kernel;
  node.operands_end = static_cast<std::uint32_t>(operands_.size());
  program.nodes = {node};
  for (const Lane lane : more_lanes) {
    node.kind = OpKind::kCopy;
    node.lane = lane;
    program.nodes.push_back(node);
  }

  backend_ = device.make_backend(job_, 0, threads, {});
  backend_->prepare_thread();
  for (std::size_t i = 0; i < operands_.size(); ++i)
    call_operands_.push_back(
        {&program.views[i], address(i), Bytes{static_cast<std::int64_t>(offsets_[i])}});
  call_.node = &program.nodes[0];
  call_.operands = call_operands_;
  call_.attributes = c.attributes;
  call_.services = &services_;
}

std::byte* CaseRun::address(std::size_t operand) const { return slab_.data() + offsets_[operand]; }

void CaseRun::launch() { backend_->run_kernel(call_); }

void CaseRun::read(std::size_t operands) {
  constexpr std::size_t kLine = 64;
  for (std::size_t i = 0; i < std::min(operands, operands_.size()); ++i) {
    if (operands_[i].view.access == Access::kScratch) continue;
    const auto bytes = static_cast<std::size_t>(operands_[i].view.bytes().value);
    const volatile std::byte* first = address(i);
    for (std::size_t at = 0; at < bytes; at += kLine) static_cast<void>(first[at]);
  }
}

void CaseRun::queue_copy() { backend_->copy(Lane::kCompute, call_operands_[0], call_operands_[1]); }

void CaseRun::finish() {
  if (Queues* queues = backend_->queues()) queues->finish();
}

Values CaseRun::outputs() {
  std::vector<std::byte> now(image_.size());
  device_->download(now.data(), slab_.data(), Bytes{static_cast<std::int64_t>(now.size())});
  Values values(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const View& view = operands_[i].view;
    if (view.access == Access::kRead) continue;
    const auto bytes = static_cast<std::size_t>(view.bytes().value);
    if (view.access != Access::kScratch) {
      for (std::int64_t j = 0; j < view.shape.elements(); ++j)
        values[i].push_back(
            load_value(now.data() + offsets_[i], view.dtype, static_cast<std::size_t>(j)));
    }
    std::memcpy(now.data() + offsets_[i], image_.data() + offsets_[i], bytes);
  }
  const auto changed = std::mismatch(now.begin(), now.end(), image_.begin()).first - now.begin();
  if (changed == std::ssize(now)) return values;
  std::size_t nearest = 0;
  while (nearest + 1 < offsets_.size() &&
         offsets_[nearest + 1] <= static_cast<std::size_t>(changed))
    ++nearest;
  throw Error(ExitCode::kCheckFailed,
              fmt::format("changed byte {} from the begin of {}, which it does not write",
                          changed - static_cast<std::ptrdiff_t>(offsets_[nearest]),
                          operands_[nearest].name));
}

}  // namespace zplan::exec
