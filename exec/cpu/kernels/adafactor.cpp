#include "exec/cpu/kernels/adafactor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_elements.h"

namespace zplan::exec::cpu {
namespace {

// [PyTorch] defaults of torch.optim.Adafactor.
constexpr double kDecay = -0.8;
constexpr double kLeastSize = 1e-3;
constexpr double kGreatestUpdate = 1;

// Calls body(C*) with the update, which is of the type of the computation.
template <typename Body>
void with_update(const Elements& update, std::int64_t i, const Body& body) {
  if (update.type == DType::kF64) return body(at<double>(update, i));
  body(at<float>(update, i));
}

template <typename C>
double square(C x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

// x: element `from` of the tensor on, up to `to`. Rows are those of all matrices.
template <typename C>
void sum_rows(const FactoredPart& part, const C* x, double* sums) {
  const std::int64_t width = part.width(), from = part.from(), to = part.to();
  for_rows(part.matrices * part.rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = std::max(from, row * width),
                         last = std::min(to, (row + 1) * width);
      double sum = 0;
      for (std::int64_t i = first; i < last; ++i) sum += square(x[i - from]);
      sums[row] = sum;
    }
  });
}

template <typename C>
void sum_columns(const FactoredPart& part, const C* x, double* sums) {
  const std::int64_t rows = part.matrices * part.rows, width = part.columns, from = part.from(),
                     to = part.to();
  const std::int64_t first_row = from / width, last_row = ceil_div(to, width);
  std::fill_n(sums, part.matrices * width, 0.0);
  for_columns(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = first_row; row < last_row; ++row) {
      double* const own = sums + row / part.rows * width;
      const std::int64_t first = std::max(from, row * width + begin),
                         last = std::min(to, row * width + end);
      for (std::int64_t i = first; i < last; ++i) own[i - row * width] += square(x[i - from]);
    }
  });
}

// moments += weight (sums / count - moments).
template <typename C>
void move_moments(const FactoredMoments& x, std::int64_t from, std::int64_t n, std::int64_t count,
                  double weight, const RoundingDraws& draws) {
  C values[kMixedBlock];
  for (std::int64_t begin = from; begin < from + n; begin += kMixedBlock) {
    const std::int64_t size = std::min(kMixedBlock, from + n - begin);
    with_type(x.moments, begin, [&](auto* kept) { convert(values, kept, size); });
    for (std::int64_t i = 0; i < size; ++i) {
      const double mean = x.sums[begin + i] / static_cast<double>(count);
      values[i] = static_cast<C>(values[i] + weight * (mean - static_cast<double>(values[i])));
    }
    const BlockDraws own(draws, static_cast<std::uint64_t>(begin),
                         has_16_bits(x.moments.type) ? size : 0);
    store(x.moments, begin, values, size, [&](std::int64_t i) { return own.of_v(i); });
  }
}

template <typename C, typename M>
C widened(M value) {
  if constexpr (std::is_same_v<M, double>) return static_cast<C>(value);
  return static_cast<C>(static_cast<float>(value));
}

template <typename M>
double mean_of(const M* values, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += widened<double>(values[i]);
  return sum / static_cast<double>(n);
}

// Of one matrix, whose elements in the piece are [from, to); x: the first of them.
template <typename C, typename M>
void divide_matrix(C* x, const M* of_rows, const M* of_columns, std::int64_t rows,
                   std::int64_t columns, std::int64_t from, std::int64_t to) {
  constexpr C kEpsilon = std::numeric_limits<C>::epsilon();
  const C mean = std::max(static_cast<C>(mean_of(of_rows, rows)), kEpsilon);
  for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = std::max(from, row * columns),
                         last = std::min(to, (row + 1) * columns);
      const C factor = widened<C>(of_rows[row]) / mean;
      for (std::int64_t i = first; i < last; ++i) {
        const C second = factor * widened<C>(of_columns[i - row * columns]);
        x[i - from] /= std::sqrt(std::max(second, kEpsilon * kEpsilon));
      }
    }
  });
}

template <typename C, typename M>
void divide_vector(C* x, const M* second, std::int64_t n) {
  constexpr C kEpsilon = std::numeric_limits<C>::epsilon();
  for (std::int64_t i = 0; i < n; ++i)
    x[i] /= std::sqrt(std::max(widened<C>(second[i]), kEpsilon * kEpsilon));
}

template <typename C, typename M>
void divide(const FactoredPart& part, C* x, const M* moments) {
  const std::int64_t from = part.from(), to = part.to();
  if (part.columns == 0) return divide_vector(x, moments + from, to - from);
  const std::int64_t size = part.rows * part.columns;
  for (std::int64_t k = from / size; k < ceil_div(to, size); ++k) {
    const std::int64_t first = std::max(from, k * size), last = std::min(to, (k + 1) * size);
    divide_matrix(x + (first - from), moments + k * part.rows,
                  moments + part.matrices * part.rows + k * part.columns, part.rows, part.columns,
                  first - k * size, last - k * size);
  }
}

template <typename C>
void move_all_moments(const FactoredMoments& x, double t, const RoundingDraws& draws) {
  const FactoredPart& part = x.part;
  const double weight = std::pow(t, kDecay);
  const std::int64_t rows = part.matrices * part.rows;
  move_moments<C>(x, 0, rows, part.width(), weight, draws);
  move_moments<C>(x, rows, part.matrices * part.columns, part.rows, weight, draws);
}

}  // namespace

void adafactor_gradient(const Elements& grad, double factor, const Elements& update,
                        std::int64_t n) {
  with_update(update, 0, [&](auto* out) {
    using C = std::remove_pointer_t<decltype(out)>;
    if (factor == 0) return void(std::fill_n(out, n, C{0}));
    const auto clip = static_cast<C>(factor);
    for_elements(n, [&](std::int64_t begin, std::int64_t end) {
      with_type(grad, begin, [&](auto* from) { convert(out + begin, from, end - begin); });
      for (std::int64_t i = begin; i < end; ++i) out[i] *= clip;
    });
  });
}

void adafactor_sums(const FactoredPart& part, const Elements& update, const Elements& master,
                    double* sums, double* size) {
  const std::int64_t at = part.at(), n = part.to() - part.from();
  with_update(update, at, [&](auto* x) {
    sum_rows(part, x, sums);
    if (part.columns > 0) sum_columns(part, x, sums + part.matrices * part.rows);
  });
  *size = 0;
  with_type(master, at, [&](auto* x) { sum_squares(size, x, n); });
}

void adafactor_factors(const FactoredMoments& x, double t, const RoundingDraws& draws) {
  const FactoredPart& part = x.part;
  const std::int64_t n = part.to() - part.from();
  *x.squares = 0;
  with_update(x.update, part.at(), [&](auto* update) {
    using C = std::remove_pointer_t<decltype(update)>;
    move_all_moments<C>(x, t, draws);
    with_type(x.moments, 0, [&](auto* moments) { divide(part, update, moments); });
    sum_squares(x.squares, update, n);
  });
}

void adafactor_scale(const FactoredPart& part, const Elements& update, const UpdateSizes& sizes) {
  const auto count = static_cast<double>(part.elements());
  const double size = std::max(kLeastSize, std::sqrt(sizes.parameters / count));
  const double step = std::min(1.0, 1 / (sizes.learning_rate * std::sqrt(sizes.t)));
  const double cut = std::max(1.0, std::sqrt(sizes.update / count) / kGreatestUpdate);
  with_update(update, part.at(), [&](auto* x) {
    using C = std::remove_pointer_t<decltype(x)>;
    const auto factor = static_cast<C>(size * step / cut);
    for_elements(part.to() - part.from(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
    });
  });
}

}  // namespace zplan::exec::cpu
