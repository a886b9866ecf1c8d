// SPDX-License-Identifier: Apache-2.0
// jit and pjit: cache lookup, tracing, shardings and donation of arguments.
#include <tessera/jit.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "src/base/at_location.h"
#include "src/base/log.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/jit/jit_cache.h"
#include "src/frontend/jit/jit_stages.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/in_flight.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/nesting.h"
#include "src/frontend/trace/rule_captures.h"
#include "src/frontend/trace/trace.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {

using frontend::Trace;
using internal::ArrayImpl;
using internal::impl_of;

namespace internal {

namespace {

thread_local int jit_disabled = 0;

std::uint64_t next_function_id() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1);
}

}  // namespace

struct JitCore::State {
  State();
  ~State();
  /// All jitted functions, for clear_caches.
  struct Alive {
    std::mutex mutex;
    std::set<State*> states;
  };
  static Alive& alive() {
    static Alive& a = *new Alive;  // functions may live until the process ends
    return a;
  }

  JitOptions options;
  Location location;
  bool pjit = false;
  std::string name;
  /// The names by which the user gave the shardings.
  std::string in_name = "in_shardings", out_name = "out_shardings";
  std::uint64_t id = next_function_id();
  std::mutex mutex;
  JitCache entries;
  /// Programs that threads are tracing and compiling, so that other threads can wait for them.
  struct Compiling : frontend::Pending<JitEntry> {
    CallKey key;
  };
  std::vector<std::shared_ptr<Compiling>> compiling;
  std::atomic<std::int64_t> traces{0};

  std::string argument_name(int position) const {
    const auto i = std::size_t(position);
    return i < options.arg_names.size() ? options.arg_names[i]
                                        : "argument " + std::to_string(position);
  }
  /// pjit or jit.
  std::string api() const { return pjit ? "pjit" : "jit"; }
  /// Takes the options by their older names. ValueError if they are given by both, or to jit.
  void take_axis_resources();
  /// The checks before anything is traced: of the mesh in scope, for the older names.
  void check_mesh() const;
  /// The sharding of an argument with FROM_GDA. ValueError if it isn't placed on a mesh.
  Sharding sharding_of_argument(const ArrayImpl& impl, const std::string& who,
                                Location where) const;
  /// donate_argnums and the positions of donate_argnames.
  std::vector<int> donated_positions() const;
  /// ValueError for more names than arguments.
  void check_names(const CallInfo& info) const;
  /// One text per leaf: "x[0] of 'f'".
  std::vector<std::string> leaf_names(const CallInfo& info, bool with_function = true) const;
  std::vector<std::optional<Sharding>> wanted_inputs(const CallInfo& info, Location where) const;
  /// The checks of out_shardings that need no results.
  void check_outputs() const;
  std::vector<std::optional<Sharding>> wanted_outputs(const CallInfo& info,
                                                      const Prototype& prototype, std::size_t count,
                                                      Location where) const;
  std::vector<bool> donated_leaves(const CallInfo& info, Location where) const;

  struct Traced {
    frontend::Program program;
    std::vector<Array> captures;
    Prototype prototype;
    std::vector<std::optional<Sharding>> types;  ///< of the results, in explicit mode
  };
  Traced trace_root(const CallInfo& info, Location where);
  std::vector<Array> call_inside(Trace& outer, const CallInfo& info, Prototype* prototype,
                                 Location where);
  /// The program for a call: from the cache, or made now, by one thread for all.
  std::shared_ptr<const JitEntry> entry_for(const CallInfo& info, const Mesh& context,
                                            Location where);
  std::shared_ptr<const JitEntry> compile(const CallInfo& info, const Mesh& context,
                                          Location where);
};

JitCore::State::State() {
  const std::lock_guard lock(alive().mutex);
  alive().states.insert(this);
}
JitCore::State::~State() {
  const std::lock_guard lock(alive().mutex);
  alive().states.erase(this);
}

void clear_jit_caches() {
  std::vector<JitCache>
      dropped;  // destroyed after the locks are released: captured values may be large
  JitCore::State::Alive& alive = JitCore::State::alive();
  const std::lock_guard lock(alive.mutex);
  for (JitCore::State* state : alive.states) {
    const std::lock_guard state_lock(state->mutex);
    dropped.push_back(std::exchange(state->entries, JitCache()));
  }
}

JitCore::JitCore(JitOptions options, Location location, bool pjit)
    : state_(std::make_shared<State>()) {
  const std::string api = pjit ? "pjit" : "jit";
  for (int i : options.donate_argnums) {
    if (i < 0) {
      throw ValueError(
          api + ": donate_argnums holds " + std::to_string(i) + "; positions count from 0",
          location);
    }
  }
  if (options.layouts) at_location(location, [&] { (void)to_string(*options.layouts); });
  state_->name = options.name.empty() ? "jit_fn" : options.name;
  state_->options = std::move(options);
  state_->location = location;
  state_->pjit = pjit;
  state_->take_axis_resources();
  const JitOptions& given = state_->options;
  frontend::check_leaves(given.in_shardings, api + " " + state_->in_name, location);
  frontend::check_leaves(given.out_shardings, api + " " + state_->out_name, location);
  frontend::refuse_from_gda(given.out_shardings, api + " " + state_->out_name, location);
  (void)state_->donated_positions();
}

void JitCore::State::take_axis_resources() {
  const auto take = [&](ShardingTree* older, ShardingTree* newer, std::string* its_name,
                        const std::string& older_name) {
    if (older->is_unspecified()) return;
    if (!pjit) {
      throw ValueError(
          "jit has no " + older_name + ", which is an argument of pjit; write " + *its_name,
          location);
    }
    if (!newer->is_unspecified()) {
      throw ValueError("pjit got both " + *its_name + " (" + newer->to_string() + ") and " +
                           older_name + " (" + older->to_string() +
                           "), which are two names of one argument; give one",
                       location);
    }
    *newer = std::move(*older);
    *its_name = older_name;
  };
  take(&options.in_axis_resources, &options.in_shardings, &in_name, "in_axis_resources");
  take(&options.out_axis_resources, &options.out_shardings, &out_name, "out_axis_resources");
}

void JitCore::State::check_mesh() const {
  const bool older = in_name == "in_axis_resources" || out_name == "out_axis_resources";
  if (!older || !current_mesh().empty()) return;
  throw RuntimeError("pjit of '" + name + "' with " +
                         (in_name == "in_axis_resources" ? in_name : out_name) +
                         " needs a mesh where it is called, and no mesh is in scope: put "
                         "`MeshScope scope(mesh);` before the call",
                     location);
}

std::vector<int> JitCore::State::donated_positions() const {
  std::vector<int> out = options.donate_argnums;
  const std::vector<std::string>& names = options.arg_names;
  for (const std::string& wanted : options.donate_argnames) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      throw ValueError(api() + ": donate_argnames holds '" + wanted + "', and " +
                           (names.empty() ? "arg_names, which must list the names, is empty"
                                          : "arg_names has " + frontend::quoted_names(names)),
                       location);
    }
    out.push_back(int(found - names.begin()));
  }
  return out;
}

Sharding JitCore::State::sharding_of_argument(const ArrayImpl& impl, const std::string& who,
                                              Location where) const {
  if (impl.sharding.valid() && impl.committed && NamedSharding::is(impl.sharding)) {
    return impl.sharding;
  }
  throw ValueError(
      who + " (" + impl.shape.to_string() + ") has FROM_GDA in " + in_name +
          ", which takes the sharding of an array on a mesh, and it is " +
          (impl.kind == ArrayImpl::Kind::tracer      ? "traced"
           : impl.sharding.valid() && impl.committed ? "sharded as " + impl.sharding.to_string()
                                                     : "not placed on devices") +
          "; device_put it on a mesh first, or give a PartitionSpec",
      where);
}

std::int64_t JitCore::trace_count() const { return state_->traces.load(); }
std::int64_t JitCore::cache_size() const {
  const std::lock_guard lock(state_->mutex);
  return std::int64_t(state_->entries.size());
}

void JitCore::State::check_names(const CallInfo& info) const {
  if (options.arg_names.size() <= info.arg_count) return;
  throw ValueError("'" + name + "': arg_names holds " + std::to_string(options.arg_names.size()) +
                       " names and the function takes " + std::to_string(info.arg_count) +
                       (info.arg_count == 1 ? " argument" : " arguments") + "; '" +
                       options.arg_names[info.arg_count] + "' names none",
                   location);
}

std::vector<std::string> JitCore::State::leaf_names(const CallInfo& info,
                                                    bool with_function) const {
  const std::vector<std::string> paths = info.paths();
  std::vector<std::string> out;
  std::size_t leaf = 0;
  for (const auto& [position, count] : info.arg_ranges) {
    for (int i = 0; i < count; ++i, ++leaf) {
      const std::string& path = paths[leaf];
      out.push_back(argument_name(position) + path.substr(path.find(']') + 1) +
                    (with_function ? " of '" + name + "'" : ""));
    }
  }
  return out;
}

std::vector<std::optional<Sharding>> JitCore::State::wanted_inputs(const CallInfo& info,
                                                                   Location where) const {
  std::vector<std::optional<Sharding>> out(info.leaves.size());
  if (options.in_shardings.is_unspecified()) return out;
  std::vector<int> positions;
  for (const auto& [position, count] : info.arg_ranges) positions.push_back(position);
  const ShardingTree tree = frontend::by_position(options.in_shardings, options.arg_names,
                                                  positions, api() + " " + in_name, location);
  const auto leaves = frontend::broadcast_prefix(tree, info.walk_args, in_name, where);
  const auto names = leaf_names(info);
  const bool manual = Trace::current() && Trace::current()->manual_scope();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string who = api() + " " + in_name + " of " + names[i];
    const ArrayImpl& impl = impl_of(info.leaves[i], where);
    if (leaves[i].kind() == ShardingTree::Kind::from_gda) {
      out[i] = sharding_of_argument(impl, names[i], where);
      continue;
    }
    out[i] = frontend::resolve_leaf(leaves[i], who, pjit, false, location);
    if (!out[i]) continue;
    // In per-device code the constraint checks it, along the axes that aren't manual.
    if (!manual) frontend::check_fits(*out[i], impl.shape.dims, names[i], false, where);
    const bool somewhere = impl.kind == ArrayImpl::Kind::tracer || impl.sharding.valid();
    const MemoryKind have = frontend::memory_of(info.leaves[i]), wanted = memory_of(*out[i]);
    if (somewhere && have != wanted) {
      throw ValueError(names[i] + " (" + impl.shape.to_string() + ") is in memory '" +
                           tessera::name(have) + "', and in_shardings has it in '" +
                           tessera::name(wanted) +
                           "'; device_put it there before the call, or give in_shardings in '" +
                           tessera::name(have) + "'",
                       where);
    }
    if (!impl.committed || impl.kind != ArrayImpl::Kind::device) continue;
    if (out[i]->is_abstract()) {
      // A different number of devices is rejected later, where all arguments and shardings that
      // name devices are compared.
      if (out[i]->num_devices() != impl.sharding.num_devices()) continue;
      out[i] = on_devices(*out[i], impl.sharding.impl().devices());
    }
    if (!impl.sharding.is_equivalent_to(*out[i], impl.shape.rank())) {
      throw ValueError(names[i] + " (" + impl.shape.to_string() + ") is sharded as " +
                           impl.sharding.to_string() + ", and " + in_name + " requests " +
                           out[i]->to_string() + "; device_put it there first, or " +
                           (in_name == "in_shardings" ? "leave in_shardings unspecified"
                                                      : "write FROM_GDA in " + in_name),
                       where);
    }
  }
  return out;
}

void JitCore::State::check_outputs() const {
  const std::string who = api() + " " + out_name;
  frontend::check_resolvable(options.out_shardings, who, name, pjit, location);
}

std::vector<std::optional<Sharding>> JitCore::State::wanted_outputs(const CallInfo& info,
                                                                    const Prototype& prototype,
                                                                    std::size_t count,
                                                                    Location where) const {
  std::vector<std::optional<Sharding>> out(count);
  if (options.out_shardings.is_unspecified()) return out;
  const auto walk = [&](TreeVisitor& v) { info.walk_result(prototype, v); };
  const auto leaves = frontend::broadcast_prefix(options.out_shardings, walk, out_name, where);
  const auto paths = leaf_paths(walk);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string who = api() + " " + out_name + paths[i] + " of '" + name + "'";
    out[i] = frontend::resolve_leaf(leaves[i], who, pjit, false, location);
  }
  return out;
}

std::vector<bool> JitCore::State::donated_leaves(const CallInfo& info, Location where) const {
  std::vector<bool> out(info.leaves.size(), false);
  for (int position : donated_positions()) {
    std::size_t leaf = 0;
    bool found = false;
    for (const auto& [p, count] : info.arg_ranges) {
      for (int i = 0; i < count; ++i, ++leaf) {
        if (p == position) out[leaf] = true;
      }
      found = found || p == position;
    }
    if (!found) {
      throw ValueError("'" + name + "': donate_argnums or donate_argnames holds " +
                           argument_name(position) +
                           ", which is no traced argument; the function has " +
                           std::to_string(info.arg_ranges.size()) + " of them",
                       where);
    }
  }
  return out;
}

namespace {
/// What a parameter is in the traced function: in explicit mode sharded as in_shardings say.
frontend::AbstractValue parameter_value(const Array& leaf, const std::optional<Sharding>& wanted) {
  frontend::AbstractValue out = frontend::abstract_value(leaf);
  if (wanted && !frontend::AutoAxes::active()) {
    out.sharding = frontend::ShardingType::of(*wanted, out.shape.dims.size());
  }
  return out;
}
}  // namespace

JitCore::State::Traced JitCore::State::trace_root(const CallInfo& info, Location where) {
  Traced out;
  out.program.name = name;
  out.program.location = where;
  out.program.is_jit = true;
  out.program.keep_unused = options.keep_unused;
  out.program.layouts = options.layouts;
  check_mesh();
  check_names(info);
  const auto names = leaf_names(info);
  const auto inputs = wanted_inputs(info, where);
  out.program.donated = donated_leaves(info, where);
  check_outputs();
  ++traces;
  Trace trace(name, static_cast<Trace*>(nullptr));
  std::vector<Array> parameters, results;
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    parameters.push_back(trace.add_parameter(parameter_value(info.leaves[i], inputs[i])));
  }
  {
    const frontend::ActiveTrace active(&trace);
    results = info.trace(parameters, &out.prototype);
    for (const Array& r : results) {
      out.types.push_back(frontend::stated_sharding(frontend::sharding_type_of(r)));
    }
  }
  trace.finish(results, where);
  const auto outputs = wanted_outputs(info, out.prototype, results.size(), where);
  const auto result_paths = leaf_paths([&](TreeVisitor& v) { info.walk_result(out.prototype, v); });
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string who = "result" + result_paths[i] + " of '" + name + "'";
    if (outputs[i]) frontend::check_fits(*outputs[i], results[i].shape(), who, false, where);
    out.program.results.push_back(
        {outputs[i] ? outputs[i] : out.types[i], who, trace.gradient_by_parameter(results[i])});
    out.program.result_weak.push_back(results[i].weak_type());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.program.parameters.push_back({inputs[i], names[i]});
  }
  out.captures = trace.captures();
  for (std::size_t i = 0; i < out.captures.size(); ++i) {
    out.program.parameters.push_back({std::nullopt, "an array that '" + name + "' captures"});
    out.program.donated.push_back(false);
  }
  out.program.mesh_uses = trace.mesh_uses();
  out.program.module = trace.take_module();
  return out;
}

std::shared_ptr<const JitEntry> JitCore::State::entry_for(const CallInfo& info, const Mesh& context,
                                                          Location where) {
  std::shared_ptr<Compiling> mine;
  return frontend::make_once<JitEntry>(
      mutex, [&] { return entries.find(info, context); },
      [&] {
        const auto same = std::find_if(compiling.begin(), compiling.end(), [&](const auto& c) {
          return c->key.matches(info, context);
        });
        if (same != compiling.end()) return std::pair(*same, false);
        mine = std::make_shared<Compiling>();
        mine->key = CallKey::of(info, context);
        compiling.push_back(mine);
        return std::pair(mine, true);
      },
      [&] { std::erase(compiling, mine); }, [&] { return compile(info, context, where); });
}

std::shared_ptr<const JitEntry> JitCore::State::compile(const CallInfo& info, const Mesh& context,
                                                        Location where) {
  const frontend::Nested nested(name, where);
  const auto names = leaf_names(info);
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    const ArrayImpl& impl = impl_of(info.leaves[i], where);
    if (impl.kind == ArrayImpl::Kind::abstract) {
      throw TypeError(names[i] + " is a shape_dtype_struct (" + impl.shape.to_string() +
                          ") and has no value; use lower() with it",
                      where);
    }
    check_alive(impl, where);
  }
  if (log_enabled(LogLevel::info)) {
    const std::lock_guard lock(mutex);
    log_info("tracing '" + name + "', called at " + where.to_string() + ": " +
             entries.explain_miss(info, context, names));
  }
  Traced traced = trace_root(info, where);
  auto entry = std::make_shared<JitEntry>();
  entry->key = CallKey::of(info, context);
  entry->captures = traced.captures;
  entry->prototype = traced.prototype;
  std::vector<Array> args = info.leaves;
  args.insert(args.end(), traced.captures.begin(), traced.captures.end());
  entry->bound = frontend::bind_program(std::move(traced.program), args);
  std::shared_ptr<const JitEntry> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock(mutex);
  forgotten = entries.insert(entry);
  return entry;
}

std::vector<Array> JitCore::State::call_inside(Trace& outer, const CallInfo& info,
                                               Prototype* prototype, Location where) {
  Trace::CallKey call_key{std::to_string(id) + ";" + info.signature, info.types};
  std::string& key = call_key.text;
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
  for (const Array& leaf : info.leaves) {
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
    check_names(info);
    check_outputs();
    ++traces;
    Trace inner(name, &outer);
    std::vector<Array> parameters, results;
    for (std::size_t i = 0; i < info.leaves.size(); ++i) {
      parameters.push_back(inner.add_parameter(parameter_value(info.leaves[i], inputs[i])));
    }
    {
      const frontend::ActiveTrace active(&inner);
      results = info.trace(parameters, &made.prototype);
      for (const Array& r : results) {
        made.weak.push_back(r.weak_type());
        made.varying.push_back(frontend::varying_of(r));
        made.shardings.push_back(frontend::sharding_type_of(r));
      }
      for (const Array& r : results) made.gradients.push_back(inner.gradient_by_parameter(r));
      made.computation = inner.finish(results, where);
    }
    captures = inner.captures();
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

std::vector<Array> JitCore::call(const CallInfo& info, Prototype* prototype, Location where) const {
  if (!where.known()) where = state_->location;
  if (jit_disabled > 0) {
    for (const Array& leaf : info.leaves) (void)impl_of(leaf, where);
    return info.trace(info.leaves, prototype);
  }
  return at_location(where, [&] {
    if (Trace* outer = Trace::current()) return state_->call_inside(*outer, info, prototype, where);
    const Mesh context = current_mesh();
    for (const Array& leaf : info.leaves) (void)impl_of(leaf, where);
    const std::shared_ptr<const JitEntry> entry = state_->entry_for(info, context, where);
    *prototype = entry->prototype;
    if (entry->captures.empty()) return frontend::run_program(entry->bound, info.leaves, where);
    std::vector<Array> args = info.leaves;
    args.insert(args.end(), entry->captures.begin(), entry->captures.end());
    return frontend::run_program(entry->bound, args, where);
  });
}

Lowered JitCore::lower(const CallInfo& given, Location where) const {
  if (Trace::current()) {
    throw TracerError("lower() can't be called while a function is traced", where);
  }
  if (!where.known()) where = state_->location;
  CallInfo info = given;
  const auto names = state_->leaf_names(info);
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    info.leaves[i] = on_mesh_in_scope(info.leaves[i], where, names[i]);
  }
  const frontend::Nested nested(state_->name, where);
  State::Traced traced = at_location(where, [&] { return state_->trace_root(info, where); });
  auto lowered = std::make_shared<LoweredState>();
  for (const Array& leaf : info.leaves) lowered->avals.push_back(frontend::abstract_value(leaf));
  lowered->names = names;
  lowered->paths = state_->leaf_names(info, false);
  lowered->result_paths =
      leaf_paths([&](TreeVisitor& v) { info.walk_result(traced.prototype, v); });
  lowered->tree = info.tree;
  lowered->types = info.traced_types;
  lowered->prototype = traced.prototype;
  lowered->result_tree =
      tree_signature([&](TreeVisitor& v) { info.walk_result(traced.prototype, v); });
  lowered->donate_argnums = state_->donated_positions();
  lowered->captures = traced.captures;
  std::vector<Array> args = info.leaves;
  args.insert(args.end(), traced.captures.begin(), traced.captures.end());
  lowered->placed = frontend::place_program(std::move(traced.program), args);
  return Lowered(std::move(lowered));
}

}  // namespace internal

void clear_caches() {
  internal::clear_jit_caches();
  frontend::clear_compile_cache();
}

DisableJit::DisableJit() { ++internal::jit_disabled; }
DisableJit::~DisableJit() { --internal::jit_disabled; }

}  // namespace tessera
