// A plan says what training changes. Frozen parameters have no gradients, master copy or moments,
// and no product gives a gradient of them; gradients of inputs go through them as through others.
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
//
// The rest is the base. It has no master copy and is kept in the type that kernels read, whatever
// the recipe says of parameters that are trained, or in another one that the plan names:
//
//   f32   as a recipe with fp32 parameters has them: cast whenever they are gathered
//   nf4   4 bits for each element of the matrices of layers: a place in the table of NormalFloat
//         [Dettmers23 sec 3] or, with fp4, the bits of a float with 2 of exponent and 1 of mantissa
//         (exec/kernels/four_bits.h). 64 neighbours in the flat unit share a scale, their
//         greatest magnitude. All else of the base is kept in the type that kernels read.
//   nf4-double  the same, and the scales have 8 bits, of which 256 share a constant
//
// Each product writes such a matrix to scratch of the compute type first. Shards are of the codes;
// each rank has all scales, as FSDP knows of the codes alone [FsdpQlora].
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zplan {

enum class Trained : std::uint8_t { kAll, kLayers, kLora };
// The products that have factors: all of a layer, those of attention, those of the MLP or of its
// experts, or those that give queries, keys and values.
enum class LoraTargets : std::uint8_t { kAll, kAttention, kMlp, kQkv };

// LoRA keeps its base in one of these types; the scales of Double ones have 8 bits.
enum class BaseType : std::uint8_t { kCompute, kF32, kNf4, kNf4Double, kFp4, kFp4Double };
// LoRA trains these in full besides the factors, and its optimizer updates them, of what is outside
// the layers: PEFT's modules_to_save.
enum class LoraSaved : std::uint8_t { kNone, kEmbedding, kHead, kBoth };

// This says what of a vision tower is trained: all of it where the plan trains every parameter, and
// nothing with LoRA, whose factors it has not; its projectors alone; nothing.
enum class VisionTrained : std::uint8_t { kModel, kProjector, kNone };

inline constexpr std::array<std::string_view, 3> kTrainedWords{"all", "layers", "lora"};
inline constexpr std::array<std::string_view, 4> kLoraTargetWords{"all", "attention", "mlp", "qkv"};
inline constexpr std::array<std::string_view, 6> kBaseTypeWords{"compute",    "f32", "nf4",
                                                                "nf4-double", "fp4", "fp4-double"};
inline constexpr std::array<std::string_view, 4> kLoraSavedWords{"none", "embedding", "head",
                                                                 "both"};
inline constexpr std::array<std::string_view, 3> kVisionTrainedWords{"model", "projector", "none"};
// Elements that a byte of codes stands for, that share a scale and, through scales of 8 bits, a
// constant [Dettmers23 sec 3].
inline constexpr std::int32_t kCodesPerByte = 2;
inline constexpr std::int32_t kCodeBlock = 64;
inline constexpr std::int32_t kConstantBlock = 256 * kCodeBlock;

constexpr std::string_view name(Trained what) {
  return kTrainedWords[static_cast<std::size_t>(what)];
}
constexpr std::string_view name(LoraTargets targets) {
  return kLoraTargetWords[static_cast<std::size_t>(targets)];
}

constexpr std::string_view name(BaseType base) {
  return kBaseTypeWords[static_cast<std::size_t>(base)];
}
constexpr std::string_view name(LoraSaved saved) {
  return kLoraSavedWords[static_cast<std::size_t>(saved)];
}

constexpr std::string_view name(VisionTrained vision) {
  return kVisionTrainedWords[static_cast<std::size_t>(vision)];
}

struct TrainedChoice {
  Trained what = Trained::kAll;
  std::int32_t rank = 8;
  std::int32_t alpha = 16;
  LoraTargets targets = LoraTargets::kAll;
  // The factors' product counts alpha / sqrt(rank) times: rsLoRA [Kalajdzievski23].
  bool by_root = false;
  BaseType base = BaseType::kCompute;
  LoraSaved saved = LoraSaved::kNone;
  VisionTrained vision = VisionTrained::kModel;

  // These return whether the layers of a vision tower, and its projectors, are trained.
  bool has_trained_tower() const {
    return what == Trained::kAll && vision == VisionTrained::kModel;
  }
  bool has_trained_projector() const {
    return has_trained_tower() || vision == VisionTrained::kProjector;
  }
  bool has_lora() const { return what == Trained::kLora; }
  // These return whether the matrices of layers have 4 bits, and whether their scales have 8.
  bool has_codes() const { return base >= BaseType::kNf4; }
  bool has_scale_codes() const {
    return base == BaseType::kNf4Double || base == BaseType::kFp4Double;
  }
  bool is_fp4() const { return base >= BaseType::kFp4; }
  friend auto operator<=>(const TrainedChoice&, const TrainedChoice&) = default;
};

}  // namespace zplan
