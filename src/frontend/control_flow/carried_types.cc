// SPDX-License-Identifier: Apache-2.0
// Checks and promotes the types of what loops carry and of what branches return.
#include "src/frontend/control_flow/carried_types.h"

#include "src/frontend/control_flow/sharding_types.h"
#include "src/frontend/control_flow/varying_values.h"
#include "src/frontend/trace/explicit_values.h"

namespace tessera::internal {

using frontend::AbstractValue;
using frontend::TracedFunction;

Array as_dtype(const Array& x, DType dtype, Location location) {
  const Shape shape(dtype, x.shape());
  const std::vector<Array> operands{x};
  return frontend::apply(ir::Opcode::convert, operands, {}, location, "convert", &shape);
}

namespace {

/// Whether promotion of a weakly typed value of the dtype and of one of `other` leads to `other`.
bool adopts(DType weak, DType other) {
  const auto rank = [](DType t) {
    return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::pred ? 0 : 1;
  };
  return rank(other) >= rank(weak);
}

/// The type, with what a mismatch is due to: weak types, memories, if any differ.
std::string type_of(const AbstractValue& value, const AbstractValue& beside) {
  if (value.memory != beside.memory) return frontend::placed_text(value);
  return (value.weak && value.shape.dtype != beside.shape.dtype ? "weakly typed " : "") +
         value.shape.to_string();
}

}  // namespace

std::string branch_name(std::size_t branch, bool is_predicate) {
  return is_predicate ? (branch == 0 ? "the false branch" : "the true branch")
                      : "branch " + std::to_string(branch);
}

bool settle_carry(std::vector<Array>& carry, const std::vector<AbstractValue>& results,
                  const std::vector<std::string>& paths, const std::string& name,
                  Location location) {
  if (results.size() != carry.size()) {
    throw TypeError(name + ": the carried value has " + std::to_string(carry.size()) +
                        " arrays, and the body returns " + std::to_string(results.size()),
                    location);
  }
  bool again = false;
  std::string wrong;
  for (std::size_t i = 0; i < carry.size(); ++i) {
    const AbstractValue have = frontend::abstract_value(carry[i]);
    const AbstractValue& next = results[i];
    if (have.shape == next.shape && have.memory == next.memory) {
      // What states no sharding has that of what follows it.
      if (have.sharding || !next.sharding) continue;
      carry[i] = frontend::with_sharding_type(carry[i], next.sharding, location);
      again = true;
      continue;
    }
    if (have.weak && have.shape.dims == next.shape.dims && have.memory == next.memory &&
        adopts(have.shape.dtype, next.shape.dtype)) {
      carry[i] = as_dtype(carry[i], next.shape.dtype, location);
      again = true;
      continue;
    }
    wrong += (wrong.empty() ? "" : "; ") + std::string("carry") + paths[i] + " is " +
             type_of(have, next) + " before and " + type_of(next, have) + " after the body";
  }
  if (!wrong.empty()) {
    throw TypeError(name + ": the body must keep shapes, dtypes and memories: " + wrong, location);
  }
  if (!again) {
    check_carry_varies(carry, results, paths, name, location);
    check_carry_shardings(carry, results, paths, name, location);
  }
  return again;
}

void keep_weak(std::vector<AbstractValue>* carry, const std::vector<AbstractValue>& results) {
  for (std::size_t i = 0; i < carry->size(); ++i) (*carry)[i].weak &= results[i].weak;
}

std::vector<AbstractValue> joined_results(const std::vector<TracedFunction>& branches,
                                          const BranchNames& names) {
  std::vector<AbstractValue> joined = branches[0].results;
  for (std::size_t r = 0; r < joined.size(); ++r) {
    AbstractValue& all = joined[r];
    std::size_t from = 0;
    for (std::size_t b = 1; b < branches.size(); ++b) {
      const AbstractValue& mine = branches[b].results[r];
      const bool alike = mine.memory == all.memory && mine.shape.dims == all.shape.dims;
      if (alike && mine.shape.dtype == all.shape.dtype) {
        if (!mine.weak) from = all.weak ? b : from;
        all.weak = all.weak && mine.weak;
      } else if (alike && all.weak && adopts(all.shape.dtype, mine.shape.dtype)) {
        all = mine;
        from = b;
      } else if (!alike || !mine.weak || !adopts(mine.shape.dtype, all.shape.dtype)) {
        throw TypeError(names.api + ": branches must return the same types: " + names.result(r) +
                            " is " + type_of(all, mine) + " in " + names.branch(from) + " and " +
                            type_of(mine, all) + " in " + names.branch(b),
                        names.location);
      }
    }
  }
  return joined;
}

}  // namespace tessera::internal
