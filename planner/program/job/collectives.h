// This says what a collective does with its members' memory, as its row has it
// (collective_rows.h).
//
// Memory is counted in parts of equal size. A member brings or gets, as `input` and `output` say,
//   kPart          one part
//   kParts         a part for each member, in index order
//   kPartOfRoot    one part, and the root alone: the others bring or get nothing
//   kPartsOfRoot   a part for each member, and the root alone
// and part j of what member m gets is, as `result` says,
//   kSum   the sum over all members, in index order, of a part of their inputs
//   kCopy  a part of the input of one member: of the root where it alone brings something, else of
//          member j
//   kNext  the input of the member before m, of the last one for the first
// The part that is taken of an input is the one for m where the input has a part for each member.
// How the parts travel follows from that, not from the row: exchanges go from member to member at
// once, what is handed on to the next one, all else around rings, trees or through switches
// (planner/cost/collective_time.h).
// An output lies in place on the input where each byte of it that a member brings stays where it
// is: the part among the parts, or both the same; what is exchanged or handed on is never in place.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/program/job/ops.h"

namespace zplan {

enum class Holding : std::uint8_t { kPart, kParts, kPartOfRoot, kPartsOfRoot };
enum class Result : std::uint8_t { kSum, kCopy, kNext };

struct CollectiveRow {
  std::string_view word;
  Holding input{}, output{};
  Result result{};
};

inline constexpr std::array kCollectiveRows{
#define ZPLAN_COLLECTIVE(Id, word, input, output, result) \
  CollectiveRow{word, Holding::input, Holding::output, Result::result},
#include "planner/program/job/collective_rows.h"
};

constexpr const CollectiveRow& row_of(CollectiveKind kind) {
  return kCollectiveRows[static_cast<std::size_t>(kind)];
}

constexpr bool is_of_root(Holding holding) {
  return holding == Holding::kPartOfRoot || holding == Holding::kPartsOfRoot;
}
constexpr bool has_parts(Holding holding) {
  return holding == Holding::kParts || holding == Holding::kPartsOfRoot;
}
constexpr std::int64_t parts_of(Holding holding, std::int64_t members) {
  return has_parts(holding) ? members : 1;
}

// Returns true if only one member has the input, or gets the output; Node::member says which.
constexpr bool has_root(CollectiveKind kind) {
  return is_of_root(row_of(kind).input) || is_of_root(row_of(kind).output);
}
constexpr bool adds_up(CollectiveKind kind) { return row_of(kind).result == Result::kSum; }
// Returns true if every member gets the sum of whole inputs; a ring then passes twice.
constexpr bool sums_for_all(CollectiveKind kind) {
  return adds_up(kind) && row_of(kind).output == Holding::kPart &&
         row_of(kind).input == Holding::kPart;
}
// Returns true if members give each other a part, so that each pair of them meets.
constexpr bool exchanges(CollectiveKind kind) {
  return row_of(kind).input == Holding::kParts && row_of(kind).output == Holding::kParts;
}
constexpr bool shifts(CollectiveKind kind) { return row_of(kind).result == Result::kNext; }
// Returns true if members only hand on what they have, which is then never in place: nothing is
// added up, and nothing comes to all of them.
constexpr bool hands_on(CollectiveKind kind) { return exchanges(kind) || shifts(kind); }
// Returns true if one end is a part and the other one holds it among the parts for all members.
constexpr bool keeps_part_in_place(CollectiveKind kind) {
  return has_parts(row_of(kind).input) != has_parts(row_of(kind).output);
}

// Returns true if one of its buffers holds a part for each member.
constexpr bool is_cut(CollectiveKind kind) {
  return has_parts(row_of(kind).input) || has_parts(row_of(kind).output);
}

// Calibrations measure curves of these; of what is handed to the next member the start alone
// counts.
constexpr bool is_measured(CollectiveKind kind) { return !shifts(kind); }
std::vector<CollectiveKind> measured_kinds();

// A part of a member's input.
struct PartOf {
  int member = 0, part = 0;
  friend constexpr bool operator==(const PartOf&, const PartOf&) = default;
};
// Returns where member `to` of `members` gets part `j` of its output from. Of a sum the part is
// that of every member, and the member says nothing.
constexpr PartOf source_of(const CollectiveRow& row, int members, int root, int to, int j) {
  const int part = has_parts(row.input) ? to : 0;
  if (row.result == Result::kNext) return {(to + members - 1) % members, part};
  return {is_of_root(row.input) ? root : j, part};
}
constexpr PartOf source_of(CollectiveKind kind, int members, int root, int to, int j) {
  return source_of(row_of(kind), members, root, to, j);
}
// Returns true if the member brings or gets what `holding` says.
constexpr bool takes_part(Holding holding, int member, int root) {
  return !is_of_root(holding) || member == root;
}

}  // namespace zplan
