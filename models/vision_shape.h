// A vision tower in front of a text model [Dosovitskiy21], [Liu23b]: patches of images go through a
// product, layers that see both ways, and projectors, whose result stands in the place of the first
// tokens of each sequence.
//
//   x0 = patches W (+ bias) (+ a learned row for each patch of an image) (normalised)
//   layers: as those of the text model, of sizes of their own; attention sees the patches of its
//           image, or those of its window
//   projectors: steps one after the other; what several give is added up
//
// A projector is written as words, "layernorm merge 4608+bias gelu 2048+bias":
//   layernorm, rmsnorm   with a gain, and the former with a bias
//   merge                the patches of a token side by side, `merge` of them
//   mean                 their mean
//   N, N+bias            a product with N columns, or with a bias beside it
//   gelu, silu           of each element
//   swiglu               of a gate and what it opens, side by side
//
// The tower counts the patches of `images` images in each sequence. It leaves out what a published
// tower does besides at no cost that counts: a class token is a row of the learned positions here;
// rotary positions run over the patches in their order; further projectors (the deepstack of
// Qwen3-VL) read the last layer and add to the rows ahead of the text model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

struct ProjectorStep {
  enum class Kind : std::uint8_t {
    kLayerNorm,
    kRmsNorm,
    kMerge,
    kMean,
    kProduct,
    kGelu,
    kSilu,
    kSwiglu
  };
  Kind kind = Kind::kProduct;
  std::int64_t in = 0, out = 0;  // columns
  bool merged = false;           // its rows are tokens, else patches; of what it gives
  bool bias = false;             // of a product
};
using Projector = std::vector<ProjectorStep>;

// A plan asks these of a tower; they are 0 where there is none.
struct VisionSizes {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;               // or the values of a patch, where these are more
  std::int64_t ffn = 0;                  // or the widest step of a projector
  std::int64_t patches = 0, tokens = 0;  // of a sequence
  std::int64_t divisor = 0;              // common, of heads and ffn
  std::int64_t outside = 0;              // parameters around the layers
};

struct VisionShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t patch = 0;       // values of a patch: channels, frames, rows and columns of pixels
  std::int64_t patches = 0;     // of an image
  std::int64_t images = 1;      // of a sequence
  std::int64_t merge = 1;       // patches of a token
  std::int64_t positions = 0;   // learned rows; 0: none
  std::int64_t window = 0;      // patches that see each other; 0: those of the image
  std::int64_t full_every = 0;  // so many layers end with one that sees the image; 0: none does
  bool rms_norm = false;        // else LayerNorm with a bias
  bool gated_mlp = false;
  bool biases = true;  // of all products of a layer
  bool patch_bias = false;
  bool qk_norm = false;
  bool post_norms = false;      // of what branches give, too
  bool embedding_norm = false;  // ahead of the layers
  bool rope = false;
  std::string projector;  // words; several projectors have ";" between them

  // These count the patches of all images of a sequence, and the tokens that they become.
  std::int64_t all_patches() const { return patches * images; }
  std::int64_t tokens() const { return all_patches() / merge; }
  // Returns into how many equal parts, of which it sees one, a layer's attention cuts the patches.
  std::int64_t parts_of(std::int64_t layer) const {
    const bool whole = window == 0 || (full_every > 0 && (layer + 1) % full_every == 0);
    return whole ? images : all_patches() / window;
  }
  std::vector<Projector> projectors() const;  // of words that are sound
  std::int64_t parameters_outside() const;    // of the layers
  VisionSizes sizes() const;
};

// Counts the vectors of a norm of this kind.
constexpr std::int64_t norm_vectors_of(ProjectorStep::Kind kind) {
  if (kind == ProjectorStep::Kind::kLayerNorm) return 2;
  return kind == ProjectorStep::Kind::kRmsNorm ? 1 : 0;
}

// Returns what is wrong with the words of projectors that are to give `hidden` columns of tokens;
// nothing: they are sound.
std::optional<std::string> projector_fault(const VisionShape& vision, std::int64_t hidden);

}  // namespace zplan
