// Builds a Program node by node in program order. Knows the form of a Program, nothing of plans.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

inline View read(View v) { return v.access = Access::kRead, v; }
inline View write(View v) { return v.access = Access::kWrite, v; }
inline View update(View v) { return v.access = Access::kUpdate, v; }
inline View access(View v, Access a) { return v.access = a, v; }

struct Repeat {
  std::int32_t count = 1;
  Var var = Var::kNone;
  std::int32_t first = 0;
  std::int32_t step = 1;
  bool relative = false;
  bool mirrored = false;
};

// This holds what a body emits, in the parts that it says it has, before it is in a Program.
struct RecordedItem {
  std::optional<Repeat> loop;  // around `body`, else a node
  std::vector<RecordedItem> body;
  Node node;
  std::vector<View> operands;
};
using RecordedPart = std::vector<RecordedItem>;

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::int32_t unit_layers = 1);

  BufferId add(Buffer buffer);  // rounds slot_size up to the alignment
  Buffer& buffer(BufferId id) { return program_.buffers[id]; }

  // Emits the body once inside a repeated block; nothing when count is 0, or where it emits
  // nothing.
  void repeat(const Repeat& repeat, const std::function<void()>& body);

  // Keeps what the body emits aside instead, cut wherever it calls end_part(); play() emits it.
  // What the body adds to buffers and attributes stands in the Program at once.
  std::vector<RecordedPart> record(const std::function<void()>& body);
  void play(const RecordedPart& part);
  // Ends a part of what is recorded, outside its loops; otherwise means nothing.
  void end_part();

  void kernel(Role role, Lane lane, KernelId id, std::initializer_list<View> operands,
              const Attributes& attributes = {});
  void kernel(Role role, Lane lane, KernelId id, std::span<const View> operands,
              const Attributes& attributes);
  void copy(Role role, const View& from, const View& to);  // lane follows from the tiers
  // `attributes`: of an exchange of token rows, as program.h says.
  void collective(Role role, Lane lane, CollectiveKind kind, const Group& group, const View& in,
                  const View& out, const Attributes& attributes = {});
  void send(Role role, Lane lane, const Peer& peer, const View& from);
  void receive(Role role, Lane lane, const Peer& peer, const View& to);
  // Adds a mark, which orders the lane among the users of the view as its access says (program.h).
  void wait(Role role, Lane lane, const View& on);

  // Says to which layer of a unit the nodes that follow belong; outside layer loops, to which layer
  // of the model.
  void set_member(std::int32_t member) { member_ = static_cast<std::uint16_t>(member); }
  std::int32_t member() const { return member_; }
  // Kernels and copies that follow are done by one member of this group alone, the one whose index
  // is that of the layer. Without a group all ranks do them.
  void set_owners(const Group& group) { owners_ = group; }

  // Derives the data edges and hands the Program over.
  Program finish();
  Program finish_unordered();  // without edges

 private:
  Node& append(Role role, Lane lane, OpKind kind, std::span<const View> operands);
  void set_attributes(Node& node, const Attributes& attributes);
  Node& append(Node node, std::span<const View> operands);
  void record_loop(const Repeat& repeat, const std::function<void()>& body);

  Program program_;
  BlockIndex current_ = 0;
  std::uint16_t member_ = 0;
  Group owners_{};
  std::vector<RecordedPart> parts_;   // of what is recorded
  RecordedPart* recorded_ = nullptr;  // where that goes on
};

}  // namespace zplan
