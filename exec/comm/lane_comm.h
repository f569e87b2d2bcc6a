// Collectives of one lane between processes, on the connections of lane_flows.h.
//
// Sums are those of collective.h, on received copies: every member sends piece j of its input to
// member j, which adds up the copies in index order; so the bits are those of threads.
// Elements that a member sends, of `size` members with parts of n:
//   all_gather     n (size - 1)            reduce_scatter  n (size - 1)
//   all_reduce     2 n (size - 1) / size   broadcast       n (size - 1), the root
//   reduce         n, the root n (size - 1) / size
//   all_to_all     n (size - 1)            shift           n
// Copies are received in chunks, so their buffer is small; it is made ahead of the first step.
#pragma once

#include <vector>

#include "exec/comm/collective.h"
#include "exec/comm/lane_flows.h"

namespace zplan::exec {

// The members of a group by index, the own place null.
struct Partners {
  std::vector<Link*> links;
  int own_index = 0;
};

class LaneComm {
 public:
  // The most members of an operation, and bytes that a copy takes (copy_bytes).
  LaneComm(const LaneContext& context, std::size_t members, Bytes copy)
      : flows_(context, members),
        shares_(members),
        copy_bytes_(static_cast<std::size_t>(copy.value)),
        copies_(members * copy_bytes_) {}
  static Bytes copy_bytes(const CollectiveCall& call, std::size_t members);

  // As Comm (comm.h); the node and its instance, by how many came before.
  TimePoint collective(NodeIndex node, std::int64_t earlier, const Partners& partners,
                       const CollectiveCall& call);
  TimePoint send(NodeIndex node, std::int64_t earlier, int own_rank, Link& to,
                 const std::byte* from, Bytes bytes);
  TimePoint receive(NodeIndex node, std::int64_t earlier, Link& from, std::byte* to, Bytes bytes);

  std::optional<LaneWait> wait() const { return flows_.wait(); }

 private:
  struct Range {
    std::int64_t begin, end;  // elements
    std::int64_t size() const { return end - begin; }
  };

  std::size_t size() const { return partners_->links.size(); }
  std::size_t own() const { return static_cast<std::size_t>(partners_->own_index); }
  void run(const CollectiveCall& call);
  struct Copy;
  Copy copy_between(const CollectiveCall& call, std::size_t member, std::size_t to) const;
  void copy_parts(const CollectiveCall& call);
  void sum_own_part(const CollectiveCall& call);
  void sum_for_all(const CollectiveCall& call);
  void sum_for_root(const CollectiveCall& call);
  // The piece that the member adds up, and the chunk of it that begins at `begin` of the piece.
  Range piece(const CollectiveCall& call, std::size_t member) const;
  Range chunk(const CollectiveCall& call, std::size_t member, std::int64_t begin) const;
  // Sends the other members this chunk of their pieces, receives copies of that of the own piece
  // and adds them up.
  void add_up_chunk(const CollectiveCall& call, std::int64_t begin, std::byte* sum);
  std::byte* copy_of(std::size_t member) { return copies_.data() + member * copy_bytes_; }

  LaneFlows flows_;
  const Partners* partners_ = nullptr;  // of the collective under way
  std::vector<CollectiveCall> shares_;  // by member
  std::size_t copy_bytes_;
  std::vector<std::byte> copies_;  // by member
};

}  // namespace zplan::exec
