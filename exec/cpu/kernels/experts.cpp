#include "exec/cpu/kernels/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "exec/cpu/kernels/kernel_support.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {
namespace {

template <typename S>
using Row = std::array<S, kMostExperts>;

// Softmax of the logits, or the sigmoid of each.
template <typename S>
void score(const RouterShape& s, const S* logits, Row<S>& scores) {
  S sum = 0;
  const S most = *std::max_element(logits, logits + s.experts);
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const S value = s.sigmoid ? S{1} / (S{1} + std::exp(-logits[e])) : std::exp(logits[e] - most);
    scores[static_cast<std::size_t>(e)] = value;
    sum += value;
  }
  if (s.sigmoid) return;
  for (std::int64_t e = 0; e < s.experts; ++e) scores[static_cast<std::size_t>(e)] /= sum;
}

template <typename S>
S sum_of_chosen(const RouterShape& s, const Row<S>& scores, const std::int32_t* chosen) {
  S sum = 0;
  for (std::int64_t j = 0; j < s.choices; ++j) sum += scores[static_cast<std::size_t>(chosen[j])];
  return sum;
}

// The best of `count` values that is not among the first `taken` chosen.
template <typename S>
std::int32_t best(const Row<S>& values, std::int64_t count, const std::int32_t* chosen,
                  std::int64_t taken) {
  std::int32_t found = -1;
  S most = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    if (std::find(chosen, chosen + taken, i) != chosen + taken) continue;
    const S value = values[static_cast<std::size_t>(i)];
    // What is not a number is chosen last, and first of all if there is nothing else.
    if (found >= 0 && !(value > most)) continue;
    found = i;
    most = value;
  }
  return found;
}

// The best of `size` values or, if there are as many, the sum of the best two.
template <typename S>
S score_of_group(const S* values, std::int64_t size, bool of_two) {
  S first = -std::numeric_limits<S>::infinity(), second = first;
  for (std::int64_t i = 0; i < size; ++i) {
    second = std::max(second, std::min(first, values[i]));
    first = std::max(first, values[i]);
  }
  return of_two && size > 1 ? first + second : first;
}

// Experts of groups that are not a token's come after all others.
template <typename S>
void leave_groups_out(const RouterShape& s, bool is_biased, Row<S>& values) {
  const std::int64_t size = s.experts / s.groups;
  Row<S> of_groups;
  std::array<std::int32_t, kMostExperts> kept;
  for (std::int64_t g = 0; g < s.groups; ++g)
    of_groups[static_cast<std::size_t>(g)] =
        score_of_group(values.data() + g * size, size, is_biased);
  for (std::int64_t j = 0; j < s.kept_groups; ++j)
    kept[static_cast<std::size_t>(j)] = best(of_groups, s.groups, kept.data(), j);
  const auto kept_end = kept.begin() + s.kept_groups;
  for (std::int64_t g = 0; g < s.groups; ++g)
    if (std::find(kept.begin(), kept_end, g) == kept_end)
      std::fill_n(values.begin() + g * size, size, -std::numeric_limits<S>::infinity());
}

template <typename T>
void choose_of_token(const RouterShape& s, const ExpertChoice<T, Compute<T>>& x, std::int64_t t) {
  using S = Compute<T>;
  Row<S> scores;
  score(s, x.logits + t * s.experts, scores);
  std::int32_t* chosen = x.chosen + t * s.choices;
  Row<S> values;
  for (std::int64_t e = 0; e < s.experts; ++e)
    values[static_cast<std::size_t>(e)] = scores[static_cast<std::size_t>(e)] +
                                          (x.bias != nullptr ? static_cast<S>(x.bias[e]) : S{0});
  if (s.kept_groups < s.groups) leave_groups_out(s, x.bias != nullptr, values);
  for (std::int64_t j = 0; j < s.choices; ++j) chosen[j] = best(values, s.experts, chosen, j);
  const S sum = s.renormalised ? sum_of_chosen(s, scores, chosen) : S{1};
  for (std::int64_t j = 0; j < s.choices; ++j)
    x.weights[t * s.choices + j] =
        scores[static_cast<std::size_t>(chosen[j])] / sum * static_cast<S>(s.scale);
}

// The gradient of scores becomes that of logits.
template <typename S>
void logits_gradient(const RouterShape& s, const Row<S>& scores, Row<S>& gradient) {
  S dot = 0;
  for (std::int64_t e = 0; e < s.experts && !s.sigmoid; ++e)
    dot += gradient[static_cast<std::size_t>(e)] * scores[static_cast<std::size_t>(e)];
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const S p = scores[static_cast<std::size_t>(e)];
    S& g = gradient[static_cast<std::size_t>(e)];
    g = s.sigmoid ? g * p * (S{1} - p) : p * (g - dot);
  }
}

template <typename T>
void choose_backward_of_token(const RouterShape& s, const ExpertChoiceBackward<T, Compute<T>>& x,
                              std::int64_t t) {
  using S = Compute<T>;
  Row<S> scores, gradient;
  score(s, x.logits + t * s.experts, scores);
  const std::int32_t* chosen = x.chosen + t * s.choices;
  const S* dweights = x.dweights + t * s.choices;
  const S sum = s.renormalised ? sum_of_chosen(s, scores, chosen) : S{1};
  S dot = 0;
  // The quotient first: of one choice it is 1, and the gradient exactly 0.
  for (std::int64_t j = 0; j < s.choices && s.renormalised; ++j)
    dot += dweights[j] * (scores[static_cast<std::size_t>(chosen[j])] / sum);
  std::fill_n(gradient.begin(), s.experts, S{0});
  for (std::int64_t j = 0; j < s.choices; ++j)
    gradient[static_cast<std::size_t>(chosen[j])] =
        (dweights[j] - dot) / sum * static_cast<S>(s.scale);
  logits_gradient(s, scores, gradient);
  for (std::int64_t e = 0; e < s.experts; ++e)
    x.dlogits[t * s.experts + e] = static_cast<T>(gradient[static_cast<std::size_t>(e)]);
}

// Choices of each expert in a sequence by the first `ranks` ranks that have a part of it.
template <typename S>
void sum_choices(const SequenceParts& parts, std::int64_t ranks, std::int64_t sequence,
                 std::int64_t experts, S* sums) {
  std::fill_n(sums, experts, S{0});
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t e = 0; e < experts; ++e)
      sums[e] += static_cast<S>(parts.choices[(r * parts.sequences + sequence) * experts + e]);
}

// What each expert's scores count for in the loss of a sequence, of which the rank has the tokens
// from..to: its part of the choices, times the coefficient and the number of experts.
template <typename T>
void loads_of(const RouterShape& s, const ExpertBalance<T, Compute<T>>& x, std::int64_t sequence,
              std::int64_t from, std::int64_t to, Row<Compute<T>>& loads) {
  using S = Compute<T>;
  if (x.parts.choices != nullptr) {
    sum_choices(x.parts, x.parts.ranks, sequence, s.experts, loads.data());
  } else {
    std::fill_n(loads.begin(), s.experts, S{0});
    for (std::int64_t i = from * s.choices; i < to * s.choices; ++i)
      loads[static_cast<std::size_t>(x.chosen[i])] += S{1};
  }
  const std::int64_t tokens = x.parts.length(s.tokens), all = tokens * s.choices;
  const double factor =
      x.coefficient * static_cast<double>(s.experts) / static_cast<double>(all * tokens);
  for (std::int64_t e = 0; e < s.experts; ++e)
    loads[static_cast<std::size_t>(e)] *= static_cast<S>(factor);
}

// Calls body(sequence, from, to) with the tokens that the rank has of each sequence.
template <typename Body>
void for_sequences(const SequenceParts& parts, std::int64_t tokens, const Body& body) {
  const std::int64_t first = parts.first(tokens), length = parts.length(tokens);
  for (std::int64_t from = 0; from < tokens;) {
    const std::int64_t sequence = (first + from) / length;
    const std::int64_t to = std::min(tokens, (sequence + 1) * length - first);
    body(sequence, from, to);
    from = to;
  }
}

// Adds the gradient of one token; returns its part of the loss.
template <typename T>
double balance_of_token(const RouterShape& s, const ExpertBalance<T, Compute<T>>& x,
                        const Row<Compute<T>>& loads, std::int64_t t) {
  using S = Compute<T>;
  Row<S> scores, gradient;
  score(s, x.logits + t * s.experts, scores);
  S sum = 1, loss = 0;
  if (s.sigmoid) {
    sum = 0;
    for (std::int64_t e = 0; e < s.experts; ++e) sum += scores[static_cast<std::size_t>(e)];
  }
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    loss += loads[i] * scores[i] / sum;
  }
  // Of sigmoids divided by their sum; a softmax has no sum to differentiate.
  const S shared = s.sigmoid ? loss : S{0};
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    gradient[i] = (loads[i] - shared) / sum * static_cast<S>(x.loss_scale);
  }
  logits_gradient(s, scores, gradient);
  T* dlogits = x.dlogits + t * s.experts;
  for (std::int64_t e = 0; e < s.experts; ++e)
    dlogits[e] = static_cast<T>(static_cast<S>(dlogits[e]) + gradient[static_cast<std::size_t>(e)]);
  return static_cast<double>(loss);
}

// Rows of the parts behind what their experts have.
template <typename T>
void clear_padding(const RowShape& s, T* parts, const std::int32_t* counts) {
  for (std::int64_t g = 0; g < s.ranks; ++g) {
    std::int64_t used = 0;
    for (std::int64_t e = 0; e < s.experts; ++e) used += counts[g * s.experts + e];
    std::fill_n(parts + (g * s.room + used) * s.width, (s.room - used) * s.width,
                static_cast<T>(0.0F));
  }
}

// Whether a sequence that has given an expert so many rows gives it no more.
bool is_full(const RowPlacing& x, std::int32_t given) {
  return x.capacity > 0 && given >= x.capacity;
}

void count_rows(const RowPlacing& x, std::array<std::int32_t, kMostExperts>& given) {
  const std::int64_t all = x.ranks * x.experts, length = x.parts.length(x.tokens) * x.choices;
  const std::int64_t first = x.parts.first(x.tokens) * x.choices;
  double dropped = x.adds ? *x.dropped : 0;
  std::fill_n(x.counts, all, 0);
  for (std::int64_t i = 0; i < x.tokens * x.choices; ++i) {
    if (i == 0 || (first + i) % length == 0)
      sum_choices(x.parts, x.parts.choices != nullptr ? x.parts.place : 0, (first + i) / length,
                  all, given.data());
    const auto e = static_cast<std::size_t>(x.chosen[i]);
    x.rows[i] = is_full(x, given[e]) ? -1 : 0;
    if (x.rows[i] < 0) {
      dropped += 1;
      continue;
    }
    ++given[e];
    ++x.counts[e];
  }
  *x.dropped = dropped;
}

// The first row of each expert.
void first_rows(const RowPlacing& x, std::array<std::int32_t, kMostExperts>& next) {
  for (std::int64_t g = 0; g < x.ranks; ++g) {
    std::int64_t row = 0;
    for (std::int64_t e = g * x.experts; e < (g + 1) * x.experts; ++e) {
      next[static_cast<std::size_t>(e)] = static_cast<std::int32_t>(g * x.room + row);
      row += x.counts[e];
    }
    if (row <= x.room) continue;
    const double mean = static_cast<double>(x.tokens * x.choices) / static_cast<double>(x.ranks);
    throw_bad_input(
        fmt::format("{} rows go to the experts of rank {} of their group, there is room for {}: "
                    "--expert-imbalance {:.3f} would take them, worst whatever comes",
                    row, g, x.room, std::ceil(static_cast<double>(row) / mean * 1000) / 1000));
  }
}

}  // namespace

template <typename T>
void choose_experts(const RouterShape& s, const ExpertChoice<T, Compute<T>>& x) {
  for_rows(s.tokens, s.experts, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) choose_of_token(s, x, t);
  });
}

template <typename T>
void choose_experts_backward(const RouterShape& s, const ExpertChoiceBackward<T, Compute<T>>& x) {
  for_rows(s.tokens, s.experts, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) choose_backward_of_token(s, x, t);
  });
}

template <typename T>
void balance_experts(const RouterShape& s, const ExpertBalance<T, Compute<T>>& x) {
  Row<Compute<T>> loads;
  for_sequences(x.parts, s.tokens, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
    loads_of(s, x, i, from, to, loads);
    double loss = 0;
    for (std::int64_t t = from; t < to; ++t) loss += balance_of_token(s, x, loads, t);
    *x.loss += loss;
  });
}

void count_choices(const ChoiceCounts& x) {
  if (!x.adds) std::fill_n(x.counts, x.parts.sequences * x.experts, 0.0);
  for_sequences(x.parts, x.tokens, [&](std::int64_t i, std::int64_t from, std::int64_t to) {
    for (std::int64_t c = from * x.choices; c < to * x.choices; ++c)
      x.counts[i * x.experts + x.chosen[c]] += 1;
  });
}

template <typename M>
void balance_bias(const BiasBalance<M>& x) {
  double mean = 0;
  for (std::int64_t e = 0; e < x.experts; ++e) mean += x.loads[e];
  mean /= static_cast<double>(x.experts);
  for (std::int64_t e = 0; e < x.experts; ++e) {
    const std::int64_t at = x.first + e;
    if (at < 0 || at >= x.elements || x.loads[e] == mean) continue;
    const auto step = static_cast<Compute<M>>(x.loads[e] < mean ? x.rate : -x.rate);
    x.master[at] = static_cast<M>(static_cast<Compute<M>>(x.master[at]) + step);
  }
}

void place_rows(const RowPlacing& x) {
  std::array<std::int32_t, kMostExperts> next;
  count_rows(x, next);
  first_rows(x, next);
  for (std::int64_t i = 0; i < x.tokens * x.choices; ++i)
    if (x.rows[i] >= 0) x.rows[i] = next[static_cast<std::size_t>(x.chosen[i])]++;
}

void select_rows(const RowSelection& x) {
  const std::int64_t of_rank = x.tokens / x.ranks * x.choices, before = x.place * x.room;
  for (std::int64_t i = 0; i < x.tokens * x.choices; ++i) {
    const std::int64_t row = x.rows[i] - before;
    const bool is_own = row >= 0 && row < x.room;
    x.own[i] = is_own ? static_cast<std::int32_t>(i / of_rank * x.room + row) : -1;
  }
}

template <typename T>
void dispatch_rows(const RowShape& s, T* sent, const T* x, const std::int32_t* rows,
                   const std::int32_t* counts) {
  clear_padding(s, sent, counts);
  for_rows(s.tokens, s.choices * s.width, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from * s.choices; i < to * s.choices; ++i)
      if (rows[i] >= 0) std::copy_n(x + i / s.choices * s.width, s.width, sent + rows[i] * s.width);
  });
}

template <typename T>
void combine_rows(const RowShape& s, T* y, const T* x, const std::int32_t* rows,
                  const Compute<T>* weights, bool adds) {
  using S = Compute<T>;
  constexpr std::int64_t kColumns = 256;  // of a sum, which stays in the first-level cache
  for_rows(s.tokens, s.choices * s.width, [&](std::int64_t from, std::int64_t to) {
    std::array<S, kColumns> sum;
    for (std::int64_t t = from; t < to; ++t)
      for (std::int64_t column = 0; column < s.width; column += kColumns) {
        const std::int64_t n = std::min(kColumns, s.width - column);
        T* target = y + t * s.width + column;
        for (std::int64_t c = 0; c < n; ++c)
          sum[static_cast<std::size_t>(c)] = adds ? static_cast<S>(target[c]) : S{0};
        for (std::int64_t i = t * s.choices; i < (t + 1) * s.choices; ++i) {
          if (rows[i] < 0) continue;
          const T* row = x + rows[i] * s.width + column;
          const S weight = weights != nullptr ? weights[i] : S{1};
          for (std::int64_t c = 0; c < n; ++c)
            sum[static_cast<std::size_t>(c)] += weight * static_cast<S>(row[c]);
        }
        for (std::int64_t c = 0; c < n; ++c)
          target[c] = static_cast<T>(sum[static_cast<std::size_t>(c)]);
      }
  });
}

template <typename T>
void combine_rows_backward(const RowShape& s, const CombineBackward<T>& x) {
  using S = Compute<T>;
  clear_padding(s, x.dx, x.counts);
  for_rows(s.tokens, s.choices * s.width, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from * s.choices; i < to * s.choices; ++i) {
      S dot = 0;
      const T* dy = x.dy + i / s.choices * s.width;
      for (std::int64_t c = 0; c < s.width && x.rows[i] >= 0; ++c) {
        const std::int64_t at = x.rows[i] * s.width + c;
        dot += static_cast<S>(dy[c]) * static_cast<S>(x.x[at]);
        x.dx[at] = static_cast<T>(x.weights[i] * static_cast<S>(dy[c]));
      }
      x.dweights[i] = dot;
    }
  });
}

template <typename T>
void gate_rows(const RowGating<T, Compute<T>>& x) {
  using S = Compute<T>;
  for_rows(x.tokens, x.width, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) {
      const S g = S{1} / (S{1} + std::exp(-x.gate[t]));
      T* y = x.y + t * x.width;
      for (std::int64_t c = 0; c < x.width; ++c) y[c] = static_cast<T>(g * static_cast<S>(y[c]));
    }
  });
}

// The sum of u dy times g (1 - g) is (1 - g) times that of y dy, since y = g u.
template <typename T>
void gate_rows_backward(const RowGatingBackward<T, Compute<T>>& x) {
  using S = Compute<T>;
  for_rows(x.tokens, x.width, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) {
      const S g = S{1} / (S{1} + std::exp(-x.gate[t]));
      const T* y = x.y + t * x.width;
      T* dy = x.dy + t * x.width;
      S dot = 0;
      for (std::int64_t c = 0; c < x.width; ++c) {
        const S own = static_cast<S>(dy[c]);
        dot += static_cast<S>(y[c]) * own;
        dy[c] = static_cast<T>(g * own);
      }
      x.dgate[t] = static_cast<T>((S{1} - g) * dot);
    }
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                 \
  template void choose_experts<T>(const RouterShape&, const ExpertChoice<T, Compute<T>>&);   \
  template void choose_experts_backward<T>(const RouterShape&,                               \
                                           const ExpertChoiceBackward<T, Compute<T>>&);      \
  template void balance_experts<T>(const RouterShape&, const ExpertBalance<T, Compute<T>>&); \
  template void balance_bias<T>(const BiasBalance<T>&);                                      \
  template void dispatch_rows<T>(const RowShape&, T*, const T*, const std::int32_t*,         \
                                 const std::int32_t*);                                       \
  template void combine_rows<T>(const RowShape&, T*, const T*, const std::int32_t*,          \
                                const Compute<T>*, bool);                                    \
  template void combine_rows_backward<T>(const RowShape&, const CombineBackward<T>&);        \
  template void gate_rows<T>(const RowGating<T, Compute<T>>&);                               \
  template void gate_rows_backward<T>(const RowGatingBackward<T, Compute<T>>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
