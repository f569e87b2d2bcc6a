// Attention to chosen keys and the indexer on the CPU, key by key [DeepSeek25b sec 2.1]; planner/
// program/kernels/rows.h says what they compute. Arithmetic and sums are in Compute<T>, those over
// keys in the order of the chosen keys, those over queries in the order of tokens.
#pragma once

#include "exec/cpu/kernels/attention.h"
#include "exec/kernels/chosen_attention.h"

namespace zplan::exec::cpu {

// Each thread takes queries of its own. Needs the scores of a query, and their order, of each.
template <typename T>
Bytes choose_keys_scratch_bytes(const IndexShape& shape, int threads);
template <typename T>
void choose_keys(const IndexShape& shape, const KeyChoice<T>& x, Scratch scratch);

// Each thread takes sequences of its own.
template <typename T>
Bytes choose_keys_backward_scratch_bytes(const IndexShape& shape, int threads);
template <typename T>
void choose_keys_backward(const IndexShape& shape, const KeyChoiceBackward<T, Compute<T>>& x,
                          Scratch scratch);

// Each thread takes heads of its own, in backward of keys.
template <typename T>
Bytes chosen_forward_scratch_bytes(const AttentionShape& shape, std::int64_t keys, int threads);
template <typename T>
void chosen_attention_forward(const AttentionShape& shape, const ChosenForward<T, Compute<T>>& x,
                              Scratch scratch);
template <typename T>
Bytes chosen_backward_scratch_bytes(const AttentionShape& shape, int threads);
template <typename T>
void chosen_attention_backward(const AttentionShape& shape, const ChosenBackward<T, Compute<T>>& x,
                               Scratch scratch);

// Each thread takes queries of its own.
template <typename T>
void chosen_shares(const AttentionShape& shape, const ChosenShares<T, Compute<T>>& x);

}  // namespace zplan::exec::cpu
