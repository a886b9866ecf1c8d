// SPDX-License-Identifier: Apache-2.0
// Plans of Fourier transforms.
#include "src/codegen/kernels/fft/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/codegen/kernels/fft/fft_lines.h"

namespace tessera::codegen {
namespace {

/// Eights as far as they go, and other factors of two as one or two fours.
std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> out;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (twos == 1) {
    out.push_back(2);
  } else {
    const int fours = twos % 3 == 0 ? 0 : twos % 3 == 2 ? 1 : 2;
    out.assign(std::size_t((twos - 2 * fours) / 3), 8);
    out.insert(out.end(), std::size_t(fours), 4);
  }
  for (std::int64_t p = 3; n > 1; p += 2) {
    for (; n % p == 0; n /= p) out.push_back(p);
  }
  return out;
}

bool has_code(std::int64_t radix) { return radix <= 5 || radix == 8; }

/// How a line becomes a matrix: rows, the divisor of n next to its root. The passes over columns
/// and rows take as many lines at once as vectors have elements, so that multiples of those are
/// better.
std::int64_t rows_of(std::int64_t n) {
  std::int64_t best = 1;
  double least = 1e300;
  for (std::int64_t d = 2; d <= n / 2; ++d) {
    if (n % d != 0) continue;
    constexpr std::int64_t kLanes = 16;
    const auto filled = [](std::int64_t x) {
      return double((x + kLanes - 1) / kLanes * kLanes) / double(x);
    };
    const double cost = (filled(d) + filled(n / d)) *
                        (1 + 0.2 * std::fabs(std::log2(double(d) * double(d) / double(n))));
    if (cost < least) {
      least = cost;
      best = d;
    }
    if (d > 65536) break;
  }
  return best;
}

/// A length for a convolution of at least `least` elements: little more, with small factors.
std::int64_t convolution_length(std::int64_t least) {
  std::int64_t best = INT64_MAX;
  for (const std::int64_t odd : {1, 3, 5, 9, 15}) {
    std::int64_t n = odd;
    while (n < least) n *= 2;
    best = std::min(best, n);
  }
  return best;
}

template <class T>
void plan_matrix(LinePlan<T>* plan) {
  const std::int64_t n = plan->n, rows = rows_of(n), columns = n / rows;
  plan->way = LinePlan<T>::Way::matrix;
  plan->columns = lane_plan<T>(rows);
  plan->rows = lane_plan<T>(columns);
  plan->padded = (columns + kPadding - 1) / kPadding * kPadding;
  plan->twist.assign(std::size_t(rows * 2 * plan->padded), T(0));
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double re, im;
      root_of_one(j * k, n, &re, &im);
      plan->twist[std::size_t((2 * k) * plan->padded + j)] = T(re);
      plan->twist[std::size_t((2 * k + 1) * plan->padded + j)] = T(im);
    }
  }
}

template <class T>
void plan_chirp(LinePlan<T>* plan) {
  const std::int64_t n = plan->n;
  plan->way = LinePlan<T>::Way::chirp;
  const std::int64_t m = convolution_length(2 * n - 1);
  plan->inner = std::make_unique<const LinePlan<T>>(line_plan<T>(m));
  plan->chirp.resize(std::size_t(2 * n));
  std::vector<T> filter(std::size_t(2 * m), T(0));
  for (std::int64_t i = 0; i < n; ++i) {
    // The angle is that of i^2 / 2n, which repeats with 2n.
    const auto square =
        std::int64_t(static_cast<unsigned __int128>(i) * std::uint64_t(i) % std::uint64_t(2 * n));
    double re, im;
    root_of_one(square, 2 * n, &re, &im);
    plan->chirp[std::size_t(2 * i)] = T(re);
    plan->chirp[std::size_t(2 * i + 1)] = T(im);
    for (const std::int64_t at : {i, i == 0 ? 0 : m - i}) {
      filter[std::size_t(2 * at)] = T(re);
      filter[std::size_t(2 * at + 1)] = T(-im);
    }
  }
  plan->filter.resize(filter.size());
  LineJob<T> job;
  job.plan = plan->inner.get();
  job.in = filter.data();
  job.out = plan->filter.data();
  // The scale of the transform back.
  job.scale = T(1) / T(m);
  transform_lines<T>()(job);
}

}  // namespace

void root_of_one(std::int64_t k, std::int64_t n, double* re, double* im) {
  // An angle of an eighth of a turn at most keeps its digits.
  k %= n;
  const auto eighths = std::int64_t(static_cast<__int128>(8) * k / n);
  const std::int64_t quarters = (eighths + 1) / 2;
  // k / n - quarters / 4, exactly.
  const auto rest = static_cast<__int128>(4) * k - static_cast<__int128>(quarters) * n;
  const double angle = -M_PI_2 * (double(rest) / double(n));
  double c = std::cos(angle), s = std::sin(angle);
  for (std::int64_t q = quarters % 4; q > 0; --q) {
    // Times -i.
    std::swap(c, s);
    s = -s;
  }
  *re = c;
  *im = s;
}

bool has_small_factors(std::int64_t n) {
  for (std::int64_t p = 2; p < kMaxRadix && n > 1; ++p) {
    while (n % p == 0) n /= p;
  }
  return n <= 1;
}

template <class T>
LanePlan<T> lane_plan(std::int64_t n) {
  LanePlan<T> plan;
  plan.n = n;
  const auto add = [&](std::int64_t k, std::int64_t of) {
    double re, im;
    root_of_one(k, of, &re, &im);
    plan.table.push_back(T(re));
    plan.table.push_back(T(im));
  };
  std::int64_t left = n, s = 1;
  for (const std::int64_t radix : radices_of(n)) {
    typename LanePlan<T>::Pass pass;
    pass.radix = radix;
    pass.m = left / radix;
    pass.s = s;
    pass.twiddles = plan.table.size();
    if (pass.m > 1) {
      for (std::int64_t p = 0; p < pass.m; ++p) {
        for (std::int64_t k = 1; k < radix; ++k) add(p * k, left);
      }
    }
    pass.roots = plan.table.size();
    if (!has_code(radix)) {
      for (std::int64_t k = 0; k < radix; ++k) add(k, radix);
    }
    plan.passes.push_back(pass);
    left = pass.m;
    s *= radix;
  }
  return plan;
}

template <class T>
LinePlan<T> line_plan(std::int64_t n) {
  LinePlan<T> plan;
  plan.n = n;
  // So many elements of so many lines are in the nearest cache.
  constexpr std::int64_t kShort = 128;
  if (!has_small_factors(n)) {
    plan_chirp(&plan);
  } else if (n <= kShort) {
    plan.columns = lane_plan<T>(n);
  } else {
    plan_matrix(&plan);
  }
  return plan;
}

template LanePlan<float> lane_plan(std::int64_t);
template LanePlan<double> lane_plan(std::int64_t);
template LinePlan<float> line_plan(std::int64_t);
template LinePlan<double> line_plan(std::int64_t);

}  // namespace tessera::codegen
