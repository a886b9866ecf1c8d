// SPDX-License-Identifier: Apache-2.0
// Kernels that another one runs, as its links, and where that one has their operands.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/key_writer.h"
#include "src/codegen/kernels/kernel_descriptor.h"

namespace tessera::codegen {

/// Where an operand of a link is: an input or output of what runs the links, or scratch memory.
struct Place {
  enum class Kind : std::uint8_t { input, output, scratch } kind = Kind::input;
  int number = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Link {
  KernelDescriptor kernel;  ///< whole, as are its units and its time
  std::vector<Place> inputs, outputs;
};

inline void add_to_key(KeyWriter& key, const Place& p) { key.add_all(p.kind, p.number); }
inline void add_to_key(KeyWriter& key, const Link& link) {
  key.add_all(link.kernel.key, link.kernel.units, link.inputs, link.outputs);
}

/// The operands' memory while links run.
struct LinkMemory {
  const runtime::KernelCall& call;
  std::byte* const* scratch = nullptr;  ///< of each place

  std::byte* at(const Place& p) const {
    // Kernels don't write their inputs.
    return p.kind == Place::Kind::input    ? const_cast<std::byte*>(call.inputs[p.number])
           : p.kind == Place::Kind::output ? call.outputs[p.number]
                                           : scratch[p.number];
  }
};

/// Places of scratch memory are at addresses that end here.
constexpr std::int64_t rounded_scratch(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace tessera::codegen
