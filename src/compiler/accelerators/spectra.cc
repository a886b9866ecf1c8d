// SPDX-License-Identifier: Apache-2.0
// One-sided Jacobi (Hestenes): pairs of columns are rotated until all are orthogonal. As in a
// tournament each column meets each other one once a sweep, half of all pairs at a time.
#include "src/compiler/accelerators/spectra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/compiler/accelerators/formula_lines.h"

namespace tessera::compiler::accelerators {
namespace {

/// Sweeps that are made at most: convergence is quadratic, and takes 5 to 10.
constexpr int kSweeps = 20;

Dims with_last(Dims dims, std::int64_t rows, std::int64_t columns) {
  dims[dims.size() - 2] = rows;
  dims[dims.size() - 1] = columns;
  return dims;
}

/// Lines that take apart and put together matrices whose sizes aren't those of Lines.
class Blocks {
 public:
  Blocks(Lines* lines, DType t) : b_(*lines), t_(t) {}

  /// Columns [begin, end) of x, or rows.
  std::string columns(const std::string& x, const Dims& dims, std::int64_t begin,
                      std::int64_t end) const {
    return slice(x, dims, dims.size() - 1, begin, end);
  }
  std::string rows(const std::string& x, const Dims& dims, std::int64_t begin,
                   std::int64_t end) const {
    return slice(x, dims, dims.size() - 2, begin, end);
  }
  std::string beside(const std::vector<std::string>& parts, const Dims& dims) const {
    std::string all;
    for (const std::string& p : parts) all += (all.empty() ? "" : ", ") + p;
    return b_.op(t_, dims,
                 "concatenate(" + all + "), dimensions={" + std::to_string(dims.size() - 1) + "}");
  }
  /// Zeros behind its rows and columns.
  std::string padded(const std::string& x, const Dims& from, const Dims& to) const {
    if (from == to) return x;
    std::string padding;
    for (std::size_t d = 0; d < from.size(); ++d) {
      padding += (d > 0 ? "x0_" : "0_") + std::to_string(to[d] - from[d]);
    }
    const std::string zero = b_.op(t_, {}, "constant(" + b_.zero() + ")");
    return b_.op(t_, to, "pad(" + x + ", " + zero + "), padding=" + padding);
  }
  std::string transposed(const std::string& x, const Dims& dims) const {
    Dims order;
    for (std::size_t d = 0; d < dims.size(); ++d) order.push_back(std::int64_t(d));
    std::swap(order[dims.size() - 1], order[dims.size() - 2]);
    const Dims out = with_last(dims, dims.back(), dims[dims.size() - 2]);
    return b_.op(t_, out, "transpose(" + x + "), dimensions=" + Lines::braces(order));
  }
  std::string adjoint(const std::string& x, const Dims& dims) const {
    return b_.conjugate(transposed(x, dims), with_last(dims, dims.back(), dims[dims.size() - 2]));
  }
  std::string unit(const Dims& dims) const {
    const std::int64_t r = std::int64_t(dims.size()) - 2;
    return b_.select(t_, dims, b_.compare(dims, b_.iota(dims, r), b_.iota(dims, r + 1), "EQ"),
                     b_.ones(t_, dims), b_.zeros(t_, dims));
  }
  /// A value of each column for all elements of `dims`.
  std::string down(DType t, const std::string& x, const Dims& dims) const {
    Dims at;
    for (std::int64_t d = 0; d + 2 < std::int64_t(dims.size()); ++d) at.push_back(d);
    at.push_back(std::int64_t(dims.size()) - 1);
    return b_.broadcast(t, dims, x, at);
  }
  /// The sum of each column.
  std::string sums(DType t, const std::string& x, const Dims& dims) const {
    Dims out = dims;
    out.erase(out.end() - 2);
    return b_.reduce(t, out, x, {std::int64_t(dims.size()) - 2}, "add", t == t_ ? b_.zero() : "0");
  }

 private:
  std::string slice(const std::string& x, const Dims& dims, std::size_t at, std::int64_t begin,
                    std::int64_t end) const {
    if (begin == 0 && end == dims[at]) return x;
    std::string ranges;
    Dims out = dims;
    out[at] = end - begin;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool here = d == at;
      ranges += (d > 0 ? ", [" : "[") + std::to_string(here ? begin : 0) + ":" +
                std::to_string(here ? end : dims[d]) + "]";
    }
    return b_.op(t_, out, "slice(" + x + "), slice={" + ranges + "}");
  }

  Lines& b_;
  DType t_;
};

/// What the rotations need to know, and the text of their computations.
class Sweeps {
 public:
  /// Of matrices with an even number of columns.
  explicit Sweeps(const Shape& matrix)
      : shape_(matrix),
        half_(matrix.dims.back() / 2),
        left_(with_last(matrix.dims, matrix.dims[matrix.dims.size() - 2], half_)),
        turns_(with_last(matrix.dims, matrix.dims.back(), half_)) {}

  /// The halves' columns, and what makes them of the matrix: U, the product of all rotations.
  std::string state_types() const {
    const std::string a = Lines::type(shape_.dtype, left_), v = Lines::type(shape_.dtype, turns_);
    return "s32[], s32[], " + a + ", " + a + ", " + v + ", " + v;
  }

  /// The computations `sweeps_go_on`, `sweep` and those that they call, but for the reducers.
  std::string text(Lines* reducers) const {
    std::string out = round(reducers);
    const std::string type = "(" + state_types() + ")";
    const auto loop = [&](const std::string& name, const std::string& body) {
      return name + " {\n  state = " + type + " parameter(0)\n" + body + "}\n";
    };
    out += loop("rounds_go_on",
                "  k = s32[] get-tuple-element(state), index=0\n  end = s32[] constant(" +
                    std::to_string(2 * half_ - 1) +
                    ")\n  ROOT more = pred[] compare(k, end), direction=LT\n");
    out += loop("sweeps_go_on",
                "  k = s32[] get-tuple-element(state), index=0\n  turned = s32[] "
                "get-tuple-element(state), index=1\n  end = s32[] constant(" +
                    std::to_string(kSweeps) +
                    ")\n  none = s32[] constant(0)\n  few = pred[] compare(k, end), direction=LT\n"
                    "  any = pred[] compare(turned, none), direction=GT\n"
                    "  ROOT more = pred[] and(few, any)\n");
    std::string sweep = "  k = s32[] get-tuple-element(state), index=0\n";
    sweep += parts("state", "p");
    sweep += "  none = s32[] constant(0)\n  first = " + type +
             " tuple(none, none, p0, p1, p2, p3)\n  last = " + type +
             " while(first), condition=rounds_go_on, body=round\n"
             "  turned = s32[] get-tuple-element(last), index=1\n";
    sweep += parts("last", "q") +
             "  one = s32[] constant(1)\n  next = s32[] add(k, one)\n  ROOT made = " + type +
             " tuple(next, turned, q0, q1, q2, q3)\n";
    return out + loop("sweep", sweep);
  }

  const Dims& left() const { return left_; }
  const Dims& turns() const { return turns_; }

 private:
  std::string parts(const std::string& state, const char* prefix) const {
    const std::string a = Lines::type(shape_.dtype, left_), v = Lines::type(shape_.dtype, turns_);
    std::string out;
    for (int k = 0; k < 4; ++k) {
      out += "  " + std::string(prefix) + std::to_string(k) + " = " + (k < 2 ? a : v) +
             " get-tuple-element(" + state + "), index=" + std::to_string(k + 2) + "\n";
    }
    return out;
  }

  /// Rotates each column of one half with the one in its place in the other, and has all but the
  /// first go on by one place.
  std::string round(Lines* reducers) const {
    Lines b(Shape(shape_.dtype, left_));
    const DType t = b.dtype(), real = b.real();
    const Blocks blocks(&b, t);
    Dims each = left_;
    each.erase(each.end() - 2);
    const auto real_of = [&](DType type, double value) {
      return b.constant(type, std::to_string(value), each);
    };
    const std::string x2 = blocks.sums(real, b.squares("p0", left_), left_);
    const std::string y2 = blocks.sums(real, b.squares("p1", left_), left_);
    const std::string xy =
        blocks.sums(t, b.binary(t, left_, "multiply", b.conjugate("p0", left_), "p1"), left_);
    const std::string size = b.op(real, each, "abs(" + xy + ")");
    const std::string norms = b.binary(real, each, "multiply", b.op(real, each, "sqrt(" + x2 + ")"),
                                       b.op(real, each, "sqrt(" + y2 + ")"));
    const bool is_double = real == DType::f64;
    const double rows = double(left_[left_.size() - 2]);
    const std::string tolerance =
        fmt::format("{:.9g}", (is_double ? 2.2e-16 : 1.2e-7) * std::max(4.0, std::sqrt(rows)));
    const std::string least =
        b.binary(real, each, "multiply", b.constant(real, tolerance, each), norms);
    const std::string turned = b.compare(each, size, least, "GT");
    const std::string one = real_of(real, 1), none = real_of(real, 0);
    const std::string safe = b.select(real, each, turned, size, one);
    const std::string slope =
        b.binary(real, each, "divide", b.binary(real, each, "subtract", y2, x2),
                 b.binary(real, each, "add", safe, safe));
    const std::string sign = b.select(real, each, b.compare(each, slope, none, "GE"), one,
                                      b.op(real, each, "negate(" + one + ")"));
    // If its square is too large for the type, nothing is turned.
    const std::string steep = b.op(real, each, "abs(" + slope + ")");
    const auto root_of_one_and = [&](const std::string& x) {
      return b.op(
          real, each,
          "sqrt(" + b.binary(real, each, "add", one, b.binary(real, each, "multiply", x, x)) + ")");
    };
    const std::string tangent = b.binary(
        real, each, "divide", sign, b.binary(real, each, "add", steep, root_of_one_and(steep)));
    const std::string cosine = b.select(
        real, each, turned, b.binary(real, each, "divide", one, root_of_one_and(tangent)), one);
    const std::string sine =
        b.select(real, each, turned, b.binary(real, each, "multiply", cosine, tangent), none);
    // The second column is turned to where the product of both is positive.
    const std::string unit = b.as_complex(one, each);
    const std::string phase =
        b.select(t, each, turned, b.binary(t, each, "divide", xy, b.as_complex(safe, each)), unit);
    std::string next = rotated(&b, "p0", "p1", left_, cosine, sine, phase) +
                       rotated(&b, "p2", "p3", turns_, cosine, sine, phase);
    const std::string count =
        b.reduce(DType::s32, {}, b.op(DType::s32, each, "convert(" + turned + ")"), all_of(each),
                 "maximum", "0");
    const std::string now = b.op(DType::s32, {}, "maximum(turned, " + count + ")");
    const std::string type = "(" + state_types() + ")";
    reducers->reducers.merge(b.reducers);
    return "round {\n  state = " + type +
           " parameter(0)\n  k = s32[] get-tuple-element(state), index=0\n"
           "  turned = s32[] get-tuple-element(state), index=1\n" +
           parts("state", "p") + b.text +
           "  one = s32[] constant(1)\n  next = s32[] add(k, one)\n" + "  ROOT made = " + type +
           " tuple(next, " + now + next + ")\n}\n";
  }

  static Dims all_of(const Dims& dims) {
    Dims out;
    for (std::size_t d = 0; d < dims.size(); ++d) out.push_back(std::int64_t(d));
    return out;
  }

  /// ", x, y": both halves, rotated and in their next places.
  std::string rotated(Lines* lines, const std::string& x, const std::string& y, const Dims& dims,
                      const std::string& cosine, const std::string& sine,
                      const std::string& phase) const {
    Lines& b = *lines;
    const DType t = b.dtype();
    const Blocks blocks(&b, t);
    Dims each = dims;
    each.erase(each.end() - 2);
    const std::string c = blocks.down(t, b.as_complex(cosine, each), dims);
    const std::string s = blocks.down(t, b.as_complex(sine, each), dims);
    const std::string e = blocks.down(t, b.conjugate(phase, each), dims);
    const auto times = [&](const std::string& p, const std::string& q) {
      return b.binary(t, dims, "multiply", p, q);
    };
    const std::string turned = times(y, e);
    const std::string first = b.binary(t, dims, "subtract", times(c, x), times(s, turned));
    const std::string second = b.binary(t, dims, "add", times(s, x), times(c, turned));
    const std::int64_t h = half_;
    if (h == 1) return ", " + first + ", " + second;
    std::vector<std::string> left{blocks.columns(first, dims, 0, 1),
                                  blocks.columns(second, dims, 0, 1)};
    if (h > 2) left.push_back(blocks.columns(first, dims, 1, h - 1));
    const std::vector<std::string> right{blocks.columns(second, dims, 1, h),
                                         blocks.columns(first, dims, h - 1, h)};
    return ", " + blocks.beside(left, dims) + ", " + blocks.beside(right, dims);
  }

  Shape shape_;
  std::int64_t half_;
  Dims left_, turns_;
};

/// Orthogonal columns, and the rotations that made them of the matrix.
struct Rotated {
  std::string columns, turns;
};

/// Has the columns of `a`, [batch, m, n], rotated. `blocks` are of `b`.
Rotated rotate(Lines* lines, const Blocks& blocks, const Sweeps& sweeps, const std::string& a,
               const Dims& dims) {
  Lines& b = *lines;
  const DType t = b.dtype();
  const std::int64_t n = dims.back(), h = sweeps.left().back();
  const Dims even = with_last(dims, dims[dims.size() - 2], 2 * h);
  const Dims square = with_last(dims, n, n), even_square = with_last(dims, 2 * h, 2 * h);
  const std::string all = blocks.padded(a, dims, even), unit = blocks.unit(even_square);
  const std::string type = "(" + sweeps.state_types() + ")";
  const std::string zero = b.op(DType::s32, {}, "constant(0)");
  const std::string one = b.op(DType::s32, {}, "constant(1)");
  const std::string first =
      b.add(type, "tuple(" + zero + ", " + one + ", " + blocks.columns(all, even, 0, h) + ", " +
                      blocks.columns(all, even, h, 2 * h) + ", " +
                      blocks.columns(unit, even_square, 0, h) + ", " +
                      blocks.columns(unit, even_square, h, 2 * h) + ")");
  const std::string last = b.add(type, "while(" + first + "), condition=sweeps_go_on, body=sweep");
  const auto part = [&](int index, const Dims& of) {
    return b.op(t, of, "get-tuple-element(" + last + "), index=" + std::to_string(index));
  };
  const std::string x = part(2, sweeps.left()), y = part(3, sweeps.left());
  const std::string v = part(4, sweeps.turns()), w = part(5, sweeps.turns());
  // After a sweep all are where they were: what was added stands last.
  const std::string columns = blocks.columns(blocks.beside({x, y}, even), even, 0, n);
  const std::string turns = blocks.columns(blocks.beside({v, w}, even_square), even_square, 0, n);
  return {columns, blocks.rows(turns, with_last(even_square, 2 * h, n), 0, n)};
}

/// Columns in the order of their keys, [batch, n].
std::string in_order(Lines* lines, const Blocks& blocks, const std::string& keys,
                     const std::string& x, DType t, const Dims& dims) {
  Lines& b = *lines;
  const std::string all = blocks.down(b.real(), keys, dims);
  const std::string sorted =
      b.add("(" + Lines::type(b.real(), dims) + ", " + Lines::type(t, dims) + ")",
            "sort(" + all + ", " + x + "), dimensions={" + std::to_string(dims.size() - 1) +
                "}, is_stable=true, to_apply=in_order_" + std::string(name(t)));
  return b.op(t, dims, "get-tuple-element(" + sorted + "), index=1");
}

std::string order_text(DType key, DType t, const char* direction) {
  const std::string k = Lines::type(key, {}), v = Lines::type(t, {});
  return "in_order_" + std::string(name(t)) + " {\n  a = " + k + " parameter(0)\n  b = " + k +
         " parameter(1)\n  c = " + v + " parameter(2)\n  d = " + v +
         " parameter(3)\n  ROOT before = pred[] compare(a, b), direction=" + direction + "\n}\n";
}

/// Largest element, at least a little: [batch].
std::string scale_of(Lines* lines, const std::string& a, const Dims& dims) {
  Lines& b = *lines;
  const Dims batch(dims.begin(), dims.end() - 2);
  const std::string most =
      b.reduce(b.real(), batch, b.op(b.real(), dims, "abs(" + a + ")"),
               {std::int64_t(dims.size()) - 2, std::int64_t(dims.size()) - 1}, "maximum", "0");
  const std::string none = b.compare(batch, most, b.zeros(b.real(), batch), "EQ");
  return b.select(b.real(), batch, none, b.ones(b.real(), batch), most);
}

std::string over_batch(Lines* lines, DType t, const std::string& x, const Dims& dims) {
  Dims at;
  for (std::int64_t d = 0; d + 2 < std::int64_t(dims.size()); ++d) at.push_back(d);
  return lines->broadcast(t, dims, x, at);
}

std::int64_t even(std::int64_t n) { return n + n % 2; }

}  // namespace

std::string symmetric_eigenvalues(const Shape& matrix, bool lower) {
  Lines b(matrix);
  const DType t = b.dtype(), real = b.real();
  const Dims& dims = b.all();
  const std::int64_t n = dims.back();
  const Blocks blocks(&b, t);
  const Sweeps sweeps(Shape(t, with_last(dims, n, even(n))));
  const std::string a = b.op(t, dims, "parameter(0)");
  const std::string row = b.iota(dims, b.row_dim()), column = b.iota(dims, b.column_dim());
  const std::string given = b.compare(dims, row, column, lower ? "GE" : "LE");
  const std::string diagonal = b.compare(dims, row, column, "EQ");
  std::string whole = b.select(t, dims, given, a, blocks.adjoint(a, dims));
  if (b.is_complex()) {
    whole = b.select(t, dims, diagonal, b.as_complex(b.op(real, dims, "real(" + whole + ")"), dims),
                     whole);
  }
  const std::string scale = scale_of(&b, whole, dims);
  const std::string scaled =
      b.binary(t, dims, "divide", whole, b.as_complex(over_batch(&b, real, scale, dims), dims));
  // No eigenvalue is below minus the largest sum of a row: with that on the diagonal none is
  // negative, and so the columns are eigenvectors themselves.
  const std::string sums = b.reduce(real, b.rows(), b.op(real, dims, "abs(" + scaled + ")"),
                                    {b.column_dim()}, "add", "0");
  const std::string shift = b.reduce(real, b.batch(), sums, {b.row_dim()}, "maximum", "0");
  const std::string shift_all = b.as_complex(over_batch(&b, real, shift, dims), dims);
  const std::string shifted =
      b.binary(t, dims, "add", scaled, b.select(t, dims, diagonal, shift_all, b.zeros(t, dims)));
  const Rotated out = rotate(&b, blocks, sweeps, shifted, dims);
  // v* A v, with A v = what became of v less the shift.
  const std::string image = b.binary(t, dims, "subtract", out.columns,
                                     b.binary(t, dims, "multiply", shift_all, out.turns));
  const std::string products = b.binary(t, dims, "multiply", b.conjugate(out.turns, dims), image);
  std::string values = blocks.sums(t, products, dims);
  if (b.is_complex()) values = b.op(real, b.columns(), "real(" + values + ")");
  const std::string vectors = in_order(&b, blocks, values, out.turns, t, dims);
  const std::string sorted =
      b.op(real, b.columns(),
           "sort(" + values + "), dimensions={" + std::to_string(b.columns().size() - 1) +
               "}, is_stable=true, to_apply=ascending");
  Dims batch_dims;
  for (std::int64_t d = 0; d < b.rank() - 2; ++d) batch_dims.push_back(d);
  const std::string unscaled = b.binary(real, b.columns(), "multiply", sorted,
                                        b.broadcast(real, b.columns(), scale, batch_dims));
  const std::string info = b.zeros(DType::s32, b.batch());
  const std::string r = Lines::type(real, {});
  const std::string turns = sweeps.text(&b);
  return "HloModule syevd\n" + reducer_texts(b) + turns + order_text(real, t, "LT") +
         "ascending {\n  a = " + r + " parameter(0)\n  b = " + r +
         " parameter(1)\n  ROOT before = pred[] compare(a, b), direction=LT\n}\nENTRY main {\n" +
         b.text + "  ROOT out = (" + Lines::type(t, dims) + ", " + Lines::type(real, b.columns()) +
         ", " + Lines::type(DType::s32, b.batch()) + ") tuple(" + vectors + ", " + unscaled + ", " +
         info + ")\n}\n";
}

namespace {

/// Orthonormal columns in the directions of `x`, [batch, m, n], which are orthogonal already but
/// may be 0; `count` of them.
std::string directions(Lines* lines, const Blocks& blocks, const std::string& x, const Dims& dims,
                       std::int64_t count) {
  Lines& b = *lines;
  const DType t = b.dtype();
  const char letter = t == DType::f32 ? 's' : t == DType::f64 ? 'd' : t == DType::c64 ? 'c' : 'z';
  const std::int64_t m = dims[dims.size() - 2], n = dims.back();
  Dims tau_dims(dims.begin(), dims.end() - 2);
  tau_dims.push_back(n);
  const auto call = [&](const std::string& type, const std::string& operands,
                        const std::string& routine) {
    return b.add(type, "custom-call(" + operands + "), custom_call_target=\"lapack_" + letter +
                           routine +
                           "_ffi\", api_version=API_VERSION_TYPED_FFI, "
                           "backend_config={}");
  };
  const std::string a_type = Lines::type(t, dims), tau_type = Lines::type(t, tau_dims);
  const std::string factors = call("(" + a_type + ", " + tau_type + ")", x, "geqrf");
  const std::string a = b.op(t, dims, "get-tuple-element(" + factors + "), index=0");
  const std::string tau = b.op(t, tau_dims, "get-tuple-element(" + factors + "), index=1");
  const Dims out = with_last(dims, m, count);
  const std::string q = call(Lines::type(t, out), blocks.padded(a, dims, out) + ", " + tau,
                             b.is_complex() ? "ungqr" : "orgqr");
  // As the columns are orthogonal, the diagonal has their lengths, up to a factor of size 1.
  const std::int64_t r = std::int64_t(dims.size()) - 2;
  const std::string on_diagonal = b.compare(dims, b.iota(dims, r), b.iota(dims, r + 1), "EQ");
  const std::string diagonal =
      blocks.sums(t, b.select(t, dims, on_diagonal, a, b.zeros(t, dims)), dims);
  const std::string size = b.op(b.real(), tau_dims, "abs(" + diagonal + ")");
  const std::string some = b.compare(tau_dims, size, b.zeros(b.real(), tau_dims), "GT");
  const std::string ones = b.ones(b.real(), tau_dims);
  const std::string safe = b.select(b.real(), tau_dims, some, size, ones);
  const std::string unit = b.select(
      t, tau_dims, some, b.binary(t, tau_dims, "divide", diagonal, b.as_complex(safe, tau_dims)),
      b.ones(t, tau_dims));
  const Dims thin = with_last(dims, m, n);
  const std::string first =
      b.binary(t, thin, "multiply", blocks.columns(q, out, 0, n), blocks.down(t, unit, thin));
  return count == n ? first : blocks.beside({first, blocks.columns(q, out, n, count)}, out);
}

}  // namespace

std::string singular_values(const Shape& matrix, const std::vector<Shape>& results, bool vectors) {
  Lines b(matrix);
  const DType t = b.dtype(), real = b.real();
  const Blocks blocks(&b, t);
  const bool wide = b.rows().back() < b.columns().back();
  const std::string given = b.op(t, b.all(), "parameter(0)");
  // Columns must not outnumber rows.
  const std::string a = wide ? blocks.adjoint(given, b.all()) : given;
  const Dims dims = wide ? with_last(b.all(), b.columns().back(), b.rows().back()) : b.all();
  const std::int64_t m = dims[dims.size() - 2], n = dims.back();
  const Sweeps sweeps(Shape(t, with_last(dims, m, even(n))));
  const std::string scale = scale_of(&b, a, dims);
  const std::string scaled =
      b.binary(t, dims, "divide", a, b.as_complex(over_batch(&b, real, scale, dims), dims));
  const Rotated out = rotate(&b, blocks, sweeps, scaled, dims);
  Dims each(dims.begin(), dims.end() - 2);
  each.push_back(n);
  const std::string lengths =
      b.op(real, each, "sqrt(" + blocks.sums(real, b.squares(out.columns, dims), dims) + ")");
  const std::string sorted =
      b.op(real, each,
           "sort(" + lengths + "), dimensions={" + std::to_string(each.size() - 1) +
               "}, is_stable=true, to_apply=descending");
  Dims batch_dims;
  for (std::int64_t d = 0; d < b.rank() - 2; ++d) batch_dims.push_back(d);
  const std::string values =
      b.binary(real, each, "multiply", sorted, b.broadcast(real, each, scale, batch_dims));
  const Shape &u_shape = results.at(2), &v_shape = results.at(3);
  std::string u, v;
  if (!vectors) {
    u = b.zeros(t, u_shape.dims);
    v = b.zeros(t, v_shape.dims);
  } else {
    const Dims square = with_last(dims, n, n);
    const std::string columns = in_order(&b, blocks, lengths, out.columns, t, dims);
    const std::string turns = in_order(&b, blocks, lengths, out.turns, t, square);
    const std::int64_t count = wide ? v_shape.dims[v_shape.dims.size() - 2] : u_shape.dims.back();
    const std::string sides = directions(&b, blocks, columns, dims, count);
    u = wide ? turns : sides;
    v = wide ? blocks.adjoint(sides, with_last(dims, m, count)) : blocks.adjoint(turns, square);
  }
  const std::string info = b.zeros(DType::s32, b.batch());
  const std::string r = Lines::type(real, {});
  std::string types;
  for (const Shape& s : results)
    types += (types.empty() ? "" : ", ") + Lines::type(s.dtype, s.dims);
  const std::string turning = sweeps.text(&b);
  return "HloModule gesdd\n" + reducer_texts(b) + turning + order_text(real, t, "GT") +
         "descending {\n  a = " + r + " parameter(0)\n  b = " + r +
         " parameter(1)\n  ROOT before = pred[] compare(a, b), direction=GT\n}\nENTRY main {\n" +
         b.text + "  ROOT out = (" + types + ") tuple(" + given + ", " + values + ", " + u + ", " +
         v + ", " + info + ")\n}\n";
}

}  // namespace tessera::compiler::accelerators
