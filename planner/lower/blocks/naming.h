// How a family names the tensors of a decoder, as Hugging Face has them, and with what it begins
// to train them. Which tensors there are is not decided here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/model_config.h"

namespace zplan {

// Standard deviations of the normal distributions that matrices are drawn from.
struct InitStd {
  double usual = 0;
  double output = 0;  // of the matrices that feed the residual stream
};

class Naming {
 public:
  explicit Naming(const ModelConfig& model);

  // "qkv", ".bias" -> "transformer.h.{}.attn.c_attn.bias"
  std::string of(std::string_view tensor, std::string_view suffix) const;
  InitStd std() const { return std_; }
  // The same of a vision tower, whose layers are those from this one on and count from 0.
  static Naming of_tower(const ModelConfig& model, std::int64_t first_layer);
  // The same with the number of a layer in the place of "{}".
  Naming of_layer(std::int64_t layer) const {
    Naming own = *this;
    own.layer_ = layer;
    return own;
  }

 private:
  Architecture family_;
  std::optional<std::int64_t> layer_;
  std::optional<std::int64_t> tower_;  // its first layer
  InitStd std_;
};

}  // namespace zplan
