// SPDX-License-Identifier: Apache-2.0
// Kernel of select-and-scatter with a comparison as selector and addition as scatter.
#include "src/codegen/kernels/select_and_scatter.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "src/base/contains.h"
#include "src/base/literal_util.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using ir::Direction;
using runtime::KernelCall;

/// Dims in which windows are single elements are independent of each other: they make the units.
struct Attrs {
  std::vector<ir::WindowDim> window;      ///< of the other dims
  Dims in, out, in_strides, out_strides;  ///< of the other dims; `out`: of the source
  Dims unit_dims, unit_in_strides, unit_out_strides;
};

template <Direction direction, class T>
bool keeps(const T& chosen, const T& next) {
  if constexpr (direction == Direction::ge) return chosen >= next;
  if constexpr (direction == Direction::gt) return chosen > next;
  if constexpr (direction == Direction::le) return chosen <= next;
  return chosen < next;
}

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));  // wraps
  } else {
    return a + b;
  }
}

bool advance(Dims* index, const Dims& dims) {
  for (std::size_t d = index->size(); d-- > 0;) {
    if (++(*index)[d] < dims[d]) return true;
    (*index)[d] = 0;
  }
  return false;
}

template <class T, Direction direction>
void run(const KernelCall& call) {
  const auto& a = *static_cast<const Attrs*>(call.attributes);
  const T* x = reinterpret_cast<const T*>(call.inputs[0]);
  const T* source = reinterpret_cast<const T*>(call.inputs[1]);
  const T init = *reinterpret_cast<const T*>(call.inputs[2]);
  T* out = reinterpret_cast<T*>(call.outputs[0]);
  const std::size_t rank = a.in.size();
  Dims sizes;
  for (const ir::WindowDim& w : a.window) sizes.push_back(w.size);
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) {
    std::int64_t rest = unit, in_base = 0, out_base = 0;
    for (std::size_t d = a.unit_dims.size(); d-- > 0;) {
      in_base += rest % a.unit_dims[d] * a.unit_in_strides[d];
      out_base += rest % a.unit_dims[d] * a.unit_out_strides[d];
      rest /= a.unit_dims[d];
    }
    Dims at(rank);
    do {
      std::int64_t i = in_base;
      for (std::size_t d = 0; d < rank; ++d) i += at[d] * a.in_strides[d];
      out[i] = init;
    } while (advance(&at, a.in));
    if (contains(a.out, 0)) continue;
    Dims position(rank);
    do {
      std::int64_t chosen = -1;
      Dims offset(rank);
      do {
        std::int64_t i = in_base;
        bool inside = true;
        for (std::size_t d = 0; d < rank && inside; ++d) {
          const std::int64_t p = position[d] * a.window[d].stride + offset[d] - a.window[d].pad_low;
          inside = p >= 0 && p < a.in[d];
          i += p * a.in_strides[d];
        }
        if (inside && (chosen < 0 || !keeps<direction>(x[chosen], x[i]))) chosen = i;
      } while (advance(&offset, sizes));
      if (chosen < 0) continue;
      std::int64_t s = out_base;
      for (std::size_t d = 0; d < rank; ++d) s += position[d] * a.out_strides[d];
      out[chosen] = sum(out[chosen], source[s]);
    } while (advance(&position, a.out));
  }
}

template <class T>
runtime::KernelFunction select_and_scatter_function(Direction direction) {
  switch (direction) {
    case Direction::ge:
      return run<T, Direction::ge>;
    case Direction::gt:
      return run<T, Direction::gt>;
    case Direction::le:
      return run<T, Direction::le>;
    case Direction::lt:
      return run<T, Direction::lt>;
    default:
      return nullptr;
  }
}

/// The comparison of parameters 0 and 1 that a computation is.
std::optional<Direction> as_comparison(const ir::Computation& c) {
  const ir::Instruction& root = *c.root();
  if (!root.is(ir::Opcode::compare)) return std::nullopt;
  const auto& attrs = root.get<ir::CompareAttrs>();
  if (attrs.type == ir::ComparisonType::total_order) return std::nullopt;
  const ir::Instruction *l = root.operand(0), *r = root.operand(1);
  if (l == c.parameter(0) && r == c.parameter(1)) return attrs.direction;
  if (l != c.parameter(1) || r != c.parameter(0)) return std::nullopt;
  switch (attrs.direction) {
    case Direction::ge:
      return Direction::le;
    case Direction::gt:
      return Direction::lt;
    case Direction::le:
      return Direction::ge;
    case Direction::lt:
      return Direction::gt;
    default:
      return std::nullopt;
  }
}

}  // namespace

KernelDescriptor select_and_scatter_kernel(const ir::Instruction& in) {
  KernelDescriptor kernel;
  runtime::KernelFunction function = nullptr;
  const auto direction = as_comparison(*in.called().at(0));
  const auto combine = ir::as_binary_reducer(*in.called().at(1));
  if (!direction || combine != ir::Opcode::add) return kernel;
  switch (in.shape.dtype) {
    case DType::f32:
      function = select_and_scatter_function<float>(*direction);
      break;
    case DType::f64:
      function = select_and_scatter_function<double>(*direction);
      break;
    case DType::s32:
      function = select_and_scatter_function<std::int32_t>(*direction);
      break;
    default:
      break;
  }
  if (!function) return kernel;
  const Shape& source = in.operand(1)->shape;
  const Dims in_strides = row_major_strides(in.shape.dims);
  const Dims out_strides = row_major_strides(source.dims);
  const auto& window = in.get<ir::WindowAttrs>().dims;
  Attrs a;
  double taps = 1;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const ir::WindowDim& w = window[d];
    if (w.lhs_dilation != 1 || w.rhs_dilation != 1 || w.reversal) return {};
    if (w == ir::WindowDim()) {
      a.unit_dims.push_back(in.shape.dims[d]);
      a.unit_in_strides.push_back(in_strides[d]);
      a.unit_out_strides.push_back(out_strides[d]);
      kernel.units *= in.shape.dims[d];
    } else {
      a.window.push_back(w);
      a.in.push_back(in.shape.dims[d]);
      a.out.push_back(source.dims[d]);
      a.in_strides.push_back(in_strides[d]);
      a.out_strides.push_back(out_strides[d]);
      taps *= double(w.size);
    }
  }
  if (taps == 0) return {};
  if (in.shape.element_count() == 0) kernel.units = 0;
  kernel.nanoseconds =
      100 + 3 * taps * double(source.element_count()) + double(in.shape.element_count());
  kernel.key =
      kernel_key("select-and-scatter", in.shape.dtype, *direction, a.window, a.in, a.out,
                 a.in_strides, a.out_strides, a.unit_dims, a.unit_in_strides, a.unit_out_strides);
  kernel.make = kernel_maker(function, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
