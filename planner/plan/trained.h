// What training changes. Frozen parameters have no gradients, no master copy and no moments, and no
// product gives a gradient of them; gradients of inputs go through them as through others.
//
//   all     every parameter
//   layers  those of the layers: embeddings, final norm and head are frozen
//   lora    two factors beside matrices of layers, all else is frozen [Hu21 sec 4.1]:
//           y = x W + alpha / rank (x A) B with A [in, rank], drawn, and B [rank, out], zero at
//           first
//
// The factors of a layer are one small unit (layout.h). They are cut over tensor parallel ranks as
// the matrix is: B by columns or A by rows. The other factor is on every rank, each of which gives
// a part of its gradient. Each expert has factors of its own, where it is; a router has none.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zplan {

enum class Trained : std::uint8_t { kAll, kLayers, kLora };
// The products that have factors: all of a layer, those of attention, those of the MLP or of its
// experts, or those that give queries, keys and values.
enum class LoraTargets : std::uint8_t { kAll, kAttention, kMlp, kQkv };

inline constexpr std::array<std::string_view, 3> kTrainedWords{"all", "layers", "lora"};
inline constexpr std::array<std::string_view, 4> kLoraTargetWords{"all", "attention", "mlp", "qkv"};
constexpr std::string_view name(Trained what) {
  return kTrainedWords[static_cast<std::size_t>(what)];
}
constexpr std::string_view name(LoraTargets targets) {
  return kLoraTargetWords[static_cast<std::size_t>(targets)];
}

struct TrainedChoice {
  Trained what = Trained::kAll;
  std::int32_t rank = 8;
  std::int32_t alpha = 16;
  LoraTargets targets = LoraTargets::kAll;

  bool has_lora() const { return what == Trained::kLora; }
  friend auto operator<=>(const TrainedChoice&, const TrainedChoice&) = default;
};

}  // namespace zplan
