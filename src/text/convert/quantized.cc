// SPDX-License-Identifier: Apache-2.0
// Operations on quantized tensors: on what is stored where that means the same, else on the numbers
// that it stands for, as the StableHLO specification defines them (dequantize, op, quantize).
#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/text/convert/chlo_math.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

using R = Conversions;
using Convert = void (Conversions::*)(Operation&);

bool among(Convert convert, std::initializer_list<Convert> list) { return contains(list, convert); }

// What passes values on or takes its arithmetic from a region or a function of its own.
bool passes_on(const OpInfo& info) {
  return among(info.convert, {&R::identity,
                              &R::constant,
                              &R::scatter,
                              &R::sort,
                              &R::map,
                              &R::reduce,
                              &R::reduce_window,
                              &R::select_and_scatter,
                              &R::while_loop,
                              &R::conditional,
                              &R::call,
                              &R::composite,
                              &R::optimization_barrier,
                              &R::terminator,
                              &R::infeed,
                              &R::outfeed,
                              &R::send,
                              &R::recv,
                              &R::all_gather,
                              &R::all_reduce,
                              &R::reduce_scatter,
                              &R::all_to_all,
                              &R::custom_call,
                              &R::sharding_constraint,
                              &R::sharding_group,
                              &R::manual_computation,
                              &R::named_computation,
                              &R::dimension_size,
                              &R::async_start,
                              &R::async_done,
                              &R::scan}) ||
         info.opcode == Opcode::bitcast_convert;
}

// What moves elements and computes nothing.
bool moves(const OpInfo& info) {
  return among(info.convert, {&R::broadcast, &R::broadcast_in_dim, &R::transpose, &R::reverse,
                              &R::reshape, &R::slice, &R::real_dynamic_slice, &R::dynamic_slice,
                              &R::dynamic_update_slice, &R::concatenate, &R::pad, &R::dynamic_pad,
                              &R::gather, &R::torch_index_select, &R::select});
}

// What gives zeros to devices that receive nothing: a stored zero is another number.
bool fills_with_zeros(const OpInfo& info) {
  return among(info.convert,
               {&R::collective_permute, &R::collective_broadcast, &R::collective_reduce});
}

// What reduces may do so in a wider type.
bool may_be_promoted(const Operation& op, const Quantized* from, const Quantized* to) {
  return from != nullptr && to != nullptr && from->is_promotable(*to) &&
         among(op.info->convert, {&R::reduce, &R::reduce_window, &R::scatter,
                                  &R::select_and_scatter, &R::all_reduce, &R::reduce_scatter});
}

}  // namespace

const Quantized* Conversions::quantized(const Instruction* i) const {
  auto it = quantized_.find(i);
  return it == quantized_.end() ? nullptr : it->second;
}

void Conversions::note_quantized(const Instruction* i, const Quantized* q) {
  if (q != nullptr) quantized_[i] = q;
}

bool Conversions::same_meaning(const Quantized* a, const Quantized* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

std::string Conversions::type_text(const Shape& shape, const Quantized* q) {
  if (q == nullptr) return mlir_type(shape);
  std::string out = "tensor<";
  for (std::int64_t d : shape.dims) out += size_text(d) + "x";
  return out + q->to_string() + ">";
}

Instruction* Conversions::dequantize(const Operation& op, Instruction* x, const Quantized& q) {
  ChloMath m(*this, op, q.expressed, x->shape.dims);
  return ir::dequantize(m, x, q);
}

Instruction* Conversions::quantize(const Operation& op, Instruction* x, const Quantized& q) {
  ChloMath m(*this, op, q.expressed, x->shape.dims);
  return ir::quantize(m, x, q);
}

bool Conversions::stored_means_the_same(const Operation& op) {
  // The axis of the scales must go where the elements go; what is not sure is computed.
  const Quantized* first = nullptr;
  for (const std::vector<const Shape*>* list : {&op.operand_types, &op.results}) {
    for (const Shape* type : *list) {
      const Quantized* q = types_.quantized(type);
      if (q == nullptr) continue;
      if (first == nullptr) first = q;
      if (!first->same_numbers(*q)) return false;
    }
  }
  if (!first->axis) return true;
  if (op.info->convert == &R::select) {
    const Quantized* to = types_.quantized(op.results[0]);
    return same_meaning(types_.quantized(op.operand_types.at(1)), to) &&
           same_meaning(types_.quantized(op.operand_types.at(2)), to);
  }
  const Quantized* from = types_.quantized(op.operand_types[0]);
  const Quantized* to = op.results.size() == 1 ? types_.quantized(op.results[0]) : nullptr;
  if (from == nullptr || to == nullptr || !from->axis || !to->axis) return false;
  const Dims& before = op.operand_types[0]->dims;
  const Dims& after = op.results[0]->dims;
  if (op.info->convert == &R::transpose) {
    Dims order = integers(op, "permutation");
    return *to->axis < std::int64_t(order.size()) && order[std::size_t(*to->axis)] == *from->axis;
  }
  if (op.info->convert == &R::broadcast_in_dim) {
    Dims places = integers(op, "broadcast_dimensions");
    return *from->axis < std::int64_t(places.size()) &&
           places[std::size_t(*from->axis)] == *to->axis;
  }
  if (op.info->convert == &R::reshape) {
    std::int64_t left = 1, right = 1;
    for (std::int64_t d = 0; d < *from->axis; ++d) left *= before[std::size_t(d)];
    for (std::int64_t d = 0; d < *to->axis; ++d) right *= after[std::size_t(d)];
    return left == right;
  }
  return false;
}

// What passes values on can't change what they stand for.
void Conversions::check_passed_on(const Operation& op) {
  bool reduces = among(op.info->convert, {&R::reduce, &R::reduce_window});
  if (!reduces &&
      !among(op.info->convert,
             {&R::identity, &R::scatter, &R::sort, &R::select_and_scatter, &R::while_loop,
              &R::optimization_barrier, &R::all_gather, &R::all_reduce, &R::reduce_scatter,
              &R::all_to_all, &R::sharding_constraint, &R::collective_permute,
              &R::collective_broadcast, &R::collective_reduce, &R::async_start})) {
    // Calls that only state how an array is laid out give what they take.
    bool keeps = op.info->convert == &R::async_done && op.results.size() == 1;
    if (op.info->convert == &R::custom_call) {
      std::string_view target = call_target(op);
      keeps = target == ir::kShardingTarget || ir::is_shard_shape_target(target) ||
              target == "annotate_device_placement";
    }
    if (!keeps) return;
  }
  std::size_t results = op.results.size();
  auto check = [&](const Shape* from, const Shape* to) {
    const Quantized* q = types_.quantized(to);
    if (same_meaning(types_.quantized(from), q) || may_be_promoted(op, types_.quantized(from), q)) {
      return;
    }
    fail(op, "takes " + type_text(*from, types_.quantized(from)) + " and gives " +
                 type_text(*to, q) + "; what the elements stand for can't change here");
  };
  if (op.info->convert == &R::async_start) {
    for (std::size_t n = 0; n < op.inlined.size() && op.inlined.size() == results; ++n) {
      if (same_meaning(quantized(op.inlined[n]), types_.quantized(op.results[n]))) continue;
      fail(op, "returns another type than " +
                   type_text(*op.results[n], types_.quantized(op.results[n])));
    }
    return;
  }
  for (std::size_t n = 0; n < results && n < op.operand_types.size(); ++n) {
    check(op.operand_types[n], op.results[n]);
    if (reduces && n + results < op.operand_types.size()) {
      check(op.operand_types[n + results], op.results[n]);
    }
    if (op.info->convert == &R::scatter && n + results + 1 < op.operand_types.size()) {
      check(op.operand_types[n + results + 1], op.results[n]);
    }
  }
}

void Conversions::check_regions(const Operation& op) {
  check_passed_on(op);
  if (op.info->regions == Regions::none || op.results.empty()) return;
  std::size_t results = op.results.size();
  for (const Computation* c : op.regions) {
    bool scalars = op.info->regions == Regions::scalar;
    bool own = scalars || op.info->regions == Regions::isolated;
    for (std::size_t n = 0; own && n < c->parameters().size(); ++n) {
      const Instruction* p = c->parameters()[n];
      std::size_t of = op.info->convert == &R::sort              ? n / 2
                       : !scalars || op.info->convert == &R::map ? n
                                                                 : n % results;
      if (of >= op.operand_types.size()) continue;
      const Quantized* q = types_.quantized(op.operand_types[of]);
      if (scalars && q != nullptr && q->axis) {
        not_supported(op, "on " + type_text(*op.operand_types[of], q) +
                              " is not supported; valid: a quantized type of one scale");
      }
      const bool fits = same_meaning(quantized(p), q) || may_be_promoted(op, q, quantized(p));
      if (p->shape.dtype == op.operand_types[of]->dtype ? !same_meaning(quantized(p), q) : !fits) {
        fail(op, "has a region whose argument " + std::to_string(n) + " is " +
                     type_text(p->shape, quantized(p)) + "; expected " + type_text(p->shape, q));
      }
    }
  }
  for (const std::vector<const Quantized*>& returned : op.returned) {
    // A loop's condition returns no state.
    const bool condition = op.info->regions == Regions::loop && &returned == &op.returned.front();
    if (returned.size() != results || condition) continue;
    bool one = op.info->convert == &R::select_and_scatter || op.info->convert == &R::sort;
    for (std::size_t n = 0; !one && n < results; ++n) {
      const Quantized* q = types_.quantized(op.results[n]);
      if (same_meaning(returned[n], q)) continue;
      fail(op,
           "has a region that returns " +
               (returned[n] == nullptr ? std::string("plain numbers") : returned[n]->to_string()) +
               " for result " + std::to_string(n) + ", which is " + type_text(*op.results[n], q));
    }
  }
}

void Conversions::convert_quantized(Operation& op) {
  bool any = false;
  for (const Shape* type : op.operand_types) any |= types_.quantized(type) != nullptr;
  for (const Shape* type : op.results) any |= types_.quantized(type) != nullptr;
  if (!any) {
    if (!op.returned.empty()) check_regions(op);
    (this->*op.info->convert)(op);
    return;
  }
  if (passes_on(*op.info)) {
    check_regions(op);
    (this->*op.info->convert)(op);
    if (op.info->convert == &R::constant) check_range(op);
  } else if (fills_with_zeros(*op.info)) {
    check_regions(op);
    convert_shifted(op);
  } else if (moves(*op.info) && stored_means_the_same(op)) {
    (this->*op.info->convert)(op);
  } else if (op.info->convert == &R::convert) {
    fail(op,
         "takes and gives plain numbers; valid here: stablehlo.uniform_quantize, "
         "stablehlo.uniform_dequantize");
  } else {
    convert_expressed(op);
  }
  for (std::size_t n = 0; n < op.values.size() && n < op.results.size(); ++n) {
    note_quantized(op.values[n], types_.quantized(op.results[n]));
  }
}

void Conversions::check_range(const Operation& op) {
  const Quantized& q = *types_.quantized(op.results[0]);
  const Instruction* i = op.values[0];
  if (i->is(Opcode::broadcast)) i = i->operand(0);
  for (std::int64_t v : to_vector<std::int64_t>(i->get<ir::ConstantAttrs>().value)) {
    if (v >= q.least && v <= q.most) continue;
    fail(op, "stores " + std::to_string(v) + " in " + q.to_string());
  }
}

void Conversions::check_all_quantized(const Operation& op) {
  // Weights may be quantized alone; elsewhere all numbers are, or none.
  if (!among(op.info->convert, {&R::elementwise, &R::compare, &R::clamp, &R::select}) &&
      !moves(*op.info)) {
    return;
  }
  const Shape* one = nullptr;
  for (const std::vector<const Shape*>* list : {&op.operand_types, &op.results}) {
    for (const Shape* type : *list) {
      if (types_.quantized(type) != nullptr) one = type;
    }
  }
  for (const std::vector<const Shape*>* list : {&op.operand_types, &op.results}) {
    for (const Shape* type : *list) {
      if (types_.quantized(type) != nullptr || !is_floating(type->dtype)) continue;
      fail(op, "has both " + type_text(*one, types_.quantized(one)) + " and " + mlir_type(*type) +
                   "; valid: all quantized, or none (stablehlo.uniform_quantize and "
                   "stablehlo.uniform_dequantize give one for the other)");
    }
  }
  if (!moves(*op.info)) return;
  // What moves elements keeps one scale for all as it is.
  for (const Shape* type : op.operand_types) {
    const Quantized* q = types_.quantized(type);
    const Quantized* to = types_.quantized(op.results.at(0));
    if (q == nullptr || to == nullptr || q->axis || to->axis || *q == *to) continue;
    fail(op, "takes " + type_text(*type, q) + " and gives " + type_text(*op.results[0], to) +
                 "; valid here: stablehlo.uniform_quantize");
  }
}

void Conversions::convert_expressed(Operation& op) {
  check_all_quantized(op);
  const std::vector<const Shape*> results = op.results;
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    const Quantized* q = types_.quantized(op.operand_types[n]);
    if (q == nullptr) continue;
    op.from_quantized = true;
    op.operands[n] = dequantize(op, op.operands[n], *q);
    op.operand_types[n] = types_.expressed(op.operand_types[n]);
  }
  for (const Shape*& type : op.results) {
    op.to_quantized |= types_.quantized(type) != nullptr;
    type = types_.expressed(type);
  }
  (this->*op.info->convert)(op);
  op.results = results;
  for (std::size_t n = 0; n < op.values.size() && n < results.size(); ++n) {
    const Quantized* q = types_.quantized(results[n]);
    if (q != nullptr) op.values[n] = quantize(op, op.values[n], *q);
  }
}

void Conversions::convert_shifted(Operation& op) {
  // Differences to the zero point wrap around and come back: no value is lost.
  auto shift = [&](Instruction* x, const Quantized* q, Opcode opcode) {
    if (q == nullptr || !q->any_zero_point()) return x;
    ChloMath m(*this, op, q->expressed, x->shape.dims);
    return add(op, opcode, x->shape, {x, ir::zero_points(m, *q, q->storage)});
  };
  if (op.info->convert == &R::collective_reduce) {
    // The region computes with what is stored.
    for (const Shape* type : op.results) {
      const Quantized* q = types_.quantized(type);
      if (q != nullptr && q->any_zero_point()) {
        not_supported(op, "of " + type_text(*type, q) +
                              " is not supported; valid: a quantized type whose zero point is 0");
      }
    }
  }
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    op.operands[n] = shift(op.operands[n], types_.quantized(op.operand_types[n]), Opcode::subtract);
  }
  (this->*op.info->convert)(op);
  for (std::size_t n = 0; n < op.values.size() && n < op.results.size(); ++n) {
    op.values[n] = shift(op.values[n], types_.quantized(op.results[n]), Opcode::add);
  }
}

void Conversions::uniform_quantize(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  // Both types are those of the numbers here; what is stored comes with the result's own type.
  if (!op.to_quantized) {
    fail(op, "needs a quantized result such as tensor<4x!quant.uniform<i8:f32, 0.5:3>>, not " +
                 mlir_type(*op.results[0]));
  }
  if (!(op.operands[0]->shape == *op.results[0])) {
    fail(op, "has an operand that stands for " + mlir_type(op.operands[0]->shape) +
                 " and a result that stands for " + mlir_type(*op.results[0]));
  }
  op.values = op.operands;
}

void Conversions::uniform_dequantize(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  if (!op.from_quantized || op.to_quantized) {
    fail(op,
         "needs a quantized operand such as tensor<4x!quant.uniform<i8:f32, 0.5:3>> and a "
         "result of plain numbers");
  }
  if (!(op.operands[0]->shape == *op.results[0])) {
    fail(op, "has an operand that stands for " + mlir_type(op.operands[0]->shape) +
                 " and a result " + mlir_type(*op.results[0]));
  }
  op.values = op.operands;
}

Computation* Conversions::quantized_computation(const Operation& op, Opcode opcode,
                                                const Quantized& q) {
  // A reducer in its short form, on what is stored.
  Frame inner;
  inner.kind = Regions::scalar;
  inner.computation = module_->add_computation("region_" + std::to_string(next_number_++));
  frames_.push_back(&inner);
  std::vector<Instruction*> numbers;
  for (std::int64_t n = 0; n < 2; ++n) {
    Instruction* p = add(op, Opcode::parameter, Shape(q.storage, {}), {}, ir::ParameterAttrs{n});
    note_quantized(p, &q);
    numbers.push_back(dequantize(op, p, q));
  }
  Instruction* result = add(op, opcode, Shape(q.expressed, {}), std::move(numbers));
  inner.computation->set_root(quantize(op, result, q));
  frames_.pop_back();
  return inner.computation;
}

}  // namespace tessera::text
