// SPDX-License-Identifier: Apache-2.0
// The names of a function's values.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/ir/module.h"

namespace tessera::text {

/// What gives a value, as far as data-flow edges may ask.
enum class Origin : std::uint8_t { other, function_argument, call, sdy };

/// One name with its values. Names of a region that was left are dead until they come again.
struct Symbol {
  std::string_view name;
  int level = -1;  ///< depth of the region that defines it; -1: dead
  ir::Instruction* one = nullptr;
  std::uint32_t first = 0, count = 0;  ///< in Symbols::pool, if there is not exactly one
  Origin origin = Origin::other;
  std::uint32_t reads = 0;  ///< of a single value; of others in Symbols::reads
};

/// Open addressing over names that live in the text.
class Symbols {
 public:
  Symbols() : slots_(1024) {}

  /// The slot of a name, made if there is none.
  Symbol& slot(std::string_view name) {
    if (used_.size() * 2 >= slots_.size()) grow();
    std::size_t i = place(name);
    if (slots_[i].name.data() == nullptr) {
      slots_[i].name = name;
      used_.push_back(std::uint32_t(i));
    }
    return slots_[i];
  }
  Symbol* find(std::string_view name) {
    Symbol& s = slots_[place(name)];
    return s.name.data() == nullptr || s.level < 0 ? nullptr : &s;
  }
  void clear() {
    for (std::uint32_t i : used_) slots_[i] = Symbol();
    used_.clear();
    pool.clear();
    reads.clear();
  }
  /// How often a value was read: kReadByEdge if by a data-flow edge, which must be alone.
  std::uint32_t& reads_of(Symbol& s, std::int64_t number) {
    return s.one != nullptr ? s.reads : reads[s.first + std::size_t(number)];
  }
  static constexpr std::uint32_t kReadByEdge = 1u << 31;

  std::vector<ir::Instruction*> pool;
  std::vector<std::uint32_t> reads;  ///< one for each of pool

 private:
  static std::size_t hash(std::string_view s) {
    std::uint64_t h = s.size() * 0x9e3779b97f4a7c15u;
    const char* p = s.data();
    std::size_t n = s.size();
    for (; n >= 8; p += 8, n -= 8) {
      std::uint64_t part;
      std::memcpy(&part, p, 8);
      h = (h ^ part) * 0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    std::uint64_t part = 0;
    std::memcpy(&part, p, n);
    h = (h ^ part) * 0xff51afd7ed558ccdu;
    return std::size_t(h ^ (h >> 29));
  }
  std::size_t place(std::string_view name) const {
    std::size_t mask = slots_.size() - 1;
    std::size_t i = hash(name) & mask;
    while (slots_[i].name.data() != nullptr && slots_[i].name != name) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Symbol> old = std::move(slots_);
    slots_.assign(old.size() * 2, Symbol());
    for (std::uint32_t& i : used_) {
      std::size_t to = place(old[i].name);
      slots_[to] = old[i];
      i = std::uint32_t(to);
    }
  }

  std::vector<Symbol> slots_;
  std::vector<std::uint32_t> used_;
};

}  // namespace tessera::text
