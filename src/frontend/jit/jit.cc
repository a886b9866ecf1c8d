// SPDX-License-Identifier: Apache-2.0
// jit and pjit: cache lookup, tracing, shardings and donation of arguments.
#include <tessera/jit.h>
#include <tessera/placement.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "src/base/at_location.h"
#include "src/base/log.h"
#include "src/base/profiler.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/jit/jit_cache.h"
#include "src/frontend/jit/jit_stages.h"
#include "src/frontend/jit/jit_state.h"
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

JitCore::State::State() : id(next_function_id()) {
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
    dropped.push_back(std::exchange(state->entries, JitCache::cleared()));
    state->recent.drop_all();
  }
}

JitOptions with_names(JitOptions options, std::vector<std::string> names, Location location) {
  if (!options.arg_names.empty() && options.arg_names != names) {
    throw ValueError("jit: arg_names<...> has " + frontend::quoted_names(names) +
                         ", and the option arg_names " + frontend::quoted_names(options.arg_names) +
                         "; the option can be left out",
                     location);
  }
  options.arg_names = std::move(names);
  return options;
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
  if (options.memory_budget && *options.memory_budget <= 0) {
    throw ValueError("memory_budget is " + std::to_string(*options.memory_budget) +
                         "; valid: bytes of one device, at least 1",
                     location);
  }
  state_->name = options.name.empty() ? "jit_fn" : options.name;
  state_->options = std::move(options);
  state_->location = location;
  state_->pjit = pjit;
  state_->take_axis_resources();
  state_->take_device();
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

void JitCore::State::take_device() {
  if (!options.device) return;
  const bool in = !options.in_shardings.is_unspecified();
  if (in || !options.out_shardings.is_unspecified()) {
    throw ValueError(api() + " got both device (" + options.device->to_string() + ") and " +
                         (in ? in_name : out_name) +
                         ", which say where arrays are; give one of them",
                     location);
  }
  options.out_shardings = SingleDeviceSharding(*options.device);
}

CallInfo JitCore::State::on_device(const CallInfo& info, Location where) const {
  const std::string who = "'" + name + "', which has the device " + options.device->to_string();
  if (!current_mesh().empty()) {
    throw ValueError(who + ", is called with the mesh " + current_mesh().to_string() +
                         " in scope; valid: one of them",
                     where);
  }
  const SingleDeviceSharding there(*options.device);
  frontend::check_devices_exist(there, who, where);
  CallInfo out = info;
  for (Array& leaf : out.leaves) {
    const ArrayImpl& impl = impl_of(leaf, where);
    if (impl.kind == ArrayImpl::Kind::abstract) {
      leaf = shape_dtype_struct(leaf, {.sharding = there}, where);
    } else if (!impl.committed || !(impl.sharding == there)) {
      leaf = device_put(leaf, *options.device, {}, where);
    }
  }
  return out;
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
                                                                   Location where,
                                                                   Automatic* automatic,
                                                                   Stated* layouts) const {
  std::vector<std::optional<Sharding>> out(info.leaves.size());
  if (automatic) automatic->resize(info.leaves.size());
  if (layouts) layouts->resize(info.leaves.size());
  if (options.in_shardings.is_unspecified()) return out;
  std::vector<int> positions;
  for (const auto& [position, count] : info.arg_ranges) positions.push_back(position);
  const ShardingTree tree = frontend::by_position(options.in_shardings, options.arg_names,
                                                  positions, api() + " " + in_name, location);
  const auto leaves = frontend::broadcast_formats(tree, info.walk_args, in_name, where);
  const auto names = leaf_names(info);
  const bool manual = Trace::current() && Trace::current()->manual_scope();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string who = api() + " " + in_name + " of " + names[i];
    const ArrayImpl& impl = impl_of(info.leaves[i], where);
    frontend::check_layout_fits(leaves[i], impl.shape.rank(), who, where);
    if (layouts) (*layouts)[i] = leaves[i].layout();
    if (leaves[i].kind() == ShardingTree::Kind::from_gda) {
      out[i] = sharding_of_argument(impl, names[i], where);
      continue;
    }
    if (const auto mesh = frontend::mesh_of_auto(leaves[i], who, location)) {
      if (automatic) (*automatic)[i] = in_memory(*mesh, frontend::memory_of(info.leaves[i]));
      continue;
    }
    out[i] = frontend::resolve_leaf(leaves[i], who, pjit, false, location);
    if (!out[i]) continue;
    // In per-device code the constraint checks it, along the axes that aren't manual.
    if (!manual) frontend::check_fits(*out[i], impl.shape, names[i], false, where);
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

std::vector<std::optional<Sharding>> JitCore::State::wanted_outputs(
    const CallInfo& info, const Prototype& prototype, std::size_t count, Location where,
    Automatic* automatic, Stated* layouts) const {
  std::vector<std::optional<Sharding>> out(count);
  if (automatic) automatic->resize(count);
  if (layouts) layouts->resize(count);
  if (options.out_shardings.is_unspecified()) return out;
  const auto walk = [&](TreeVisitor& v) { info.walk_result(prototype, v); };
  const auto leaves = frontend::broadcast_formats(options.out_shardings, walk, out_name, where);
  const auto paths = leaf_paths(walk);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string who = api() + " " + out_name + paths[i] + " of '" + name + "'";
    if (layouts) (*layouts)[i] = leaves[i].layout();
    if (auto mesh = frontend::mesh_of_auto(leaves[i], who, location)) {
      if (automatic) (*automatic)[i] = std::move(mesh);
      continue;
    }
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

JitCore::State::Traced JitCore::State::trace_root(const CallInfo& info, Location where) {
  Traced out;
  out.program.name = name;
  out.program.location = where;
  out.program.is_jit = true;
  out.program.keep_unused = options.keep_unused;
  out.program.requests = {options.layouts, options.memory_budget, options.network};
  check_mesh();
  check_names(info);
  const auto names = leaf_names(info);
  Automatic automatic;
  Stated in_layouts, out_layouts;
  const auto inputs = wanted_inputs(info, where, &automatic, &in_layouts);
  out.program.donated = donated_leaves(info, where);
  check_outputs();
  ++traces;
  const profiler::Span span(profiler::Kind::stage, "trace", name);
  Trace trace(name, static_cast<Trace*>(nullptr));
  std::vector<Array> parameters, results;
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    parameters.push_back(trace.add_parameter(parameter_value(info.leaves[i], inputs[i])));
  }
  {
    const frontend::ActiveTrace active(&trace);
    results = info.trace(parameters, &out.prototype);
    for (const Array& r : results) {
      out.types.push_back(frontend::stated_sharding(r));
    }
  }
  trace.finish(results, where);
  Automatic chosen_results;
  const auto outputs =
      wanted_outputs(info, out.prototype, results.size(), where, &chosen_results, &out_layouts);
  const auto result_paths = leaf_paths([&](TreeVisitor& v) { info.walk_result(out.prototype, v); });
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string who = "result" + result_paths[i] + " of '" + name + "'";
    if (outputs[i]) {
      frontend::check_fits(*outputs[i], impl_of(results[i]).shape, who, false, where);
    }
    if (out_layouts[i]) {
      frontend::check_layout_fits(Format(*out_layouts[i], outputs[i].value_or(Sharding())),
                                  results[i].ndim(), who, where);
    }
    out.program.results.push_back(
        {outputs[i] ? outputs[i] : out.types[i], who,
         chosen_results[i] ? std::nullopt : trace.gradient_by_parameter(results[i]),
         chosen_results[i].has_value(), out_layouts[i]});
    out.program.result_weak.push_back(results[i].weak_type());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool chosen = automatic[i].has_value();
    out.program.parameters.push_back(
        {chosen ? automatic[i] : inputs[i], names[i], {}, chosen, in_layouts[i]});
  }
  out.captures = trace.captures();
  for (std::size_t i = 0; i < out.captures.size(); ++i) {
    out.program.parameters.push_back({std::nullopt, "an array that '" + name + "' captures"});
    out.program.donated.push_back(false);
  }
  out.program.mesh_uses = trace.mesh_uses();
  for (const std::optional<Sharding>& s : chosen_results) {
    if (s) out.program.mesh_uses.push_back({*s, location});
  }
  out.program.module = trace.take_module();
  check_donated_layouts(out.program, where);
  return out;
}

void JitCore::State::check_donated_layouts(const frontend::Program& program, Location where) const {
  const auto is_auto = [](const frontend::RequestedSharding& p) {
    return p.layout && p.layout->is_auto();
  };
  const std::vector<ir::Instruction*>& arguments = program.module->entry()->parameters();
  const std::vector<Shape> results = flatten(program.module->entry()->root()->shape);
  for (std::size_t i = 0; i < arguments.size() && i < program.donated.size(); ++i) {
    if (!program.donated[i]) continue;
    for (std::size_t r = 0; r < results.size() && r < program.results.size(); ++r) {
      if (!(results[r] == arguments[i]->shape)) continue;
      const frontend::RequestedSharding &in = program.parameters[i], &result = program.results[r];
      if (is_auto(in) == is_auto(result)) continue;
      const bool wants_output = is_auto(in);
      throw ValueError((wants_output ? in.who : result.who) + " has Layout.AUTO, and " +
                           (wants_output ? result.who : in.who) + ", which " +
                           (wants_output ? "may take its memory as it is donated"
                                         : "is donated and may give it its memory") +
                           ", hasn't; valid: Format(Layout::AUTO, ...) in " +
                           (wants_output ? out_name : in_name) + ", too, or a layout for both",
                       where);
    }
  }
}

std::shared_ptr<const JitEntry> JitCore::State::entry_for(const CallInfo& info, const Mesh& context,
                                                          Location where) {
  const CallView call(info, context);
  if (std::shared_ptr<const JitEntry> found = recent.find(call)) return found;
  const std::uint64_t drops = recent.drops();
  std::shared_ptr<Compiling> mine;
  std::shared_ptr<const JitEntry> out = frontend::make_once<JitEntry>(
      mutex, [&] { return entries.find(call); },
      [&] {
        const auto same = std::find_if(compiling.begin(), compiling.end(),
                                       [&](const auto& c) { return c->key.matches(call); });
        if (same != compiling.end()) return std::pair(*same, false);
        mine = std::make_shared<Compiling>();
        mine->key = CallKey::of(info, context);
        compiling.push_back(mine);
        return std::pair(mine, true);
      },
      [&] { std::erase(compiling, mine); }, [&] { return compile(info, context, where); });
  recent.add(out, drops);
  return out;
}

MissNames JitCore::State::miss_names(const CallInfo& info) const {
  return {leaf_names(info),
          [this](int position) { return argument_name(position) + " of '" + name + "' (static)"; }};
}

void JitCore::State::explain(const CallInfo& info, const Mesh& context, Location where) {
  if (!explains_cache_misses()) return;
  const std::lock_guard lock(mutex);
  log_cache_miss("tracing '" + name + "', called at " + where.to_string() + ": " +
                 entries.explain_miss(info, context, miss_names(info)));
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
  explain(info, context, where);
  Traced traced = trace_root(info, where);
  auto entry = std::make_shared<JitEntry>();
  entry->key = CallKey::of(info, context);
  entry->key.names = names;
  entry->captures = traced.captures;
  entry->prototype = traced.prototype;
  std::vector<Array> args = info.leaves;
  args.insert(args.end(), traced.captures.begin(), traced.captures.end());
  entry->bound = frontend::bind_program(std::move(traced.program), args);
  std::shared_ptr<const JitEntry> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock(mutex);
  if (entries.is_full()) recent.for_each([&](const auto& used) { entries.touch(used); });
  forgotten = entries.insert(entry);
  return entry;
}

std::vector<Array> JitCore::call(const CallInfo& given, Prototype* prototype,
                                 Location where) const {
  if (!where.known()) where = state_->location;
  if (jit_disabled > 0) {
    for (const Array& leaf : given.leaves) (void)impl_of(leaf, where);
    return given.trace(given.leaves, prototype);
  }
  return at_location(where, [&] {
    if (Trace* outer = Trace::current()) {
      if (state_->options.device) {
        throw ValueError("'" + state_->name + "', which has the device " +
                             state_->options.device->to_string() +
                             ", is called while another function is traced, which runs as a whole "
                             "where its arguments are; valid: device_put of those",
                         where);
      }
      return state_->call_inside(*outer, given, prototype, where);
    }
    const Mesh context = current_mesh();
    const std::optional<CallInfo> moved =
        state_->options.device ? std::optional(state_->on_device(given, where)) : std::nullopt;
    const CallInfo& info = moved ? *moved : given;
    for (const Array& leaf : info.leaves) (void)impl_of(leaf, where);
    const std::shared_ptr<const JitEntry> entry = state_->entry_for(info, context, where);
    *prototype = entry->prototype;
    if (entry->captures.empty()) return frontend::run_program(entry->bound, info.leaves, where);
    std::vector<Array> args = info.leaves;
    args.insert(args.end(), entry->captures.begin(), entry->captures.end());
    return frontend::run_program(entry->bound, args, where);
  });
}

std::optional<std::vector<Array>> JitCore::call_known(const KnownCall& call,
                                                      std::span<const Array> args,
                                                      Location where) const {
  if (jit_disabled > 0 || Trace::current() != nullptr || state_->options.device) {
    return std::nullopt;
  }
  if (!std::all_of(args.begin(), args.end(), [](const Array& a) { return a.valid(); })) {
    return std::nullopt;
  }
  const Mesh context = current_mesh();
  const std::shared_ptr<const JitEntry> entry = state_->recent.find({call, args, context});
  // What is called from within may assign to the arrays, of which there are no handles here.
  if (entry == nullptr || entry->bound.calls_out || !entry->captures.empty()) return std::nullopt;
  return at_location(where, [&] { return frontend::run_program(entry->bound, args, where); });
}

Lowered JitCore::lower(const CallInfo& given, Location where) const {
  if (Trace::current()) {
    throw TracerError("lower() can't be called while a function is traced", where);
  }
  if (!where.known()) where = state_->location;
  CallInfo info = state_->options.device ? state_->on_device(given, where) : given;
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
