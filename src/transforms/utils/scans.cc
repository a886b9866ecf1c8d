// SPDX-License-Identifier: Apache-2.0
// Cumulative reductions as ops that have derivatives.
#include "src/transforms/utils/scans.h"

#include "src/transforms/utils/elementwise.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;

namespace {

using Arrays = std::vector<Instruction*>;

class PairScan {
 public:
  PairScan(ir::Builder& b, const Computation& reducer, ScanDim along)
      : b_(b), reducer_(reducer), dim_(along.dim), reverse_(along.reverse) {}

  Arrays run(const Arrays& x) const {
    const std::int64_t n = length(x), m = n / 2;
    if (m == 0) return x;
    // Of an odd number one is left over, where the scan ends.
    const std::int64_t odd = n % 2, first = reverse_ ? odd : 0;
    const Arrays paired = in_pairs(part(x, first, first + 2 * m));
    const Arrays left = of_pairs(paired, 0), right = of_pairs(paired, 1);
    // Of all elements of a pair, and those that the scan has passed.
    const Arrays whole = run(combined(left, right));
    if (!reverse_) {
      Arrays half = part(left, 0, 1);
      if (m > 1) half = joined(half, combined(part(whole, 0, m - 1), part(left, 1, m)));
      Arrays out = interleaved(half, whole);
      if (odd > 0) out = joined(out, combined(part(whole, m - 1, m), part(x, n - 1, n)));
      return out;
    }
    Arrays half = part(right, m - 1, m);
    if (m > 1) half = joined(combined(part(right, 0, m - 1), part(whole, 1, m)), half);
    Arrays out = interleaved(whole, half);
    if (odd > 0) out = joined(combined(part(x, 0, 1), part(whole, 0, 1)), out);
    return out;
  }

 private:
  std::int64_t length(const Arrays& x) const { return x[0]->shape.dims[dim_]; }

  template <class F>
  static Arrays each(const Arrays& x, F f) {
    Arrays out;
    for (Instruction* i : x) out.push_back(f(i));
    return out;
  }

  Arrays combined(Arrays before, const Arrays& after) const {
    before.insert(before.end(), after.begin(), after.end());
    return apply_to_arrays(b_, reducer_, before);
  }
  Arrays part(const Arrays& x, std::int64_t first, std::int64_t last) const {
    if (first == 0 && last == length(x)) return x;
    return each(x, [&](Instruction* i) { return sliced(i, dim_, first, last); });
  }
  Instruction* sliced(Instruction* x, std::size_t dim, std::int64_t first,
                      std::int64_t last) const {
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
    starts[dim] = first;
    limits[dim] = last;
    return b_.slice(x, starts, limits);
  }
  /// The dim in two: which pair, which of the pair.
  Arrays in_pairs(const Arrays& x) const {
    return each(x, [&](Instruction* i) {
      Dims dims = i->shape.dims;
      dims[dim_] /= 2;
      dims.insert(dims.begin() + std::ptrdiff_t(dim_) + 1, 2);
      return b_.reshape(i, dims);
    });
  }
  Arrays of_pairs(const Arrays& paired, std::int64_t which) const {
    return each(paired, [&](Instruction* i) {
      Dims dims = i->shape.dims;
      dims.erase(dims.begin() + std::ptrdiff_t(dim_) + 1);
      return b_.reshape(sliced(i, dim_ + 1, which, which + 1), dims);
    });
  }
  Arrays interleaved(const Arrays& left, const Arrays& right) const {
    Arrays out;
    for (std::size_t k = 0; k < left.size(); ++k) {
      Dims dims = left[k]->shape.dims, flat = dims;
      dims.insert(dims.begin() + std::ptrdiff_t(dim_) + 1, 1);
      flat[dim_] *= 2;
      Instruction* both = b_.concatenate({b_.reshape(left[k], dims), b_.reshape(right[k], dims)},
                                         std::int64_t(dim_) + 1);
      out.push_back(b_.reshape(both, flat));
    }
    return out;
  }
  Arrays joined(const Arrays& before, const Arrays& after) const {
    Arrays out;
    for (std::size_t k = 0; k < before.size(); ++k) {
      out.push_back(b_.concatenate({before[k], after[k]}, std::int64_t(dim_)));
    }
    return out;
  }

  ir::Builder& b_;
  const Computation& reducer_;
  const std::size_t dim_;
  const bool reverse_;
};

}  // namespace

Arrays scan_by_pairs(ir::Builder& b, const Computation& reducer, const Arrays& x, ScanDim along) {
  return PairScan(b, reducer, along).run(x);
}

}  // namespace tessera::transforms
