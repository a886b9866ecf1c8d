// SPDX-License-Identifier: Apache-2.0
// Which devices call the host, in which order, and with what.
#include "src/compiler/accelerators/host_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "src/base/arrays/host_layout.h"
#include "src/base/platform_scope.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::compiler::accelerators {
namespace {

using ir::Builder;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;

/// A function of the user's, which is called as often as its documentation says.
bool is_callback(const Instruction& call) {
  return call.get<ir::CustomCallAttrs>().host != nullptr;
}

/// Of callbacks: which devices hold equal operands, wherever they are run from. A call
/// that not all devices get to is each device's own.
class Places {
 public:
  explicit Places(const ir::Module& module) : table_(module.num_partitions) {
    if (module.num_partitions == 1) return;
    walk(*module.entry(), passes::analyze_uniformity(module, &table_), true);
  }
  DeviceClasses of(const Instruction& call) const {
    const auto found = classes_.find(&call);
    return found == classes_.end() ? DeviceClasses::distinct(table_.num_devices())
                                   : table_[found->second];
  }

 private:
  void walk(const Computation& c, const passes::UniformityFacts& facts, bool all_devices) {
    for (const auto& i : c.instructions()) {
      if (i->is(Opcode::custom_call)) {
        note(*i, facts, all_devices);
      } else if (const auto called = facts.called.find(i->index); called != facts.called.end()) {
        const bool together = all_devices && agreed(*i, facts, called->second);
        for (std::size_t k = 0; k < called->second.size() && k < i->called().size(); ++k) {
          walk(*i->called()[k], called->second[k], together);
        }
      }
    }
  }

  /// Whether all devices take the same branch, or make as many trips.
  bool agreed(const Instruction& i, const passes::UniformityFacts& facts,
              const std::vector<passes::UniformityFacts>& called) const {
    const auto uniform = [&](const passes::UniformityFacts& f, const Instruction& value) {
      const auto& leaves = f.leaves[std::size_t(value.index)];
      return std::all_of(leaves.begin(), leaves.end(), [&](const passes::LeafFacts& leaf) {
        return leaf.classes == table_.uniform();
      });
    };
    if (i.is(Opcode::conditional)) return uniform(facts, *i.operand(0));
    if (i.is(Opcode::while_)) return uniform(called.at(0), *i.called()[0]->root());
    return true;
  }

  void note(const Instruction& call, const passes::UniformityFacts& facts, bool all_devices) {
    passes::ClassesId classes = all_devices ? table_.uniform() : table_.distinct();
    for (const Instruction* o : call.operands()) {
      for (const passes::LeafFacts& leaf : facts.leaves[std::size_t(o->index)]) {
        classes = table_.join(classes, leaf.classes);
      }
    }
    const auto [at, added] = classes_.try_emplace(&call, classes);
    if (!added) at->second = table_.join(at->second, classes);
  }

  passes::ClassesTable table_;
  std::map<const Instruction*, passes::ClassesId> classes_;
};

/// What the plugin calls.
HostCall function_of(const Instruction& call, const std::shared_ptr<HostFailures>& failures) {
  std::vector<Shape> in, out;
  for (const Instruction* o : call.operands()) {
    for (Shape& leaf : flatten(o->shape)) in.push_back(std::move(leaf));
  }
  out = flatten(call.shape);
  for (const auto* side : {&in, &out}) {
    for (const Shape& s : *side) {
      if (packed_bytes(s.dtype, 8) >= 8) continue;
      throw NotImplementedError(call.describe() + ": elements of " + std::string(name(s.dtype)) +
                                    " can't be given to the host on this platform; valid: types "
                                    "of 8 bits or more",
                                call.location());
    }
  }
  return [prepared = codegen::prepare_call(call), in, out, failures](
             std::span<void* const> operands, std::span<void* const> results) {
    try {
      const VirtualDevicesScope here;
      std::vector<BufferView> from;
      std::vector<MutableBufferView> to;
      if (operands.size() < in.size() || results.size() != out.size()) {
        throw InternalError("a call of the host has " + std::to_string(operands.size()) +
                            " operands and " + std::to_string(results.size()) + " results");
      }
      for (std::size_t k = 0; k < in.size(); ++k) {
        from.emplace_back(in[k].dtype, std::span<const std::int64_t>(in[k].dims), operands[k]);
      }
      for (std::size_t k = 0; k < out.size(); ++k) {
        to.emplace_back(out[k].dtype, std::span<const std::int64_t>(out[k].dims), results[k]);
      }
      prepared.run(from, to, 0, prepared.units);
    } catch (...) {
      failures->note(std::current_exception());
      throw;
    }
  };
}

class Lowering {
 public:
  Lowering(ir::Module* module, const Client& client) : module_(module), client_(client) {}

  HostCalls run() {
    std::vector<Instruction*> calls;
    bool callbacks = false;
    for (const auto& c : module_->computations()) {
      for (const auto& i : c->instructions()) {
        if (i->attrs.get_if<ir::CustomCallAttrs>() == nullptr || is_known_to_plugins(*i)) continue;
        calls.push_back(i.get());
        callbacks = callbacks || is_callback(*i);
      }
    }
    std::map<const Instruction*, DeviceClasses> classes;
    if (callbacks) {
      const Places places(*module_);
      for (const Instruction* call : calls) classes[call] = places.of(*call);
    }
    std::set<Computation*> changed;
    for (Instruction* call : calls) {
      Computation* const in = computation_of(call);
      if (is_callback(*call)) {
        replace(in, call, classes.at(call));
        changed.insert(in);
      } else {
        const auto& attrs = call->get<ir::CustomCallAttrs>();
        const ir::CustomCallTarget* target = ir::find_custom_call(attrs.target);
        name_function(call, *call,
                      attrs.has_side_effect || (target != nullptr && !target->is_pure()));
      }
    }
    for (Computation* c : changed) {
      c->sort_topologically();
      c->remove_dead();
    }
    if (!changed.empty()) module_->remove_dead_computations();
    return std::move(out_);
  }

 private:
  Computation* computation_of(const Instruction* call) const {
    for (const auto& c : module_->computations()) {
      const auto& all = c->instructions();
      if (std::size_t(call->index) < all.size() && all[std::size_t(call->index)].get() == call) {
        return c.get();
      }
    }
    throw InternalError("a call is in no computation");
  }

  void name_function(Instruction* call, const Instruction& as, bool effects) {
    const HostCallNumber number = client_.add_host_call(function_of(as, out_.failures));
    out_.numbers.push_back(number);
    auto& attrs = call->edit<ir::CustomCallAttrs>();
    attrs.target = kHostCallTarget;
    attrs.api_version = "API_VERSION_TYPED_FFI";
    attrs.has_side_effect = effects;
    attrs.host = nullptr;
    attrs.other.clear();
    call->backend_config =
        "{" + std::string(kHostCallNumber) + " = " + std::to_string(*number) + " : i64}";
  }

  /// The call, with what came before as one more operand: plugins keep the order of what depends
  /// on each other, and of nothing else.
  Instruction* made(Builder& b, const Instruction& call, std::vector<Instruction*> operands) {
    auto attrs = call.get<ir::CustomCallAttrs>();
    Instruction* copy = b.emit_shaped(Opcode::custom_call, call.shape, std::move(operands), attrs);
    name_function(copy, call, attrs.has_side_effect);
    return copy;
  }

  void replace(Computation* c, Instruction* call, const DeviceClasses& classes) {
    Builder b(c);
    b.metadata = call->metadata;
    std::vector<Instruction*> operands = call->operands();
    // The instructions' order is that of the program, here and in the plan of virtual devices.
    const bool ordered = call->get<ir::CustomCallAttrs>().host->ordered();
    if (const auto before = last_.find(c); ordered && before != last_.end()) {
      operands.push_back(before->second);
    }
    Instruction* result = nullptr;
    const bool apart = classes.count() == classes.num_devices() ||
                       (!call->users().empty() && !alike(groups_of(classes)));
    result = apart ? made(b, *call, operands) : by_first(b, *call, operands, classes);
    if (ordered) last_[c] = result->shape.is_tuple ? b.get_tuple_element(result, 0) : result;
    call->set_control_predecessors({});
    call->drop_side_effect();
    call->replace_all_uses_with(result);
    if (c->root() == call) c->set_root(result);
  }

  Instruction* by_first(Builder& b, const Instruction& call,
                        const std::vector<Instruction*>& operands, const DeviceClasses& classes) {
    Literal table(Shape(DType::pred, {classes.num_devices()}));
    for (std::int64_t d = 0; d < classes.num_devices(); ++d) {
      const std::int32_t of = classes.class_of[std::size_t(d)];
      table.mutable_data<bool>()[std::size_t(d)] =
          classes.representative[std::size_t(of)] == std::int32_t(d);
    }
    Instruction* const number = b.convert(b.partition_id(), DType::s32);
    Instruction* const first =
        b.reshape(b.dynamic_slice(b.constant(std::move(table)), {number}, {1}), {});
    Instruction* const packed = b.tuple(operands);
    std::vector<Computation*> branches;
    for (const bool calls : {true, false}) {
      Computation* const branch =
          module_->add_computation(calls ? "calls_the_host" : "leaves_it_to_another");
      Builder inner(branch);
      inner.metadata = b.metadata;
      Instruction* const given = inner.parameter(0, packed->shape, "operands");
      std::vector<Instruction*> results;
      if (calls) {
        std::vector<Instruction*> elements;
        for (std::size_t k = 0; k < operands.size(); ++k) {
          elements.push_back(inner.get_tuple_element(given, std::int64_t(k)));
        }
        Instruction* const out = made(inner, call, std::move(elements));
        for (std::size_t k = 0; k < flatten(call.shape).size(); ++k) {
          results.push_back(call.shape.is_tuple ? inner.get_tuple_element(out, std::int64_t(k))
                                                : out);
        }
      } else {
        for (const Shape& s : flatten(call.shape)) {
          results.push_back(inner.splat(inner.constant(nothing(s.dtype)), s.dims));
        }
      }
      branch->set_root(inner.tuple(results));
      branches.push_back(branch);
    }
    Instruction* const chosen = b.conditional(first, {packed, packed}, branches);
    std::vector<Instruction*> results;
    for (std::size_t k = 0; k < flatten(call.shape).size(); ++k) {
      Instruction* const x = b.get_tuple_element(chosen, std::int64_t(k));
      results.push_back(call.users().empty() ? x : shared(b, x, groups_of(classes)));
    }
    return call.shape.is_tuple ? b.tuple(results) : results.front();
  }

  static Opcode joins(DType t) { return t == DType::pred ? Opcode::or_ : Opcode::add; }
  static Literal nothing(DType t) { return ir::neutral_of(joins(t), t); }

  static std::vector<std::vector<std::int64_t>> groups_of(const DeviceClasses& classes) {
    std::vector<std::vector<std::int64_t>> out(std::size_t(classes.count()));
    for (std::int64_t d = 0; d < classes.num_devices(); ++d) {
      out[std::size_t(classes.class_of[std::size_t(d)])].push_back(d);
    }
    return out;
  }
  /// Collectives take groups of one size.
  static bool alike(const std::vector<std::vector<std::int64_t>>& groups) {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const auto& g) { return g.size() == groups.front().size(); });
  }

  /// From the first device of each group to the others, for which it is nothing.
  static Instruction* shared(Builder& b, Instruction* x,
                             std::vector<std::vector<std::int64_t>> devices) {
    ir::DeviceGroups groups;
    groups.lists = std::move(devices);
    return b.all_reduce(x,
                        ir::scalar_computation(b.module(), joins(x->shape.dtype), x->shape.dtype),
                        std::move(groups));
  }

  ir::Module* module_;
  const Client& client_;
  HostCalls out_;
  std::map<const Computation*, Instruction*> last_;  ///< what the last ordered call gave
};

}  // namespace

void HostFailures::note(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) first_ = std::move(failure);
}

std::exception_ptr HostFailures::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(first_, nullptr);
}

bool is_known_to_plugins(const Instruction& call) {
  static const std::set<std::string> known{"annotate_device_placement", "ragged_all_to_all",
                                           "TopK"};
  return known.count(call.get<ir::CustomCallAttrs>().target) > 0;
}

HostCalls call_host(ir::Module* module, const Client& client) {
  return Lowering(module, client).run();
}

}  // namespace tessera::compiler::accelerators
