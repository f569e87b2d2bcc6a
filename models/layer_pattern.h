// Models whose layers are of several kinds: a pattern says of each layer which mixer of tokens it
// has and what follows that. A layer has one branch or two, each a norm, a body and a sum.
//
// A pattern is written with a letter for each branch, as Megatron-LM writes hybrid models
// [MegatronCore]:
//   M  Mamba-2 [Dao24]         G  gated delta net [Yang24b]     *  attention
//   K  Kimi delta attention [KimiTeam25]
//   S  Mamba-1 [Gu23]
//   H  Mamba-2 and attention side by side [Zuo25]
//   C  gated short convolution [Liquid25]
//   E  experts                 -  MLP
// Without blanks each letter is a layer, "MEM*E". With blanks each word is a layer, "GE GE GE *E".
// A pattern that is shorter than the model is repeated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_reader.h"

namespace zplan {

enum class Mixer : std::uint8_t {
  kNone,
  kAttention,
  kMamba,
  kDelta,
  kKimi,
  kSelective,
  kBoth,
  kShort
};
enum class FeedForward : std::uint8_t { kNone, kMlp, kExperts };

// These say whether a mixer has attention, and whether it has Mamba-2.
constexpr bool attends(Mixer mixer) { return mixer == Mixer::kAttention || mixer == Mixer::kBoth; }
constexpr bool has_mamba(Mixer mixer) { return mixer == Mixer::kMamba || mixer == Mixer::kBoth; }

struct LayerParts {
  Mixer mixer = Mixer::kAttention;
  FeedForward feed_forward = FeedForward::kMlp;
  friend bool operator==(const LayerParts&, const LayerParts&) = default;
};
using LayerPattern = std::vector<LayerParts>;

// Mamba-2 [Dao24 sec 7]. One product gives a gate z, what the state takes x, its input and output
// vectors B and C, and a step dt of each head: 2 H P + 2 G N + H columns. A causal convolution of
// `conv` tokens for each channel and SiLU follow for x, B and C; each head has a state of P x N.
struct MambaShape {
  std::int64_t heads = 0;      // H
  std::int64_t head_size = 0;  // P
  std::int64_t groups = 1;  // G, of heads that share B and C, and of what the norm takes together
  std::int64_t state = 0;   // N
  std::int64_t conv = 4;
  std::int64_t chunk = 256;  // tokens that kernels work on as products
  bool norm = true;          // of the gated result; else the gate alone

  std::int64_t inner() const { return heads * head_size; }
  std::int64_t conv_width() const { return inner() + 2 * groups * state; }
  std::int64_t in_width() const { return inner() + conv_width() + heads; }
  // Tensor parallel ranks cut each of these widths of its columns by itself: z, x, B, C, dt.
  std::vector<std::int64_t> in_widths() const {
    return {inner(), inner(), groups * state, groups * state, heads};
  }
};

// Gated delta net [Yang24b sec 3]. One product gives queries, keys, values and a gate z, and of
// each head of values a and b: a convolution as above, without a bias, for the former three, and
// for each head of values a state of `key_size` x `value_size`.
struct DeltaShape {
  std::int64_t key_heads = 0;  // of queries and of keys; each serves several of values
  std::int64_t value_heads = 0;
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;
  std::int64_t conv = 4;
  std::int64_t chunk = 64;

  std::int64_t keys() const { return key_heads * key_size; }
  std::int64_t values() const { return value_heads * value_size; }
  std::int64_t conv_width() const { return 2 * keys() + values(); }
  std::int64_t in_width() const { return conv_width() + values() + 2 * value_heads; }
  // Columns as above: z, queries, keys, values, b, a.
  std::vector<std::int64_t> in_widths() const {
    return {values(), keys(), keys(), values(), value_heads, value_heads};
  }
};

// Kimi delta attention [KimiTeam25 sec 4]: a gated delta net whose state forgets each channel of a
// key by itself. One product gives queries, keys, values, of which each head has `size` elements,
// and b of each head; a convolution as above for the former three. The decay of each channel and
// the gate of each element of the result are products of h x `size` and `size` x H `size` each.
struct KimiShape {
  std::int64_t heads = 0;  // H, of queries, keys and values alike
  std::int64_t size = 0;
  std::int64_t conv = 4;
  std::int64_t chunk = 64;

  std::int64_t width() const { return heads * size; }
  std::int64_t conv_width() const { return 3 * width(); }
  std::int64_t in_width() const { return conv_width() + heads; }
  // Columns as above: queries, keys, values, b.
  std::vector<std::int64_t> in_widths() const { return {width(), width(), width(), heads}; }
  // Columns of the two products before those by head, which no ranks cut.
  std::int64_t low_width() const { return 2 * size; }
};

// Mamba-1 [Gu23 sec 3] as Jamba has it [Lieber24]. One product gives a gate z and what the
// state takes, I columns each; a convolution as above follows for the latter. Three products of
// that give a vector of `rank` elements, B and C, each normalised; a product of the first gives a
// step of each channel, which has a state of N numbers, each with a decay of its own.
struct SelectiveShape {
  std::int64_t inner = 0;  // I
  std::int64_t state = 0;  // N
  std::int64_t rank = 0;
  std::int64_t conv = 4;

  std::int64_t in_width() const { return 2 * inner; }
  // Columns as above: z, what is convolved.
  std::vector<std::int64_t> in_widths() const { return {inner, inner}; }
  // Columns of what the convolved ones give: the short vector, B, C.
  std::int64_t low_width() const { return rank + 2 * state; }
};

// A gated short convolution [Liquid25]. One product gives two gates B and C and x, `width` columns
// each; the result is C times a convolution of `conv` tokens of each channel of B x, without SiLU.
struct ShortShape {
  std::int64_t width = 0;
  std::int64_t conv = 3;

  std::int64_t in_width() const { return 3 * width; }
  // Columns as above: B, C, x.
  std::vector<std::int64_t> in_widths() const { return {width, width, width}; }
};

// Reads the pattern of so many layers; fails naming a letter that it does not know.
LayerPattern read_pattern(const JsonNode& node, std::int64_t layers);
// The same of a text that is known to be right.
LayerPattern pattern_of(std::string_view text, std::int64_t layers);
// Returns why a text is no pattern of so many layers; empty: it is one.
std::string pattern_fault(std::string_view text, std::int64_t layers);
// "M", "GE"
std::string layer_word(const LayerParts& parts);
// The shortest words of it.
std::string pattern_words(std::span<const LayerParts> pattern);
// Counts the layers after which the same ones come again; the model ends with the last of them.
std::int64_t pattern_period(std::span<const LayerParts> pattern);

std::string_view name(Mixer mixer);

}  // namespace zplan
