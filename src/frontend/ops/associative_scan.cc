// SPDX-License-Identifier: Apache-2.0
// associative_scan: partial results by recursion on every second element.
#include <tessera/functions/associative_scan.h>

#include "src/frontend/ops/internal.h"
#include "src/frontend/trace/trace.h"

namespace tessera::internal {
namespace {

using frontend::apply;
using ir::Opcode;
using Arrays = std::vector<Array>;

class AssociativeScan {
 public:
  AssociativeScan(const FlatCombine& f, std::vector<std::int64_t> axes,
                  const std::vector<std::string>& paths, Location location)
      : f_(f), axes_(std::move(axes)), paths_(paths), location_(location) {}

  /// On `count` elements.
  Arrays run(const Arrays& x, std::int64_t count) const {
    if (count < 2) return x;
    const Arrays pairs = combine(part(x, 0, count - 1, 2), part(x, 1, count, 2));
    const Arrays odd = run(pairs, count / 2);
    Arrays even = part(x, 0, 1, 1);
    if (count > 2) {
      const Arrays before = count % 2 == 0 ? part(odd, 0, count / 2 - 1, 1) : odd;
      even = joined(even, combine(before, part(x, 2, count, 2)));
    }
    return interleaved(even, odd, count / 2);
  }

  Arrays reversed(Arrays x) const {
    for (std::size_t k = 0; k < x.size(); ++k) {
      const Arrays operands{x[k]};
      x[k] = apply(Opcode::reverse, operands, ir::DimensionsAttrs{{axes_[k]}}, location_);
    }
    return x;
  }

 private:
  Arrays combine(const Arrays& a, const Arrays& b) const {
    const Arrays out = f_(a, b);
    std::string differ;
    for (std::size_t k = 0; k < out.size(); ++k) {
      const Shape have = frontend::abstract_value(out[k]).shape;
      const Shape want = frontend::abstract_value(a[k]).shape;
      if (have == want) continue;
      differ += (differ.empty() ? "" : "; ") + std::string("elements") + paths_[k] + " is " +
                want.to_string() + " as the function is given it and " + have.to_string() +
                " as it returns it";
    }
    if (!differ.empty()) {
      throw TypeError("associative_scan: the function must keep shapes and dtypes: " + differ,
                      location_);
    }
    return out;
  }

  Arrays part(const Arrays& x, std::int64_t first, std::int64_t last, std::int64_t step) const {
    Arrays out;
    for (std::size_t k = 0; k < x.size(); ++k) {
      out.push_back(sliced(x[k], std::size_t(axes_[k]), first, last, step));
    }
    return out;
  }

  Arrays joined(const Arrays& a, const Arrays& b) const {
    Arrays out;
    for (std::size_t k = 0; k < a.size(); ++k) {
      const Arrays operands{a[k], b[k]};
      out.push_back(
          apply(Opcode::concatenate, operands, ir::DimensionsAttrs{{axes_[k]}}, location_));
    }
    return out;
  }

  /// Of `odd` there are `count`, of `even` as many or one more, which comes last.
  Arrays interleaved(const Arrays& even, const Arrays& odd, std::int64_t count) const {
    Arrays out;
    for (std::size_t k = 0; k < even.size(); ++k) {
      const std::int64_t axis = axes_[k];
      const bool longer = even[k].shape()[std::size_t(axis)] > count;
      const Array firsts = longer ? sliced(even[k], std::size_t(axis), 0, count, 1) : even[k];
      Dims paired = odd[k].shape();
      paired.insert(paired.begin() + axis + 1, 1);
      const Arrays both{frontend::reshaped(firsts, paired, location_),
                        frontend::reshaped(odd[k], paired, location_)};
      Array x = apply(Opcode::concatenate, both, ir::DimensionsAttrs{{axis + 1}}, location_);
      Dims flat = odd[k].shape();
      flat[std::size_t(axis)] *= 2;
      x = frontend::reshaped(x, flat, location_);
      if (longer) {
        const Arrays ends{x, sliced(even[k], std::size_t(axis), count, count + 1, 1)};
        x = apply(Opcode::concatenate, ends, ir::DimensionsAttrs{{axis}}, location_);
      }
      out.push_back(std::move(x));
    }
    return out;
  }

  Array sliced(const Array& x, std::size_t axis, std::int64_t first, std::int64_t last,
               std::int64_t step) const {
    Dims starts(x.shape().size(), 0), limits = x.shape(), strides(starts.size(), 1);
    starts[axis] = first;
    limits[axis] = last;
    strides[axis] = step;
    const Arrays operands{x};
    return apply(Opcode::slice, operands, ir::SliceAttrs{starts, limits, strides}, location_);
  }

  const FlatCombine& f_;
  const std::vector<std::int64_t> axes_;
  const std::vector<std::string>& paths_;
  const Location location_;
};

}  // namespace

std::vector<Array> associative_scan_core(const FlatCombine& f, const std::vector<Array>& elements,
                                         const std::vector<std::string>& paths,
                                         const AssociativeScanOptions& options, Location location) {
  if (elements.empty()) throw ValueError("associative_scan: there are no arrays", location);
  std::vector<std::int64_t> axes;
  for (const Array& x : elements) {
    const Shape shape = frontend::abstract_value(x).shape;
    axes.push_back(
        frontend::normalize_axis("associative_scan", options.axis, shape.rank(), location));
    const std::int64_t count = shape.dim(axes.back());
    const std::int64_t first = elements[0].shape()[std::size_t(axes[0])];
    if (count != first) {
      throw ValueError("associative_scan: arrays have " + std::to_string(first) + " and " +
                           std::to_string(count) + " elements along axis " +
                           std::to_string(options.axis) + "; all must have as many",
                       location);
    }
  }
  const std::int64_t count = elements[0].shape()[std::size_t(axes[0])];
  return frontend::as_one_program("associative_scan", location, [&] {
    const AssociativeScan scan(f, axes, paths, location);
    if (!options.reverse) return scan.run(elements, count);
    return scan.reversed(scan.run(scan.reversed(elements), count));
  });
}

}  // namespace tessera::internal
