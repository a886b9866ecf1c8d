// SPDX-License-Identifier: Apache-2.0
// Histograms: positions of bins by binary search, sums by a scatter.
#include <tessera/ops/histograms.h>

#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::as_type;
using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using ir::Opcode;

namespace {

/// Sums of weights [N] at positions [N] of a vector; positions beyond it don't count.
Located summed_at(const Located& places, const Located& weights, std::int64_t length) {
  const Location l = weights.location;
  const DType t = weights.dtype();
  const Array zeros = frontend::broadcasted(frontend::program_constant(t, 0), {length}, l);
  const std::int64_t n = places.array.shape()[0];
  ir::ScatterAttrs attrs;
  attrs.inserted_window_dims = {0};
  attrs.scatter_dims_to_operand_dims = {0};
  attrs.index_vector_dim = 1;
  const std::vector<Array> operands{zeros, frontend::reshaped(places.array, {n, 1}, l),
                                    weights.array};
  return weights.with(
      frontend::apply(Opcode::scatter, operands, attrs, l, "bincount", nullptr, [&](ir::Module* m) {
        return std::vector<ir::Computation*>{ir::scalar_computation(m, Opcode::add, t)};
      }));
}

Located flat(const Array& x, Location l) { return {ravel({x, l}), l}; }

/// Edges in dtype t.
Located edges_of(const char* name, const Located& x, const Bins& bins,
                 const std::optional<std::pair<double, double>>& range) {
  const Location l = x.location;
  if (bins.edges()) {
    if (bins.edges()->ndim(l) != 1 || bins.edges()->size(l) < 2) {
      throw ShapeError(std::string(name) + " with edges " + bins.edges()->type_string() +
                           "; they must be a vector of 2 or more",
                       l);
    }
    return as_type({*bins.edges(), l}, x.dtype());
  }
  if (bins.count() < 1) {
    throw ValueError(
        std::string(name) + " with " + std::to_string(bins.count()) + " bins; valid are 1 and more",
        l);
  }
  Located low = x.constant(range ? range->first : 0), high = x.constant(range ? range->second : 1);
  if (!range && x.array.size() > 0) {
    low = x.with(min(x));
    high = x.with(max(x));
  }
  // What spans nothing gets a width of 1.
  const Located point = low == high;
  const Located start = choose(point, low - 0.5, low), stop = choose(point, high + 0.5, high);
  const std::int64_t n = bins.count();
  const Located share = as_type(x.with(iota(s32, {n + 1}, 0, l)), x.dtype()) / double(n);
  const Located inner = start * (1.0 - share) + stop * share;
  // The last edge is exact, as the first one is.
  return choose(share == 1.0, stop, inner);
}

/// Numbers of bins from 1, 0 and beyond outside of them.
Located bins_of(const Located& x, const Located& edges) {
  const Location l = x.location;
  const std::int64_t n = edges.array.shape()[0];
  const Located last = x.with(frontend::sliced_dim(edges.array, 0, n - 1, n, l));
  const Located place = x.with(searchsorted(edges, x, true));
  const Located at_end = x == x.with(frontend::reshaped(last.array, {}, l));
  return choose(at_end, place.constant(double(n - 1)), place);
}

Located widths_of(const Located& edges) {
  const std::int64_t n = edges.array.shape()[0];
  return edges.with(frontend::sliced_dim(edges.array, 0, 1, n, edges.location)) -
         edges.with(frontend::sliced_dim(edges.array, 0, 0, n - 1, edges.location));
}

/// x and its weights, in one dtype of floats.
std::pair<Located, Located> weighted(const char* name, const Operand& x,
                                     const std::optional<Array>& weights, const Dims& want) {
  const Location l = x.location;
  if (weights && weights->shape(l) != want) {
    throw ShapeError(std::string(name) + " of " + x.array.type_string() + " with weights " +
                         weights->type_string() + "; they must have the shape " + to_string(want),
                     l);
  }
  std::vector<Array> all{x.array};
  if (weights) all.push_back(*weights);
  const DType t = frontend::to_inexact(frontend::promote(all, l).dtype);
  if (is_complex(t)) throw DTypeError(std::string(name) + " of complex numbers", l);
  const Located v{frontend::converted(x.array, t, l), l};
  if (weights) return {v, v.with(frontend::converted(*weights, t, l))};
  return {v, v.with(frontend::broadcasted(frontend::program_constant(t, 1), want, l))};
}

}  // namespace

Array histogram_bin_edges(Operand x, const Bins& bins, const HistogramOptions& options) {
  return composed("histogram_bin_edges", x.location, [&] {
    const DType t = frontend::to_inexact(shape_of(x).dtype);
    const Located v{frontend::converted(x.array, t, x.location), x.location};
    return edges_of("histogram_bin_edges", v, bins, options.range).array;
  });
}

std::pair<Array, Array> histogram(Operand x, const Bins& bins, const HistogramOptions& options) {
  const Location l = x.location;
  const auto both = as_one_program("histogram", l, [&] {
    const auto [values, weights] = weighted("histogram", x, options.weights, shape_of(x).dims);
    const Located v = flat(values.array, l), w = flat(weights.array, l);
    const Located edges = edges_of("histogram", v, bins, options.range);
    const std::int64_t n = edges.array.shape()[0];
    const Located sums = summed_at(bins_of(v, edges), w, n);
    Located counts = v.with(frontend::sliced_dim(sums.array, 0, 1, n, l));
    if (options.density) counts = counts / widths_of(edges) / counts.with(sum(counts));
    return std::vector<Array>{counts.array, edges.array};
  });
  return {both[0], both[1]};
}

std::pair<Array, std::vector<Array>> histogramdd(
    Operand points, const std::vector<Bins>& bins,
    const std::vector<std::pair<double, double>>& ranges, const std::optional<Array>& weights,
    bool density) {
  const Location l = points.location;
  const Shape shape = shape_of(points);
  if (shape.rank() != 2) {
    throw ShapeError("histogramdd of " + shape.to_string() + "; points are a matrix [N, D]", l);
  }
  const std::int64_t count = shape.dim(0), dims = shape.dim(1);
  const auto check = [&](const char* what, std::size_t n) {
    if (n == 1 || std::int64_t(n) == dims) return;
    throw ValueError("histogramdd in " + std::to_string(dims) + " dimensions with " +
                         std::to_string(n) + " " + what + "; give one for each, or one for all",
                     l);
  };
  check("entries of bins", bins.size());
  if (!ranges.empty()) check("ranges", ranges.size());
  auto all = as_one_program("histogramdd", l, [&] {
    const auto [v, floats] = weighted("histogramdd", points, weights, {count});
    // Without weights these are counts.
    const Located w =
        weights
            ? floats
            : floats.with(frontend::broadcasted(frontend::program_constant(s32, 1), {count}, l));
    std::vector<Array> out{Array()};
    Located place = v.with(frontend::broadcasted(frontend::program_constant(s32, 0), {count}, l));
    Dims sizes, inside;
    std::vector<Located> widths;
    for (std::int64_t d = 0; d < dims; ++d) {
      const auto at = [&](std::size_t n) { return n == 1 ? std::size_t(0) : std::size_t(d); };
      const Located x =
          v.with(frontend::reshaped(frontend::sliced_dim(v.array, 1, d, d + 1, l), {count}, l));
      const auto range = ranges.empty() ? std::nullopt : std::optional(ranges[at(ranges.size())]);
      const Located edges = edges_of("histogramdd", x, bins[at(bins.size())], range);
      out.push_back(edges.array);
      widths.push_back(widths_of(edges));
      const std::int64_t n = edges.array.shape()[0];
      sizes.push_back(n + 1);
      inside.push_back(n);
      place = place * double(n + 1) + bins_of(x, edges);
    }
    std::int64_t cells = 1;
    for (const std::int64_t n : sizes) {
      cells = frontend::multiply_sizes("histogramdd", cells, n, l);
    }
    const Array sums = frontend::reshaped(summed_at(place, w, cells).array, sizes, l);
    Located counts =
        v.with(frontend::sliced(sums, Dims(sizes.size(), 1), inside, Dims(sizes.size(), 1), l));
    if (density) {
      counts = as_type(counts, v.dtype());
      counts = counts / counts.with(sum(counts));
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        Dims wide(sizes.size(), 1);
        wide[d] = inside[d] - 1;
        counts = counts / counts.with(frontend::reshaped(widths[d].array, wide, l));
      }
    }
    out[0] = counts.array;
    return out;
  });
  return {all[0], std::vector<Array>(all.begin() + 1, all.end())};
}

Histogram2d histogram2d(Operand x, Operand y, const std::vector<Bins>& bins,
                        const std::vector<std::pair<double, double>>& ranges,
                        const std::optional<Array>& weights, bool density) {
  const Location l = frontend::where_of(x, y);
  if (shape_of(x).rank() != 1 || shape_of(x).dims != shape_of(y).dims) {
    throw ShapeError("histogram2d of " + x.array.type_string() + " and " + y.array.type_string() +
                         "; give two vectors of one length",
                     l);
  }
  const auto all = as_one_program("histogram2d", l, [&] {
    const auto xs = frontend::promoted("histogram2d", {x.array, y.array}, l);
    auto [counts, edges] = histogramdd({stack(xs, 1, l), l}, bins, ranges, weights, density);
    return std::vector<Array>{counts, edges[0], edges[1]};
  });
  return {all[0], all[1], all[2]};
}

Array bincount(Operand x, const BincountOptions& options) {
  const Location l = x.location;
  const Shape shape = shape_of(x);
  if (shape.rank() != 1) {
    throw ShapeError("bincount of " + shape.to_string() + "; valid are vectors", l);
  }
  if (!is_integer(shape.dtype) && shape.dtype != DType::pred) {
    throw DTypeError("bincount of " + shape.to_string() + "; valid are integers and pred", l);
  }
  if (options.weights && options.weights->shape(l) != shape.dims) {
    throw ShapeError("bincount of " + shape.to_string() + " with weights " +
                         options.weights->type_string() + "; they must have its shape",
                     l);
  }
  std::int64_t length = options.length.value_or(options.minlength);
  if (!options.length && shape.dim(0) > 0) {
    if (x.array.is_tracer()) {
      throw TracerError(
          "bincount of values that aren't known while tracing needs the length of the result: give "
          "BincountOptions::length",
          l);
    }
    const Array most = max(x.array.dtype() == DType::pred ? Operand(astype(x, s32), l) : x);
    length = std::max(length, std::max<std::int64_t>(most.item<std::int64_t>(l), 0) + 1);
  }
  if (length < 0) {
    throw ValueError("bincount of length " + std::to_string(length), l);
  }
  return composed("bincount", l, [&] {
    const bool plain = shape.dtype == DType::pred || is_unsigned_integer(shape.dtype);
    Located places{x.array, l};
    if (shape.dtype == DType::pred) places = as_type(places, s32);
    if (!plain) places = places.with(maximum(places, places.constant(0)));
    const Located ones =
        places.with(frontend::broadcasted(frontend::program_constant(s32, 1), shape.dims, l));
    const Located weights = options.weights ? places.with(*options.weights) : ones;
    if (length == 0) return frontend::broadcasted(weights.constant(0).array, {0}, l);
    return summed_at(places, weights, length).array;
  });
}

Array digitize(Operand x, Operand edges, bool right) {
  const Location l = x.location;
  const Shape shape = shape_of(edges);
  if (shape.rank() != 1) {
    throw ShapeError("digitize with edges " + shape.to_string() + "; they must be a vector", l);
  }
  return composed("digitize", l, [&] {
    const std::int64_t n = shape.dim(0);
    if (n == 0) {
      return frontend::broadcasted(frontend::program_constant(s32, 0), shape_of(x).dims, l);
    }
    const Located e{edges.array, l};
    const auto at = [&](std::int64_t i) {
      return e.with(frontend::reshaped(frontend::sliced_dim(e.array, 0, i, i + 1, l), {}, l));
    };
    const Located up = e.with(searchsorted(e, x, !right));
    const Located down =
        double(n) - e.with(searchsorted(e.with(frontend::reversed(e.array, {0}, l)), x, !right));
    return choose(at(n - 1) >= at(0), up, down).array;
  });
}

}  // namespace tessera
