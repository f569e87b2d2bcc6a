// Adafactor [Shazeer18] as torch.optim.Adafactor [PyTorch] has it, with its constants: means
// decay by 1 - t^-0.8, their least is the epsilon of the type that is computed in, and an update is
// cut where its root mean square is above 1. In double where the update is, else in float; sums are
// double.
#pragma once

#include "exec/cpu/kernels/optimizer.h"
#include "exec/kernels/adafactor_arguments.h"

namespace zplan::exec::cpu {

// update = factor grad; zeros where factor is 0, whatever grad is. n flop.
void adafactor_gradient(const Elements& grad, double factor, const Elements& update,
                        std::int64_t n);

// sums [matrices rows][matrices columns]: of update^2 over the part, row by row and column by
// column; *size: of master^2. In an order that the part alone decides. About 6 flop per element.
void adafactor_sums(const FactoredPart& part, const Elements& update, const Elements& master,
                    double* sums, double* size);

// w = t^-0.8; r += w (sums / columns - r) of each row, c += w (sums / rows - c) of each column;
// v = r c / max(mean of the matrix's r, eps), of a vector r; update /= sqrt(max(v, eps^2)) over the
// part; *squares: of what comes out. t: the number of this update, from 1. 8 flop per element.
// Moments of 16 bits are rounded stochastically; what is kept divides.
void adafactor_factors(const FactoredMoments& x, double t, const RoundingDraws& draws);

struct UpdateSizes {
  double parameters, update;  // sums of squares of the whole tensor
  double learning_rate, t;    // t as above
};

// update *= max(0.001, rms of the parameters) min(1, 1 / (learning rate sqrt(t))) / max(1, rms of
// the update), over the part. One flop per element.
void adafactor_scale(const FactoredPart& part, const Elements& update, const UpdateSizes& sizes);

}  // namespace zplan::exec::cpu
