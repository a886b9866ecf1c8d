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

bool is_donated(const frontend::BoundParameter& p) { return p.donated; }
bool is_donated(const frontend::BoundResult&) { return false; }

/// Of the first values, one for each path: others are captures. `places`: whether it is known how
/// they are sharded.
template <class Value>
std::vector<ValueInfo> infos(const std::vector<std::string>& paths,
                             const std::vector<Value>& values, bool places) {
  std::vector<ValueInfo> out;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Value& v = values[i];
    out.push_back(
        {paths[i], v.shape.dims, v.shape.dtype, is_donated(v), places ? v.sharding : Sharding()});
  }
  return out;
}

/// Descriptions of the first arrays of a program's arguments or results, without its captures.
template <class Value>
std::vector<Array> avals_of(const std::vector<Value>& values, std::size_t count, bool places) {
  std::vector<Array> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Value& v = values[i];
    out.push_back(
        shape_dtype_struct(v.shape.dims, v.shape.dtype, places ? v.sharding : Sharding()));
  }
  return out;
}

template <class Value>
std::vector<Sharding> shardings_of(const std::vector<Value>& values, std::size_t count) {
  std::vector<Sharding> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(values[i].sharding);
  return out;
}

template <class Value>
std::vector<Format> formats_of(const std::vector<Value>& values, std::size_t count) {
  std::vector<Format> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Value& v = values[i];
    const bool known = v.layout && !v.layout->is_auto();
    out.emplace_back(known ? *v.layout : Layout::row_major(v.shape.rank()), v.sharding, Location{});
  }
  return out;
}

}  // namespace

std::vector<ValueInfo> Lowered::args_info() const {
  return infos(state_->paths, state_->placed.bound.parameters, false);
}
std::vector<ValueInfo> Lowered::out_info() const {
  return infos(state_->result_paths, state_->placed.bound.results, false);
}
std::vector<ValueInfo> Compiled::args_info() const {
  return infos(state_->paths, state_->bound.parameters, true);
}
std::vector<ValueInfo> Compiled::out_info() const {
  return infos(state_->result_paths, state_->bound.results, true);
}

const std::string& Lowered::in_tree() const { return state_->tree; }
std::string Lowered::out_tree() const { return state_->result_tree; }
const std::vector<int>& Lowered::donate_argnums() const { return state_->donate_argnums; }
std::vector<Array> Lowered::in_avals() const {
  return avals_of(state_->placed.bound.parameters, state_->avals.size(), false);
}
std::vector<Array> Lowered::out_avals() const {
  const auto& results = state_->placed.bound.results;
  return avals_of(results, results.size(), false);
}
const std::string& Compiled::in_tree() const { return state_->tree; }
std::string Compiled::out_tree() const { return state_->result_tree; }
std::vector<Array> Compiled::in_avals() const {
  return avals_of(state_->bound.parameters, state_->avals.size(), true);
}
std::vector<Array> Compiled::out_avals() const {
  return avals_of(state_->bound.results, state_->bound.results.size(), true);
}

std::vector<DonationInfo> Compiled::donations() const {
  const frontend::BoundProgram& bound = state_->bound;
  const ir::Module& module = bound.executable->partitioned();
  std::vector<DonationInfo> out;
  for (std::size_t i = 0; i < state_->avals.size(); ++i) {
    const frontend::BoundParameter& p = bound.parameters[i];
    if (!p.donated) continue;
    DonationInfo info;
    info.argument = state_->paths[i];
    info.bytes = Shape(p.shape.dtype, p.sharding.shard_shape(p.shape.dims)).byte_count();
    if (p.donation_usable) info.use = DonationInfo::Use::donor;
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
  return shardings_of(state_->bound.parameters, state_->avals.size());
}
std::vector<Sharding> Compiled::output_shardings() const {
  return shardings_of(state_->bound.results, state_->bound.results.size());
}
std::vector<Format> Compiled::input_formats() const {
  return formats_of(state_->bound.parameters, state_->avals.size());
}
std::vector<Format> Compiled::output_formats() const {
  return formats_of(state_->bound.results, state_->bound.results.size());
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
    const Sharding& expected = state_->bound.parameters[i].sharding;
    if (!(impl.shape == avals[i].shape)) {
      wrong_types += (wrong_types.empty() ? "" : "; ") + who + " was compiled with " +
                     avals[i].shape.to_string() + " and called with " + impl.shape.to_string();
    } else if (impl.kind == internal::ArrayImpl::Kind::device && !impl.committed &&
               internal::memory_of(impl) != internal::memory_of(expected)) {
      wrong_places += (wrong_places.empty() ? "" : "; ") + who + " was compiled for memory '" +
                      expected.memory_kind() + "' and is in '" + impl.sharding.memory_kind() + "'";
    } else if (impl.committed && !impl.sharding.is_equivalent_to(expected, impl.shape.rank())) {
      wrong_places += (wrong_places.empty() ? "" : "; ") + misplaced(who, expected, impl.sharding);
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
