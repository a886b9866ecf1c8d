// SPDX-License-Identifier: Apache-2.0
// Batched values as trees of leaves, and shapes with a batch dim.
#include "src/transforms/batching/batched.h"

#include <utility>

#include "src/base/check.h"

namespace tessera::transforms::batching {

using ir::Instruction;
using ir::Opcode;

namespace {

void collect_leaves(const Batched& value, std::vector<Batched>* out) {
  if (!value.is_tuple) {
    out->push_back(value);
    return;
  }
  for (const Batched& element : value.elements) collect_leaves(element, out);
}

Batched unpack(ir::Builder& b, Instruction* instruction, std::span<const std::int64_t>* dims) {
  Batched out;
  if (!instruction->shape.is_tuple) {
    out.array = instruction;
    out.dim = dims->front();
    *dims = dims->subspan(1);
    return out;
  }
  out.is_tuple = true;
  for (std::size_t k = 0; k < instruction->shape.elements.size(); ++k) {
    out.elements.push_back(unpack(b, b.get_tuple_element(instruction, std::int64_t(k)), dims));
  }
  return out;
}

Shape shape_on_batch(const Shape& entry, std::span<const std::int64_t>* dims, std::int64_t size) {
  if (!entry.is_tuple) {
    const std::int64_t dim = dims->front();
    *dims = dims->subspan(1);
    return dim == kNotBatched ? entry : batched_shape(entry, dim, size);
  }
  Shape out = entry;
  for (Shape& element : out.elements) element = shape_on_batch(element, dims, size);
  return out;
}

}  // namespace

std::vector<Batched> leaves(const Batched& value) {
  std::vector<Batched> out;
  collect_leaves(value, &out);
  return out;
}

Dims dims_of(const Batched& value) {
  Dims out;
  for (const Batched& leaf : leaves(value)) out.push_back(leaf.dim);
  return out;
}

bool any_batched(const Batched& value) {
  if (!value.is_tuple) return value.batched();
  for (const Batched& element : value.elements) {
    if (any_batched(element)) return true;
  }
  return false;
}

Batched from_leaves(const Shape& shape, std::span<const Batched>* leaves) {
  if (!shape.is_tuple) {
    TESSERA_CHECK(!leaves->empty(), "too few leaves for " + shape.to_string());
    Batched out = leaves->front();
    *leaves = leaves->subspan(1);
    return out;
  }
  Batched out;
  out.is_tuple = true;
  for (const Shape& element : shape.elements) out.elements.push_back(from_leaves(element, leaves));
  return out;
}

Batched from_leaves(const Shape& shape, std::span<const Batched> leaves) {
  Batched out = from_leaves(shape, &leaves);
  TESSERA_CHECK(leaves.empty(), "too many leaves for " + shape.to_string());
  return out;
}

Instruction* packed(ir::Builder& b, const Batched& value) {
  if (!value.is_tuple) return value.array;
  std::vector<Instruction*> elements;
  for (const Batched& element : value.elements) elements.push_back(packed(b, element));
  // What was taken apart element by element is still there as a whole.
  Instruction* whole = nullptr;
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const Instruction* e = elements[k];
    const bool is_element = e->is(Opcode::get_tuple_element) &&
                            e->get<ir::GetTupleElementAttrs>().index == std::int64_t(k) &&
                            (k == 0 || e->operand(0) == whole) &&
                            e->operand(0)->shape.elements.size() == elements.size();
    if (!is_element) return b.tuple(std::move(elements));
    whole = e->operand(0);
  }
  return whole != nullptr ? whole : b.tuple({});
}

Batched unpacked(ir::Builder& b, Instruction* instruction, std::span<const std::int64_t> dims) {
  Batched out = unpack(b, instruction, &dims);
  TESSERA_CHECK(dims.empty(), "more dims than leaves of " + instruction->shape.to_string());
  return out;
}

Dims shifted(Dims dims, std::int64_t batch) {
  for (std::int64_t& d : dims) d = shifted(d, batch);
  return dims;
}

Dims inserted(Dims dims, std::int64_t at, std::int64_t value) {
  dims.insert(dims.begin() + std::ptrdiff_t(at), value);
  return dims;
}

Shape batched_shape(const Shape& entry, std::int64_t dim, std::int64_t size) {
  TESSERA_CHECK(entry.is_array() && dim >= 0 && dim <= entry.rank(),
                entry.to_string() + " batched on dim " + std::to_string(dim));
  Shape out(entry.dtype, inserted(entry.dims, dim, size));
  if (!entry.layout.empty()) {
    out.layout = shifted(entry.layout, dim);
    out.layout.push_back(dim);
  }
  return out;
}

Shape batched_shape(const Shape& entry, std::span<const std::int64_t> dims, std::int64_t size) {
  return shape_on_batch(entry, &dims, size);
}

TensorSharding batched_sharding(TensorSharding entry, std::int64_t dim, const MeshRef& mesh) {
  if (entry.kind != TensorSharding::Kind::axes || dim == kNotBatched) return entry;
  if (!entry.mesh) entry.mesh = mesh;
  DimSharding open;
  // Without a mesh there is nothing to split it over.
  open.open = entry.mesh != nullptr;
  entry.dims.insert(entry.dims.begin() + std::ptrdiff_t(dim), open);
  return entry;
}

}  // namespace tessera::transforms::batching
