// SPDX-License-Identifier: Apache-2.0
// Finds the first difference of two programs.
#include "tests/ir/first_difference.h"

#include <unordered_map>

#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/hooks.h"
#include "src/ir/post_order.h"

namespace tessera::ir {
namespace {

void append_literal_bytes(std::string& out, const Literal& literal) {
  append_shape(out, literal.shape());
  for (const Literal& e : literal.elements()) append_literal_bytes(out, e);
  if (!literal.is_tuple()) {
    out.append(reinterpret_cast<const char*>(literal.bytes()), literal.byte_count());
  }
}

// One instruction without names: operands by position, callees by their number.
void append_instruction(std::string& out, const Instruction& i,
                        const std::unordered_map<const Computation*, std::size_t>& numbers,
                        bool axes) {
  out += name(i.opcode);
  out += ' ';
  append_shape(out, i.shape);
  if (const auto* p = i.attrs.get_if<ParameterAttrs>()) append_int(out, p->number);
  if (const auto* c = i.attrs.get_if<ConstantAttrs>()) {
    if (c->elided) {
      out += "...";
    } else {
      append_literal_bytes(out, c->value);
    }
  }
  append_attributes(out, i);
  if (const auto* loop = i.attrs.get_if<WhileAttrs>(); loop && loop->known_trip_count) {
    out += " trips ";
    append_int(out, *loop->known_trip_count);
  }
  // Hooks and sdy's custom calls keep their meaning in their attributes.
  if (const auto* call = i.attrs.get_if<CustomCallAttrs>()) {
    if (call->partitioner != nullptr) out += " partitioner " + call->partitioner->name();
    for (const auto& [k, v] : *i.frontend_attributes) out += " " + k + "=" + v;
  }
  out += " (";
  for (const Instruction* operand : i.operands()) {
    append_int(out, operand->index);
    out += ',';
  }
  out += ")(";
  for (const Computation* callee : i.called()) {
    append_int(out, std::int64_t(numbers.at(callee)));
    out += ',';
  }
  out += ")(";
  for (const Instruction* before : i.control_predecessors()) {
    append_int(out, before->index);
    out += ',';
  }
  out += ')';
  if (i.has_sharding()) out += axes ? canonical_sharding_text(i) : sharding_text(i);
  out += *i.backend_config;
}

std::string interface_text(const Module& m) {
  std::string out = std::to_string(m.num_partitions) + " " + std::to_string(m.replica_count);
  for (const Alias& a : m.input_output_alias) {
    out += " alias";
    append_braced(out, a.output);
    append_int(out, a.parameter);
    append_braced(out, a.parameter_index);
    out += a.must ? '!' : '?';
  }
  for (const auto& [number, path] : m.buffer_donor) {
    out += " donor";
    append_int(out, number);
    append_braced(out, path);
  }
  return out;
}

struct Numbered {
  std::vector<Computation*> order;
  std::unordered_map<const Computation*, std::size_t> numbers;
};

Numbered number(const Module& m) {
  TESSERA_CHECK(m.entry() != nullptr, "module " + m.name + " has no entry");
  Numbered n;
  n.order = post_order({m.entry()});
  for (std::size_t i = 0; i < n.order.size(); ++i) n.numbers.emplace(n.order[i], i);
  return n;
}

}  // namespace

std::string first_difference(const Module& a, const Module& b, bool axes) {
  if (interface_text(a) != interface_text(b)) {
    return "modules: " + interface_text(a) + " and " + interface_text(b);
  }
  Numbered na = number(a), nb = number(b);
  if (na.order.size() != nb.order.size()) {
    return std::to_string(na.order.size()) + " and " + std::to_string(nb.order.size()) +
           " computations";
  }
  for (std::size_t c = 0; c < na.order.size(); ++c) {
    const Computation &ca = *na.order[c], &cb = *nb.order[c];
    std::string where = "computations " + ca.name() + " and " + cb.name() + ": ";
    if (ca.instructions().size() != cb.instructions().size()) {
      return where + std::to_string(ca.instructions().size()) + " and " +
             std::to_string(cb.instructions().size()) + " instructions";
    }
    if (ca.root()->index != cb.root()->index) return where + "different roots";
    for (std::size_t i = 0; i < ca.instructions().size(); ++i) {
      const Instruction &ia = *ca.instructions()[i], &ib = *cb.instructions()[i];
      std::string ta, tb;
      append_instruction(ta, ia, na.numbers, axes);
      append_instruction(tb, ib, nb.numbers, axes);
      if (ta != tb || ia.frontend_attributes != ib.frontend_attributes) {
        return where + to_string(ia) + " and " + to_string(ib);
      }
    }
  }
  return "";
}

}  // namespace tessera::ir
