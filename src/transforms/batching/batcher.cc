// SPDX-License-Identifier: Apache-2.0
// Walks computations: what the batch doesn't reach is copied once, the rest is up to the rules.
#include "src/transforms/batching/batcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/ir/channels.h"
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// Only puts values together or takes them apart: there is nothing to copy.
bool is_structural(Opcode op) { return op == Opcode::tuple || op == Opcode::get_tuple_element; }

/// A parameter of the batched computation.
Instruction* copy_parameter(Computation* to, const Instruction& p,
                            std::span<const std::int64_t> dims, std::int64_t size) {
  auto copy = std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(p));
  copy->shape = batched_shape(p.shape, dims, size);
  for (std::size_t k = 0; k < copy->sharding.size() && k < dims.size(); ++k) {
    copy->sharding[k] = batched_sharding(std::move(copy->sharding[k]), dims[k], to->module()->mesh);
  }
  return to->add(std::move(copy));
}

/// An op that the batch doesn't reach.
Batched copy_unbatched(ir::Builder& b, const Instruction& i,
                       const std::vector<const Batched*>& operands) {
  std::vector<Instruction*> arguments;
  for (const Batched* o : operands) arguments.push_back(packed(b, *o));
  auto copy = std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(i));
  copy->set_operands(std::move(arguments));
  copy->set_called(i.called());
  ir::give_fresh_channel(&copy->attrs, b.module());
  if (copy->metadata->names_nothing()) copy->metadata = b.metadata;
  Instruction* made = b.computation()->add(std::move(copy));
  return unpacked(b, made, Dims(flatten(i.shape).size(), kNotBatched));
}

/// Has what was made for an op say of its sharding what the op says.
void keep_sharding(const Instruction& i, const Batched& value, Instruction* made,
                   const MeshRef& mesh) {
  const Dims dims = dims_of(value);
  if (made->has_sharding() || dims.size() != i.sharding.size()) return;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    made->sharding.push_back(batched_sharding(i.sharding[k], dims[k], mesh));
  }
}

/// The one instruction that a value is, as a whole; null if there is none.
Instruction* whole_of(const Batched& value) {
  if (!value.is_tuple) return value.array;
  if (value.elements.empty() || value.elements[0].is_tuple) return nullptr;
  Instruction* first = value.elements[0].array;
  if (!first->is(Opcode::get_tuple_element)) return nullptr;
  Instruction* whole = first->operand(0);
  if (whole->shape.elements.size() != value.elements.size()) return nullptr;
  for (std::size_t k = 0; k < value.elements.size(); ++k) {
    const Instruction* e = value.elements[k].array;
    if (!e || !e->is(Opcode::get_tuple_element) || e->operand(0) != whole ||
        e->get<ir::GetTupleElementAttrs>().index != std::int64_t(k)) {
      return nullptr;
    }
  }
  return whole;
}

/// The last instruction from position `first` on that doesn't only take a result apart.
Instruction* last_made(const Computation& c, std::size_t first) {
  for (std::size_t n = c.instructions().size(); n-- > first;) {
    Instruction* i = c.instructions()[n].get();
    if (!i->is(Opcode::get_tuple_element)) return i;
  }
  return nullptr;
}

}  // namespace

Instruction* Batcher::at(ir::Builder& b, const Batched& v, std::int64_t dim) {
  TESSERA_CHECK(!v.is_tuple && v.array != nullptr, "a tuple has no batch dim of its own");
  if (v.dim == dim || !v.array->shape.is_array()) return v.array;
  const std::int64_t rank = v.array->shape.rank();
  if (!v.batched()) {
    Instruction* x = v.array;
    Dims to(std::size_t(rank), 0);
    std::iota(to.begin(), to.end(), 0);
    to = shifted(std::move(to), dim);
    const Dims dims = inserted(x->shape.dims, dim, size());
    if (x->is(Opcode::broadcast)) {
      Dims through;
      for (std::int64_t d : x->get<ir::DimensionsAttrs>().dims) {
        through.push_back(to[std::size_t(d)]);
      }
      to = std::move(through);
      x = x->operand(0);
    }
    return b.broadcast(x, dims, to);
  }
  Dims order;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != v.dim) order.push_back(d);
  }
  return b.transpose(v.array, inserted(std::move(order), dim, v.dim));
}

Batched Batcher::arranged(ir::Builder& b, const Batched& value, const Dims& dims) {
  std::size_t next = 0;
  const auto arrange = [&](const auto& self, const Batched& v) -> Batched {
    Batched out = v;
    if (v.is_tuple) {
      for (Batched& element : out.elements) element = self(self, element);
      return out;
    }
    const std::int64_t dim = dims.at(next++);
    if (dim == kAsItComes || !v.array->shape.is_array()) return out;
    out.array = at(b, v, dim);
    out.dim = dim;
    return out;
  };
  Batched out = arrange(arrange, value);
  TESSERA_CHECK(next == dims.size(), "more dims than leaves");
  return out;
}

Batched Batcher::instruction(ir::Builder& b, const Instruction& i,
                             const std::vector<const Batched*>& operands) {
  const bool reached = std::any_of(operands.begin(), operands.end(),
                                   [](const Batched* o) { return any_batched(*o); }) ||
                       dependence_.names_batch(i);
  if (!reached && !is_structural(i.opcode)) return copy_unbatched(b, i, operands);
  const std::size_t before = b.computation()->instructions().size();
  BatchSite site(i, operands, b, *this);
  Batched out = batch_op(site);
  if (i.has_sharding() && !is_structural(i.opcode)) {
    Instruction* made = whole_of(out);
    if (made != nullptr && std::size_t(made->index) >= before) {
      keep_sharding(i, out, made, module_->mesh);
    }
  }
  return out;
}

Batched Batcher::run(ir::Builder& b, const Computation& source, std::vector<Batched> arguments) {
  const std::size_t count = source.instructions().size();
  std::vector<Batched> values(count);
  /// What was made for each, where anything was.
  std::vector<Instruction*> made(count, nullptr);
  const Cow<ir::Metadata> outside = b.metadata;
  for (std::size_t n = 0; n < count; ++n) {
    const Instruction& i = *source.instructions()[n];
    if (i.is(Opcode::parameter)) {
      values[n] = std::move(arguments.at(std::size_t(i.get<ir::ParameterAttrs>().number)));
      continue;
    }
    b.metadata = i.metadata->names_nothing() ? outside : i.metadata;
    std::vector<const Batched*> operands;
    for (const Instruction* o : i.operands()) operands.push_back(&values[std::size_t(o->index)]);
    const std::size_t before = b.computation()->instructions().size();
    values[n] = instruction(b, i, operands);
    made[n] = last_made(*b.computation(), before);
    if (made[n] == nullptr || !i.has_side_effect()) continue;
    for (const Instruction* p : i.control_predecessors()) {
      if (Instruction* first = made[std::size_t(p->index)]) made[n]->add_control_predecessor(first);
    }
  }
  b.metadata = outside;
  return values[std::size_t(source.root()->index)];
}

BatchedComputation Batcher::computation(const Computation& source, const Dims& in_dims,
                                        const Dims& out_dims) {
  const std::tuple<const Computation*, Dims, Dims> key(&source, in_dims, out_dims);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  BatchedComputation out;
  out.computation = module_->add_computation(source.name());
  ir::Builder b(out.computation);
  std::vector<Batched> arguments;
  std::span<const std::int64_t> rest = in_dims;
  std::vector<Instruction*> parameters;
  for (const Instruction* p : source.parameters()) {
    const std::size_t n = flatten(p->shape).size();
    TESSERA_CHECK(n <= rest.size(), "too few dims for the parameters of " + source.name());
    parameters.push_back(copy_parameter(out.computation, *p, rest.first(n), size()));
    rest = rest.subspan(n);
  }
  TESSERA_CHECK(rest.empty(), "too many dims for the parameters of " + source.name());
  rest = in_dims;
  for (Instruction* p : parameters) {
    const std::size_t n = flatten(p->shape).size();
    arguments.push_back(unpacked(b, p, rest.first(n)));
    rest = rest.subspan(n);
  }
  Batched result = run(b, source, std::move(arguments));
  if (!out_dims.empty()) {
    b.metadata = source.root()->metadata;
    result = arranged(b, result, out_dims);
  }
  b.metadata = source.root()->metadata;
  Instruction* root = packed(b, result);
  out.computation->set_root(root);
  if (!root->is(Opcode::parameter)) keep_sharding(*source.root(), result, root, module_->mesh);
  out.computation->remove_dead();
  out.out_dims = dims_of(result);
  made_.emplace(key, out);
  return out;
}

}  // namespace tessera::transforms::batching

namespace tessera::transforms {

BatchedComputation batch(const ir::Computation& source, std::span<const std::int64_t> in_dims,
                         const BatchOptions& options, std::span<const std::int64_t> out_dims) {
  batching::Batcher batcher(source.module(), options);
  return batcher.computation(source, Dims(in_dims.begin(), in_dims.end()),
                             Dims(out_dims.begin(), out_dims.end()));
}

std::vector<BatchedArray> batch_into(ir::Builder& b, const ir::Computation& source,
                                     std::span<const BatchedArray> arguments,
                                     const BatchOptions& options) {
  batching::Batcher batcher(b.module(), options);
  std::vector<batching::Batched> given;
  for (const BatchedArray& a : arguments) {
    batching::Batched leaf;
    leaf.array = a.value;
    leaf.dim = a.dim;
    given.push_back(leaf);
  }
  std::span<const batching::Batched> rest = given;
  std::vector<batching::Batched> values;
  for (const ir::Instruction* p : source.parameters()) {
    values.push_back(batching::from_leaves(p->shape, &rest));
  }
  TESSERA_CHECK(rest.empty(), "too many arguments for " + source.name());
  std::vector<BatchedArray> out;
  for (const batching::Batched& leaf :
       batching::leaves(batcher.run(b, source, std::move(values)))) {
    out.push_back({leaf.array, leaf.dim});
  }
  return out;
}

}  // namespace tessera::transforms
