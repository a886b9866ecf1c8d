// SPDX-License-Identifier: Apache-2.0
// Tuples, calls, loops, branches and what only passes values on.
#include <algorithm>

#include "src/ir/hooks.h"
#include "src/ir/limits.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

std::vector<Shape> operand_shapes(const Site& site, std::size_t first = 0) {
  std::vector<Shape> out;
  for (std::size_t i = first; i < site.operands.size(); ++i) out.push_back(site.shape(i));
  return out;
}

// A tuple of tuples of tuples doubles with every instruction.
void check_tuple_size(const Site& site) {
  std::int64_t parts = 1, depth = 0;
  for (const Instruction* operand : site.operands) {
    parts += shape_parts(operand->shape, kMaxShapeParts - parts);
    if (parts > kMaxShapeParts) {
      site.shape_error("the tuple would have more than " + std::to_string(kMaxShapeParts) +
                       " parts");
    }
    depth = std::max(depth, tuple_depth(operand->shape));
  }
  if (depth >= kMaxTupleDepth) {
    site.shape_error("tuples nest deeper than " + std::to_string(kMaxTupleDepth));
  }
}

}  // namespace

Shape infer_while(const Site& site) {
  site.need_called(2);
  std::vector<Shape> state = operand_shapes(site);
  site.check_parameters(0, state, "condition");
  site.check_parameters(1, state, "body");
  if (site.result_of(0) != Shape(DType::pred, {})) {
    site.shape_error("condition " + site.called[0]->name() + " must give pred[], not " +
                     site.result_of(0).to_string());
  }
  if (site.result_of(1) != state[0]) {
    site.shape_error("body " + site.called[1]->name() + " gives " + site.result_of(1).to_string() +
                     " and must give the loop's state " + state[0].to_string());
  }
  if (const auto* a = site.attrs.get_if<WhileAttrs>()) {
    if (a->known_trip_count && *a->known_trip_count < 0) {
      site.shape_error("a known trip count of " + std::to_string(*a->known_trip_count));
    }
  }
  return state[0];
}

Shape infer_conditional(const Site& site) {
  site.need_operands_at_least(1);
  const Shape& index = site.shape(0);
  if (index != Shape(DType::pred, {}) && index != Shape(DType::s32, {})) {
    site.dtype_error("operand 0 chooses the branch and must be pred[] or s32[], not " +
                     index.to_string());
  }
  if (site.called.empty()) site.shape_error("needs at least one branch");
  if (index.dtype == DType::pred) site.need_called(2);
  if (site.operands.size() != site.called.size() + 1) {
    site.shape_error("needs one operand per branch (" + std::to_string(site.called.size()) +
                     ") after the index, not " + std::to_string(site.operands.size() - 1));
  }
  for (std::size_t b = 0; b < site.called.size(); ++b) {
    std::vector<Shape> one{site.shape(b + 1)};
    site.check_parameters(b, one, "branch");
    if (site.result_of(b) != site.result_of(0)) {
      site.shape_error("branch " + site.called[b]->name() + " gives " +
                       site.result_of(b).to_string() + " and branch " + site.called[0]->name() +
                       " gives " + site.result_of(0).to_string() + "; they must be equal");
    }
  }
  return site.result_of(0);
}

Shape infer_get_tuple_element(const Site& site) {
  const Shape& x = site.shape(0);
  if (!x.is_tuple) site.dtype_error("operand 0 must be a tuple, not " + x.to_string());
  std::int64_t index = site.get<GetTupleElementAttrs>().index;
  if (index < 0 || index >= std::int64_t(x.elements.size())) {
    site.shape_error("index=" + std::to_string(index) + " of a tuple of " +
                     plural(x.elements.size(), "element"));
  }
  return x.elements[std::size_t(index)];
}

Shape infer_custom_call(const Site& site) { return site.need_declared(); }
Shape infer_manual_computation(const Site& site) { return site.need_declared(); }
Shape infer_custom_partitioning(const Site& site) { return site.need_declared(); }

Shape infer_tuple(const Site& site) {
  check_tuple_size(site);
  return Shape::tuple(operand_shapes(site));
}

Shape infer_call(const Site& site) {
  site.need_called(1);
  site.check_parameters(0, operand_shapes(site), "callee");
  return site.result_of(0);
}

Shape infer_identity(const Site& site) { return site.shape(0); }

Shape infer_add_dependency(const Site& site) {
  if (site.shape(1).is_tuple || site.shape(1).dtype != DType::token) {
    site.dtype_error("operand 1 must be a token, not " + site.shape(1).to_string());
  }
  return site.shape(0);
}

Shape infer_device_id(const Site&) { return Shape(DType::u32, {}); }

Shape infer_after_all(const Site& site) {
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    if (site.shape(i) != Shape::token()) {
      site.dtype_error("operand " + std::to_string(i) + " must be a token, not " +
                       site.shape(i).to_string());
    }
  }
  return Shape::token();
}

}  // namespace tessera::ir::inference
