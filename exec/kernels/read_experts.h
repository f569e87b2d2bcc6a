// How the kernels of experts.h read their calls, on every device.
#pragma once

#include "exec/kernels/compute_type.h"
#include "exec/kernels/experts.h"
#include "exec/kernels/operands.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {

inline RouterShape router_shape(const Operand& logits, const Operand& chosen) {
  return {.tokens = logits.shape()[0], .experts = logits.shape()[1], .choices = chosen.shape()[1]};
}
inline RouterShape router_shape(const KernelCall& c, const Operand& logits, const Operand& chosen) {
  RouterShape shape = router_shape(logits, chosen);
  shape.sigmoid = c.attributes[0] != 0;
  shape.renormalised = c.attributes[1] != 0;
  shape.scale = static_cast<double>(c.attributes[2]) / kFactorUnit;
  return shape;
}

template <typename T>
inline constexpr auto read_choose_experts = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  RouterShape shape = router_shape(c, c[0], c[1]);
  shape.groups = c.attributes[3];
  shape.kept_groups = c.attributes[4];
  body(shape, ExpertChoice<T, S>{.chosen = c[1].as<std::int32_t>(),
                                 .weights = c[2].as<S>(),
                                 .logits = c[0].as<S>(),
                                 .bias = c.operands.size() > 3 ? c[3].as<T>() : nullptr});
};

template <typename T>
inline constexpr auto read_choose_experts_backward = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  body(router_shape(c, c[0], c[1]), ExpertChoiceBackward<T, S>{.dlogits = c[3].as<T>(),
                                                               .logits = c[0].as<S>(),
                                                               .chosen = c[1].as<std::int32_t>(),
                                                               .dweights = c[2].as<S>()});
};

// Of `sequences` and `place`, with the choices [n, sequences, E] of n ranks where there are some.
inline SequenceParts sequence_parts(const KernelCall& c, std::int64_t sequences,
                                    std::size_t choices, std::size_t place) {
  SequenceParts parts{.sequences = sequences};
  if (c.operands.size() <= choices) return parts;
  parts.ranks = c[choices].shape()[0];
  parts.place = c.attributes[place];
  parts.choices = c[choices].as<double>();
  return parts;
}

template <typename T>
inline constexpr auto read_balance_experts = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  RouterShape shape = router_shape(c[0], c[1]);
  shape.sigmoid = c.attributes[0] != 0;
  body(shape, ExpertBalance<T, S>{.dlogits = c[3].as<T>(),
                                  .loss = c[4].as<double>(),
                                  .logits = c[0].as<S>(),
                                  .chosen = c[1].as<std::int32_t>(),
                                  .parts = sequence_parts(c, c.attributes[1], 5, 4),
                                  .coefficient = static_cast<double>(c.attributes[2]) /
                                                 kFactorUnit / static_cast<double>(c.attributes[3]),
                                  .loss_scale = c[2].as<double>()[kLossScale]});
};

inline constexpr auto read_place_rows = [](const KernelCall& c, const auto& body) {
  body(RowPlacing{.rows = c[1].as<std::int32_t>(),
                  .counts = c[2].as<std::int32_t>(),
                  .dropped = c[3].as<double>(),
                  .chosen = c[0].as<std::int32_t>(),
                  .tokens = c[0].shape()[0],
                  .choices = c[0].shape()[1],
                  .ranks = c[2].shape()[0],
                  .experts = c[2].shape()[1],
                  .parts = sequence_parts(c, c.attributes[0], 4, 3),
                  .capacity = c.attributes[1],
                  .room = c.attributes[2],
                  .adds = c[3].adds()});
};

inline constexpr auto read_select_rows = [](const KernelCall& c, const auto& body) {
  body(RowSelection{.own = c[1].as<std::int32_t>(),
                    .rows = c[0].as<std::int32_t>(),
                    .tokens = c[0].shape()[0],
                    .choices = c[0].shape()[1],
                    .ranks = c.attributes[0],
                    .room = c.attributes[1],
                    .place = c.attributes[2]});
};

inline constexpr auto read_count_choices = [](const KernelCall& c, const auto& body) {
  body(ChoiceCounts{
      .counts = c[1].as<double>(),
      .chosen = c[0].as<std::int32_t>(),
      .tokens = c[0].shape()[0],
      .choices = c[0].shape()[1],
      .experts = c[1].shape()[1],
      .parts = {.sequences = c[1].shape()[0], .ranks = c.attributes[0], .place = c.attributes[1]},
      .adds = c[1].adds()});
};

template <typename T>
inline constexpr auto read_balance_bias = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[0], [&]<typename M>(M* master) {
    body(BiasBalance<M>{.master = master,
                        .loads = c[1].as<double>(),
                        .elements = c[0].shape()[0],
                        .experts = c[1].shape()[1],
                        .first = c.attributes[1] - c.attributes[0],
                        .rate = static_cast<double>(c.attributes[2]) / kFactorUnit});
  });
};

template <typename T>
inline constexpr auto read_gate_rows = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  body(RowGating<T, S>{.y = c[1].as<T>(),
                       .gate = c[0].as<S>(),
                       .tokens = c[1].shape()[0],
                       .width = c[1].shape()[1]});
};

template <typename T>
inline constexpr auto read_gate_rows_backward = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  body(RowGatingBackward<T, S>{.dy = c[2].as<T>(),
                               .dgate = c[3].as<T>(),
                               .y = c[1].as<T>(),
                               .gate = c[0].as<S>(),
                               .tokens = c[1].shape()[0],
                               .width = c[1].shape()[1]});
};

// `in_rows`: an operand [g, r, width]; `counts` one [g, e].
inline RowShape row_shape(const Operand& in_rows, const Operand& rows, std::int64_t experts = 0) {
  const Shape& s = in_rows.shape();
  return {.tokens = rows.shape()[0],
          .choices = rows.shape()[1],
          .ranks = s[0],
          .experts = experts,
          .room = s[1],
          .width = s[2]};
}

template <typename T>
inline constexpr auto read_dispatch_rows = [](const KernelCall& c, const auto& body) {
  body(row_shape(c[3], c[1], c[2].shape()[1]), c[3].as<T>(), c[0].as<T>(), c[1].as<std::int32_t>(),
       c[2].as<std::int32_t>());
};

template <typename T>
inline constexpr auto read_combine_rows = [](const KernelCall& c, const auto& body) {
  const auto* weights = c.operands.size() > 3 ? c[3].as<Compute<T>>() : nullptr;
  body(row_shape(c[0], c[1]), c[2].as<T>(), c[0].as<T>(), c[1].as<std::int32_t>(), weights,
       c[2].adds());
};

template <typename T>
struct CombineBackward {
  T* dx;                 // [g, r, h], overwritten
  Compute<T>* dweights;  // [T, k], overwritten
  const T *dy, *x;
  const std::int32_t *rows, *counts;
  const Compute<T>* weights;
};

template <typename T>
inline constexpr auto read_combine_rows_backward = [](const KernelCall& c, const auto& body) {
  using S = Compute<T>;
  body(row_shape(c[1], c[2], c[4].shape()[1]), CombineBackward<T>{.dx = c[5].as<T>(),
                                                                  .dweights = c[6].as<S>(),
                                                                  .dy = c[0].as<T>(),
                                                                  .x = c[1].as<T>(),
                                                                  .rows = c[2].as<std::int32_t>(),
                                                                  .counts = c[4].as<std::int32_t>(),
                                                                  .weights = c[3].as<S>()});
};

// Of x or its gradient [g, r, k], y or its gradient [g, r, n] and counts [g, e].
inline GroupedShape grouped_shape(const Operand& x, const Operand& y, const Operand& counts) {
  return {.ranks = x.shape()[0],
          .experts = counts.shape()[1],
          .room = x.shape()[1],
          .in = x.shape()[2],
          .out = y.shape()[2]};
}

}  // namespace zplan::exec
