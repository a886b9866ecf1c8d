// SPDX-License-Identifier: Apache-2.0
// The opcode table, generated from opcode_list.inc.
#include "src/ir/opcode.h"

#include <array>
#include <string>
#include <unordered_map>

#include "src/base/check.h"

namespace tessera::ir {
namespace {

constexpr OpcodeInfo kTable[] = {
#define X(enumerator, text, operands, flags) {text, operands, flags},
#include "src/ir/opcode_list.inc"
#undef X
};
constexpr int kCount = int(sizeof(kTable) / sizeof(kTable[0]));

const std::unordered_map<std::string_view, Opcode>& by_name() {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string_view, Opcode>();
    for (int i = 0; i < kCount; ++i) m->emplace(kTable[i].text, Opcode(i));
    return m;
  }();
  return *map;
}

}  // namespace

const OpcodeInfo& info(Opcode op) {
  TESSERA_CHECK(int(op) < kCount, "opcode number " + std::to_string(int(op)));
  return kTable[int(op)];
}

std::optional<Opcode> opcode_from_name(std::string_view text) {
  auto it = by_name().find(text);
  if (it == by_name().end()) return std::nullopt;
  return it->second;
}

int opcode_count() { return kCount; }

}  // namespace tessera::ir
