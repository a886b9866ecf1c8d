// SPDX-License-Identifier: Apache-2.0
// Data-flow analysis: on which devices each value is surely the same.
#include "src/passes/analysis/uniformity.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"

namespace tessera::passes {

using ir::Opcode;

ClassesTable::ClassesTable(std::int64_t num_devices) : num_devices_(num_devices) {
  intern(DeviceClasses::uniform(num_devices));
}
ClassesId ClassesTable::distinct() { return intern(DeviceClasses::distinct(num_devices_)); }
ClassesId ClassesTable::intern(const DeviceClasses& classes) {
  auto [it, added] = ids_.try_emplace(classes.class_of, ClassesId(list_.size()));
  if (added) list_.push_back(classes);
  return it->second;
}
ClassesId ClassesTable::join(ClassesId a, ClassesId b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (a > b) std::swap(a, b);
  const auto it = joins_.find({a, b});
  if (it != joins_.end()) return it->second;
  const ClassesId id = intern(DeviceClasses::join(list_[std::size_t(a)], list_[std::size_t(b)]));
  joins_[{a, b}] = id;
  return id;
}

namespace {

bool calls_host(const ir::Instruction& i) {
  return i.is(Opcode::custom_call) && i.get<ir::CustomCallAttrs>().host != nullptr;
}

/// A call whose target says that equal operands give equal results.
bool is_pure_call(const ir::Instruction& i) {
  const auto& attrs = i.get<ir::CustomCallAttrs>();
  // The host is called once for all devices that hold the same.
  if (calls_host(i)) return true;
  if (attrs.has_side_effect || !i.called().empty()) return false;
  const ir::CustomCallTarget* target = ir::find_custom_call(attrs.target);
  return target && target->is_pure();
}

/// Devices with equal numbers are of one class.
DeviceClasses by_number(const std::vector<std::int64_t>& numbers) {
  DeviceClasses out;
  out.class_of.reserve(numbers.size());
  std::unordered_map<std::int64_t, std::int32_t> seen;
  for (std::size_t d = 0; d < numbers.size(); ++d) {
    const auto [it, added] = seen.try_emplace(numbers[d], std::int32_t(seen.size()));
    if (added) out.representative.push_back(std::int32_t(d));
    out.class_of.push_back(it->second);
  }
  return out;
}

constexpr std::int64_t kKnownElements = 64;
constexpr std::int64_t kKnownOperandElements = 4096;

using Leaves = std::vector<LeafFacts>;

class Analysis {
 public:
  explicit Analysis(ClassesTable* table) : table_(*table) {}

  UniformityFacts run(const ir::Computation& computation, const std::vector<Leaves>& parameters) {
    UniformityFacts facts;
    facts.leaves.resize(computation.instructions().size());
    for (const auto& i : computation.instructions()) {
      Leaves& out = facts.leaves[std::size_t(i->index)];
      if (i->is(Opcode::parameter)) {
        out = parameters[std::size_t(i->get<ir::ParameterAttrs>().number)];
      } else {
        out = visit(*i, &facts);
      }
      TESSERA_CHECK(out.size() == leaf_count(i->shape), "leaves of " + i->name);
    }
    return facts;
  }

 private:
  const Leaves& of(const UniformityFacts& facts, const ir::Instruction& i) {
    return facts.leaves[std::size_t(i.index)];
  }

  Leaves all(const Shape& shape, ClassesId classes) {
    return Leaves(leaf_count(shape), LeafFacts{classes, nullptr});
  }

  ClassesId join_operands(const ir::Instruction& i, const UniformityFacts& facts) {
    ClassesId out = table_.uniform();
    for (const ir::Instruction* o : i.operands()) {
      for (const LeafFacts& leaf : of(facts, *o)) out = table_.join(out, leaf.classes);
    }
    return out;
  }

  Leaves visit(const ir::Instruction& i, UniformityFacts* facts) {
    switch (i.opcode) {
      case Opcode::constant:
        return {{table_.uniform(),
                 std::make_shared<std::vector<Literal>>(1, i.get<ir::ConstantAttrs>().value)}};
      case Opcode::partition_id: {
        std::vector<Literal> ids;
        for (std::int64_t d = 0; d < table_.num_devices(); ++d) {
          Literal id(Shape(i.shape.dtype, {}));
          id.mutable_data<std::uint32_t>()[0] = std::uint32_t(d);
          ids.push_back(std::move(id));
        }
        return {{table_.distinct(), std::make_shared<std::vector<Literal>>(std::move(ids))}};
      }
      case Opcode::replica_id:
        return {{table_.uniform(),
                 std::make_shared<std::vector<Literal>>(1, Literal(Shape(i.shape.dtype, {})))}};
      case Opcode::tuple:
      case Opcode::opt_barrier:
      case Opcode::copy:
      case Opcode::domain: {
        Leaves out;
        for (const ir::Instruction* o : i.operands()) {
          const Leaves& leaves = of(*facts, *o);
          out.insert(out.end(), leaves.begin(), leaves.end());
        }
        return out;
      }
      case Opcode::get_tuple_element: {
        const Shape& tuple = i.operand(0)->shape;
        const auto index = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
        std::size_t first = 0;
        for (std::size_t k = 0; k < index; ++k) first += leaf_count(tuple.elements[k]);
        const Leaves& leaves = of(*facts, *i.operand(0));
        const auto begin = leaves.begin() + std::int64_t(first);
        return Leaves(begin, begin + std::int64_t(leaf_count(i.shape)));
      }
      case Opcode::while_:
        return visit_while(i, facts);
      case Opcode::conditional:
        return visit_conditional(i, facts);
      case Opcode::call:
      case Opcode::fusion: {
        std::vector<Leaves> parameters;
        for (const ir::Instruction* o : i.operands()) parameters.push_back(of(*facts, *o));
        UniformityFacts inner = run(*i.called().at(0), parameters);
        Leaves out = of(inner, *i.called()[0]->root());
        facts->called[i.index].push_back(std::move(inner));
        return out;
      }
      case Opcode::all_gather:
      case Opcode::all_reduce:
      case Opcode::reduce_scatter:
      case Opcode::all_to_all:
      case Opcode::collective_permute:
      case Opcode::collective_broadcast:
        return visit_collective(i, *facts);
      case Opcode::rng:
      case Opcode::infeed:
      case Opcode::recv:
      case Opcode::recv_done:
      case Opcode::custom_partitioning:
      case Opcode::manual_computation:
      case Opcode::custom_call:
        if (i.is(Opcode::custom_call) && is_pure_call(i)) return visit_plain(i, *facts);
        // Nothing says that these give the same on each device.
        return all(i.shape, table_.distinct());
      default:
        return visit_plain(i, *facts);
    }
  }

  Leaves visit_plain(const ir::Instruction& i, const UniformityFacts& facts) {
    const ClassesId classes = join_operands(i, facts);
    Leaves out = all(i.shape, classes);
    // It is more than its elements: where they are.
    if (i.is(Opcode::device_placement)) return out;
    if (!i.shape.is_array() || i.shape.element_count() > kKnownElements || !i.called().empty() ||
        i.has_side_effect() || calls_host(i)) {
      return out;
    }
    std::int64_t elements = 0;
    for (const ir::Instruction* o : i.operands()) {
      for (const LeafFacts& leaf : of(facts, *o)) {
        if (!leaf.known || o->shape.is_tuple) return out;
      }
      elements += o->shape.element_count();
    }
    if (elements > kKnownOperandElements) return out;
    return known(i, facts, classes, out);
  }

  /// Computes the value for each class, and finds the classes of equal values.
  Leaves known(const ir::Instruction& i, const UniformityFacts& facts, ClassesId classes,
               const Leaves& unknown) {
    std::vector<Literal> values;
    try {
      for (const std::int32_t device : table_[classes].representative) {
        std::vector<Literal> operands;
        for (const ir::Instruction* o : i.operands()) {
          const LeafFacts& leaf = of(facts, *o)[0];
          const auto c = table_[leaf.classes].class_of[std::size_t(device)];
          operands.push_back((*leaf.known)[std::size_t(c)]);
        }
        values.push_back(evaluator::evaluate_instruction(i, operands));
      }
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return unknown;  // running it will say what is wrong
    }
    // Values of one instruction are of one shape: their bytes tell them apart.
    std::unordered_map<std::string_view, std::int64_t> first_equal;
    std::vector<std::int64_t> numbers;
    for (const std::int32_t c : table_[classes].class_of) {
      const Literal& value = values[std::size_t(c)];
      const std::string_view bytes(reinterpret_cast<const char*>(value.bytes()),
                                   value.byte_count());
      numbers.push_back(first_equal.try_emplace(bytes, c).first->second);
    }
    const DeviceClasses merged = by_number(numbers);
    std::vector<Literal> by_class;
    for (const std::int32_t device : merged.representative) {
      by_class.push_back(values[std::size_t(table_[classes].class_of[std::size_t(device)])]);
    }
    return {{table_.intern(merged), std::make_shared<std::vector<Literal>>(std::move(by_class))}};
  }

  Leaves visit_collective(const ir::Instruction& i, const UniformityFacts& facts) {
    if (table_.num_devices() == 1) return all(i.shape, table_.uniform());
    std::vector<ClassesId> operands;
    for (const ir::Instruction* o : i.operands()) {
      for (const LeafFacts& leaf : of(facts, *o)) operands.push_back(leaf.classes);
    }
    const bool tuple_form = i.is(Opcode::all_to_all) && i.shape.is_tuple;
    Leaves out;
    for (std::size_t k = 0; k < leaf_count(i.shape); ++k) {
      ExchangeKey key;
      key.opcode = i.opcode;
      key.operands = tuple_form ? operands : std::vector<ClassesId>{operands.at(k)};
      if (const auto* permute = i.attrs.get_if<ir::PermuteAttrs>()) {
        key.pairs =
            permutes_.try_emplace(permute->source_target_pairs, permutes_.size()).first->second;
      } else {
        const ir::DeviceGroups& groups = i.get<ir::CollectiveAttrs>().groups;
        key.mesh = groups.mesh.get();
        key.axes = groups.axes;
        key.lists = groups.lists;
      }
      auto it = exchanges_.find(key);
      if (it == exchanges_.end()) {
        const ClassesId classes = table_.intern(by_number(numbers_after(i, key.operands)));
        it = exchanges_.emplace(std::move(key), classes).first;
      }
      out.push_back({it->second, nullptr});
    }
    return out;
  }

  /// A number per device, equal where a collective surely leaves equal bits.
  std::vector<std::int64_t> numbers_after(const ir::Instruction& i,
                                          const std::vector<ClassesId>& operands) {
    const std::int64_t n = table_.num_devices();
    const auto class_at = [&](ClassesId id, std::int64_t device) {
      return table_[id].class_of[std::size_t(device)];
    };
    // Those that take no part get zeros.
    std::vector<std::int64_t> numbers(std::size_t(n), -1);
    if (const auto* permute = i.attrs.get_if<ir::PermuteAttrs>()) {
      for (const auto& [source, target] : permute->source_target_pairs) {
        numbers[std::size_t(target)] = class_at(operands[0], source);
      }
      return numbers;
    }
    // Equal members in equal order give equal results; where each gets a part of its own, the place
    // counts too.
    const bool parts = i.is(Opcode::reduce_scatter) || i.is(Opcode::all_to_all);
    std::map<std::vector<std::int32_t>, std::int64_t> seen;
    for (const auto& group : i.get<ir::CollectiveAttrs>().groups.expand(n)) {
      std::vector<std::int32_t> members;
      if (i.is(Opcode::collective_broadcast)) {
        members.push_back(class_at(operands[0], group[0]));
      } else {
        members.reserve(group.size() * operands.size());
        for (const std::int64_t m : group) {
          for (const ClassesId o : operands) members.push_back(class_at(o, m));
        }
      }
      const std::int64_t number = seen.try_emplace(std::move(members), seen.size()).first->second;
      for (std::size_t place = 0; place < group.size(); ++place) {
        numbers[std::size_t(group[place])] = number * n + (parts ? std::int64_t(place) : 0);
      }
    }
    return numbers;
  }

  Leaves visit_while(const ir::Instruction& i, UniformityFacts* facts) {
    Leaves carry = of(*facts, *i.operand(0));
    for (LeafFacts& leaf : carry) leaf.known = nullptr;
    // A loop around this one comes here again for each of its own rounds, mostly with what was
    // there before; without the answer kept, loops in loops would cost a power of their depth.
    std::vector<ClassesId> given;
    for (const LeafFacts& leaf : carry) given.push_back(leaf.classes);
    WhileAnswer& answer = answers_[&i];
    if (answer.facts.empty() || answer.given != given) {
      std::vector<UniformityFacts> found = settle(i, &carry);
      answers_[&i] = {std::move(given), std::move(carry), std::move(found)};
    }
    facts->called[i.index] = answer.facts;
    return answer.carry;
  }

  /// Condition and body with a carry that no trip changes any more.
  std::vector<UniformityFacts> settle(const ir::Instruction& i, Leaves* state) {
    Leaves& carry = *state;
    for (;;) {
      UniformityFacts condition = run(*i.called().at(0), {carry});
      UniformityFacts body = run(*i.called().at(1), {carry});
      const ClassesId predicate = of(condition, *i.called()[0]->root())[0].classes;
      const Leaves& next = of(body, *i.called()[1]->root());
      bool stable = true;
      for (std::size_t k = 0; k < carry.size(); ++k) {
        // Devices that leave at different trips hold different values from then on.
        const ClassesId joined =
            table_.join(table_.join(carry[k].classes, next[k].classes), predicate);
        stable = stable && joined == carry[k].classes;
        carry[k].classes = joined;
      }
      if (!stable) continue;
      std::vector<UniformityFacts> out;
      out.push_back(std::move(condition));
      out.push_back(std::move(body));
      return out;
    }
  }

  Leaves visit_conditional(const ir::Instruction& i, UniformityFacts* facts) {
    const ClassesId selector = of(*facts, *i.operand(0))[0].classes;
    Leaves out(leaf_count(i.shape), LeafFacts{selector, nullptr});
    auto& called = facts->called[i.index];
    called.clear();
    for (std::size_t b = 0; b < i.called().size(); ++b) {
      UniformityFacts inner = run(*i.called()[b], {of(*facts, *i.operand(b + 1))});
      const Leaves& results = of(inner, *i.called()[b]->root());
      for (std::size_t k = 0; k < out.size(); ++k) {
        out[k].classes = table_.join(out[k].classes, results[k].classes);
      }
      called.push_back(std::move(inner));
    }
    return out;
  }

  /// What visit_while() gave last for a loop.
  struct WhileAnswer {
    std::vector<ClassesId> given;
    Leaves carry;
    std::vector<UniformityFacts> facts;
  };

  /// All that the classes of a collective's result depend on.
  struct ExchangeKey {
    Opcode opcode = Opcode::all_reduce;
    std::size_t pairs = 0;  ///< of a permute: its number in permutes_
    const LogicalMesh* mesh = nullptr;
    IndexList axes;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<ClassesId> operands;
    friend bool operator<(const ExchangeKey& a, const ExchangeKey& b) {
      return std::tie(a.opcode, a.pairs, a.mesh, a.axes, a.operands, a.lists) <
             std::tie(b.opcode, b.pairs, b.mesh, b.axes, b.operands, b.lists);
    }
  };

  ClassesTable& table_;
  std::unordered_map<const ir::Instruction*, WhileAnswer> answers_;
  // Programs repeat their collectives layer by layer. Looked up, never walked.
  std::map<ExchangeKey, ClassesId> exchanges_;
  std::map<DevicePairs, std::size_t> permutes_;
};

/// Devices of one class hold the same shard.
ClassesId parameter_classes(const TensorSharding* s, ClassesTable* table) {
  const std::int64_t n = table->num_devices();
  if (n == 1) return table->uniform();
  if (s == nullptr || s->kind != TensorSharding::Kind::axes) return table->distinct();
  if (!s->mesh) return table->uniform();
  const bool reordered = !s->mesh->device_ids.empty();
  if (reordered && s->mesh->num_devices() != n) return table->distinct();
  IndexList axes;
  for (const DimSharding& dim : s->dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  axes.insert(axes.end(), s->unreduced.begin(), s->unreduced.end());
  axes.insert(axes.end(), s->manual.begin(), s->manual.end());
  const Dims strides = s->mesh->strides();
  std::vector<std::int64_t> shards(static_cast<std::size_t>(n), 0);
  // By position: finding a device's position is a search.
  for (std::int64_t position = 0; position < n; ++position) {
    std::int64_t shard = 0;
    for (const int a : axes) {
      const std::int64_t size = s->mesh->axes[std::size_t(a)].size;
      shard = shard * size + position / strides[std::size_t(a)] % size;
    }
    shards[std::size_t(s->mesh->device_at(position))] = shard;
  }
  return table->intern(by_number(shards));
}

}  // namespace

UniformityFacts analyze_uniformity(const ir::Module& module, ClassesTable* table) {
  std::vector<Leaves> parameters;
  std::vector<std::pair<const TensorSharding*, ClassesId>> met;
  const auto classes_of = [&](const TensorSharding* s) {
    for (const auto& [other, classes] : met) {
      if (s == other || (s && other && s->mesh == other->mesh && *s == *other)) return classes;
    }
    met.emplace_back(s, parameter_classes(s, table));
    return met.back().second;
  };
  for (const ir::Instruction* p : module.entry()->parameters()) {
    Leaves leaves;
    for (std::size_t k = 0; k < leaf_count(p->shape); ++k) {
      const TensorSharding* s = k < p->sharding.size() ? &p->sharding[k] : nullptr;
      leaves.push_back({classes_of(s), nullptr});
    }
    parameters.push_back(std::move(leaves));
  }
  return Analysis(table).run(*module.entry(), parameters);
}

}  // namespace tessera::passes
