// Rows of the dispatch table: attention to chosen keys, and the indexer. Internal to exec/cpu. Room
// for one thread is enough; more threads use what else there is.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/chosen_attention.h"
#include "exec/kernels/dispatch_table.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cpu {

inline IndexShape index_shape(const Operand& q, const Operand& chosen) {
  const Shape& all = q.shape();
  return {all[0], all[1], all[2], all[3], chosen.shape()[2]};
}

template <typename T>
struct ChooseKeysRow {
  static Bytes prepare(const Call& c, GemmCache&) {
    return choose_keys_scratch_bytes<T>(index_shape(c[0], c[3]), 1);
  }
  static void run(const Call& c, GemmCache&) {
    choose_keys<T>(index_shape(c[0], c[3]),
                   {.chosen = c[3].as<std::int32_t>(),
                    .q = c[0].as<T>(),
                    .k = c[1].as<T>(),
                    .weights = c[2].as<T>()},
                   scratch(c[4]));
  }
};

template <typename T>
struct ChooseKeysBackwardRow {
  static Bytes prepare(const Call& c, GemmCache&) {
    return choose_keys_backward_scratch_bytes<T>(index_shape(c[2], c[1]), 1);
  }
  static void run(const Call& c, GemmCache&) {
    const double tokens = static_cast<double>(c.attributes[2]);
    choose_keys_backward<T>(index_shape(c[2], c[1]),
                            {.dq = c[6].as<T>(),
                             .dk = c[7].as<T>(),
                             .dweights = c[8].as<T>(),
                             .given = c[0].as<Compute<T>>(),
                             .chosen = c[1].as<std::int32_t>(),
                             .q = c[2].as<T>(),
                             .k = c[3].as<T>(),
                             .weights = c[4].as<T>(),
                             .heads = static_cast<double>(c.attributes[0]),
                             .ranks = static_cast<double>(c.attributes[1]),
                             .scale = c[5].as<double>()[kLossScale] / tokens},
                            scratch(c[9]));
  }
};

template <typename T>
struct ChosenForwardRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[0], c[2]); }
  static std::int64_t keys(const Call& c) { return c[1].shape()[2]; }
  static Bytes prepare(const Call& c, GemmCache&) {
    return chosen_forward_scratch_bytes<T>(shape(c), keys(c), 1);
  }
  static void run(const Call& c, GemmCache&) {
    chosen_attention_forward<T>(shape(c),
                                {.out = c[2].as<T>(),
                                 .lse = c[3].as<Compute<T>>(),
                                 .qkv = c[0].as<T>(),
                                 .chosen = c[1].as<std::int32_t>(),
                                 .keys = keys(c)},
                                scratch(c[4]));
  }
};

template <typename T>
struct ChosenBackwardRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[1], c[0]); }
  static Bytes prepare(const Call& c, GemmCache&) {
    return chosen_backward_scratch_bytes<T>(shape(c), 1);
  }
  static void run(const Call& c, GemmCache&) {
    chosen_attention_backward<T>(shape(c),
                                 {.dqkv = c[5].as<T>(),
                                  .dout = c[0].as<T>(),
                                  .out = c[3].as<T>(),
                                  .lse = c[4].as<Compute<T>>(),
                                  .qkv = c[1].as<T>(),
                                  .chosen = c[2].as<std::int32_t>(),
                                  .keys = c[2].shape()[2]},
                                 scratch(c[6]));
  }
};

template <typename T>
struct ChosenSharesRow {
  static void run(const Call& c, GemmCache&) {
    chosen_shares<T>(attention_shape<AttentionShape>(c[0], c[2].shape()[1], c.attributes[0]),
                     {.given = c[3].as<Compute<T>>(),
                      .lse = c[2].as<Compute<T>>(),
                      .qkv = c[0].as<T>(),
                      .chosen = c[1].as<std::int32_t>(),
                      .keys = c[1].shape()[2],
                      .adds = c[3].adds()});
  }
};

template <typename T>
constexpr auto chosen_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      prepared<DispatchEntry, ChooseKeysRow<T>>(K::kChooseKeys),
      prepared<DispatchEntry, ChooseKeysBackwardRow<T>>(K::kChooseKeysBackward),
      prepared<DispatchEntry, ChosenForwardRow<T>>(K::kChosenAttentionForward),
      prepared<DispatchEntry, ChosenBackwardRow<T>>(K::kChosenAttentionBackward),
      DispatchEntry{K::kChosenShares, nullptr, ChosenSharesRow<T>::run},
  });
}

}  // namespace zplan::exec::cpu
