// SPDX-License-Identifier: Apache-2.0
// Parts of a program in which axes have other types, and results whose sharding is given.
#include <algorithm>

#include <tessera/sharding/abstract_mesh.h>
#include <tessera/sharding/explicit_sharding.h>

#include "src/base/at_location.h"
#include "src/base/contains.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/explicit_specs.h"
#include "src/frontend/run/sharding_prefix.h"

namespace tessera {

using frontend::ShardingType;
using frontend::Trace;
using internal::impl_of;

namespace {

std::string set_text(const std::vector<std::string>& axes) {
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "'" : ", '") + a + "'";
  return "{" + out + "}";
}

/// "unreduced={'x'}", with the kind unless it is that of sums.
std::string unreduced_text(const std::vector<std::string>& axes, UnreducedKind kind) {
  return "unreduced=" + set_text(axes) +
         (kind == UnreducedKind::sum ? "" : std::string(" and UnreducedKind::") + to_string(kind));
}

/// What was reshaped stays as partial as it was.
void check_kept(const PartitionSpec& spec, const frontend::OutShardingRequest& request,
                const std::string& who, Location location) {
  const std::vector<std::string>& kept = *request.kept();
  if (spec.unreduced() == kept && spec.unreduced_kind() == request.kept_kind()) return;
  throw ShardingTypeError(
      who + ": the operand is " + frontend::partial_text(request.kept_kind()) + " over " +
          set_text(kept) + ", and stays one when it is reshaped; valid: a spec with " +
          unreduced_text(kept, request.kept_kind()) + ", or reshard() of the operand before",
      location);
}

/// Sums, maxima and minima that are left for later must be there to be left.
void check_unreduced(const PartitionSpec& spec, const frontend::OutShardingRequest& request,
                     bool is_dot, Location location) {
  const std::vector<std::string>& wanted = spec.unreduced();
  const std::string who = "out_sharding " + spec.to_string();
  if (request.kept() && !request.kept()->empty()) {
    return check_kept(spec, request, who, location);
  }
  if (wanted.empty()) return;
  if (!request.summed()) {
    throw ShardingTypeError(who +
                                ": unreduced axes are those of a dot, a sum, a maximum or a "
                                "minimum, and the result comes of none; valid: a spec without them",
                            location);
  }
  const UnreducedKind kind = request.summed_kind();
  if (spec.unreduced_kind() != kind) {
    throw ShardingTypeError(who + ": the result comes of " +
                                (is_dot ? "a dot, whose parts are those of a sum"
                                 : kind == UnreducedKind::sum ? "a sum"
                                 : kind == UnreducedKind::max ? "a maximum"
                                                              : "a minimum") +
                                "; valid: UnreducedKind::" + to_string(kind) +
                                ", or a spec without unreduced axes",
                            location);
  }
  const std::vector<std::string>& summed = *request.summed();
  const bool fits = is_dot
                        ? wanted == summed
                        : std::includes(summed.begin(), summed.end(), wanted.begin(), wanted.end());
  if (fits) return;
  throw ShardingTypeError(
      who + ": the unreduced axes must be " +
          (is_dot ? "just those that split the contracted dimensions of both operands, "
           : kind == UnreducedKind::sum ? "some of those that split the summed dimensions, "
                                        : "some of those that split the reduced dimensions, ") +
          set_text(summed),
      location);
}

}  // namespace

Array with_out_sharding(const OutSharding& out, const std::function<Array()>& f,
                        Location location) {
  return frontend::as_one_program("with_out_sharding", location, [&] {
    Array result;
    ShardingType type;
    {
      const frontend::OutShardingRequest request;
      result = f();
      Mesh mesh = out.mesh() ? *out.mesh() : request.mesh();
      if (mesh.empty()) mesh = current_mesh();
      if (mesh.empty()) {
        throw ShardingError(
            "out_sharding " + out.spec().to_string() +
                ": neither have the operands a mesh, nor is one in scope: put "
                "`MeshScope scope(mesh);` before, or give NamedSharding(mesh, spec)",
            location);
      }
      type =
          frontend::checked_type(mesh, out.spec(), impl_of(result).shape, "out_sharding", location);
      check_unreduced(out.spec(), request, request.summed_by_dot(), location);
    }
    return std::vector<Array>{frontend::with_sharding_type(result, type, location)};
  })[0];
}

namespace internal {

namespace {

/// The mesh of the first argument that has one in its type, or that in scope.
Mesh explicit_mesh(const std::vector<Array>& leaves) {
  for (const Array& leaf : leaves) {
    if (const ShardingType type = frontend::sharding_type_of(leaf)) return type.mesh;
  }
  const Mesh scope = current_mesh();
  return scope.explicit_axes().empty() ? Mesh() : scope;
}

void check_axes(const std::vector<std::string>& axes, const Mesh& mesh, const std::string& who,
                Location location) {
  for (const std::string& a : axes) {
    if (mesh.has_axis(a)) continue;
    throw ShardingError(who + ": axes holds '" + a + "', which is not in " + mesh.to_string(),
                        location);
  }
}

/// The given shardings of results, one per leaf; `mesh` for specs.
std::vector<ShardingType> types_of_tree(const ShardingTree& tree,
                                        const std::function<void(TreeVisitor&)>& walk,
                                        const std::vector<Array>& leaves, const Mesh& mesh,
                                        const std::string& who, Location location) {
  const auto given = frontend::broadcast_prefix(tree, walk, who, location);
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<ShardingType> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string leaf = who + paths[i];
    const Shape& shape = impl_of(leaves[i]).shape;
    if (given[i].kind() == ShardingTree::Kind::spec) {
      out.push_back(frontend::checked_type(mesh, given[i].spec(), shape, leaf, location));
    } else if (given[i].kind() == ShardingTree::Kind::sharding && given[i].sharding().valid() &&
               NamedSharding::is(given[i].sharding())) {
      const NamedSharding named(given[i].sharding());
      out.push_back(frontend::checked_type(mesh, named.spec(), shape, leaf, location));
    } else {
      throw TypeError(leaf + ": a spec or a NamedSharding is needed, got " + given[i].to_string(),
                      location);
    }
  }
  return out;
}

}  // namespace

std::vector<Array> auto_axes_core(const CallInfo& info, Prototype* prototype,
                                  const AutoAxesOptions& options, Location location) {
  const Mesh mesh = explicit_mesh(info.leaves);
  check_axes(options.axes, mesh, options.name, location);
  if (mesh.empty()) return info.trace(info.leaves, prototype);
  if (options.out_sharding.is_unspecified()) {
    throw TypeError(options.name + ": out_sharding must be given, as the arguments are on " +
                        mesh.to_string() + ", whose Explicit axes the results' types name",
                    location);
  }
  return frontend::as_one_program(options.name, location, [&] {
    std::vector<Array> results;
    {
      const frontend::AutoAxes scope(options.axes);
      results = info.trace(info.leaves, prototype);
    }
    const auto walk = [&](TreeVisitor& v) { info.walk_result(*prototype, v); };
    const auto types = types_of_tree(options.out_sharding, walk, results, mesh,
                                     options.name + "'s out_sharding", location);
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = frontend::with_sharding_type(results[i], types[i], location);
    }
    return results;
  });
}

std::vector<Array> explicit_axes_core(const CallInfo& info, Prototype* prototype,
                                      const ExplicitAxesOptions& options, Location location) {
  const Mesh mesh = current_mesh();
  if (mesh.empty()) {
    throw ValueError(options.name +
                         ": no mesh is in scope, whose axes could become Explicit: put `MeshScope "
                         "scope(mesh);` before",
                     location);
  }
  check_axes(options.axes, mesh, options.name, location);
  if (options.in_sharding.is_unspecified()) {
    throw TypeError(options.name +
                        ": in_sharding must be given, the shardings that the arguments have in "
                        "their types inside",
                    location);
  }
  AbstractMesh::Types types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    const bool chosen = options.axes.empty() || contains(options.axes, mesh.axis_names()[a]);
    if (chosen && types[a] == AxisType::Auto) types[a] = AxisType::Explicit;
  }
  return frontend::as_one_program(options.name, location, [&] {
    const AbstractMeshScope scope(mesh.abstract_mesh().update({.axis_types = types}, location),
                                  location);
    const Mesh inside = current_mesh();
    Trace& trace = *Trace::current();
    const auto in = types_of_tree(options.in_sharding, info.walk_args, info.leaves, inside,
                                  options.name + "'s in_sharding", location);
    std::vector<Array> arguments, results;
    for (std::size_t i = 0; i < info.leaves.size(); ++i) {
      // Under a constraint of its own, so that the argument outside has no such type.
      const Array copy =
          trace.wrap(trace.builder().unary(ir::Opcode::copy, trace.lift(info.leaves[i], location)),
                     info.leaves[i].weak_type());
      arguments.push_back(frontend::with_sharding_type(copy, in[i], location));
    }
    results = info.trace(arguments, prototype);
    for (Array& r : results) {
      const ShardingType type = frontend::sharding_type_of(r);
      if (!type || !mesh.explicit_axes().empty()) continue;
      ir::Instruction* value = trace.builder().unary(ir::Opcode::copy, trace.lift(r, location));
      r = trace.wrap(value, r.weak_type());
    }
    return results;
  });
}

}  // namespace internal

}  // namespace tessera
