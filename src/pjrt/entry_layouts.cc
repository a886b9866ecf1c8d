// SPDX-License-Identifier: Apache-2.0
// Programs whose parameters and results have other layouts than row-major: transposes at both ends.
#include "src/pjrt/entry_layouts.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/arrays/host_layout.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/constraint.h"
#include "src/ir/rewrite/builder.h"
#include "src/pjrt/memory_layout.h"
#include "src/pjrt/status.h"
#include "src/text/read/layout_modes.h"

namespace tessera::pjrt {
namespace {

using ir::Instruction;
using ir::Opcode;

[[noreturn]] void fail_mode(std::string_view mode, const Shape& shape, const std::string& whose) {
  throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                "the layout '" + std::string(mode) + "' of " + whose + ", " + shape.to_string() +
                    "; valid: 'default', 'auto', or an order of the dims without tiles, the "
                    "fastest first, as '{1,0}'");
}

/// "{0,1}". Elements of fewer than 8 bits may say so, though each has a byte here: "{0,1:E(4)}".
Dims read_order(std::string_view mode, const Shape& shape, const std::string& whose) {
  std::string_view rest = mode;
  if (rest.size() < 2 || rest.front() != '{' || rest.back() != '}') fail_mode(mode, shape, whose);
  rest = rest.substr(1, rest.size() - 2);
  const std::size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    if (rest.substr(colon) != ":E(" + std::to_string(packed_bytes(shape.dtype, 8)) + ")") {
      fail_mode(mode, shape, whose);
    }
    rest = rest.substr(0, colon);
  }
  Dims out;
  while (!rest.empty()) {
    std::int64_t d = 0;
    const auto [at, error] = std::from_chars(rest.data(), rest.data() + rest.size(), d);
    if (error != std::errc()) fail_mode(mode, shape, whose);
    rest.remove_prefix(std::size_t(at - rest.data()));
    out.push_back(d);
    if (!rest.empty() && rest.front() != ',') fail_mode(mode, shape, whose);
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return checked_layout(shape, std::move(out));
}

/// Nothing: the program leaves it open.
std::optional<Dims> read_mode(std::string_view mode, const Shape& shape, const std::string& whose) {
  if (!shape.is_array()) {
    for (const Shape& leaf : flatten(shape)) {
      if (leaf.is_array() && !leaf.layout.empty()) fail_mode(join(leaf.layout), leaf, whose);
    }
    return Dims();
  }
  if (mode.empty()) return shape.layout;
  if (mode == "default") return Dims();
  if (mode == "auto") return std::nullopt;
  return read_order(mode, shape, whose);
}

std::string take_mode(Instruction* parameter) {
  const auto found = parameter->frontend_attributes->find(text::kLayoutMode);
  if (found == parameter->frontend_attributes->end()) return {};
  std::string out = found->second;
  parameter->frontend_attributes.edit().erase(text::kLayoutMode);
  return out;
}

/// By result.
std::vector<std::string> take_result_modes(ir::Module* module) {
  const auto node = module->frontend_attributes.extract(text::kResultLayoutModes);
  return node ? text::result_layout_modes(node.mapped()) : std::vector<std::string>();
}

/// Follows an array to where its elements are put in order.
class Origin {
 public:
  Origin(const Instruction* value, const std::vector<Dims>& parameters)
      : at_(value), dims_(value->shape.dims.size()), parameters_(parameters) {
    std::iota(dims_.begin(), dims_.end(), std::int64_t(0));
  }

  /// The layout in which the array comes about without a transpose.
  Dims layout() {
    while (step()) {
    }
    const Dims row_major = row_major_layout(dims_.size()).minor_to_major;
    const Dims order = stated_.empty() ? row_major : stated_;
    Dims out;
    for (const std::int64_t d : order) {
      out.push_back(std::find(dims_.begin(), dims_.end(), d) - dims_.begin());
    }
    return checked_layout(Shape(DType::f32, Dims(dims_.size(), 1)), std::move(out));
  }

 private:
  bool step() {
    const Instruction& i = *at_;
    if (i.is(Opcode::parameter)) return leave(i);
    if (i.is(Opcode::transpose)) {
      const Dims& order = i.get<ir::DimensionsAttrs>().dims;
      for (std::int64_t& d : dims_) d = order[std::size_t(d)];
      return go_to(i.operand(0));
    }
    if (i.is(Opcode::get_tuple_element)) {
      return into(i.operand(0), std::size_t(i.get<ir::GetTupleElementAttrs>().index));
    }
    if (i.is(Opcode::call)) return into(&i, std::nullopt);
    if (i.is(Opcode::custom_call) && i.get<ir::CustomCallAttrs>().target == "LayoutConstraint") {
      stated_ = i.shape.layout;
      return false;
    }
    if (ir::is_constraint(i) || i.is(Opcode::pvary)) return go_to(i.operand(0));
    return is_elementwise(i.opcode) && elementwise(i);
  }
  bool go_to(const Instruction* to) {
    at_ = to;
    return true;
  }
  /// The operand that isn't one value throughout, if there is one.
  bool elementwise(const Instruction& i) {
    const Instruction* only = nullptr;
    for (const Instruction* o : i.operands()) {
      if (o == only || o->is(Opcode::broadcast) || o->is(Opcode::constant) ||
          o->shape.is_scalar()) {
        continue;
      }
      if (only != nullptr) return false;
      only = o;
    }
    return only != nullptr && only->shape.dims == i.shape.dims && go_to(only);
  }
  bool into(const Instruction* from, std::optional<std::size_t> element) {
    if (from->is(Opcode::call)) {
      calls_.push_back(from);
      from = from->called(0)->root();
    }
    if (!element) return go_to(from);
    return from->is(Opcode::tuple) && go_to(from->operand(*element));
  }
  bool leave(const Instruction& parameter) {
    const auto number = std::size_t(parameter.get<ir::ParameterAttrs>().number);
    if (!calls_.empty()) {
      const Instruction* call = calls_.back();
      calls_.pop_back();
      return go_to(call->operand(number));
    }
    if (number < parameters_.size() && parameter.shape.dims.size() == dims_.size()) {
      stated_ = parameters_[number];
    }
    return false;
  }

  const Instruction* at_;
  /// The number that each dim of the value has where we are.
  Dims dims_;
  const std::vector<Dims>& parameters_;
  std::vector<const Instruction*> calls_;
  Dims stated_;
};

/// What one result is computed by; null if it can't be told.
const Instruction* result_of(const Instruction& root, std::size_t k) {
  if (!root.shape.is_tuple) return &root;
  const auto& elements = root.shape.elements;
  const bool flat = std::none_of(elements.begin(), elements.end(),
                                 [](const Shape& element) { return element.is_tuple; });
  return root.is(Opcode::tuple) && flat ? root.operand(k) : nullptr;
}

void transpose_parameter(Instruction* p, const Dims& layout) {
  ir::Computation* entry = p->parent;
  Shape given = p->shape;
  given.layout = layout;
  ir::Builder b(entry);
  b.metadata = p->metadata;
  p->shape = stored(given);
  Instruction* t = b.transpose(p, ir::inverse_order(ir::memory_order(given)));
  p->replace_all_uses_with(t);
  t->set_operand(0, p);
  if (p->sharding.empty()) return;
  // Arrays that are to be sharded alike are so as they are seen.
  if (p->sharding[0].shard_group >= 0 || entry->root() == t) t->sharding = p->sharding;
  p->sharding[0].shard_group = -1;
  p->sharding[0] = stored(std::move(p->sharding[0]), layout);
}

Instruction* transposed_result(Instruction* value, const Dims& layout) {
  Shape given = value->shape;
  given.layout = layout;
  ir::Builder b(value->parent);
  b.metadata = value->metadata;
  return b.transpose(value, ir::memory_order(given));
}

/// The sharding of a result as it is stored. If it is to be sharded like others, these are like the
/// array as it is seen.
TensorSharding stored_result(TensorSharding sharding, const Dims& layout, Instruction* seen) {
  if (sharding.shard_group >= 0) {
    if (seen->sharding.empty()) {
      seen->sharding = {TensorSharding::open_on(sharding.mesh, seen->shape.rank())};
    }
    if (seen->sharding[0].shard_group < 0) {
      seen->sharding[0].shard_group = sharding.shard_group;
      seen->sharding[0].shard_like = sharding.shard_like;
    }
  }
  sharding.shard_group = -1;
  return stored(std::move(sharding), layout);
}

void transpose_results(ir::Computation* entry, const std::vector<Dims>& layouts) {
  Instruction* root = entry->root();
  if (!root->shape.is_tuple) {
    Instruction* t = transposed_result(root, layouts[0]);
    if (!root->sharding.empty()) {
      t->sharding = {stored_result(root->sharding[0], layouts[0], root)};
      if (root->sharding[0].fully_open() && root->sharding[0].shard_group < 0) {
        root->sharding.clear();
      }
    }
    return entry->set_root(t);
  }
  for (std::size_t k = 0; k < layouts.size(); ++k) {
    if (layouts[k].empty()) continue;
    Instruction* const value = root->operand(k);
    Instruction* t = transposed_result(value, layouts[k]);
    root->set_operand(k, t);
    root->shape.elements[k] = t->shape;
    if (k < root->sharding.size()) {
      root->sharding[k] = stored_result(root->sharding[k], layouts[k], value);
    }
  }
}

/// A result takes a parameter's memory as it stands only if both have the same layout. Else it may
/// take it as memory that it fits in.
void settle_aliases(ir::Module* module, const EntryLayouts& layouts) {
  std::erase_if(module->input_output_alias, [&](const ir::Alias& a) {
    const std::size_t r = a.output.empty() ? 0 : std::size_t(a.output[0]);
    if (layouts.parameters[std::size_t(a.parameter)] == layouts.results[r]) return false;
    module->buffer_donor.emplace_back(a.parameter, a.parameter_index);
    return true;
  });
}

void clear_layouts(Shape* shape) {
  shape->layout.clear();
  for (Shape& element : shape->elements) clear_layouts(&element);
}

bool any(const std::vector<Dims>& layouts) {
  return std::any_of(layouts.begin(), layouts.end(), [](const Dims& l) { return !l.empty(); });
}

}  // namespace

EntryLayouts settle_layouts(ir::Module* module, bool by_shapes) {
  ir::Computation* entry = module->entry();
  EntryLayouts out;
  for (std::size_t i = 0; i < entry->parameters().size(); ++i) {
    Instruction* p = entry->parameter(i);
    if (!by_shapes) clear_layouts(&p->shape);
    out.parameters.push_back(
        read_mode(take_mode(p), p->shape, "argument " + std::to_string(i)).value_or(Dims()));
  }
  const std::vector<std::string> modes = take_result_modes(module);
  Shape whole = entry->root()->shape;
  if (!by_shapes) clear_layouts(&whole);
  const std::vector<Shape> results = flatten(whole);
  // Bitcasts are of the layouts that are dropped then.
  if (by_shapes) ir::normalize_layouts(module);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const std::string mode = k < modes.size() ? modes[k] : "";
    std::optional<Dims> layout = read_mode(mode, results[k], "result " + std::to_string(k));
    const Instruction* value = result_of(*entry->root(), k);
    if (!layout && value != nullptr) layout = Origin(value, out.parameters).layout();
    out.results.push_back(layout.value_or(Dims()));
    if (value == nullptr && !out.results.back().empty()) {
      throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                    "the layout {" + join(out.results.back()) + "} of result " + std::to_string(k) +
                        ", where the program's result is no list of arrays; valid: row-major");
    }
  }
  for (Instruction* p : entry->parameters()) clear_layouts(&p->shape);
  clear_layouts(&entry->root()->shape);
  if (!any(out.parameters) && !any(out.results)) return out;
  for (std::size_t i = 0; i < out.parameters.size(); ++i) {
    if (!out.parameters[i].empty()) transpose_parameter(entry->parameter(i), out.parameters[i]);
  }
  if (any(out.results)) transpose_results(entry, out.results);
  entry->sort_topologically();
  settle_aliases(module, out);
  return out;
}

}  // namespace tessera::pjrt
