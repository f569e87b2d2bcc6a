#include "planner/program/verify/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/program/instances/carried.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/verify/addresses.h"
#include "planner/program/verify/shorten.h"

namespace zplan {
namespace {

// Instances done, by lane; of as many lanes as compilers can compare four by four.
using Clock = std::array<std::int32_t, (kLaneCount + 3) / 4 * 4>;

// An instance, and what is known to be done when it starts.
struct Issued {
  NodeIndex node = 0;
  Env env;
  Clock known{};
};

constexpr std::int32_t kNobody = -1;

struct Piece {
  std::int32_t owner = kNobody;  // buffer whose content it holds, scratch included
  bool defined = false;          // holds what a write left, not scratch
  std::uint8_t writer_lane = 0;  // last write: place in its lane, kNobody before the first step
  std::int32_t writer = kNobody;
  Clock readers{};  // since then, by lane: place in the lane + 1 of the last one
};

class HazardWalk {
 public:
  HazardWalk(const Program& program, const AddressPieces& addresses, ClassFindings& findings)
      : p_(program), addresses_(addresses), index_(program), findings_(findings) {
    pieces_.resize(addresses.count());
  }

  void initialise(BufferId id) {
    for (const std::uint32_t i : addresses_.of_buffer(id)) {
      pieces_[i].owner = static_cast<std::int32_t>(id);
      pieces_[i].defined = true;
    }
  }

  void run() {
    const std::int64_t instances = index_.all_nodes() * kVerifiedSteps;
    Cursor cursor(index_, std::nullopt, false);
    for (std::int64_t i = 0; i < instances && !findings_.full(); ++i, cursor.advance())
      issue(*cursor);
  }

 private:
  void issue(const Instance& at) {
    const Node& node = p_.nodes[at.node];
    const auto lane = static_cast<std::size_t>(node.lane);
    Issued now{at.node, at.env, {}};
    if (!issued_[lane].empty()) now.known = issued_[lane].back().known;
    now.known[lane] = static_cast<std::int32_t>(issued_[lane].size());
    for (const Edge& edge : p_.after(node)) wait(edge, at, now);
    // A node reads all its operands before it writes any.
    for (std::size_t v = node.operands_begin; v < node.operands_end; ++v)
      if (reads(p_.views[v].access)) visit(v, now, lane, &HazardWalk::read);
    for (std::size_t v = node.operands_begin; v < node.operands_end; ++v)
      if (writes(p_.views[v].access)) visit(v, now, lane, &HazardWalk::write);
    issued_[lane].push_back(now);
  }

  void wait(const Edge& edge, const Instance& at, Issued& now) {
    const auto threshold = index_.resolve(edge, at.iterations);
    if (!threshold || threshold->completed <= 0) return;
    const auto lane = static_cast<std::size_t>(threshold->lane);
    if (threshold->completed > static_cast<std::int64_t>(issued_[lane].size())) {
      findings_.add(fmt::format("{} waits for {}, which is not earlier in program order",
                                label(now), node_name(p_, edge.node)));
      return;
    }
    const auto done = static_cast<std::int32_t>(threshold->completed);
    const Clock theirs = issued_[lane][static_cast<std::size_t>(done - 1)].known;
    for (std::size_t l = 0; l < theirs.size(); ++l)
      now.known[l] = std::max(now.known[l], theirs[l]);
    now.known[lane] = std::max(now.known[lane], done);
  }

  using Visit = void (HazardWalk::*)(Piece&, const View&, const Issued&, std::size_t);

  void visit(std::size_t view, const Issued& now, std::size_t lane, Visit action) {
    const View& v = p_.views[view];
    const std::int64_t slot = v.slot.at(now.env, p_.buffers[v.buffer].slots);
    for (const std::uint32_t i : addresses_.of(view, slot))
      (this->*action)(pieces_[i], v, now, lane);
  }

  void read(Piece& piece, const View& v, const Issued& now, std::size_t lane) {
    check_content(piece, v, now);
    check_writer(piece, v, now, "reads");
    piece.readers[lane] = static_cast<std::int32_t>(issued_[lane].size()) + 1;
  }

  void write(Piece& piece, const View& v, const Issued& now, std::size_t lane) {
    check_writer(piece, v, now, "writes");
    check_own_operands(piece, v, now, lane);
    check_readers(piece, v, now, lane);
    piece.owner = static_cast<std::int32_t>(v.buffer);
    piece.defined = v.access != Access::kScratch;
    piece.writer_lane = static_cast<std::uint8_t>(lane);
    piece.writer = static_cast<std::int32_t>(issued_[lane].size());
    piece.readers = {};
  }

  void check_content(const Piece& piece, const View& v, const Issued& now) {
    if (piece.owner == static_cast<std::int32_t>(v.buffer) && piece.defined) return;
    const std::string& buffer = p_.buffers[v.buffer].name;
    if (piece.owner == kNobody) {
      findings_.add(fmt::format("{} reads '{}' before it is written", label(now), buffer));
    } else if (piece.owner == static_cast<std::int32_t>(v.buffer)) {
      findings_.add(fmt::format("{} reads '{}' after {} used it as scratch", label(now), buffer,
                                writer_label(piece)));
    } else {
      findings_.add(fmt::format("{} reads '{}' where {} has put '{}', which shares its bytes",
                                label(now), buffer, writer_label(piece),
                                p_.buffers[static_cast<std::size_t>(piece.owner)].name));
    }
  }

  void check_writer(const Piece& piece, const View& v, const Issued& now, const char* doing) {
    if (piece.writer == kNobody || piece.writer < now.known[piece.writer_lane]) return;
    if (is_own_lane(piece.writer_lane, now)) return;
    unordered(piece, v, now, doing, piece.writer_lane, piece.writer, "writes");
  }

  void check_readers(const Piece& piece, const View& v, const Issued& now, std::size_t lane) {
    const auto is_late = [&](std::size_t l) { return piece.readers[l] > now.known[l]; };
    int late = 0;
    for (std::size_t l = 0; l < now.known.size(); ++l) late += is_late(l);
    if (late == is_late(lane)) return;
    for (std::size_t l = 0; l < kLaneCount; ++l)
      if (l != lane && is_late(l))
        unordered(piece, v, now, "writes", l, piece.readers[l] - 1, "reads");
  }

  bool is_own_lane(std::size_t lane, const Issued& now) const {
    return static_cast<std::size_t>(p_.nodes[now.node].lane) == lane;
  }

  // Has this very instance used the bytes as another buffer?
  void check_own_operands(const Piece& piece, const View& v, const Issued& now, std::size_t lane) {
    const auto here = static_cast<std::int32_t>(issued_[lane].size());
    const bool wrote = piece.writer == here && piece.writer_lane == lane;
    if (piece.owner == kNobody || piece.owner == static_cast<std::int32_t>(v.buffer)) return;
    if (!wrote && piece.readers[lane] != here + 1) return;
    findings_.add(fmt::format("{} uses '{}' and '{}' on the same bytes", label(now),
                              p_.buffers[static_cast<std::size_t>(piece.owner)].name,
                              p_.buffers[v.buffer].name));
  }

  void unordered(const Piece& piece, const View& v, const Issued& now, const char* doing,
                 std::size_t lane, std::int32_t sequence, const char* other_doing) {
    const auto owner = static_cast<std::size_t>(piece.owner == kNobody ? v.buffer : piece.owner);
    const std::string other =
        owner == v.buffer ? "it" : fmt::format("'{}' on the same bytes", p_.buffers[owner].name);
    findings_.add(fmt::format("{} {} '{}' without waiting for {}, which {} {}", label(now), doing,
                              p_.buffers[v.buffer].name,
                              label(issued_[lane][static_cast<std::size_t>(sequence)]), other_doing,
                              other));
  }

  std::string label(const Issued& at) const {
    return op_name(op_id(p_, p_.nodes[at.node], at.env));
  }
  std::string writer_label(const Piece& piece) const {
    if (piece.writer == kNobody) return "initialisation";
    return label(issued_[piece.writer_lane][static_cast<std::size_t>(piece.writer)]);
  }

  const Program& p_;
  const AddressPieces& addresses_;
  ProgramIndex index_;
  ClassFindings& findings_;
  std::vector<Piece> pieces_;
  std::array<std::vector<Issued>, kLaneCount> issued_;
};

std::vector<BufferId> initialised(const RankClass& rank_class) {
  std::vector<BufferId> result = carried_buffers(rank_class);
  for (const UnitHome& home : rank_class.homes)
    for (const BufferId id : home.buffers())
      if (rank_class.program.buffers[id].persistent) result.push_back(id);
  return result;
}

}  // namespace

void check_hazards(const Job& job, const RankClass& rank_class, ClassFindings& findings) {
  const std::int64_t period = micro_period(rank_class.program);
  const std::int64_t keep = 2 * period + largest_delta(rank_class.program) + 2;
  const Program program = shorten(rank_class.program, period, keep);
  const Placement* placement = job.placed ? &rank_class.placement : nullptr;
  const AddressPieces addresses(job, program, placement);
  HazardWalk walk(program, addresses, findings);
  for (const BufferId id : initialised(rank_class)) walk.initialise(id);
  walk.run();
}

}  // namespace zplan
