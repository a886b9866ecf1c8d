// SPDX-License-Identifier: Apache-2.0
// The texts of ops that are custom calls in HLO.
#include "src/ir/hlo/typed_calls.h"

#include <tessera/custom/call_attributes.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/ir/hlo/derivative_calls.h"

namespace tessera::ir {
namespace {

constexpr std::string_view kUnspecified = "unspecified_dims=[";
constexpr const char* kDirection = "xla.sdy.allowed_direction";
/// In the frontend attributes of a constraint that is a reshard: others may take it for any.
constexpr const char* kReshard = "tessera.reshard";
constexpr const char* kNoReason = "true";

std::string unspecified_text(const Dims& dims) {
  if (dims.empty()) return {};
  return "\"" + std::string(kUnspecified) + join(dims) + "]\"";
}

std::string direction_text(const PropagationBarrierAttrs& a) {
  if (a.forward) return a.backward ? "BOTH" : "FORWARD";
  return a.backward ? "BACKWARD" : "NONE";
}

/// What says the same in a config or an attribute is dropped, so that there is one truth; other
/// words for it stay and are printed as they stood.
void raise_constraint(Instruction* i, CallAttrs call, ShardingConstraintAttrs::Kind kind) {
  ShardingConstraintAttrs a;
  static_cast<CallAttrs&>(a) = std::move(call);
  a.kind = kind;
  if (kind == ShardingConstraintAttrs::Kind::value) {
    a.unspecified_dims = unspecified_dims(*i);
    if (*i->backend_config == unspecified_text(a.unspecified_dims)) i->backend_config = {};
    if (auto it = i->frontend_attributes->find(kReshard); it != i->frontend_attributes->end()) {
      a.kind = ShardingConstraintAttrs::Kind::reshard;
      if (it->second != kNoReason) a.reason = it->second;
      i->frontend_attributes.edit().erase(kReshard);
    }
  }
  i->opcode = Opcode::sharding_constraint;
  i->attrs = std::move(a);
}

void raise_barrier(Instruction* i, CallAttrs call) {
  PropagationBarrierAttrs a;
  static_cast<CallAttrs&>(a) = std::move(call);
  if (auto it = i->frontend_attributes->find(kDirection); it != i->frontend_attributes->end()) {
    const std::string& text = it->second;
    // By name, or by the number that stands first: none, forward, backward, both.
    const char number = text.empty() ? '0' : text[0];
    const bool both = text.find("BOTH") != std::string::npos || number == '3';
    a.forward = both || text.find("FORWARD") != std::string::npos || number == '1';
    a.backward = both || text.find("BACKWARD") != std::string::npos || number == '2';
    if ((a.forward || a.backward) && text == direction_text(a)) {
      i->frontend_attributes.edit().erase(kDirection);
    }
  }
  i->opcode = Opcode::propagation_barrier;
  i->attrs = std::move(a);
}

/// `mesh<["x"=2]>`. Shardings of one list are mostly on one mesh: its text is kept for the next.
class MeshText {
 public:
  const std::string& of(const MeshRef& mesh) {
    if (mesh == last_) return text_;
    last_ = mesh;
    text_ = "mesh<[";
    const std::string* last = nullptr;
    for (const MeshAxis& a : mesh->axes) {
      if (a.pre != 1 || (last && *last == a.name)) continue;
      text_ += (last ? ", \"" : "\"") + a.name + "\"=" + std::to_string(a.full);
      last = &a.name;
    }
    text_ += "]";
    if (!mesh->device_ids.empty()) text_ += ", device_ids=[" + join(mesh->device_ids) + "]";
    text_ += ">";
    return text_;
  }

 private:
  MeshRef last_;
  std::string text_;
};

/// `<mesh<["x"=2]>, [{"x"}, {?}], replicated={"y"}>`, or with `@mesh`.
std::string sharding_text(const TensorSharding& s, bool names_mesh, MeshText* mesh) {
  const std::string text = s.to_string();
  const std::string prefix = "#sdy.sharding<@" + (s.mesh ? s.mesh->name : "empty_mesh");
  if (names_mesh || !s.mesh || s.kind != TensorSharding::Kind::axes || text.rfind(prefix, 0) != 0) {
    return text.substr(std::string_view("#sdy.sharding").size());
  }
  return "<" + mesh->of(s.mesh) + text.substr(prefix.size());
}

std::string list_text(const std::vector<TensorSharding>& shardings, bool names_mesh) {
  std::string out = "[";
  MeshText mesh;
  for (const TensorSharding& s : shardings) {
    if (out.size() > 1) out += ", ";
    out += sharding_text(s, names_mesh, &mesh);
  }
  return out + "]";
}

/// Reads what one manual computation says.
class ManualReader {
 public:
  ManualReader(const Instruction& call, const NamedMeshes& meshes)
      : call_(call), texts_(call.get<CustomCallAttrs>()), meshes_(meshes) {}

  ManualComputationAttrs read() {
    static_cast<CallAttrs&>(out_) = texts_;
    std::erase_if(out_.other, [](const auto& item) {
      return item.first == kManualInShardings || item.first == kManualOutShardings ||
             item.first == kManualAxes;
    });
    out_.names_mesh = true;
    out_.in_shardings = list(kManualInShardings);
    out_.out_shardings = list(kManualOutShardings);
    for (const auto* shardings : {&out_.in_shardings, &out_.out_shardings}) {
      for (const TensorSharding& s : *shardings) {
        if (s.kind != TensorSharding::Kind::axes) {
          throw ShardingError("the manual computation " + call_.name + " has the sharding " +
                                  s.to_string() + ", which names no axes",
                              call_.location());
        }
        if (!out_.mesh) out_.mesh = s.mesh;
        // A mere name is the module's mesh.
        out_.names_mesh &= !s.mesh || same_mesh(s.mesh, meshes_.otherwise);
      }
    }
    if (!out_.mesh) out_.mesh = meshes_.otherwise;
    axes();
    return std::move(out_);
  }

 private:
  const std::string& entry(const char* key) const {
    for (const auto& [name, text] : texts_.other) {
      if (name == key) return text;
    }
    throw ValueError("the manual computation " + call_.name + " lacks its " + key,
                     call_.location());
  }

  std::vector<TensorSharding> list(const char* key) {
    const std::string& text = entry(key);
    if (text.find("mesh<") != std::string::npos) out_.names_mesh = false;
    try {
      return parse_sdy_sharding_per_value(text, meshes_.by_name);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      throw ParseError("in " + std::string(key) + "=" + text + " of the manual computation " +
                           call_.name + ": " + e.message(),
                       call_.location());
    }
  }

  void axes() {
    const std::string& text = entry(kManualAxes);
    const std::size_t begin = text.find_first_of("[{"), end = text.find_last_of("]}");
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
      throw ParseError("manual_axes=" + text + " of the manual computation " + call_.name +
                           " is no list of axes",
                       call_.location());
    }
    const std::string names = text.substr(begin + 1, end - begin - 1);
    if (names.find('"') == std::string::npos) return;
    try {
      const TensorSharding s = parse_sdy_sharding("<@mesh, [], manual={" + names + "}>", out_.mesh);
      out_.mesh = s.mesh;
      out_.manual_axes = s.manual;
      std::sort(out_.manual_axes.begin(), out_.manual_axes.end());
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      throw ShardingError("in manual_axes=" + text + " of the manual computation " + call_.name +
                              ": " + e.message(),
                          call_.location());
    }
  }

  const Instruction& call_;
  const CustomCallAttrs& texts_;
  const NamedMeshes& meshes_;
  ManualComputationAttrs out_;
};

/// `["x", "y"]`
std::string names_text(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const std::string& name : names) out += (out.size() > 1 ? ", \"" : "\"") + name + "\"";
  return out + "]";
}

void raise_pvary(Instruction* i, CallAttrs call) {
  PvaryAttrs a;
  static_cast<CallAttrs&>(a) = std::move(call);
  const auto item = std::find_if(a.other.begin(), a.other.end(),
                                 [](const auto& entry) { return entry.first == kManualAxes; });
  if (item == a.other.end()) {
    throw ValueError("the pvary " + i->name + " lacks its " + kManualAxes, i->location());
  }
  const std::string& text = item->second;
  for (std::size_t at = text.find('"'); at != std::string::npos;) {
    const std::size_t end = text.find('"', at + 1);
    if (end == std::string::npos) {
      throw ParseError(text + " of the pvary " + i->name + " is no list of axes", i->location());
    }
    a.axes.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('"', end + 1);
  }
  std::sort(a.axes.begin(), a.axes.end());
  a.other.erase(item);
  i->opcode = Opcode::pvary;
  i->attrs = std::move(a);
}

MemoryKind obvious_source(MemoryKind memory) {
  return is_host(memory) ? MemoryKind::device : MemoryKind::pinned_host;
}

/// A placement in a memory that isn't known stays a call, which passes its operand on.
void raise_placement(Instruction* i, CallAttrs call, const std::string& target) {
  if (i->operands().size() != 1 || !i->shape.is_array()) return;
  DevicePlacementAttrs a;
  static_cast<CallAttrs&>(a) = std::move(call);
  a.has_side_effect = false;
  const auto& given = *i->frontend_attributes;
  const auto named = [&](const char* key) {
    const auto found = given.find(key);
    return found == given.end() ? std::optional<MemoryKind>() : memory_kind_named(found->second);
  };
  std::optional<MemoryKind> memory = named(kPlacement);
  if (target == kMoveToHostTarget) memory = MemoryKind::pinned_host;
  if (target == kMoveToDeviceTarget) memory = MemoryKind::device;
  if (!memory) return;
  a.memory = *memory;
  a.source = named(kPlacementSource).value_or(obvious_source(*memory));
  for (const char* key : {kPlacement, kPlacementSource}) {
    if (given.count(key) > 0) i->frontend_attributes.edit().erase(key);
  }
  i->opcode = Opcode::device_placement;
  i->attrs = std::move(a);
}

/// The k greatest of the last dim, k being in the shape of the result. The computation that
/// compares says no more than `largest`.
void raise_top_k(Instruction* i, const CustomCallAttrs& call) {
  if (call.has_side_effect || i->operands().size() != 1) return;
  const Shape& x = i->operand(0)->shape;
  if (!x.is_array() || x.rank() < 1 || is_complex(x.dtype) || !i->shape.is_tuple ||
      i->shape.elements.size() != 2) {
    return;
  }
  const Shape &values = i->shape.elements[0], &indices = i->shape.elements[1];
  if (values.is_tuple || values.rank() != x.rank() || values.dims.back() > x.dims.back()) return;
  Dims dims = x.dims;
  dims.back() = values.dims.back();
  if (values.dtype != x.dtype || values.dims != dims || indices.is_tuple ||
      indices.dtype != DType::s32 || indices.dims != dims) {
    return;
  }
  TopKAttrs a;
  a.k = dims.back();
  try {
    const CallAttributes given = CallAttributes::parse(*i->backend_config, i->location());
    a.largest = given.get_or<bool>("largest", true, i->location());
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return;
  }
  i->set_called({});
  i->backend_config = {};
  i->opcode = Opcode::topk;
  i->attrs = std::move(a);
}

bool is_manual_text(const Instruction& i) {
  return i.is(Opcode::custom_call) && i.get<CustomCallAttrs>().target == kManualComputationTarget;
}

}  // namespace

NamedMeshes named_meshes(const Module& module) {
  NamedMeshes out;
  const auto know = [&](const MeshRef& mesh) {
    if (mesh) out.by_name.emplace(mesh->name, mesh);
  };
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      for (const TensorSharding& s : i->sharding) know(s.mesh);
    }
  }
  know(module.mesh);
  out.otherwise = module.mesh;
  if (!out.otherwise && out.by_name.size() == 1) out.otherwise = out.by_name.begin()->second;
  if (!out.otherwise) out.otherwise = make_logical_mesh({{"devices", module.num_partitions}});
  out.by_name.emplace("mesh", out.otherwise);
  return out;
}

void raise_manual_computation(Instruction* call, const NamedMeshes& meshes) {
  if (!is_manual_text(*call)) return;
  ManualComputationAttrs attrs = ManualReader(*call, meshes).read();
  call->opcode = Opcode::manual_computation;
  call->attrs = std::move(attrs);
}

void raise_manual_computations(Module* module, MeshTable meshes) {
  std::vector<Instruction*> calls;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (is_manual_text(*i)) calls.push_back(i.get());
    }
  }
  if (calls.empty()) return;
  NamedMeshes known = named_meshes(*module);
  // Names are those of the table: a mesh that stands in a sharding has none, whatever it is called.
  for (auto& [name, mesh] : meshes) {
    const auto [entry, added] = known.by_name.emplace(name, mesh);
    if (!added && !same_mesh(entry->second, mesh)) entry->second = std::move(mesh);
  }
  for (Instruction* call : calls) {
    try {
      raise_manual_computation(call, known);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      continue;
    }
  }
}

std::string axes_text(const MeshRef& mesh, const IndexList& axes) {
  if (axes.empty()) return {};
  TensorSharding s;
  s.mesh = mesh;
  s.manual = axes;
  const std::string text = s.to_string();
  constexpr std::string_view kBefore = "manual={";
  const std::size_t begin = text.find(kBefore) + kBefore.size();
  return text.substr(begin, text.rfind("}>") - begin);
}

Dims unspecified_dims(const Instruction& call) {
  Dims dims;
  const std::string& text = *call.backend_config;
  std::size_t at = text.find(kUnspecified);
  if (at == std::string::npos) return dims;
  std::int64_t number = -1;
  for (at += kUnspecified.size(); at < text.size(); ++at) {
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      number = (number < 0 ? 0 : number * 10) + (c - '0');
      if (number > 1000) break;
      continue;
    }
    if (number >= 0) dims.push_back(number);
    number = -1;
    if (c == ']') break;
  }
  return dims;
}

std::string custom_call_target(const Instruction& i) {
  if (const auto* call = i.attrs.get_if<CustomCallAttrs>()) return call->target;
  if (const auto* constraint = i.attrs.get_if<ShardingConstraintAttrs>()) {
    return constraint->kind == ShardingConstraintAttrs::Kind::result ? kResultShardingTarget
                                                                     : kShardingTarget;
  }
  if (i.is(Opcode::propagation_barrier)) return kBarrierTarget;
  if (i.is(Opcode::custom_partitioning)) return kCustomPartitioningTarget;
  if (i.is(Opcode::manual_computation)) return kManualComputationTarget;
  if (i.is(Opcode::pvary)) return kPvaryTarget;
  if (i.is(Opcode::device_placement)) return kPlacementTarget;
  if (i.is(Opcode::remat)) return kRematTarget;
  if (i.is(Opcode::custom_derivative)) return kCustomDerivativeTarget;
  return {};
}

void raise_custom_call(Instruction* i) {
  const auto* call = i->attrs.get_if<CustomCallAttrs>();
  if (!i->is(Opcode::custom_call) || call == nullptr) return;
  using Kind = ShardingConstraintAttrs::Kind;
  const std::string target = call->target;
  if (target == kShardingTarget || target == kResultShardingTarget) {
    raise_constraint(i, *call, target == kShardingTarget ? Kind::value : Kind::result);
  } else if (target == kBarrierTarget) {
    raise_barrier(i, *call);
  } else if (target == kPvaryTarget) {
    raise_pvary(i, *call);
  } else if (target == kPlacementTarget || target == kMoveToHostTarget ||
             target == kMoveToDeviceTarget) {
    raise_placement(i, *call, target);
  } else if (target == kRematTarget) {
    raise_remat(i, *call);
  } else if (target == kCustomDerivativeTarget) {
    raise_custom_derivative(i, *call);
  } else if (target == kTopKTarget || target == kMhloTopKTarget) {
    raise_top_k(i, *call);
  } else if (target == kCustomPartitioningTarget) {
    CustomPartitioningAttrs a;
    static_cast<CallAttrs&>(a) = *call;
    i->opcode = Opcode::custom_partitioning;
    i->attrs = std::move(a);
  }
}

Instruction as_custom_call(const Instruction& op, bool meshes_in_place) {
  const CallAttrs* attrs = op.attrs.call_attrs();
  TESSERA_CHECK(attrs != nullptr, op.describe() + " is no custom call in any text");
  Instruction out(op);
  CustomCallAttrs call;
  static_cast<CallAttrs&>(call) = *attrs;
  call.target = custom_call_target(op);
  if (const auto* constraint = op.attrs.get_if<ShardingConstraintAttrs>()) {
    if (out.backend_config->empty()) {
      out.backend_config = unspecified_text(constraint->unspecified_dims);
    }
    if (constraint->kind == ShardingConstraintAttrs::Kind::reshard) {
      out.frontend_attributes.edit()[kReshard] =
          constraint->reason.empty() ? kNoReason : constraint->reason;
    }
  }
  if (const auto* barrier = op.attrs.get_if<PropagationBarrierAttrs>();
      barrier != nullptr && (barrier->forward || barrier->backward) &&
      out.frontend_attributes->count(kDirection) == 0) {
    out.frontend_attributes.edit()[kDirection] = direction_text(*barrier);
  }
  if (const auto* manual = op.attrs.get_if<ManualComputationAttrs>()) {
    const bool names = manual->names_mesh && !meshes_in_place;
    call.other.emplace_back(kManualInShardings, list_text(manual->in_shardings, names));
    call.other.emplace_back(kManualOutShardings, list_text(manual->out_shardings, names));
    call.other.emplace_back(kManualAxes, "[" + axes_text(manual->mesh, manual->manual_axes) + "]");
  }
  if (const auto* pvary = op.attrs.get_if<PvaryAttrs>()) {
    call.other.emplace_back(kManualAxes, names_text(pvary->axes));
  }
  if (const auto* placement = op.attrs.get_if<DevicePlacementAttrs>()) {
    // Others would drop a placement that nothing seems to need.
    call.has_side_effect = true;
    auto& attributes = out.frontend_attributes.edit();
    attributes[kPlacement] = name(placement->memory);
    if (placement->source != obvious_source(placement->memory)) {
      attributes[kPlacementSource] = name(placement->source);
    }
  }
  lower_derivative_attributes(op, &call);
  out.opcode = Opcode::custom_call;
  out.attrs = std::move(call);
  return out;
}

void lower_to_custom_call(Instruction* op) {
  const Instruction call = as_custom_call(*op);
  op->opcode = call.opcode;
  op->attrs = call.attrs;
  op->backend_config = call.backend_config;
  op->frontend_attributes = call.frontend_attributes;
}

}  // namespace tessera::ir
