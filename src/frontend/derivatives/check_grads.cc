// SPDX-License-Identifier: Apache-2.0
// check_grads: derivatives against differences, order by order.
#include <tessera/functions/check_grads.h>

#include <cmath>
#include <complex>

#include <tessera/derivatives.h>
#include <tessera/ops.h>
#include <tessera/random.h>

namespace tessera::internal {
namespace {

using Arrays = std::vector<Array>;

bool has_direction(const Array& x) { return is_floating(x.dtype()) || is_complex(x.dtype()); }

double tolerance_of(const Arrays& arrays) {
  double out = 1e-5;
  for (const Array& x : arrays) {
    if (!has_direction(x)) continue;
    const DType type = x.dtype();
    const bool single = type == DType::f32 || type == DType::c64;
    const bool twice = type == DType::f64 || type == DType::c128;
    out = std::max(out, single ? 2e-3 : twice ? 1e-5 : 0.1);
  }
  return out;
}

class GradsCheck {
 public:
  GradsCheck(const CheckGradsOptions& options, Location location)
      : options_(options), location_(location) {}

  void check(const FlatCheckedFunction& f, const Arrays& x, int order) {
    const Arrays y = f(x);
    const Arrays dx = directions(x);
    const Arrays slope = difference(f, x, dx);
    if (options_.forward) forward(f, x, dx, slope, order);
    if (options_.reverse) reverse(f, x, y, dx, slope, order);
    if (order >= options_.order) return;
    const std::size_t count = x.size();
    if (options_.forward) {
      const auto jvp_of_f = [&f, count](const Arrays& both) {
        const auto middle = both.begin() + std::ptrdiff_t(count);
        const auto [value, tangent] =
            jvp([&f](const Arrays& a) { return f(a); }, std::tuple(Arrays(both.begin(), middle)),
                std::tuple(Arrays(middle, both.end())));
        return numbers(value, tangent);
      };
      check(jvp_of_f, leaves_in_order(x, dx), order + 1);
    }
    if (options_.reverse) {
      const auto vjp_of_f = [&f, count](const Arrays& both) {
        const auto middle = both.begin() + std::ptrdiff_t(count);
        const auto [value, pull] =
            vjp([&f](const Arrays& a) { return f(a); }, Arrays(both.begin(), middle));
        return numbers(value, pull(Arrays(middle, both.end())));
      };
      check(vjp_of_f, leaves_in_order(x, directions(y)), order + 1);
    }
  }

 private:
  /// Those that have derivatives.
  static Arrays numbers(const Arrays& a, const Arrays& b) {
    Arrays out;
    for (const Arrays* list : {&a, &b}) {
      for (const Array& x : *list) {
        if (has_direction(x)) out.push_back(x);
      }
    }
    return out;
  }

  Arrays directions(const Arrays& like) {
    Arrays out;
    for (const Array& x : like) {
      if (!has_direction(x)) {
        out.push_back(zeros(x.shape(), DType::pred));
        continue;
      }
      const auto draw = [&] {
        return random::normal(random::key(++drawn_), x.shape(), DType::f32);
      };
      const Array real = draw();
      out.push_back(is_complex(x.dtype()) ? astype(complex(real, draw()), x.dtype())
                                          : astype(real, x.dtype()));
    }
    return out;
  }

  Arrays difference(const FlatCheckedFunction& f, const Arrays& x, const Arrays& dx) const {
    const auto moved = [&](double by) {
      Arrays out = x;
      for (std::size_t k = 0; k < x.size(); ++k) {
        if (has_direction(x[k])) out[k] = x[k] + dx[k] * astype(Array(by), x[k].dtype());
      }
      return f(out);
    };
    const Arrays up = moved(options_.eps), down = moved(-options_.eps);
    Arrays out;
    for (std::size_t k = 0; k < up.size(); ++k) {
      out.push_back(has_direction(up[k])
                        ? (up[k] - down[k]) * astype(Array(0.5 / options_.eps), up[k].dtype())
                        : zeros(up[k].shape(), DType::pred));
    }
    return out;
  }

  void forward(const FlatCheckedFunction& f, const Arrays& x, const Arrays& dx, const Arrays& slope,
               int order) const {
    const auto [y, dy] = jvp([&f](const Arrays& a) { return f(a); }, std::tuple(x), std::tuple(dx));
    for (std::size_t k = 0; k < dy.size(); ++k) {
      if (!has_direction(y[k])) continue;
      const std::string what =
          "jvp of order " + std::to_string(order) + ", result " + std::to_string(k) + ", ";
      const std::vector<std::complex<double>> have = values(dy[k]), want = values(slope[k]);
      for (std::size_t i = 0; i < have.size(); ++i) {
        compare(what + "element " + std::to_string(i), have[i], want[i], tolerance(x, y));
      }
    }
  }

  /// One number: what the cotangents give along the direction.
  void reverse(const FlatCheckedFunction& f, const Arrays& x, const Arrays& y, const Arrays& dx,
               const Arrays& slope, int order) {
    const Arrays ct = directions(y);
    const auto pull = vjp([&f](const Arrays& a) { return f(a); }, x).second;
    const Arrays gx = pull(ct);
    compare("vjp of order " + std::to_string(order), product(dx, gx), product(slope, ct),
            tolerance(x, y));
  }

  static std::complex<double> product(const Arrays& a, const Arrays& b) {
    double out = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (!has_direction(a[k])) continue;
      const std::vector<std::complex<double>> u = values(a[k]), v = values(b[k]);
      for (std::size_t i = 0; i < u.size(); ++i) out += (u[i] * v[i]).real();
    }
    return out;
  }

  static std::vector<std::complex<double>> values(const Array& x) {
    if (is_complex(x.dtype())) return astype(x, DType::c128).to_vector<std::complex<double>>();
    const std::vector<double> real = astype(x, DType::f64).to_vector<double>();
    return {real.begin(), real.end()};
  }

  std::pair<double, double> tolerance(const Arrays& x, const Arrays& y) const {
    const double known = std::max(tolerance_of(x), tolerance_of(y));
    return {options_.atol.value_or(known), options_.rtol.value_or(known)};
  }

  void compare(const std::string& what, std::complex<double> have, std::complex<double> want,
               std::pair<double, double> tolerance) const {
    const double apart = std::abs(have - want);
    const double allowed = tolerance.first + tolerance.second * std::abs(want);
    if (apart <= allowed) return;  // not for NaN
    throw ValueError("check_grads: " + what + ": the derivative is " + text(have) +
                         " and the difference " + text(want) + ", " + std::to_string(apart) +
                         " apart; allowed: " + std::to_string(allowed),
                     location_);
  }

  static std::string text(std::complex<double> x) {
    std::string out = std::to_string(x.real());
    if (x.imag() != 0) out += (x.imag() > 0 ? "+" : "") + std::to_string(x.imag()) + "i";
    return out;
  }

  const CheckGradsOptions options_;
  const Location location_;
  int drawn_ = 0;
};

}  // namespace

void check_grads_core(const FlatCheckedFunction& f, const std::vector<Array>& arguments,
                      const CheckGradsOptions& options, Location location) {
  if (options.order < 1 || !(options.eps > 0)) {
    throw ValueError("check_grads: order is " + std::to_string(options.order) + " and eps " +
                         std::to_string(options.eps) + "; both must be positive",
                     location);
  }
  GradsCheck(options, location).check(f, arguments, 1);
}

}  // namespace tessera::internal
