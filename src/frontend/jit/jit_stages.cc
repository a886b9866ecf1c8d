// SPDX-License-Identifier: Apache-2.0
// Lowered and Compiled: the stages of a jitted function.
#include "src/frontend/jit/jit_stages.h"

#include "src/base/threads/background.h"
#include "src/compiler/explain/explain.h"
#include "src/compiler/read_module.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/text/read/stablehlo.h"

namespace tessera {

namespace {

/// Placing modifies the module, so it works on a copy.
frontend::PlacedProgram copy_of(const frontend::PlacedProgram& placed) {
  frontend::PlacedProgram copy;
  copy.bound = placed.bound;
  copy.mesh = placed.mesh;
  copy.parameter_committed = placed.parameter_committed;
  copy.result_memory = placed.result_memory;
  copy.program.name = placed.program.name;
  copy.program.location = placed.program.location;
  copy.program.parameters = placed.program.parameters;
  copy.program.results = placed.program.results;
  copy.program.result_weak = placed.program.result_weak;
  copy.program.donated = placed.program.donated;
  copy.program.requests = placed.program.requests;
  copy.program.module = placed.program.module->clone();
  return copy;
}

}  // namespace

std::string Lowered::as_text(const std::string& dialect, Location location) const {
  // Scans are printed as loops in all dialects, as JAX does.
  const std::unique_ptr<ir::Module> module = state_->placed.program.module->clone();
  passes::expand_derivative_ops(module.get());
  passes::expand_scans(module.get());
  if (dialect == "stablehlo") return text::to_stablehlo(*module);
  if (dialect != "hlo") {
    throw ValueError("as_text('" + dialect + "'): the dialects are: hlo, stablehlo", location);
  }
  ir::PrintOptions options;
  options.axis_names = true;
  return ir::to_string(*module, options);
}

std::string Lowered::as_bytecode() const {
  return compiler::write_module(*state_->placed.program.module, compiler::TextForm::bytecode);
}

void wait_for_optimized_code() { wait_for_background(); }

Compiled Lowered::compile(Location) const {
  auto compiled = std::make_shared<internal::CompiledState>();
  compiled->avals = state_->avals;
  compiled->names = state_->names;
  compiled->paths = state_->paths;
  compiled->result_paths = state_->result_paths;
  compiled->tree = state_->tree;
  compiled->result_tree = state_->result_tree;
  compiled->types = state_->types;
  compiled->prototype = state_->prototype;
  compiled->captures = state_->captures;
  compiled->bound = frontend::compile_program(copy_of(state_->placed));
  return Compiled(std::move(compiled));
}

namespace {

std::vector<ValueInfo> infos(const std::vector<std::string>& paths,
                             const std::vector<Shape>& shapes, const std::vector<bool>& donated,
                             const std::vector<Sharding>& shardings) {
  std::vector<ValueInfo> out;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    out.push_back({paths[i], shapes[i].dims, shapes[i].dtype, i < donated.size() && donated[i],
                   i < shardings.size() ? shardings[i] : Sharding()});
  }
  return out;
}

}  // namespace

std::vector<ValueInfo> Lowered::args_info() const {
  const auto& bound = state_->placed.bound;
  return infos(state_->paths, bound.parameter_shapes, bound.donated, {});
}
std::vector<ValueInfo> Lowered::out_info() const {
  return infos(state_->result_paths, state_->placed.bound.result_shapes, {}, {});
}
std::vector<ValueInfo> Compiled::args_info() const {
  const auto& bound = state_->bound;
  return infos(state_->paths, bound.parameter_shapes, bound.donated, bound.parameter_shardings);
}
std::vector<ValueInfo> Compiled::out_info() const {
  const auto& bound = state_->bound;
  return infos(state_->result_paths, bound.result_shapes, {}, bound.result_shardings);
}

namespace {

/// Descriptions of the first arrays of a program's arguments or results, without its captures.
std::vector<Array> avals_of(const std::vector<Shape>& shapes, std::size_t count,
                            const std::vector<Sharding>& shardings) {
  std::vector<Array> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(shape_dtype_struct(shapes[i].dims, shapes[i].dtype,
                                     i < shardings.size() ? shardings[i] : Sharding()));
  }
  return out;
}

}  // namespace

const std::string& Lowered::in_tree() const { return state_->tree; }
std::string Lowered::out_tree() const { return state_->result_tree; }
const std::vector<int>& Lowered::donate_argnums() const { return state_->donate_argnums; }
std::vector<Array> Lowered::in_avals() const {
  return avals_of(state_->placed.bound.parameter_shapes, state_->avals.size(), {});
}
std::vector<Array> Lowered::out_avals() const {
  const auto& shapes = state_->placed.bound.result_shapes;
  return avals_of(shapes, shapes.size(), {});
}
const std::string& Compiled::in_tree() const { return state_->tree; }
std::string Compiled::out_tree() const { return state_->result_tree; }
std::vector<Array> Compiled::in_avals() const {
  const auto& bound = state_->bound;
  return avals_of(bound.parameter_shapes, state_->avals.size(), bound.parameter_shardings);
}
std::vector<Array> Compiled::out_avals() const {
  const auto& bound = state_->bound;
  return avals_of(bound.result_shapes, bound.result_shapes.size(), bound.result_shardings);
}

std::vector<DonationInfo> Compiled::donations() const {
  const frontend::BoundProgram& bound = state_->bound;
  const ir::Module& module = bound.executable->partitioned();
  std::vector<DonationInfo> out;
  for (std::size_t i = 0; i < state_->avals.size(); ++i) {
    if (!bound.donated[i]) continue;
    DonationInfo info;
    info.argument = state_->paths[i];
    const Shape& shape = bound.parameter_shapes[i];
    info.bytes =
        Shape(shape.dtype, bound.parameter_shardings[i].shard_shape(shape.dims)).byte_count();
    if (bound.donation_usable[i]) info.use = DonationInfo::Use::donor;
    for (const ir::Alias& alias : module.input_output_alias) {
      if (bound.kept[std::size_t(alias.parameter)] != i) continue;
      info.use = DonationInfo::Use::aliased;
      info.result = state_->result_paths[alias.output.empty() ? 0 : std::size_t(alias.output[0])];
    }
    out.push_back(std::move(info));
  }
  return out;
}

std::string Compiled::as_text() const {
  return ir::to_string(state_->bound.executable->partitioned());
}
std::vector<HloModule> Compiled::hlo_modules() const { return {HloModule(as_text())}; }

std::vector<Sharding> Compiled::input_shardings() const {
  const auto& all = state_->bound.parameter_shardings;
  return {all.begin(), all.begin() + std::ptrdiff_t(state_->avals.size())};
}
std::vector<Sharding> Compiled::output_shardings() const { return state_->bound.result_shardings; }

namespace {

std::vector<Format> formats_of(const std::vector<Shape>& shapes, std::size_t count,
                               const std::vector<Sharding>& shardings,
                               const std::vector<std::optional<Layout>>& stated) {
  std::vector<Format> out;
  for (std::size_t i = 0; i < count; ++i) {
    const bool known = i < stated.size() && stated[i] && !stated[i]->is_auto();
    out.emplace_back(known ? *stated[i] : Layout::row_major(shapes[i].rank()), shardings[i],
                     Location{});
  }
  return out;
}

}  // namespace

std::vector<Format> Compiled::input_formats() const {
  const auto& bound = state_->bound;
  return formats_of(bound.parameter_shapes, state_->avals.size(), bound.parameter_shardings,
                    bound.parameter_layouts);
}
std::vector<Format> Compiled::output_formats() const {
  const auto& bound = state_->bound;
  return formats_of(bound.result_shapes, bound.result_shapes.size(), bound.result_shardings,
                    bound.result_layouts);
}

Layouts Compiled::layouts() const { return state_->bound.executable->layouts(); }

MemoryAnalysis Compiled::memory_analysis() const {
  return state_->bound.executable->memory_analysis();
}
CostAnalysis Compiled::cost_analysis(const Network& network) const {
  return state_->bound.executable->cost_analysis(network);
}

namespace {

/// Arguments and results by the user's names. `kept`: the arguments that the module takes.
compiler::explain::Names names_of(const std::vector<std::string>& paths,
                                  const std::vector<std::string>& result_paths,
                                  const std::vector<std::size_t>& kept) {
  compiler::explain::Names names;
  for (const std::size_t i : kept) {
    names.parameters.push_back(i < paths.size() ? paths[i] : "a captured array");
  }
  for (const std::string& path : result_paths) names.results.push_back("result" + path);
  return names;
}

}  // namespace

Explanation Lowered::explain(const ExplainOptions& options) const {
  const frontend::PlacedProgram& placed = state_->placed;
  const compiler::Options compile(placed.program.requests);
  return compiler::explain_module(*placed.program.module, compile, options,
                                  names_of(state_->paths, state_->result_paths, placed.bound.kept));
}
Explanation Compiled::explain(const ExplainOptions& options) const {
  const frontend::BoundProgram& bound = state_->bound;
  compiler::Options compile(bound.requests);
  compile.layouts = bound.executable->layouts();
  return compiler::explain_module(bound.executable->input(), compile, options,
                                  names_of(state_->paths, state_->result_paths, bound.kept));
}

std::vector<CollectiveInfo> Compiled::collectives() const {
  std::vector<CollectiveInfo> out;
  for (const spmd::CommunicationRecord& r : state_->bound.executable->report().records) {
    out.push_back({r.kind, r.for_op, r.location.to_string(), r.from, r.to, r.bytes_received,
                   r.full_gather, r.reason});
  }
  return out;
}
std::vector<std::string> Compiled::replicated_ops() const {
  return state_->bound.executable->report().replicated_ops;
}
std::vector<std::string> Compiled::evaluator_ops() const {
  return state_->bound.executable->evaluator_ops();
}

std::vector<Array> Compiled::call_tree(const std::vector<Array>& leaves, const std::string& tree,
                                       internal::TypeKey types, internal::Prototype* prototype,
                                       Location location) const {
  if (!(types == state_->types)) {
    throw TypeError("'" + state_->bound.name + "' was compiled as " + state_->types.name() +
                        " and is called as " + types.name(),
                    location);
  }
  // A module that was stored has no tree.
  if (tree != state_->tree && !(state_->tree.empty() && !leaves.empty())) {
    throw TypeError("'" + state_->bound.name +
                        "': the arguments' tree differs from that compiled "
                        "for: " +
                        state_->tree + " then, " + tree + " now (* is an array)",
                    location);
  }
  *prototype = state_->prototype;
  return call_flat(leaves, location);
}

namespace {

/// The texts of two shardings, with their devices if they would otherwise be the same.
std::string misplaced(const std::string& who, const Sharding& expected, const Sharding& got) {
  std::string want = expected.to_string(), have = got.to_string();
  if (want == have) {
    const auto on = [](const Sharding& s) {
      std::string out = " on devices";
      for (const Device& d : s.device_list()) out += " " + std::to_string(d.id);
      return out;
    };
    want += on(expected);
    have += on(got);
  }
  return who + " was compiled for " + want + " and is sharded as " + have;
}

}  // namespace

std::vector<Array> Compiled::call_flat(const std::vector<Array>& leaves, Location location) const {
  const auto& avals = state_->avals;
  const std::string& name = state_->bound.name;
  if (!state_->bound.lacks_devices.empty()) throw ValueError(state_->bound.lacks_devices, location);
  if (leaves.size() != avals.size()) {
    throw TypeError("'" + name + "' was compiled for " + std::to_string(avals.size()) +
                        " arrays and called with " + std::to_string(leaves.size()),
                    location);
  }
  std::string wrong_types, wrong_places;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const internal::ArrayImpl& impl = internal::impl_of(leaves[i], location);
    const std::string& who = state_->names[i];
    if (!(impl.shape == avals[i].shape)) {
      wrong_types += (wrong_types.empty() ? "" : "; ") + who + " was compiled with " +
                     avals[i].shape.to_string() + " and called with " + impl.shape.to_string();
    } else if (impl.kind == internal::ArrayImpl::Kind::device && !impl.committed &&
               internal::memory_of(impl) !=
                   internal::memory_of(state_->bound.parameter_shardings[i])) {
      wrong_places += (wrong_places.empty() ? "" : "; ") + who + " was compiled for memory '" +
                      state_->bound.parameter_shardings[i].memory_kind() + "' and is in '" +
                      impl.sharding.memory_kind() + "'";
    } else if (impl.committed && !impl.sharding.is_equivalent_to(
                                     state_->bound.parameter_shardings[i], impl.shape.rank())) {
      wrong_places += (wrong_places.empty() ? "" : "; ") +
                      misplaced(who, state_->bound.parameter_shardings[i], impl.sharding);
    }
  }
  if (!wrong_types.empty()) {
    throw TypeError("'" + name + "': argument types differ from those compiled for: " + wrong_types,
                    location);
  }
  if (!wrong_places.empty()) {
    throw ValueError("'" + name + "': shardings differ from those compiled for: " + wrong_places,
                     location);
  }
  if (state_->captures.empty()) return frontend::run_program(state_->bound, leaves, location);
  std::vector<Array> args = leaves;
  args.insert(args.end(), state_->captures.begin(), state_->captures.end());
  return frontend::run_program(state_->bound, args, location);
}

}  // namespace tessera
