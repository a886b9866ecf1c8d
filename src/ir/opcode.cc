// SPDX-License-Identifier: Apache-2.0
// The opcode table, generated from opcode_list.inc.
#include "src/ir/opcode.h"

#include <unordered_map>

namespace tessera::ir {
namespace {

// What the column LINEAR is written in.
namespace linearity {
constexpr std::uint32_t kAll = ~std::uint32_t(0);
template <class... Operands>
constexpr std::uint32_t bits(Operands... operands) {
  return ((std::uint32_t(1) << operands) | ... | 0u);
}
constexpr Linearity none{};
constexpr Linearity all{Linearity::Kind::jointly, kAll};
template <class... Operands>
constexpr Linearity jointly(Operands... operands) {
  return {Linearity::Kind::jointly, bits(operands...)};
}
template <class... Operands>
constexpr Linearity each(Operands... operands) {
  return {Linearity::Kind::each, bits(operands...)};
}
/// Without operands: in all.
template <class... Operands>
constexpr Linearity sums(Operands... operands) {
  return {Linearity::Kind::sums, sizeof...(operands) == 0 ? kAll : bits(operands...)};
}
}  // namespace linearity

}  // namespace

constexpr OpcodeInfo kOpTable[] = {
#define OP(enumerator, text, operands, attributes, types_, shape, factors, evaluate, traits_, \
           linear, work, calls, dialect, ...)                                                 \
  {text,                                                                                      \
   operands,                                                                                  \
   [] {                                                                                       \
     using namespace types;                                                                   \
     return unsigned(types_);                                                                 \
   }(),                                                                                       \
   [] {                                                                                       \
     using namespace traits;                                                                  \
     return unsigned(traits_);                                                                \
   }(),                                                                                       \
   [] {                                                                                       \
     using namespace linearity;                                                               \
     return Linearity(linear);                                                                \
   }(),                                                                                       \
   Work::work,                                                                                \
   Calls::calls,                                                                              \
   Dialect::dialect},
#include "src/ir/opcode_list.inc"
};
namespace {

constexpr int kCount = int(sizeof(kOpTable) / sizeof(kOpTable[0]));

const std::unordered_map<std::string_view, Opcode>& by_name() {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string_view, Opcode>();
    for (int i = 0; i < kCount; ++i) m->emplace(kOpTable[i].text, Opcode(i));
    return m;
  }();
  return *map;
}

}  // namespace

std::optional<Opcode> opcode_from_name(std::string_view text) {
  auto it = by_name().find(text);
  if (it == by_name().end()) return std::nullopt;
  return it->second;
}

std::string_view text_name(Opcode op) {
  return name(is_printed_as_custom_call(op) ? Opcode::custom_call : op);
}

int opcode_count() { return kCount; }

}  // namespace tessera::ir
