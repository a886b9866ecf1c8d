// SPDX-License-Identifier: Apache-2.0
// The types of what a custom_vjp gives, in code per device, as text.
#include "src/transforms/utils/custom_vjp.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Opcode;

std::string varies_text(const std::vector<ir::VaryingAxes>& leaves) {
  std::string out;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    if (n > 0) out += ';';
    std::string axes;
    for (const std::string& axis : leaves[n]) axes += (axes.empty() ? "" : ",") + axis;
    out += axes;
  }
  return out;
}

std::vector<ir::VaryingAxes> varies_from_text(const std::string& text) {
  std::vector<ir::VaryingAxes> out(1);
  std::string axis;
  const auto take = [&] {
    if (!axis.empty()) out.back().insert(axis);
    axis.clear();
  };
  for (const char c : text) {
    if (c != ',' && c != ';') {
      axis += c;
      continue;
    }
    take();
    if (c == ';') out.emplace_back();
  }
  take();
  return out;
}

void note_types(const Computation& c, const ir::VaryingAnalysis& types,
                const ir::VaryingAxes& own) {
  for (const auto& i : c.instructions()) {
    const auto* custom = i->attrs.get_if<ir::CustomDerivativeAttrs>();
    if (custom != nullptr && custom->kind == ir::CustomDerivativeAttrs::Kind::vjp) {
      std::vector<ir::VaryingAxes> leaves = types[i.get()];
      for (ir::VaryingAxes& axes : leaves) {
        std::erase_if(axes, [&](const std::string& axis) { return own.count(axis) == 0; });
      }
      // Of the axes of a shard_map around this one, that one has told.
      const auto before = i->frontend_attributes->find(kVaries);
      if (before != i->frontend_attributes->end()) {
        const std::vector<ir::VaryingAxes> told = varies_from_text(before->second);
        for (std::size_t n = 0; n < leaves.size(); ++n) {
          for (const std::string& axis : told.at(n)) {
            if (own.count(axis) == 0) leaves[n].insert(axis);
          }
        }
      }
      i->frontend_attributes.edit()[kVaries] = varies_text(leaves);
    }
    switch (i->opcode) {
      case Opcode::call:
      case Opcode::custom_derivative:
      case Opcode::fusion:
      case Opcode::manual_computation:
      case Opcode::remat:
      case Opcode::scan:
        note_types(*i->called(0), types, own);
        break;
      case Opcode::conditional:
      case Opcode::custom_partitioning:
      case Opcode::while_:
        for (const Computation* callee : i->called()) note_types(*callee, types, own);
        break;
      default:
        break;
    }
  }
}

}  // namespace tessera::transforms
