#include "planner/lower/program_builder.h"

#include <utility>

#include "planner/core/error.h"
#include "planner/program/instances/edges.h"

namespace zplan {

namespace {

Lane copy_lane(Tier from, Tier to) {
  if (from == to) return from == Tier::kGpu ? Lane::kCompute : Lane::kCpu;
  if (from == Tier::kNvme) return Lane::kIoRead;
  if (to == Tier::kNvme) return Lane::kIoWrite;
  return from == Tier::kGpu ? Lane::kD2h : Lane::kH2d;
}

}  // namespace

ProgramBuilder::ProgramBuilder(std::int32_t unit_layers) {
  program_.unit_layers = unit_layers;
  program_.attributes.emplace_back();  // of nodes that have none
  program_.blocks.emplace_back();
}

BufferId ProgramBuilder::add(Buffer buffer) {
  buffer.slot_size = round_up(buffer.slot_size, alignment(buffer.tier));
  program_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program_.buffers.size() - 1);
}

void ProgramBuilder::repeat(const Repeat& repeat, const std::function<void()>& body) {
  if (repeat.count == 0) return;
  if (recorded_ != nullptr) return record_loop(repeat, body);
  const BlockIndex outer = current_;
  const auto index = static_cast<BlockIndex>(program_.blocks.size());
  Block block;
  block.parent = outer;
  block.depth = program_.blocks[outer].depth + 1;
  block.count = repeat.count;
  block.var = repeat.var;
  block.relative = repeat.relative;
  block.mirrored = repeat.mirrored;
  block.first = repeat.first;
  block.step = repeat.step;
  ZPLAN_ASSERT(block.depth < kMaxDepth);
  program_.blocks.push_back(std::move(block));
  program_.blocks[outer].items.push_back({true, index});
  current_ = index;
  body();
  current_ = outer;
  if (!program_.blocks[index].items.empty()) return;
  program_.blocks.pop_back();
  program_.blocks[outer].items.pop_back();
}

void ProgramBuilder::record_loop(const Repeat& repeat, const std::function<void()>& body) {
  RecordedPart* const around = recorded_;
  RecordedItem item;
  item.loop = repeat;
  recorded_ = &item.body;
  body();
  recorded_ = around;
  if (!item.body.empty()) around->push_back(std::move(item));
}

std::vector<RecordedPart> ProgramBuilder::record(const std::function<void()>& body) {
  ZPLAN_ASSERT(recorded_ == nullptr);
  parts_.assign(1, {});
  recorded_ = &parts_.back();
  body();
  recorded_ = nullptr;
  if (parts_.back().empty()) parts_.pop_back();
  return std::move(parts_);
}

void ProgramBuilder::end_part() {
  if (recorded_ == nullptr || recorded_ != &parts_.back() || recorded_->empty()) return;
  recorded_ = &parts_.emplace_back();
}

void ProgramBuilder::play(const RecordedPart& part) {
  for (const RecordedItem& item : part) {
    if (item.loop) {
      repeat(*item.loop, [&] { play(item.body); });
    } else {
      append(item.node, item.operands);
    }
  }
}

Node& ProgramBuilder::append(Role role, Lane lane, OpKind kind, std::span<const View> operands) {
  Node node;
  node.role = role;
  node.lane = lane;
  node.kind = kind;
  node.member = member_;
  if (kind == OpKind::kKernel || kind == OpKind::kCopy) node.group = owners_;
  if (recorded_ == nullptr) return append(node, operands);
  recorded_->push_back({{}, {}, node, {operands.begin(), operands.end()}});
  return recorded_->back().node;
}

Node& ProgramBuilder::append(Node node, std::span<const View> operands) {
  node.block = current_;
  node.operands_begin = static_cast<std::uint32_t>(program_.views.size());
  program_.views.insert(program_.views.end(), operands.begin(), operands.end());
  node.operands_end = static_cast<std::uint32_t>(program_.views.size());
  program_.blocks[current_].items.push_back(
      {false, static_cast<std::uint32_t>(program_.nodes.size())});
  program_.nodes.push_back(node);
  return program_.nodes.back();
}

void ProgramBuilder::kernel(Role role, Lane lane, KernelId id, std::initializer_list<View> operands,
                            const Attributes& attributes) {
  kernel(role, lane, id, std::span(operands.begin(), operands.size()), attributes);
}

void ProgramBuilder::kernel(Role role, Lane lane, KernelId id, std::span<const View> operands,
                            const Attributes& attributes) {
  Node& node = append(role, lane, OpKind::kKernel, operands);
  node.kernel = id;
  set_attributes(node, attributes);
}

void ProgramBuilder::set_attributes(Node& node, const Attributes& attributes) {
  if (attributes == Attributes{}) return;
  node.attributes = static_cast<std::uint32_t>(program_.attributes.size());
  program_.attributes.push_back(attributes);
}

void ProgramBuilder::copy(Role role, const View& from, const View& to) {
  const Tier source = program_.buffers[from.buffer].tier;
  const Tier target = program_.buffers[to.buffer].tier;
  const Lane lane = copy_lane(source, target);
  const std::array<View, 2> operands{read(from), write(to)};
  append(role, lane, OpKind::kCopy, operands);
}

void ProgramBuilder::collective(Role role, Lane lane, CollectiveKind kind, const Group& group,
                                const View& in, const View& out, const Attributes& attributes) {
  const std::array<View, 2> operands{read(in), write(out)};
  Node& node = append(role, lane, OpKind::kCollective, operands);
  node.collective = kind;
  node.group = group;
  set_attributes(node, attributes);
}

void ProgramBuilder::send(Role role, Lane lane, const Peer& peer, const View& from) {
  const std::array<View, 1> operands{read(from)};
  append(role, lane, OpKind::kSend, operands).peer = peer;
}

void ProgramBuilder::receive(Role role, Lane lane, const Peer& peer, const View& to) {
  const std::array<View, 1> operands{write(to)};
  append(role, lane, OpKind::kReceive, operands).peer = peer;
}

void ProgramBuilder::wait(Role role, Lane lane, const View& on) {
  append(role, lane, OpKind::kMark, std::span(&on, 1));
}

Program ProgramBuilder::finish() {
  derive_data_edges(program_);
  return finish_unordered();
}

Program ProgramBuilder::finish_unordered() { return std::move(program_); }

}  // namespace zplan
