// SPDX-License-Identifier: Apache-2.0
// The texts of ops that are custom calls in HLO.
#include "src/ir/hlo/typed_calls.h"

#include <utility>

#include "src/base/check.h"

namespace tessera::ir {
namespace {

constexpr std::string_view kUnspecified = "unspecified_dims=[";
constexpr const char* kDirection = "xla.sdy.allowed_direction";

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

}  // namespace

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
    return constraint->kind == ShardingConstraintAttrs::Kind::value ? kShardingTarget
                                                                    : kResultShardingTarget;
  }
  if (i.is(Opcode::propagation_barrier)) return kBarrierTarget;
  if (i.is(Opcode::custom_partitioning)) return kCustomPartitioningTarget;
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
  } else if (target == kCustomPartitioningTarget) {
    CustomPartitioningAttrs a;
    static_cast<CallAttrs&>(a) = *call;
    i->opcode = Opcode::custom_partitioning;
    i->attrs = std::move(a);
  }
}

Instruction as_custom_call(const Instruction& op) {
  const CallAttrs* attrs = op.attrs.call_attrs();
  TESSERA_CHECK(attrs != nullptr, op.describe() + " is no custom call in any text");
  Instruction out(op);
  CustomCallAttrs call;
  static_cast<CallAttrs&>(call) = *attrs;
  call.target = custom_call_target(op);
  if (const auto* constraint = op.attrs.get_if<ShardingConstraintAttrs>();
      constraint != nullptr && out.backend_config->empty()) {
    out.backend_config = unspecified_text(constraint->unspecified_dims);
  }
  if (const auto* barrier = op.attrs.get_if<PropagationBarrierAttrs>();
      barrier != nullptr && (barrier->forward || barrier->backward) &&
      out.frontend_attributes->count(kDirection) == 0) {
    out.frontend_attributes.edit()[kDirection] = direction_text(*barrier);
  }
  out.opcode = Opcode::custom_call;
  out.attrs = std::move(call);
  return out;
}

}  // namespace tessera::ir
