// What routes tokens to experts, and the products that experts are, on every device: operands as
// planner/program/kernels/rows.h describes them. T is the compute type, S that of scores.
#pragma once

#include "exec/kernels/arguments.h"

namespace zplan::exec {

// Scores are kept in sums of one block of so many on the stack.
inline constexpr std::int64_t kMostExperts = 4096;

struct RouterShape {
  std::int64_t tokens, experts, choices;
  bool sigmoid = false, renormalised = false;
  double scale = 1;
  std::int64_t groups = 1, kept_groups = 1;  // of experts, and of a token
};

template <typename T, typename S>
struct ExpertChoice {
  std::int32_t* chosen;  // [T, k], overwritten
  S* weights;            // [T, k], overwritten
  const S* logits;       // [T, E]
  const T* bias;         // [E], or null
};

template <typename T, typename S>
struct ExpertChoiceBackward {
  T* dlogits;  // [T, E], overwritten
  const S* logits;
  const std::int32_t* chosen;
  const S* dweights;
};

// Where a rank's tokens lie among those of whole sequences, which `ranks` ranks have in equal parts
// one after the other; and of these ranks the choices [ranks, sequences, E], or null.
struct SequenceParts {
  std::int64_t sequences = 1, ranks = 1, place = 0;
  const double* choices = nullptr;

  std::int64_t length(std::int64_t tokens) const { return ranks * tokens / sequences; }
  std::int64_t first(std::int64_t tokens) const { return place * tokens; }
};

template <typename T, typename S>
struct ExpertBalance {
  T* dlogits;    // added to
  double* loss;  // added to
  const S* logits;
  const std::int32_t* chosen;
  SequenceParts parts;
  double coefficient;  // of the loss
  double loss_scale;   // of gradients, besides
};

struct RowPlacing {
  std::int32_t* rows;    // [T, k], overwritten
  std::int32_t* counts;  // [g, e], overwritten
  double* dropped;
  const std::int32_t* chosen;
  std::int64_t tokens, choices, ranks, experts;  // e of a rank
  SequenceParts parts;
  std::int64_t capacity, room;
  bool adds;  // to dropped
};

struct ChoiceCounts {
  double* counts;  // [sequences, E], overwritten or added to
  const std::int32_t* chosen;
  std::int64_t tokens, choices, experts;
  SequenceParts parts;
  bool adds;
};

// Rows [T, f] times the sigmoid of a gate of each.
template <typename T, typename S>
struct RowGating {
  T* y;           // overwritten
  const S* gate;  // [T]
  std::int64_t tokens, width;
};
template <typename T, typename S>
struct RowGatingBackward {
  T* dy;          // overwritten
  T* dgate;       // [T], overwritten
  const T* y;     // behind the gate
  const S* gate;  // [T]
  std::int64_t tokens, width;
};

// Of a piece of a unit's elements those that are biases of a router's choice.
template <typename M>
struct BiasBalance {
  M* master;
  const double* loads;
  std::int64_t elements, experts;  // of the piece, of the biases
  std::int64_t first;              // of the biases in the piece; may lie outside
  double rate;
};

// Rows of `width` elements in g parts, each with room for `room` of them.
// Rows of one rank among those of all.
struct RowSelection {
  std::int32_t* own;             // [T, k]
  const std::int32_t* rows;      // [T, k]
  std::int64_t tokens, choices;  // T, k
  std::int64_t ranks, room, place;
};

struct RowShape {
  std::int64_t tokens, choices, ranks, experts, room, width;
};

struct GroupedShape {
  std::int64_t ranks, experts, room;  // g, e, r
  std::int64_t in, out;               // k, n
};

// Of the columns of a result, those that biases are added to.
struct ExpertBiases {
  std::int64_t columns, first;
};

}  // namespace zplan::exec
