// SPDX-License-Identifier: Apache-2.0
// Parameters of distributions, and loops that each element leaves by itself.
#include <algorithm>

#include <tessera/collectives.h>
#include <tessera/control_flow.h>
#include <tessera/custom/custom_batching.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

using internal::impl_of;

Dims parameter_shape(const std::string& op, const random::OptionalShape& given,
                     Parameters parameters, Location location) {
  Dims all;
  for (const Parameter& p : parameters) {
    const tessera::Shape& have = impl_of(p.value->array, location).shape;
    const Dims to = given.given() ? *given.given() : all;
    Dims both;
    // Its own message names two shapes; this one says which parameter it is.
    bool fits = true;
    try {
      both = broadcast_shapes(op, have.dims, to, location);
    } catch (const ShapeError&) {
      fits = false;
    }
    if (!fits || (given.given() && both != to)) {
      throw ShapeError(op + (given.given() ? " of shape " : ": other parameters have the shape ") +
                           to_string(to) + (given.given() ? ": " : ", and ") + p.name + " is " +
                           have.to_string() + ", which doesn't broadcast to it",
                       location);
    }
    all = both;
  }
  return given.given() ? *given.given() : all;
}

void check_narrower(const std::string& op, DType dtype, Parameters parameters, Location location) {
  for (const Parameter& p : parameters) {
    const Array& value = p.value->array;
    const DType have = impl_of(value, location).shape.dtype;
    const bool fits = value.weak_type() ? !is_complex(have) || is_complex(dtype)
                                        : promote_types(have, dtype) == dtype;
    if (fits) continue;
    throw DTypeError(op + " as " + std::string(name(dtype)) + ": " + p.name + " is " +
                         value.type_string() + "; give it as " + std::string(name(dtype)) +
                         " or request a wider dtype",
                     location);
  }
}

Located parameter(const Operand& value, const Dims& dims, DType dtype, Location location) {
  return {broadcasted(converted(value.array, dtype, location), dims, location), location};
}

Array by_elements(const std::string& name, const std::vector<Array>& operands, ElementFunction f,
                  Location location) {
  auto function = custom_vmap([f](std::vector<Array> xs) { return f(xs); }, name, location);
  function.def_vmap([name, f, location](const BatchInfo& batch, std::vector<Array> xs) {
    for (std::size_t k = 0; k < xs.size(); ++k) {
      if (batch.in_batched[k]) continue;
      Dims dims = xs[k].shape();
      dims.insert(dims.begin(), batch.axis_size);
      xs[k] = broadcasted(xs[k], dims, location);
    }
    return by_elements(name, xs, f, location);
  });
  return function.call_at(location, operands);
}

void vary_together(std::vector<Located>* values, const std::vector<Located>& with) {
  VaryingAxes all;
  auto add = [&](const Located& v) { ir::add_axes(&all, varying_of(v.array)); };
  std::for_each(values->begin(), values->end(), add);
  std::for_each(with.begin(), with.end(), add);
  for (Located& v : *values) {
    const VaryingAxes missing = without(all, varying_of(v.array));
    if (missing.empty()) continue;
    v.array = pvary(v, std::vector<std::string>(missing.begin(), missing.end()));
  }
}

std::vector<Located> loop_by_elements(const std::string& name, LoopState init,
                                      const std::vector<Located>& read, const LoopStep& step) {
  const Location l = init.go.location;
  std::vector<Located> carried{init.go};
  carried.insert(carried.end(), init.values.begin(), init.values.end());
  vary_together(&carried, read);
  std::vector<Array> state;
  for (const Located& v : carried) state.push_back(v.array);
  const std::vector<Array> last = internal::while_core(
      state, std::vector<std::string>(state.size()),
      [&](const std::vector<Array>& now) {
        return std::vector<Array>{any({now[0], l})};
      },
      [&](const std::vector<Array>& now) {
        const Located go{now[0], l};
        std::vector<Located> before;
        for (std::size_t k = 1; k < now.size(); ++k) before.push_back({now[k], l});
        const LoopState after = step(before);
        std::vector<Array> out{(go & after.go).array};
        for (std::size_t k = 0; k < before.size(); ++k) {
          out.push_back(choose(go, after.values[k], before[k]).array);
        }
        return out;
      },
      name, l);
  std::vector<Located> out;
  for (std::size_t k = 1; k < last.size(); ++k) out.push_back({last[k], l});
  return out;
}

}  // namespace tessera::frontend
