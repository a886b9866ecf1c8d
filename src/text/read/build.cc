// SPDX-License-Identifier: Apache-2.0
// Making instructions from operations.
#include <charconv>
#include <cstring>

#include "src/base/arrays/literal_util.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void InstructionBuilder::fail(const Operation& op, const std::string& message) {
  in_.fail_at(op.at, std::string(op.name) + " " + message);
}

void InstructionBuilder::not_supported(const Operation& op, const std::string& message) {
  in_.not_supported_at(op.at, std::string(op.name) + " " + message);
}

Instruction* InstructionBuilder::add(const Operation& op, Opcode opcode, Shape shape,
                                     std::vector<Instruction*> operands, ir::Attributes attributes,
                                     std::vector<ir::Computation*> called) {
  if (open_ && is_open(shape)) fail_open(op, shape, "they don't follow from the arguments' sizes");
  auto owned = std::make_unique<Instruction>();
  Instruction* i = owned.get();
  i->opcode = opcode;
  i->shape = std::move(shape);
  i->set_operands(std::move(operands));
  i->attrs = std::move(attributes);
  i->set_called(std::move(called));
  std::string_view word = ir::text_name(opcode);
  char name[48];
  std::memcpy(name, word.data(), word.size());
  name[word.size()] = '.';
  auto end = std::to_chars(name + word.size() + 1, name + sizeof name, ++next_number_).ptr;
  i->name.assign(name, end);
  i->metadata = metadata_of(op.location);
  if (i->metadata->source_file.empty() && in_.places() == nullptr) {
    // As in MLIR: what has no location of its own is at its place in the text.
    ir::Metadata& metadata = i->metadata.edit();
    metadata.source_file = in_.file();
    metadata.source_line = in_.line_at(op.at);
  }
  // Callees of calls may wait to be read; check_operands and the signature say what they give.
  if (opcode != Opcode::call) check_shape(op, *i);
  return current()->add(std::move(owned));
}

void InstructionBuilder::check_shape(const Operation& op, const Instruction& i) {
  (void)inferred(op, i.opcode, i.operands(), i.attrs, i.called(), &i.shape);
}

Shape InstructionBuilder::inferred(const Operation& op, Opcode opcode,
                                   const std::vector<Instruction*>& operands,
                                   const ir::Attributes& attributes,
                                   const std::vector<ir::Computation*>& called,
                                   const Shape* declared) {
  try {
    return ir::infer_shape(opcode, operands, attributes, called, declared, {}, module_->grid());
  } catch (const NotImplementedError& e) {
    in_.not_supported_at(op.at, std::string(op.name) + ": " + e.message());
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.fail_at(op.at, std::string(op.name) + ": " + e.message());
  }
}

void InstructionBuilder::set(Operation& op, Opcode opcode, std::vector<Instruction*> operands,
                             ir::Attributes attributes, std::vector<ir::Computation*> called) {
  need_results(op, 1);
  if (open_) close_results(op, opcode, operands, attributes, called);
  op.values.push_back(add(op, opcode, *op.results[0], std::move(operands), std::move(attributes),
                          std::move(called)));
}

Instruction* InstructionBuilder::set_results(Operation& op, Opcode opcode,
                                             std::vector<Instruction*> operands,
                                             ir::Attributes attributes,
                                             std::vector<ir::Computation*> called) {
  if (op.results.size() == 1) {
    set(op, opcode, std::move(operands), std::move(attributes), std::move(called));
    return op.values.back();
  }
  if (open_) close_results(op, opcode, operands, attributes, called);
  std::vector<Shape> shapes;
  for (const Shape* s : op.results) shapes.push_back(*s);
  Instruction* tuple = add(op, opcode, Shape::tuple(std::move(shapes)), std::move(operands),
                           std::move(attributes), std::move(called));
  unpack(op, tuple, op.results.size());
  return tuple;
}

void InstructionBuilder::unpack(Operation& op, Instruction* tuple, std::size_t count) {
  for (std::size_t n = 0; n < count; ++n) op.values.push_back(element(op, tuple, n));
}

Instruction* InstructionBuilder::element(const Operation& op, Instruction* tuple,
                                         std::size_t index) {
  if (!tuple->shape.is_tuple || index >= tuple->shape.elements.size()) {
    fail(op,
         "gives " + mlir_type(tuple->shape) + ", which has no element " + std::to_string(index));
  }
  return add(op, Opcode::get_tuple_element, tuple->shape.elements[index], {tuple},
             ir::GetTupleElementAttrs{std::int64_t(index)});
}

Instruction* InstructionBuilder::scalar_constant(const Operation& op, DType dtype, double value) {
  return add(op, Opcode::constant, Shape(dtype, {}), {},
             ir::ConstantAttrs{Literal::scalar(dtype, value)});
}

Instruction* InstructionBuilder::splat(const Operation& op, Instruction* scalar, const Dims& dims) {
  if (scalar->shape.dims == dims) return scalar;
  return add(op, Opcode::broadcast, Shape(scalar->shape.dtype, dims), {scalar},
             ir::DimensionsAttrs{});
}

Instruction* InstructionBuilder::broadcast_to(const Operation& op, Instruction* x, const Shape& to,
                                              const Dims& dims) {
  if (dims.size() != x->shape.dims.size()) {
    fail(op, "maps " + std::to_string(dims.size()) + " dims of a value " + mlir_type(x->shape));
  }
  // Dims of size 1 that become larger go first: HLO's broadcast keeps sizes.
  Dims kept_sizes, kept_dims;
  bool identity = x->shape.dims == to.dims;
  for (std::size_t n = 0; n < dims.size(); ++n) {
    std::int64_t size = x->shape.dims[n];
    std::int64_t d = dims[n];
    if (d < 0 || d >= to.rank()) {
      fail(op, "maps dim " + std::to_string(n) + " to " + std::to_string(d) + "; valid: 0 to " +
                   std::to_string(to.rank() - 1));
    }
    if (size != to.dim(d) && size != 1) {
      fail(op, "maps dim " + std::to_string(n) + " of " + mlir_type(x->shape) + " to dim " +
                   std::to_string(d) + " of " + mlir_type(to) +
                   "; sizes must be equal or the first one 1");
    }
    identity &= d == std::int64_t(n);
    if (size != to.dim(d)) continue;
    kept_sizes.push_back(size);
    kept_dims.push_back(d);
  }
  if (identity) return x;
  if (kept_dims.size() != dims.size()) {
    x = add(op, Opcode::reshape, Shape(x->shape.dtype, kept_sizes), {x});
  }
  return add(op, Opcode::broadcast, Shape(x->shape.dtype, to.dims), {x},
             ir::DimensionsAttrs{std::move(kept_dims)});
}

Dims InstructionBuilder::constant_integers(const Operation& op, std::size_t operand) {
  if (std::optional<Dims> known = known_.of(*op.operands[operand])) return *std::move(known);
  not_supported(op, "needs a constant as operand " + std::to_string(operand) +
                        "; values that are known only at run time are not supported");
}

void InstructionBuilder::pend(Instruction* i, std::string_view sdy, std::string_view tiling) {
  ir::PendingSharding pending{i, tiling, sdy, expanded_sdy(sdy)};
  check_bound_axes(pending.sdy, sdy.data());
  pending_.push_back(std::move(pending));
}

void InstructionBuilder::pend_attributes(Instruction* i, const std::vector<Attribute>& attributes) {
  std::string_view sdy, tiling;
  for (const Attribute& a : attributes) {
    if (a.key == "sdy.sharding") sdy = expanded(a.value);
    if (a.key == "mhlo.sharding" && a.value.size() > 2 && a.value[0] == '"') {
      tiling = a.value.substr(1, a.value.size() - 2);
    }
    if (a.key == "mhlo.frontend_attributes") {
      auto map = frontend(a);
      if (auto node = map.extract(ir::kSdySharding)) {
        pending_.push_back({i, {}, a.value, std::move(node.mapped())});
        return;
      }
    }
  }
  // Names of axes say more than tiles.
  if (!sdy.empty()) tiling = {};
  if (!sdy.empty() || !tiling.empty()) pend(i, sdy, tiling);
}

void InstructionBuilder::set_shardings(Operation& op) {
  if (const Attribute* sdy = op.find("sdy.sharding")) {
    const std::string_view text = expanded(sdy->value);
    if (text.starts_with("#sdy.sharding<")) {
      in_.fail_at(text.data(),
                  "the sharding of an operation is a list, one for each result: "
                  "#sdy.sharding_per_value<[" +
                      std::string(text.substr(13)) + "]>");
    }
  }
  if (op.values.empty()) return;
  if (op.values.size() == 1) {
    pend_attributes(op.values[0], op.attributes);
    return;
  }
  const Attribute* sdy = op.find("sdy.sharding");
  if (sdy == nullptr) return;
  // #sdy.sharding_per_value<[<@mesh, [...]>, <...>]>: one entry for each result.
  const char* back = in_.position();
  std::string_view value = expanded(sdy->value);
  std::size_t open = value.find('[');
  if (open == std::string_view::npos) in_.fail_at(value.data(), "expected a list of shardings");
  in_.seek(value.data() + open + 1);
  for (std::size_t n = 0; n < op.values.size(); ++n) {
    if (n > 0) in_.expect(',', "between shardings");
    in_.skip();
    pend(op.values[n], in_.value(), {});
  }
  in_.expect(']', "after the shardings of all results");
  in_.seek(back);
}

std::map<std::string, std::string> InstructionBuilder::frontend(const Attribute& a) {
  std::map<std::string, std::string> out;
  const char* back = in_.position();
  in_.seek(expanded(a.value).data());
  std::vector<Attribute> items;
  in_.expect('{', "before the frontend attributes");
  attribute_dict(&items, '}');
  for (const Attribute& item : items) {
    std::string_view value = item.value;
    bool quoted = value.size() > 1 && value[0] == '"';
    out.emplace(unescape(item.key),
                quoted ? unescape(value.substr(1, value.size() - 2)) : std::string(value));
  }
  in_.seek(back);
  return out;
}

void InstructionBuilder::need_operands(const Operation& op, std::size_t least, std::size_t most) {
  std::size_t n = op.operands.size();
  if (n >= least && n <= most) return;
  fail(op, "takes " + std::to_string(least) +
               (most == least ? std::string()
                : most > 1000 ? std::string(" or more")
                              : " to " + std::to_string(most)) +
               " operands, not " + std::to_string(n));
}

void InstructionBuilder::need_results(const Operation& op, std::size_t count) {
  if (op.results.size() == count) return;
  fail(op, "gives " + std::to_string(count) + " results, not " + std::to_string(op.results.size()));
}

void InstructionBuilder::need_regions(const Operation& op, std::size_t count) {
  if (op.regions.size() == count) return;
  fail(op, "needs " + std::to_string(count) + " regions, not " + std::to_string(op.regions.size()));
}

void Reader::place_results(const Function& f, std::vector<ir::Instruction*>* returned) {
  for (std::size_t n = 0; n < returned->size(); ++n) {
    ir::Instruction*& result = (*returned)[n];
    for (const Attribute& attribute : f.results[n].attributes) {
      if (attribute.key != ir::kMemoryKindAttribute || attribute.value.size() < 2) continue;
      const auto memory =
          memory_kind_named(unescape(attribute.value.substr(1, attribute.value.size() - 2)));
      if (!memory || !is_host(*memory)) continue;
      const auto* there = result->attrs.get_if<ir::DevicePlacementAttrs>();
      if (there != nullptr && there->memory == *memory) continue;
      Operation at;
      at.at = f.at;
      ir::DevicePlacementAttrs placement;
      placement.memory = *memory;
      result = add(at, ir::Opcode::device_placement, result->shape, {result}, placement);
    }
  }
}

}  // namespace tessera::text
