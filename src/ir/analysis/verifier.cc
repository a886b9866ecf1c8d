// SPDX-License-Identifier: Apache-2.0
// The verifier: structure, names, attributes, callees, shardings, and inferred shapes.
#include "src/ir/analysis/verifier.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "src/ir/limits.h"
#include "src/ir/names.h"
#include "src/ir/post_order.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

/// Names of one computation, in one piece of memory.
class NameSet {
 public:
  explicit NameSet(std::size_t names) {
    std::size_t size = 16;
    while (size < 2 * names) size *= 2;
    entries_.resize(size);
  }
  /// False if it was there.
  bool insert(const std::string& name) {
    const std::size_t hash = std::hash<std::string>()(name);
    for (std::size_t at = hash;; ++at) {
      Entry& e = entries_[at & (entries_.size() - 1)];
      if (e.name == nullptr) {
        e = {hash, &name};
        return true;
      }
      if (e.hash == hash && *e.name == name) return false;
    }
  }

 private:
  struct Entry {
    std::size_t hash = 0;
    const std::string* name = nullptr;
  };
  std::vector<Entry> entries_;
};

template <class A>
bool holds(const Attributes& attrs) {
  if constexpr (std::is_same_v<A, NoAttrs>) {
    return attrs.empty() || attrs.get_if<TextAttrs>() != nullptr;
  } else {
    return attrs.get_if<A>() != nullptr;
  }
}

// Whether the kind is the one of the opcode.
bool attributes_fit(Opcode op, const Attributes& a) {
  switch (op) {
#define OP(enumerator, text, operands, attributes, ...) \
  case Opcode::enumerator:                              \
    return holds<attributes>(a);
#include "src/ir/opcode_list.inc"
  }
  return false;
}

struct Verifier {
  const Module& module;
  bool check_names;
  std::unordered_set<const Computation*> owned;

  [[noreturn]] void fail(const Instruction& i, const std::string& what) const {
    throw ValueError("instruction " + i.describe() + " of " + i.parent->name() + ": " + what,
                     i.location());
  }
  [[noreturn]] void fail(const Computation& c, const std::string& what) const {
    throw ValueError("computation " + c.name() + ": " + what);
  }

  void sharding(const Instruction& i) const {
    std::vector<Shape> leaves = flatten(i.shape);
    if (i.sharding.size() != leaves.size()) {
      fail(i, std::to_string(i.sharding.size()) + " shardings for " +
                  std::to_string(leaves.size()) + " values of " + i.shape.to_string());
    }
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      const TensorSharding& s = i.sharding[n];
      if (s.kind == TensorSharding::Kind::maximal &&
          (s.device < 0 || (module.num_partitions > 1 && s.device >= module.num_partitions))) {
        fail(i, "sharding on device " + std::to_string(s.device) + " of " +
                    std::to_string(module.num_partitions));
      }
      if (s.kind != TensorSharding::Kind::axes) continue;
      if (s.rank() != leaves[n].rank()) {
        fail(i, "sharding " + s.to_spec_string() + " of rank " + std::to_string(s.rank()) +
                    " on a value " + leaves[n].to_string());
      }
      axes(i, s);
    }
  }

  void axes(const Instruction& i, const TensorSharding& s) const {
    std::size_t count = s.mesh == nullptr ? 0 : s.mesh->axes.size();
    std::vector<bool> used(count, false);
    auto take = [&](const IndexList& list) {
      for (int axis : list) {
        if (axis < 0 || std::size_t(axis) >= count) {
          fail(i, "sharding over axis number " + std::to_string(axis) + " of a mesh with " +
                      std::to_string(count) + " axes");
        }
        if (used[std::size_t(axis)]) {
          fail(i, "axis \"" + s.mesh->axes[std::size_t(axis)].to_string() +
                      "\" stands twice in sharding " + s.to_string());
        }
        used[std::size_t(axis)] = true;
      }
    };
    for (const DimSharding& d : s.dims) take(d.axes);
    take(s.replicated);
    take(s.unreduced);
    take(s.manual);
    if (s.mesh == nullptr) return;
    std::int64_t devices = s.mesh->num_devices();
    if (devices == 1) return;
    if (module.num_partitions > 1 && devices > module.num_partitions) {
      fail(i, "sharding on a mesh of " + std::to_string(devices) + " devices in a module of " +
                  std::to_string(module.num_partitions) + " partitions");
    }
  }

  void instruction(const Instruction& i, std::int64_t index) const {
    TESSERA_CHECK(i.index == index, "instruction " + i.name + " has a stale index");
    if (!attributes_fit(i.opcode, i.attrs)) {
      fail(i, std::string(name(i.opcode)) + " has the attributes of another opcode");
    }
    auto before = [&](const Instruction* other, const char* what) {
      if (other == nullptr || other->parent != i.parent) {
        fail(i, std::string(what) + " of another computation");
      }
      if (other->index >= i.index) {
        fail(i, std::string(what) + " " + other->name + " stands after its user");
      }
    };
    for (const Instruction* operand : i.operands()) before(operand, "operand");
    for (const Instruction* other : i.control_predecessors()) before(other, "control predecessor");
    for (const Computation* callee : i.called()) {
      if (owned.count(callee) == 0) fail(i, "calls a computation of another module");
    }
    if (const auto* c = i.attrs.get_if<ConstantAttrs>();
        c != nullptr && !c->elided && c->value.shape() != i.shape) {
      fail(i, "a value " + c->value.shape().to_string() + " as a constant " + i.shape.to_string());
    }
    if (i.is(Opcode::fusion)) fusion(i);
    if (i.is(Opcode::manual_computation)) manual(i);
    if (i.has_sharding()) sharding(i);
  }

  // That operands and result are those of its computation is shape inference.
  void fusion(const Instruction& i) const {
    static constexpr std::string_view kKinds[] = {"kLoop", "kInput", "kOutput", "kCustom"};
    if (i.called().size() != 1) {
      fail(i, "calls " + std::to_string(i.called().size()) + " computations instead of one");
    }
    const auto* attrs = i.attrs.get_if<TextAttrs>();
    const std::string* kind = nullptr;
    for (std::size_t k = 0; attrs != nullptr && k < attrs->items.size(); ++k) {
      if (attrs->items[k].first == "kind") kind = &attrs->items[k].second;
    }
    if (kind == nullptr) fail(i, "has no kind");
    if (std::find(std::begin(kKinds), std::end(kKinds), *kind) == std::end(kKinds)) {
      fail(i, "is of kind " + *kind + ", and there are kLoop, kInput, kOutput and kCustom");
    }
  }

  // That shapes are those of a shard is found when its axes are bound.
  void manual(const Instruction& i) const {
    if (i.called().size() != 1) return;
    const Computation& body = *i.called(0);
    if (body.parameters().size() != i.operands().size()) {
      fail(i, "has " + std::to_string(i.operands().size()) + " operands and a body of " +
                  std::to_string(body.parameters().size()) + " parameters");
    }
    const std::size_t results = flatten(i.shape).size();
    const std::size_t made = body.root() == nullptr ? 0 : flatten(body.root()->shape).size();
    if (made != results) {
      fail(i, "has " + std::to_string(results) + " results and a body of " + std::to_string(made));
    }
  }

  // Each instruction knows its users, and no others.
  void uses(const Computation& c) const {
    std::vector<std::size_t> counts(c.instructions().size(), 0);
    for (const auto& i : c.instructions()) {
      for (const Instruction* operand : i->operands()) ++counts[std::size_t(operand->index)];
    }
    for (const auto& i : c.instructions()) {
      TESSERA_CHECK(i->use_count() == counts[std::size_t(i->index)],
                    "instruction " + i->name + " has a stale list of uses");
    }
  }

  void computation(const Computation& c) const {
    if (c.module() != &module) fail(c, "belongs to another module");
    if (c.root() == nullptr) fail(c, "has no root");
    if (c.root()->parent != &c) fail(c, "its root is of another computation");
    NameSet names(check_names ? c.instructions().size() : 0);
    std::int64_t index = 0;
    for (const auto& i : c.instructions()) {
      TESSERA_CHECK(i->parent == &c, "instruction " + i->name + " has a stale parent");
      instruction(*i, index++);
      if (!check_names) continue;
      if (i->name.empty() || is_reserved_name(i->name) ||
          !std::all_of(i->name.begin(), i->name.end(), is_name_char)) {
        fail(*i, "its name can't be written");
      }
      if (!names.insert(i->name)) fail(*i, "its name stands twice");
    }
    for (std::size_t n = 0; n < c.parameters().size(); ++n) {
      if (c.parameter(n) == nullptr) fail(c, "lacks parameter " + std::to_string(n));
    }
  }

  // The shape at an index path, or null.
  static const Shape* at(const Shape* shape, const Dims& path) {
    for (std::int64_t step : path) {
      if (!shape->is_tuple || step < 0 || step >= std::int64_t(shape->elements.size())) {
        return nullptr;
      }
      shape = &shape->elements[std::size_t(step)];
    }
    return shape;
  }

  void aliases() const {
    const Computation& entry = *module.entry();
    auto parameter = [&](std::int64_t number, const Dims& path, const char* what) {
      const Shape* s = nullptr;
      if (number >= 0 && number < std::int64_t(entry.parameters().size())) {
        s = at(&entry.parameter(std::size_t(number))->shape, path);
      }
      if (s == nullptr) {
        fail(entry, std::string(what) + " names parameter " + std::to_string(number) + " at {" +
                        join(path) + "}, which the entry lacks");
      }
      return s;
    };
    for (const Alias& a : module.input_output_alias) {
      const Shape* in = parameter(a.parameter, a.parameter_index, "input_output_alias");
      const Shape* out = at(&entry.root()->shape, a.output);
      if (out == nullptr) {
        fail(entry,
             "input_output_alias names result {" + join(a.output) + "}, which the entry lacks");
      }
      if (in->is_array() && out->is_array() && in->byte_count() != out->byte_count()) {
        fail(entry, "input_output_alias joins " + in->to_string() + " and " + out->to_string() +
                        ", which differ in size");
      }
    }
    for (const auto& [number, path] : module.buffer_donor) parameter(number, path, "buffer_donor");
  }
};

}  // namespace

void verify_structure(const Module& module, bool check_names) {
  Verifier v{module, check_names, {}};
  if (module.entry() == nullptr) throw ValueError("module " + module.name + " has no entry");
  if (module.num_partitions < 1 || module.replica_count < 1) {
    throw ValueError("module " + module.name + " is for " + std::to_string(module.num_partitions) +
                     " partitions and " + std::to_string(module.replica_count) +
                     " replicas; valid: 1 or more");
  }
  std::vector<Computation*> all;
  for (const auto& c : module.computations()) {
    v.owned.insert(c.get());
    all.push_back(c.get());
  }
  if (v.owned.count(module.entry()) == 0) {
    throw ValueError("the entry of module " + module.name + " is of another module");
  }
  std::unordered_set<std::string_view> names;
  for (const Computation* c : all) {
    if (!names.insert(c->name()).second) v.fail(*c, "its name stands twice");
    v.computation(*c);
  }
  for (const Computation* c : all) v.uses(*c);
  check_limits(post_order(all));  // which throws on recursion
  v.aliases();
}

void verify(const Module& module) {
  verify_structure(module);
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      auto who = [&] { return "instruction " + i->describe() + " of " + c->name() + ": "; };
      try {
        infer_shape(i->opcode, i->operands(), i->attrs, i->called(), &i->shape, i->location(),
                    module.grid());
      } catch (const ShapeError& e) {
        throw ShapeError(who() + e.message(), e.location());
      } catch (const DTypeError& e) {
        throw DTypeError(who() + e.message(), e.location());
      }
    }
  }
}

}  // namespace tessera::ir
