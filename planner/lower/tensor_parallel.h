// The conjugate operators around the split matrices of a layer, on the way in and on the way out of
// the part that every rank computes for itself:
//
//   tensor parallel      in: identity / all-reduce          out: all-reduce / identity
//                        (f and g of [Shoeybi19 sec 3])
//   sequence parallel    in: all-gather / reduce-scatter    out: reduce-scatter / all-gather
//                        (g and its conjugate of [Korthikanti22 sec 4.2.1])
//
// forward / backward; nothing with one rank. Views are [T, h]: of all tokens inside, of the rank's
// tokens outside.
#pragma once

#include "planner/lower/stage.h"

namespace zplan {

class TensorParallel {
 public:
  explicit TensorParallel(Stage& stage) : s_(stage) {}

  // The rank's tokens -> all tokens: x itself, or gathered into a buffer of this name.
  View gathered(Phase phase, Part part, const View& x, const char* name);
  // Sums what the ranks have of all tokens; the result is of the rank's tokens: in place, or
  // scattered into a buffer of this name.
  View summed(Phase phase, Part part, const View& partial, const char* name);
  // The same into a given view of the rank's tokens.
  void sum_into(Phase phase, Part part, const View& partial, const View& target);

 private:
  View local(const View& like, const char* name, std::int64_t tokens);

  Stage& s_;
};

}  // namespace zplan
