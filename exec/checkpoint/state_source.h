// What states are filled from (state_filler.h): pieces of global tensors, each a run of elements of
// a flat unit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/checkpoint/format.h"

namespace zplan::exec {

class StateSource {
 public:
  virtual ~StateSource() = default;

  // For messages.
  virtual const std::string& path() const = 0;

  // A piece that has a part of a tensor.
  struct Source {
    std::size_t file, piece, tensor;
  };
  // Empty: the tensor does not have the state.
  virtual const std::vector<Source>& sources(const std::string& tensor, State state) const = 0;
  virtual const SavedPiece& piece(const Source& at) const = 0;
  // Of values that are not 8-bit codes good until the next call only. Throws Error(kBadInput)
  // naming what is damaged.
  virtual const std::byte* bytes(const Source& at) = 0;
  // The scales of a piece of 8-bit codes.
  virtual Source scales_of(const Source& codes) const = 0;
};

}  // namespace zplan::exec
