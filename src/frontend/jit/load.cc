// SPDX-License-Identifier: Apache-2.0
// Programs loaded from HLO or StableHLO text, called like functions.
#include <tessera/device.h>
#include <tessera/jit.h>
#include <tessera/load.h>
#include <tessera/placement.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "src/base/arrays/literal_util.h"
#include "src/base/lru_cache.h"
#include "src/compiler/read_module.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/trace.h"
#include "src/ir/rewrite/drop_shardings.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "src/spmd/submeshes.h"

namespace tessera {

using frontend::Trace;
using internal::ArrayImpl;
using internal::impl_of;

namespace internal {

struct SizesHash {
  std::size_t operator()(const std::vector<Dims>& sizes) const {
    std::size_t out = sizes.size();
    for (const Dims& dims : sizes) {
      out = out * 31 + dims.size();
      for (const std::int64_t d : dims) out = out * 1000003 + std::size_t(d);
    }
    return out;
  }
};

/// A program with dims of unknown size, and what it is for those that it was called with.
struct OpenProgram {
  std::string text;
  LoadOptions options;
  text::Signature signature;
  std::mutex mutex;
  /// Whether its sizes depend on integers that it is given.
  bool by_value = false;
  /// By the sizes of all arguments, and by the values of integers then. Each may have a copy of the
  /// file's constants.
  LruCache<std::vector<Dims>, std::shared_ptr<const LoadedState>, SizesHash> closed{256};
};

struct LoadedState {
  /// Null: all sizes are known. Otherwise only file, name and location are set besides.
  std::unique_ptr<OpenProgram> open;
  std::string file, name;
  Location location;  ///< the line that loaded it
  std::uint64_t id = 0;
  /// The module without the shardings of the entry's parameters and root, which are added again as
  /// constraints.
  std::unique_ptr<const ir::Module> module;
  std::vector<Shape> parameter_shapes, result_shapes;
  std::vector<std::string> parameter_names;
  /// Empty: the file has no shardings.
  std::vector<std::optional<TensorSharding>> parameter_shardings, result_shardings;
  std::int64_t devices = 1;  ///< number that the shardings require
  /// Of results that the file has on some of the devices, or on one.
  std::vector<std::optional<TensorSharding>> results_on_part;

  /// State that depends on devices, set at the first call: loading must not fix the number of
  /// devices.
  struct Placed {
    std::vector<Device> devices;
    Mesh mesh;
    Sharding everywhere;
    std::vector<std::optional<Sharding>> parameters, results;
    std::vector<std::optional<Sharding>> results_on_part;
  };
  mutable std::mutex mutex;
  mutable std::unique_ptr<const Placed> placed_;
  mutable std::atomic<const Placed*> ready{nullptr};  ///< placed_, once it is there

  /// What an open program is for these arguments.
  std::shared_ptr<const LoadedState> closed_for(const std::vector<Array>& args,
                                                Location where) const;
  std::shared_ptr<const LoadedState> closed_for(const std::vector<text::GivenArgument>& given,
                                                Location where) const;
  const Placed& placed(Location where) const;
  std::vector<Array> stage(const std::vector<Array>& args, Location where) const;
  std::vector<Array> checked(const std::vector<Array>& args, Location where) const;

  struct Stage {
    const LoadedState* state;
    std::vector<Array> operator()(const std::vector<Array>& args) const {
      return state->stage(args, state->location);
    }
  };
  std::unique_ptr<const JitFunction<Stage, StaticArgnums<>>> eager;
  KnownCall known;  ///< of those
};

namespace {

/// The axes of a mesh in the default device order, over the first devices.
Mesh user_mesh(const MeshRef& mesh, const std::vector<Device>& devices) {
  if (!mesh || !mesh->device_ids.empty()) return Mesh();
  std::vector<std::string> names;
  std::vector<std::int64_t> sizes;
  for (const MeshAxis& axis : mesh->axes) {
    if (!names.empty() && names.back() == axis.name) continue;
    names.push_back(axis.name);
    sizes.push_back(axis.full);
  }
  return Mesh(devices, sizes, names);
}

/// The location of a call from within the standard library is useless; messages then name the line
/// that loaded the file.
Location users_line(Location where, Location loaded) {
  const std::string_view file = where.known() ? where.file : "";
  const bool inside = file.ends_with("/invoke.h") || file.ends_with("/type_traits") ||
                      file.ends_with("/functional") || file.ends_with("tessera/load.h") ||
                      file.ends_with("tessera/detail/callable.h");
  return file.empty() || inside ? loaded : where;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1);
}

}  // namespace

const LoadedState::Placed& LoadedState::placed(Location where) const {
  // Threads that call don't wait for each other here.
  if (const Placed* there = ready.load(std::memory_order_acquire)) return *there;
  const std::lock_guard lock(mutex);
  if (placed_) return *placed_;
  const std::vector<Device>& all = tessera::devices();
  if (devices > std::int64_t(all.size())) {
    throw ValueError("'" + name + "' of " + file + " has shardings for " + std::to_string(devices) +
                         " devices, and there are " + std::to_string(all.size()) +
                         "; set_num_devices or TESSERA_NUM_DEVICES make more, and "
                         "LoadOptions::shardings = false leaves the file's shardings out",
                     where);
  }
  auto out = std::make_unique<Placed>();
  out->devices.assign(all.begin(), all.begin() + devices);
  if (devices > 1) {
    out->mesh = user_mesh(module->mesh, out->devices);
    out->everywhere = frontend::replicated_sharding(out->devices, out->mesh);
    auto add = [&](const auto& from, const std::vector<Shape>& shapes, auto* to) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        to->emplace_back();
        if (from[i] && from[i]->splits_evenly(shapes[i].dims)) {
          to->back() = frontend::sharding_of_result(*from[i], out->devices, out->mesh);
        }
      }
    };
    add(parameter_shardings, parameter_shapes, &out->parameters);
    add(result_shardings, result_shapes, &out->results);
    for (std::size_t i = 0; i < results_on_part.size(); ++i) {
      out->results_on_part.emplace_back();
      const std::optional<TensorSharding>& s = results_on_part[i];
      if (!s || !s->splits_evenly(result_shapes[i].dims)) continue;
      if (s->kind == TensorSharding::Kind::maximal) {
        out->results_on_part[i] = SingleDeviceSharding(all[std::size_t(s->device)]);
      } else {
        const std::vector<Device> first(all.begin(), all.begin() + s->mesh->num_devices());
        out->results_on_part[i] =
            frontend::sharding_of_result(*s, first, user_mesh(s->mesh, first));
      }
      out->results[i] = out->results_on_part[i];
    }
  } else {
    out->parameters.resize(parameter_shapes.size());
    out->results.resize(result_shapes.size());
  }
  placed_ = std::move(out);
  ready.store(placed_.get(), std::memory_order_release);
  return *placed_;
}

std::vector<Array> LoadedState::checked(const std::vector<Array>& args, Location where) const {
  const auto who = [&] { return "'" + name + "' of " + file; };
  if (args.size() != parameter_shapes.size()) {
    std::string types;
    for (const Shape& s : parameter_shapes) types += (types.empty() ? "" : ", ") + s.to_string();
    throw TypeError(who() + " takes " + std::to_string(parameter_shapes.size()) + " arrays (" +
                        types + "), and " + std::to_string(args.size()) + " were given",
                    where);
  }
  std::vector<Array> out = args;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const ArrayImpl& impl = impl_of(out[i], where);
    const Shape& want = parameter_shapes[i];
    auto misfit = [&] {
      return "argument " + std::to_string(i) + " is " + impl.shape.to_string() +
             ", and parameter '" + parameter_names[i] + "' of " + who() + " is " + want.to_string();
    };
    if (impl.shape.dims != want.dims) throw ShapeError(misfit(), where);
    if (impl.shape.dtype == want.dtype) continue;
    if (!impl.weak || !impl.shape.dims.empty()) {
      throw DTypeError(misfit() + "; astype converts an array", where);
    }
    out[i] = out[i].astype(want.dtype, where);
  }
  return out;
}

/// Stages the program as a call in the current trace.
std::vector<Array> LoadedState::stage(const std::vector<Array>& args, Location where) const {
  Trace* trace = Trace::current();
  TESSERA_CHECK(trace, "a loaded program is staged outside of any trace");
  if (devices > 1 && trace->manual_scope()) {
    throw ValueError("'" + name + "' of " + file + " has shardings for " + std::to_string(devices) +
                         " devices and is called within per-device code, which has one device's "
                         "parts; LoadOptions::shardings = false leaves the file's shardings out",
                     where);
  }
  std::vector<Array> operands = checked(args, where);
  const Placed& place = placed(where);
  if (devices > 1) trace->mesh_uses().push_back({place.everywhere, where});
  auto constrain = [&](const Array& x, const TensorSharding& sharding) {
    const std::vector<Array> one{x};
    Array out = frontend::apply(ir::Opcode::sharding_constraint, one, ir::ShardingConstraintAttrs{},
                                where, name, &impl_of(x).shape, nullptr);
    impl_of(out).instruction->sharding = {sharding};
    return out;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (parameter_shardings[i]) operands[i] = constrain(operands[i], *parameter_shardings[i]);
  }
  // All calls in a module share one copy of the program.
  Trace::CachedCall& call = trace->calls()[{"loaded " + std::to_string(id), {}}];
  if (!call.computation) call.computation = trace->module()->import(*module->entry());
  std::vector<Array> out = frontend::apply_many(
      ir::Opcode::call, operands, {}, where, name, nullptr,
      [&](ir::Module*) { return std::vector<ir::Computation*>{call.computation}; });
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (result_shardings[i]) out[i] = constrain(out[i], *result_shardings[i]);
  }
  return out;
}

namespace {

/// Removes the shardings of a value from the module.
std::vector<std::optional<TensorSharding>> take_shardings(ir::Instruction* value, bool keep) {
  std::vector<std::optional<TensorSharding>> out(flatten(value->shape).size());
  for (std::size_t i = 0; keep && i < out.size() && i < value->sharding.size(); ++i) {
    const TensorSharding& s = value->sharding[i];
    const bool says_something =
        s.kind == TensorSharding::Kind::axes && s.mesh && !s.is_manual() && !s.fully_open();
    if (says_something) out[i] = s;
  }
  value->sharding.clear();
  return out;
}

/// Those of a root's shardings that are on fewer devices than the program.
std::vector<std::optional<TensorSharding>> on_part_of_devices(const ir::Instruction& root,
                                                              std::int64_t devices) {
  std::vector<std::optional<TensorSharding>> out(flatten(root.shape).size());
  for (std::size_t i = 0; i < out.size() && i < root.sharding.size(); ++i) {
    const TensorSharding& s = root.sharding[i];
    const bool on_mesh = s.kind == TensorSharding::Kind::axes && s.mesh && !s.fully_open() &&
                         s.mesh->num_devices() < devices;
    if (on_mesh || s.kind == TensorSharding::Kind::maximal) out[i] = s;
  }
  return out;
}

/// `left_out`: by LoadOptions; otherwise the module is for one partition.
void drop_shardings(ir::Module* module, bool left_out, const std::string& file, Location where) {
  ir::drop_shardings(module, [&](const ir::Instruction* i) {
    const auto* manual = i->attrs.get_if<ir::ManualComputationAttrs>();
    const bool on_one_device =
        manual != nullptr && manual->mesh && manual->mesh->num_devices() == 1;
    if (on_one_device && !left_out) return;
    throw ShardingError(
        file + ": code per device (" + i->describe() + ") needs the file's mesh" +
            (left_out ? "; LoadOptions::shardings can't be off" : ", and num_partitions is 1"),
        where);
  });
}

/// The state of a program that was read.
std::shared_ptr<LoadedState> state_of(std::unique_ptr<ir::Module> module, const std::string& path,
                                      const LoadOptions& options, Location where) {
  auto state = std::make_shared<LoadedState>();
  state->file = path;
  state->location = where;
  state->id = next_id();
  state->name = module->name;
  if (module->replica_count > 1) {
    throw NotImplementedError(
        path + ": '" + module->name + "' is for " + std::to_string(module->replica_count) +
            " replicas, each with arguments of its own, and a loaded function takes global arrays; "
            "valid: one replica (mhlo.num_replicas, replica_count) of any number of partitions",
        where);
  }
  if (!options.shardings) drop_shardings(module.get(), true, path, where);
  ir::take_whole_arrays(module.get());
  const bool keep = options.shardings && module->num_partitions > 1;
  state->devices = keep ? module->num_partitions : 1;
  std::vector<std::optional<TensorSharding>> on_part;
  if (keep) {
    on_part = on_part_of_devices(*module->entry()->root(), state->devices);
    spmd::extend_submeshes(module.get());
  }
  for (ir::Instruction* p : module->entry()->parameters()) {
    if (!p->shape.is_array()) {
      throw NotImplementedError(path + ": parameter '" + p->name + "' is a " +
                                    p->shape.to_string() + "; a program can be called whose " +
                                    "parameters are arrays",
                                where);
    }
    state->parameter_names.push_back(p->name);
    state->parameter_shapes.emplace_back(p->shape.dtype, p->shape.dims);
    state->parameter_shardings.push_back(take_shardings(p, keep)[0]);
  }
  ir::Instruction* root = module->entry()->root();
  state->results_on_part = std::move(on_part);
  for (const Shape& s : root->shape.is_tuple ? root->shape.elements : flatten(root->shape)) {
    if (!s.is_array()) {
      throw NotImplementedError(path + ": a result is a " + s.to_string() +
                                    "; a program can be called whose results are arrays",
                                where);
    }
    state->result_shapes.emplace_back(s.dtype, s.dims);
  }
  state->result_shardings = take_shardings(root, keep);
  if (!keep) drop_shardings(module.get(), !options.shardings, path, where);
  state->module = std::move(module);
  JitOptions jit_options;
  jit_options.name = state->name;
  jit_options.arg_names = {"args"};
  jit_options.layouts = options.layouts;
  state->eager = std::make_unique<const JitFunction<LoadedState::Stage, StaticArgnums<>>>(
      LoadedState::Stage{state.get()}, internal::JitCore(jit_options, where, false));
  using Args = std::tuple<std::vector<Array>>;
  Args like{std::vector<Array>(state->parameter_shapes.size())};
  state->known = {
      tree_signature([&](TreeVisitor& v) { ArgumentList<Args, StaticArgnums<>>::walk(like, v); }),
      call_key<std::vector<Array>, Args>()};
  return state;
}

LoadedFunction load(const std::string& path, compiler::TextForm form, const LoadOptions& options,
                    Location where) {
  std::string text;
  try {
    text = compiler::read_file(path);
  } catch (const IoError& e) {
    throw IoError(e.message(), where);
  }
  std::optional<text::Signature> open;
  const text::Arguments later = [&](const text::Signature& signature) {
    open = signature;
    return std::nullopt;
  };
  std::unique_ptr<ir::Module> module = compiler::read_module(text, path, form, &later);
  if (module) return LoadedFunction(state_of(std::move(module), path, options, where));
  auto state = std::make_shared<LoadedState>();
  state->file = path;
  state->name = open->name;
  state->location = where;
  state->open = std::make_unique<OpenProgram>();
  state->open->text = std::move(text);
  state->open->options = options;
  state->open->signature = *std::move(open);
  return LoadedFunction(std::move(state));
}

/// Gives integers that are at hand, one or a shape's, their values; false if there are none.
bool add_values(const std::vector<Array>& args, Location where,
                std::vector<text::GivenArgument>* given) {
  bool any = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArrayImpl& impl = impl_of(args[i], where);
    const bool at_hand =
        impl.kind == ArrayImpl::Kind::host_scalar || impl.kind == ArrayImpl::Kind::device;
    constexpr std::int64_t kMost = 8;
    if (!at_hand || !is_integer(impl.shape.dtype) || impl.shape.rank() > 1 ||
        impl.shape.element_count() > kMost) {
      continue;
    }
    (*given)[i].value = to_vector<std::int64_t>(frontend::to_literal(args[i], where));
    any = true;
  }
  return any;
}

/// "f32[?,16]"
std::string open_type(const Shape& type) {
  std::string out = std::string(tessera::name(type.dtype)) + "[";
  for (std::size_t d = 0; d < type.dims.size(); ++d) {
    out += (d > 0 ? "," : "") + text::size_text(type.dims[d]);
  }
  return out + "]";
}

std::vector<ValueInfo> open_infos(const std::vector<text::DeclaredValue>& values, bool named) {
  std::vector<ValueInfo> out;
  for (const text::DeclaredValue& v : values) {
    const std::string path = named ? v.name : "[" + std::to_string(out.size()) + "]";
    out.push_back({path, v.type.dims, v.type.dtype, false, Sharding()});
  }
  return out;
}

std::vector<ValueInfo> infos(const std::vector<std::string>& paths,
                             const std::vector<Shape>& shapes,
                             const std::vector<std::optional<Sharding>>& shardings) {
  std::vector<ValueInfo> out;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    out.push_back({paths[i], shapes[i].dims, shapes[i].dtype, false,
                   shardings[i] ? *shardings[i] : Sharding()});
  }
  return out;
}

}  // namespace

std::shared_ptr<const LoadedState> LoadedState::closed_for(const std::vector<Array>& args,
                                                           Location where) const {
  const std::vector<text::DeclaredValue>& parameters = open->signature.parameters;
  const auto who = [&] { return "'" + name + "' of " + file; };
  if (args.size() != parameters.size()) {
    std::string types;
    for (const auto& p : parameters) types += (types.empty() ? "" : ", ") + open_type(p.type);
    throw TypeError(who() + " takes " + std::to_string(parameters.size()) + " arrays (" + types +
                        "), and " + std::to_string(args.size()) + " were given",
                    where);
  }
  std::vector<Dims> sizes;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Shape& given = impl_of(args[i], where).shape;
    const Shape& type = parameters[i].type;
    if (!text::fits(Shape(given.dtype, type.dims), given)) {
      throw ShapeError("argument " + std::to_string(i) + " is " + given.to_string() +
                           ", and parameter '" + parameters[i].name + "' of " + who() + " is " +
                           open_type(type) + ", where each ? is any size",
                       where);
    }
    sizes.push_back(given.dims);
  }
  const std::lock_guard lock(open->mutex);
  const auto kept = [&](const std::vector<Dims>& key, std::shared_ptr<const LoadedState> program) {
    open->closed.insert(key, program);
    return program;
  };
  std::vector<text::GivenArgument> given;
  for (const Dims& s : sizes) given.push_back({s});
  if (!open->by_value) {
    if (const auto* known = open->closed.find(sizes)) return *known;
    try {
      return kept(sizes, closed_for(given, where));
    } catch (const NotImplementedError&) {
      if (!add_values(args, where, &given)) throw;
      open->by_value = true;
    }
  } else {
    (void)add_values(args, where, &given);
  }
  for (const text::GivenArgument& g : given) sizes.push_back(g.value.value_or(Dims{}));
  if (const auto* known = open->closed.find(sizes)) return *known;
  return kept(sizes, closed_for(given, where));
}

std::shared_ptr<const LoadedState> LoadedState::closed_for(
    const std::vector<text::GivenArgument>& given, Location where) const {
  const text::Arguments arguments = [&](const text::Signature&) { return std::optional(given); };
  const auto what = [&](const Error& e) {
    std::string types;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const DType t = open->signature.parameters[i].type.dtype;
      types += (types.empty() ? "" : ", ") + Shape(t, given[i].sizes).to_string();
    }
    return "'" + name + "' of " + file + " for " + types + ": " + e.what();
  };
  try {
    return state_of(
        compiler::read_module(open->text, file, compiler::TextForm::stablehlo, &arguments), file,
        open->options, location);
  } catch (const ShapeError& e) {
    throw ShapeError(what(e), where);
  } catch (const ParseError& e) {
    throw ParseError(what(e), where);
  } catch (const NotImplementedError& e) {
    throw NotImplementedError(what(e), where);
  }
}

}  // namespace internal

const std::string& LoadedFunction::name() const { return state_->name; }

std::vector<ValueInfo> LoadedFunction::parameters(Location location) const {
  if (state_->open) return internal::open_infos(state_->open->signature.parameters, true);
  return internal::infos(state_->parameter_names, state_->parameter_shapes,
                         state_->placed(location).parameters);
}

std::vector<ValueInfo> LoadedFunction::results(Location location) const {
  if (state_->open) return internal::open_infos(state_->open->signature.results, false);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < state_->result_shapes.size(); ++i) {
    paths.push_back("[" + std::to_string(i) + "]");
  }
  return internal::infos(paths, state_->result_shapes, state_->placed(location).results);
}

Mesh LoadedFunction::mesh(Location location) const {
  return state_->open ? Mesh() : state_->placed(location).mesh;
}

std::int64_t LoadedFunction::cache_size() const {
  if (!state_->open) return state_->eager->cache_size();
  const std::lock_guard lock(state_->open->mutex);
  std::int64_t programs = 0;
  state_->open->closed.for_each(
      [&](const auto& closed) { programs += closed->eager->cache_size(); });
  return programs;
}

namespace {

std::vector<Array> call_loaded(const internal::LoadedState& state, const std::vector<Array>& args,
                               Location where) {
  if (Trace::current()) return state.stage(args, where);
  if (state.results_on_part.empty()) {
    auto results = state.eager->core().call_known(state.known, args, where);
    if (results) return *std::move(results);
  }
  std::vector<Array> given = state.checked(args, where);
  const auto& place = state.placed(where);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const ArrayImpl& impl = impl_of(given[i], where);
    const std::optional<Sharding>& requested = place.parameters[i];
    if (!requested || impl.committed || impl.kind == ArrayImpl::Kind::abstract) continue;
    frontend::check_across_processes(given[i], *requested,
                                     "argument " + std::to_string(i) + " of " + state.name, where);
    given[i] = internal::make_device_array(
        impl.shape, *requested, frontend::buffers_as(given[i], *requested, where), true, impl.weak);
  }
  std::vector<Array> results = state.eager->call_at(where, std::move(given));
  for (std::size_t i = 0; i < place.results_on_part.size(); ++i) {
    const std::optional<Sharding>& part = place.results_on_part[i];
    if (part) results[i] = device_put(results[i], *part, {}, where);
  }
  return results;
}

}  // namespace

std::vector<Array> LoadedFunction::call_at(Location location,
                                           const std::vector<Array>& args) const {
  const Location where = internal::users_line(location, state_->location);
  return state_->open ? call_loaded(*state_->closed_for(args, where), args, where)
                      : call_loaded(*state_, args, where);
}

LoadedFunction load_stablehlo(const std::string& path, const LoadOptions& options,
                              Location location) {
  return internal::load(path, compiler::TextForm::stablehlo, options, location);
}

LoadedFunction load_hlo(const std::string& path, const LoadOptions& options, Location location) {
  return internal::load(path, compiler::TextForm::hlo, options, location);
}

}  // namespace tessera
