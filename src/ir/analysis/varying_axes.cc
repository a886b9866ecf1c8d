// SPDX-License-Identifier: Apache-2.0
// Varying axes: op by op, and through a manual computation's body.
#include "src/ir/analysis/varying_axes.h"

#include <algorithm>
#include <optional>

#include "src/base/check.h"

namespace tessera::ir {
namespace {

/// Axes along which two devices stand apart.
void add_between(const LogicalMesh& mesh, std::int64_t a, std::int64_t b, VaryingAxes* out) {
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (mesh.coordinate(a, int(axis)) != mesh.coordinate(b, int(axis))) {
      out->insert(mesh.axes[axis].name);
    }
  }
}

/// Axes along which something that is stated per device changes.
template <class T>
VaryingAxes axes_of_change(const LogicalMesh& mesh, const std::vector<T>& of_device) {
  VaryingAxes out;
  const Dims strides = mesh.strides();
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::int64_t stride = strides[axis], size = mesh.axes[axis].size;
    for (std::int64_t p = 0; p < mesh.num_devices(); ++p) {
      if (p / stride % size == 0) continue;
      // Against the one before it along the axis.
      if (of_device[std::size_t(mesh.device_at(p))] ==
          of_device[std::size_t(mesh.device_at(p - stride))]) {
        continue;
      }
      out.insert(mesh.axes[axis].name);
      break;
    }
  }
  return out;
}

/// The axes that the groups of a collective span, and whether a group is all devices along them.
struct Spanned {
  VaryingAxes axes;
  bool whole = true;
};

Spanned spanned(const DeviceGroups& groups, const LogicalMesh& mesh) {
  Spanned out;
  if (groups.symbolic()) {
    for (const int a : groups.axes) {
      const MeshAxis& axis = groups.mesh->axes[std::size_t(a)];
      out.axes.insert(axis.name);
      out.whole &= axis.is_full();
    }
    return out;
  }
  if (groups.lists.empty()) {
    for (const MeshAxis& axis : mesh.axes) out.axes.insert(axis.name);
    return out;
  }
  for (const auto& list : groups.lists) {
    for (const std::int64_t device : list) add_between(mesh, list.front(), device, &out.axes);
  }
  std::int64_t size = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (out.axes.count(axis.name) > 0) size *= axis.size;
  }
  out.whole = std::all_of(groups.lists.begin(), groups.lists.end(),
                          [&](const auto& list) { return std::int64_t(list.size()) == size; });
  return out;
}

/// A device's position along axes of the mesh, as it is computed from its number. The axes are
/// [first, last), the value is row-major over them.
struct Position {
  std::size_t first = 0, last = 0;
};

std::optional<std::int64_t> integer_of(const Instruction& i) {
  const Instruction* x = &i;
  while (x->is(Opcode::broadcast) || x->is(Opcode::convert)) x = x->operand(0);
  const auto* constant = x->attrs.get_if<ConstantAttrs>();
  if (constant == nullptr || constant->elided || !x->shape.is_array() || x->shape.rank() != 0) {
    return std::nullopt;
  }
  if (x->shape.dtype == DType::s32) return constant->value.data<std::int32_t>()[0];
  if (x->shape.dtype == DType::u32) return constant->value.data<std::uint32_t>()[0];
  return std::nullopt;
}

std::optional<Position> position(const Instruction& i, const LogicalMesh& mesh) {
  if (!mesh.device_ids.empty() || !i.shape.is_array() || i.shape.rank() != 0) return std::nullopt;
  if (i.is(Opcode::partition_id)) return Position{0, mesh.axes.size()};
  if (i.is(Opcode::convert) || i.is(Opcode::copy) || i.is(Opcode::reshape)) {
    return position(*i.operand(0), mesh);
  }
  if (!i.is(Opcode::divide) && !i.is(Opcode::remainder)) return std::nullopt;
  const std::optional<std::int64_t> by = integer_of(*i.operand(1));
  if (!by) return std::nullopt;
  std::optional<Position> out = position(*i.operand(0), mesh);
  if (!out) return std::nullopt;
  // By the size of the minor axes: those go, or they alone stay.
  std::int64_t size = 1;
  std::size_t at = out->last;
  while (at > out->first && size < *by) size *= mesh.axes[--at].size;
  if (size != *by) return std::nullopt;
  return i.is(Opcode::divide) ? Position{out->first, at} : Position{at, out->last};
}

/// An element of a table of all devices, at the device's number.
std::optional<VaryingAxes> looked_up(const Instruction& i, const LogicalMesh& mesh) {
  if (!i.is(Opcode::dynamic_slice) || i.operands().size() != 2) return std::nullopt;
  const Instruction* at = i.operand(1);
  while (at->is(Opcode::convert)) at = at->operand(0);
  const auto* table = i.operand(0)->attrs.get_if<ConstantAttrs>();
  if (!at->is(Opcode::partition_id) || table == nullptr || table->elided ||
      i.operand(0)->shape != Shape(DType::s32, {mesh.num_devices()}) || i.shape.dim(0) != 1) {
    return std::nullopt;
  }
  const auto values = table->value.data<std::int32_t>();
  return axes_of_change(mesh, std::vector<std::int32_t>(values.begin(), values.end()));
}

VaryingAxes permuted(const PermuteAttrs& attrs, VaryingAxes of_operand, const LogicalMesh& mesh) {
  std::vector<char> gets(std::size_t(mesh.num_devices()), 0);
  for (const auto& [from, to] : attrs.source_target_pairs) {
    if (std::max(from, to) >= mesh.num_devices()) continue;
    add_between(mesh, from, to, &of_operand);
    gets[std::size_t(to)] = 1;
  }
  // Others have zeros.
  add_axes(&of_operand, axes_of_change(mesh, gets));
  return of_operand;
}

VaryingAxes only(const VaryingAxes& axes, const VaryingAxes& manual) {
  VaryingAxes out;
  std::set_intersection(axes.begin(), axes.end(), manual.begin(), manual.end(),
                        std::inserter(out, out.end()));
  return out;
}

}  // namespace

VaryingAxes varying_axes(const Instruction& op, std::span<const VaryingAxes* const> operands,
                         const LogicalMesh& mesh, const VaryingAxes& manual) {
  VaryingAxes out;
  for (const VaryingAxes* axes : operands) add_axes(&out, *axes);
  if (op.is(Opcode::partition_id)) return manual;
  if (const auto* pvary = op.attrs.get_if<PvaryAttrs>()) {
    out.insert(pvary->axes.begin(), pvary->axes.end());
    return out;
  }
  if (const auto* permute = op.attrs.get_if<PermuteAttrs>()) {
    if (permute->batch) return out;
    return only(permuted(*permute, std::move(out), mesh), manual);
  }
  if (const auto* collective = op.attrs.get_if<CollectiveAttrs>()) {
    if (collective->groups.batch) return out;
    const Spanned groups = spanned(collective->groups, mesh);
    const bool equal = groups.whole && (op.is(Opcode::all_reduce) || op.is(Opcode::all_gather) ||
                                        op.is(Opcode::collective_broadcast));
    if (!equal) {
      add_axes(&out, groups.axes);
      return only(out, manual);
    }
    for (const std::string& axis : groups.axes) out.erase(axis);
    return out;
  }
  if (const std::optional<Position> at = position(op, mesh)) {
    VaryingAxes along;
    for (std::size_t a = at->first; a < at->last; ++a) {
      if (mesh.axes[a].size > 1) along.insert(mesh.axes[a].name);
    }
    return only(along, manual);
  }
  if (const auto along = looked_up(op, mesh)) return only(*along, manual);
  return out;
}

namespace {

VaryingAxes axes_of_all(const std::vector<VaryingAxes>& leaves) {
  VaryingAxes out;
  for (const VaryingAxes& axes : leaves) add_axes(&out, axes);
  return out;
}

void add_to_leaves(std::vector<VaryingAxes>* into, const std::vector<VaryingAxes>& more) {
  TESSERA_CHECK(into->size() == more.size(), "leaves of one shape");
  for (std::size_t n = 0; n < more.size(); ++n) add_axes(&(*into)[n], more[n]);
}

void add_to_each(std::vector<VaryingAxes>* into, const VaryingAxes& more) {
  for (VaryingAxes& axes : *into) add_axes(&axes, more);
}

VaryingAxes names_of(const LogicalMesh& mesh, const IndexList& axes) {
  VaryingAxes out;
  for (const int a : axes) out.insert(mesh.axes[std::size_t(a)].name);
  return out;
}

}  // namespace

VaryingAnalysis::VaryingAnalysis(const Instruction& call, const VaryingAxes& outer,
                                 const std::vector<VaryingAxes>& around) {
  const auto& attrs = call.get<ManualComputationAttrs>();
  const Computation& body = *call.called(0);
  mesh_ = attrs.mesh ? attrs.mesh : make_logical_mesh({});
  manual_ = outer;
  add_axes(&manual_, names_of(*mesh_, attrs.manual_axes));
  std::vector<Leaves> arguments;
  for (std::size_t k = 0; k < body.parameters().size(); ++k) {
    VaryingAxes axes = k < around.size() ? around[k] : VaryingAxes();
    const TensorSharding& s = attrs.in_shardings.at(k);
    for (const DimSharding& d : s.dims) {
      if (s.mesh) add_axes(&axes, names_of(*s.mesh, d.axes));
    }
    arguments.push_back({only(axes, manual_)});
  }
  results_ = run(body, arguments);
}

void VaryingAnalysis::keep(const Instruction& i, const Leaves& leaves) {
  const auto [at, fresh] = values_.try_emplace(&i, leaves);
  if (!fresh) add_to_leaves(&at->second, leaves);
}

VaryingAnalysis::Leaves VaryingAnalysis::run(const Computation& c,
                                             const std::vector<Leaves>& arguments) {
  for (std::size_t k = 0; k < arguments.size(); ++k) keep(*c.parameter(k), arguments[k]);
  for (const auto& i : c.instructions()) {
    if (!i->is(Opcode::parameter)) keep(*i, visit(*i));
  }
  return values_.at(c.root());
}

VaryingAnalysis::Leaves VaryingAnalysis::loop(const Instruction& i, Leaves carried) {
  // Axes are only added, so that it ends.
  for (;;) {
    Leaves next = carried;
    add_to_leaves(&next, run(*i.called(1), {carried}));
    // Devices that leave at different trips differ in all that they carry.
    add_to_each(&next, axes_of_all(run(*i.called(0), {carried})));
    if (next == carried) return carried;
    carried = std::move(next);
  }
}

VaryingAnalysis::Leaves VaryingAnalysis::scan(const Instruction& i) {
  const auto carries = std::size_t(i.get<ScanAttrs>().carries);
  const auto constants = std::size_t(i.get<ScanAttrs>().constants);
  const std::size_t inputs = i.operands().size() - carries - constants;
  std::vector<Leaves> arguments;
  for (const Instruction* o : i.operands()) arguments.push_back(values_.at(o));
  for (;;) {
    // Its results: slices of outputs, then the next carries.
    const Leaves results = run(*i.called(0), arguments);
    const std::size_t outputs = results.size() - carries;
    bool same = true;
    for (std::size_t k = 0; k < carries; ++k) {
      Leaves& carry = arguments[inputs + k];
      const Leaves before = carry;
      add_to_each(&carry, results[outputs + k]);
      same &= before == carry;
    }
    if (same) return results;
  }
}

VaryingAnalysis::Leaves VaryingAnalysis::visit(const Instruction& i) {
  const std::size_t count = flatten(i.shape).size();
  std::vector<Leaves> operands;
  for (const Instruction* o : i.operands()) operands.push_back(values_.at(o));
  switch (i.opcode) {
    case Opcode::tuple:
    case Opcode::opt_barrier: {
      Leaves out;
      for (const Leaves& leaves : operands) out.insert(out.end(), leaves.begin(), leaves.end());
      if (out.size() == count) return out;
      break;
    }
    case Opcode::get_tuple_element: {
      const auto& elements = i.operand(0)->shape.elements;
      std::size_t first = 0;
      for (std::int64_t e = 0; e < i.get<GetTupleElementAttrs>().index; ++e) {
        first += flatten(elements[std::size_t(e)]).size();
      }
      const auto begin = operands[0].begin() + std::ptrdiff_t(first);
      return Leaves(begin, begin + std::ptrdiff_t(count));
    }
    case Opcode::call:
    case Opcode::custom_derivative:
    case Opcode::fusion:
    case Opcode::remat:
      return run(*i.called(0), operands);
    case Opcode::custom_partitioning:
      if (i.called().empty()) break;
      return run(*i.called(0), operands);
    case Opcode::while_:
      return loop(i, operands[0]);
    case Opcode::scan:
      return scan(i);
    case Opcode::conditional: {
      Leaves out(count, axes_of_all(operands[0]));
      for (std::size_t b = 0; b < i.called().size(); ++b) {
        add_to_leaves(&out, run(*i.called(b), {operands[b + 1]}));
      }
      return out;
    }
    case Opcode::manual_computation: {
      std::vector<VaryingAxes> around;
      for (const Leaves& leaves : operands) around.push_back(axes_of_all(leaves));
      const VaryingAnalysis inner(i, manual_, around);
      for (const auto& [value, leaves] : inner.values_) keep(*value, leaves);
      // What varies over its own axes is put together.
      Leaves out = inner.results();
      const auto& attrs = i.get<ManualComputationAttrs>();
      const VaryingAxes own = attrs.mesh ? names_of(*attrs.mesh, attrs.manual_axes) : VaryingAxes();
      for (VaryingAxes& axes : out) {
        for (const std::string& axis : own) axes.erase(axis);
      }
      return out;
    }
    default:
      break;
  }
  std::vector<VaryingAxes> flat;
  for (const Leaves& leaves : operands) flat.push_back(axes_of_all(leaves));
  std::vector<const VaryingAxes*> pointers;
  for (const VaryingAxes& axes : flat) pointers.push_back(&axes);
  return Leaves(count, varying_axes(i, pointers, *mesh_, manual_));
}

}  // namespace tessera::ir
