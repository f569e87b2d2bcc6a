#include "exec/comm/lane_comm.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "planner/core/units.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

// [assumed] some times what a connection holds, and small against the caches
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kLineBytes = 64;  // pieces and copies begin on cache lines

std::int64_t chunk_elements(DType dtype) { return kChunkBytes / size_of(dtype).value; }

// The longest piece: the own part where each member gets one, else a member's share of it.
std::int64_t piece_elements(const CollectiveCall& call, std::size_t members) {
  if (has_parts(row_of(call.kind).input)) return call.elements;
  return round_up(ceil_div(call.elements, static_cast<std::int64_t>(members)),
                  kLineBytes / size_of(call.dtype).value);
}

LaneOp transfer(NodeIndex node, std::int64_t earlier, Bytes bytes, int sender) {
  return {.node = node,
          .earlier = earlier,
          .is_transfer = true,
          .elements = bytes.value,
          .root = sender};
}

}  // namespace

Bytes LaneComm::copy_bytes(const CollectiveCall& call, std::size_t members) {
  if (!adds_up(call.kind) || members < 2) return Bytes{0};
  const std::int64_t longest = piece_elements(call, members) * size_of(call.dtype).value;
  return Bytes{round_up(std::min(longest, kChunkBytes), kLineBytes)};
}

TimePoint LaneComm::collective(NodeIndex node, std::int64_t earlier, const Partners& partners,
                               const CollectiveCall& call) {
  if (partners.links.size() == 1) {
    run_share({&call, 1}, 0);
    return std::chrono::steady_clock::now();
  }
  partners_ = &partners;
  flows_.begin({.node = node,
                .earlier = earlier,
                .kind = call.kind,
                .dtype = call.dtype,
                .elements = call.elements,
                .root = call.root},
               partners.links);
  run(call);
  return flows_.end();
}

TimePoint LaneComm::send(NodeIndex node, std::int64_t earlier, int own_rank, Link& to,
                         const std::byte* from, Bytes bytes) {
  Link* const partner = &to;
  flows_.begin(transfer(node, earlier, bytes, own_rank), {&partner, 1});
  flows_.send(0, from, bytes.value);
  flows_.move();
  return flows_.end();
}

TimePoint LaneComm::receive(NodeIndex node, std::int64_t earlier, Link& from, std::byte* to,
                            Bytes bytes) {
  Link* const partner = &from;
  flows_.begin(transfer(node, earlier, bytes, from.peer), {&partner, 1});
  flows_.receive(0, to, bytes.value);
  flows_.move();
  return flows_.end();
}

void LaneComm::run(const CollectiveCall& call) {
  if (!adds_up(call.kind)) return copy_parts(call);
  const CollectiveRow& row = row_of(call.kind);
  if (has_parts(row.input)) return sum_own_part(call);
  return is_of_root(row.output) ? sum_for_root(call) : sum_for_all(call);
}

// The part of `member`'s input that `to` gets, and where in its output; no two of them make more
// than one.
struct LaneComm::Copy {
  bool exists = false;
  std::int64_t from = 0, to = 0;  // parts
};

LaneComm::Copy LaneComm::copy_between(const CollectiveCall& call, std::size_t member,
                                      std::size_t to) const {
  const CollectiveRow& row = row_of(call.kind);
  const auto members = static_cast<int>(size()), target = static_cast<int>(to);
  if (!takes_part(row.output, target, call.root)) return {};
  for (int j = 0; j < parts_of(row.output, members); ++j) {
    const PartOf source = source_of(call.kind, members, call.root, target, j);
    if (source.member == static_cast<int>(member)) return {true, source.part, j};
  }
  return {};
}

void LaneComm::copy_parts(const CollectiveCall& call) {
  const std::int64_t bytes = call.elements * size_of(call.dtype).value;
  for (std::size_t m = 0; m < size(); ++m) {
    if (m == own()) continue;
    if (const Copy out = copy_between(call, own(), m); out.exists)
      flows_.send(m, call.input + out.from * bytes, bytes);
    if (const Copy in = copy_between(call, m, own()); in.exists)
      flows_.receive(m, call.output + in.to * bytes, bytes);
  }
  flows_.move();
  const Copy mine = copy_between(call, own(), own());
  if (!mine.exists || bytes == 0) return;
  const std::byte* from = call.input + mine.from * bytes;
  std::byte* to = call.output + mine.to * bytes;
  if (to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void LaneComm::sum_own_part(const CollectiveCall& call) {
  const std::int64_t element = size_of(call.dtype).value;
  std::int64_t begin = 0;
  do {  // once at least, for the headers
    add_up_chunk(call, begin, call.output + begin * element);
    begin += chunk_elements(call.dtype);
  } while (begin < call.elements);
}

void LaneComm::sum_for_all(const CollectiveCall& call) {
  const std::int64_t element = size_of(call.dtype).value;
  const std::int64_t longest = piece_elements(call, size());
  std::int64_t begin = 0;
  do {
    add_up_chunk(call, begin, call.output + chunk(call, own(), begin).begin * element);
    begin += chunk_elements(call.dtype);
  } while (begin < longest);
  const Range mine = piece(call, own());
  for (std::size_t m = 0; m < size(); ++m) {
    if (m == own()) continue;
    const Range theirs = piece(call, m);
    flows_.send(m, call.output + mine.begin * element, mine.size() * element);
    flows_.receive(m, call.output + theirs.begin * element, theirs.size() * element);
  }
  flows_.move();
}

void LaneComm::sum_for_root(const CollectiveCall& call) {
  const std::int64_t element = size_of(call.dtype).value;
  const std::int64_t longest = piece_elements(call, size());
  const auto root = static_cast<std::size_t>(call.root);
  const bool is_root = own() == root;
  std::int64_t begin = 0;
  do {
    const Range mine = chunk(call, own(), begin);
    std::byte* sum = is_root ? call.output + mine.begin * element : copy_of(own());
    add_up_chunk(call, begin, sum);
    if (!is_root) flows_.send(root, sum, mine.size() * element);
    for (std::size_t m = 0; is_root && m < size(); ++m) {
      const Range theirs = chunk(call, m, begin);
      if (m != root)
        flows_.receive(m, call.output + theirs.begin * element, theirs.size() * element);
    }
    flows_.move();
    begin += chunk_elements(call.dtype);
  } while (begin < longest);
}

LaneComm::Range LaneComm::piece(const CollectiveCall& call, std::size_t member) const {
  const std::int64_t length = piece_elements(call, size());
  const std::int64_t all =
      call.elements * parts_of(row_of(call.kind).input, static_cast<std::int64_t>(size()));
  const std::int64_t begin = static_cast<std::int64_t>(member) * length;
  return {std::min(begin, all), std::min(begin + length, all)};
}

LaneComm::Range LaneComm::chunk(const CollectiveCall& call, std::size_t member,
                                std::int64_t begin) const {
  const Range all = piece(call, member);
  const std::int64_t first = std::min(all.begin + begin, all.end);
  return {first, std::min(first + chunk_elements(call.dtype), all.end)};
}

void LaneComm::add_up_chunk(const CollectiveCall& call, std::int64_t begin, std::byte* sum) {
  const std::int64_t element = size_of(call.dtype).value;
  const Range mine = chunk(call, own(), begin);
  for (std::size_t m = 0; m < size(); ++m) {
    const std::byte* summand = call.input + mine.begin * element;
    if (m != own()) {
      const Range theirs = chunk(call, m, begin);
      flows_.send(m, call.input + theirs.begin * element, theirs.size() * element);
      flows_.receive(m, copy_of(m), mine.size() * element);
      summand = copy_of(m);
    }
    // As a reduce_scatter whose first member adds up: its part is the chunk.
    shares_[m] = {CollectiveKind::kReduceScatter, call.dtype, mine.size(), summand, sum};
  }
  flows_.move();
  if (mine.size() > 0) run_share(std::span(shares_).first(size()), 0);
}

}  // namespace zplan::exec
