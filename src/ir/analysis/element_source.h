// SPDX-License-Identifier: Apache-2.0
// Where the elements of an op's result come from: what fusion does and what the solver expects it
// to do both begin with this.
#pragma once

#include <cstdint>

#include "src/ir/opcode.h"

namespace tessera::ir {

enum class ElementSource : std::uint8_t {
  other,     ///< an array that somebody makes
  computed,  ///< from the elements at its place, or from nothing
  repeated,  ///< an element of an operand, which more than one of the result may be
  moved,     ///< an element of an operand, or of one of several
};

inline ElementSource element_source(Opcode op) {
  using namespace traits;
  // Copies are other names here, whatever they move.
  if (is_elementwise(op)) return is_alias(op) ? ElementSource::other : ElementSource::computed;
  if (has_trait(op, repeats)) return ElementSource::repeated;
  if (has_trait(op, permutes | selects | assembles)) return ElementSource::moved;
  return is_generated(op) && !is_alias(op) ? ElementSource::computed : ElementSource::other;
}

}  // namespace tessera::ir
