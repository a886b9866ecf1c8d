// SPDX-License-Identifier: Apache-2.0
// Calls of jitted functions in programs that are traced.
#include <algorithm>
#include <span>

#include "src/base/log.h"
#include "src/frontend/jit/jit_state.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/nesting.h"
#include "src/frontend/trace/rule_captures.h"
#include "src/frontend/trace/trace.h"

namespace tessera::internal {

using frontend::Trace;

frontend::AbstractValue parameter_value(const Array& leaf, const std::optional<Sharding>& wanted) {
  frontend::AbstractValue out = frontend::abstract_value(leaf);
  if (wanted && !frontend::AutoAxes::active()) {
    out.sharding = frontend::ShardingType::of(*wanted, out.shape.dims.size());
  }
  return out;
}

namespace {

/// What a traced call depends on besides its own arguments and their types.
std::string surroundings_key(const Trace& outer, const std::vector<Array>& leaves,
                             const std::string& name, Location where) {
  std::string key;
  if (const Mesh context = current_mesh(); !context.empty()) {
    const Mesh& around = outer.context();
    if (!around.empty() && context.size() != around.size()) {
      throw ValueError("'" + name + "' is called with " + context.to_string() + " in scope (size " +
                           std::to_string(context.size()) + "), inside of a function called with " +
                           around.to_string() + " in scope (size " + std::to_string(around.size()) +
                           "): one program has one set of devices",
                       where);
    }
    key += ";" + context.to_string();
    if (!context.is_abstract()) key += to_string(context.device_ids());
  }
  key += ";" + std::to_string(int(current_precision()));
  for (const Array& leaf : leaves) {
    const ArrayImpl& impl = impl_of(leaf, where);
    key += ";" + impl.shape.to_string() + (impl.weak ? "w" : "");
    if (outer.manual_scope()) key += frontend::axes_text(frontend::varying_of(leaf));
    key += frontend::sharding_type_of(leaf).key();
    const MemoryKind memory = frontend::memory_of(leaf);
    if (is_host(memory)) key += " in " + std::string(tessera::name(memory));
  }
  key += frontend::AutoAxes::key();
  if (const frontend::ManualScope* scope = outer.manual_scope()) key += ";" + scope->to_string();
  if (const std::string axes = outer.batch_axes_text(); !axes.empty()) key += ";" + axes;
  if (frontend::SeekCaptures::active()) key += ";with captures of rules";
  return key;
}

/// Traces the function into `made`; what it captures.
std::vector<Array> trace_inside(Trace& outer, const CallInfo& info, const std::string& name,
                                std::span<const std::optional<Sharding>> inputs, Location where,
                                Trace::CachedCall* made) {
  Trace inner(name, &outer);
  std::vector<Array> parameters, results;
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    parameters.push_back(inner.add_parameter(parameter_value(info.leaves[i], inputs[i])));
  }
  {
    const frontend::ActiveTrace active(&inner);
    results = info.trace(parameters, &made->prototype);
    for (const Array& r : results) {
      made->weak.push_back(r.weak_type());
      made->varying.push_back(frontend::varying_of(r));
      made->shardings.push_back(frontend::sharding_type_of(r));
    }
    for (const Array& r : results) made->gradients.push_back(inner.gradient_by_parameter(r));
    made->computation = inner.finish(results, where);
  }
  return inner.captures();
}

}  // namespace

std::vector<Array> JitCore::State::call_inside(Trace& outer, const CallInfo& info,
                                               Prototype* prototype, Location where) {
  Trace::CallKey call_key{std::to_string(id) + ";" + info.signature, info.types};
  call_key.text += surroundings_key(outer, info.leaves, name, where);
  check_mesh();
  std::vector<Array> operands = info.leaves;
  const auto inputs = wanted_inputs(info, where);
  const auto names = leaf_names(info);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (inputs[i]) operands[i] = frontend::constrain(operands[i], *inputs[i], names[i], where);
  }
  Trace::CachedCall made;
  std::vector<Array> captures;
  if (auto found = outer.calls().find(call_key); found != outer.calls().end()) {
    made = found->second;
    captures = made.captures;
  } else {
    const frontend::Nested nested(name, where);
    explain_inside(outer, info, current_mesh(), where);
    check_names(info);
    check_outputs();
    ++traces;
    captures = trace_inside(outer, info, name, inputs, where, &made);
    // Captured tracers belong to this trace; captured values can be shared.
    const bool lasting = std::none_of(captures.begin(), captures.end(),
                                      [](const Array& a) { return a.is_tracer(); });
    if (lasting) {
      made.captures = captures;
      outer.calls().emplace(call_key, made);
    }
  }
  operands.insert(operands.end(), captures.begin(), captures.end());
  *prototype = made.prototype;
  std::vector<Array> results = frontend::apply_many(
      ir::Opcode::call, operands, {}, where, name, nullptr,
      [&](ir::Module*) { return std::vector<ir::Computation*>{made.computation}; });
  const auto outputs = wanted_outputs(info, made.prototype, results.size(), where);
  for (std::size_t i = 0; i < results.size(); ++i) {
    impl_of(results[i]).weak = made.weak[i];
    frontend::set_varying(results[i], made.varying[i]);
    results[i] = frontend::with_sharding_type(results[i], made.shardings[i], where);
    if (const auto by = made.gradients[i]; by && *by < operands.size()) {
      outer.note_gradient(outer.own(results[i]), outer.lift(operands[*by], where));
    }
    if (!outputs[i]) continue;
    const std::string who = "result " + std::to_string(i) + " of '" + name + "'";
    results[i] = memory_of(*outputs[i]) == frontend::memory_of(results[i])
                     ? frontend::constrain(results[i], *outputs[i], who, where)
                     : frontend::placed_as(results[i], *outputs[i], who, where);
  }
  return results;
}

void JitCore::State::explain_inside(const Trace& outer, const CallInfo& info, const Mesh& context,
                                    Location where) {
  if (!explains_cache_misses()) return;
  InsideCall call{outer.root_id(), CallKey::of(info, context), {}, {}};
  const MissNames names = miss_names(info);
  call.key.names = names.leaves;
  for (const Array& leaf : info.leaves) {
    std::string note;
    if (outer.manual_scope())
      note = "varying over " + frontend::axes_text(frontend::varying_of(leaf));
    if (const auto type = frontend::sharding_type_of(leaf)) {
      const std::optional<Sharding> stated = frontend::stated_sharding(type);
      note += (note.empty() ? "" : ", ") + std::string("of type ") +
              (stated ? stated->to_string() : type.key());
    }
    call.leaf_notes.push_back(std::move(note));
  }
  if (outer.manual_scope() != nullptr) call.around = outer.manual_scope()->to_string();
  call.around += outer.batch_axes_text() + frontend::AutoAxes::key();
  const std::lock_guard lock(mutex);
  log_cache_miss("tracing '" + name + "' within '" + outer.path() + "', called at " +
                 where.to_string() + ": " + inside.explain_miss(call, names));
  inside.add(std::move(call));
}

}  // namespace tessera::internal
