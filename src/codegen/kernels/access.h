// SPDX-License-Identifier: Apache-2.0
// What the units of a kernel read and write: all that is asked before steps are cut into parts and
// joined.
// Also called: indexing maps, as linalg and XLA have them; here only the forms that are asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::codegen {

/// What a call of units [begin, end) touches of an operand or of the results.
enum class Share : std::uint8_t {
  whole,  ///< any of it, and so that nothing can be said of a part of the units
  group,  ///< the shares of the groups that its units are of
  own,    ///< the share that its units are of all of them, one after the other
};

/// How a kernel reads an operand.
struct Access {
  Share share = Share::whole;
  /// What a call does with it before its first unit, however few units it has.
  enum class Preparation : std::uint8_t {
    none,
    each_call,   ///< it is packed, or read from memory once for all units: few cost as much as many
    overlapped,  ///< the same while units run: from about a hundred on they don't wait for it
  } preparation = Preparation::none;

  friend bool operator==(const Access&, const Access&) = default;
};

/// Of all operands and results. A kernel that states nothing touches all of them as a whole, and is
/// never cut.
struct Accesses {
  Share results = Share::whole;
  std::vector<Access> operands;  ///< those behind these: whole
  /// Units fall into so many equal groups, as the matrices of a batch.
  std::int64_t groups = 1;

  /// All units write their own part, and read their own of the first operands that are marked.
  static Accesses by_units(const std::vector<bool>& own) {
    Accesses out;
    out.results = Share::own;
    for (const bool o : own) out.operands.push_back({o ? Share::own : Share::whole});
    return out;
  }

  Share share(std::size_t k) const {
    return k < operands.size() ? operands[k].share : Share::whole;
  }
  bool makes_own() const { return results == Share::own; }
  bool reads_own(std::size_t k) const { return share(k) == Share::own; }
  /// Whether units of one of so many equal groups read of it the share of that group alone.
  bool reads_share(std::size_t k, std::int64_t of_groups) const {
    return reads_own(k) || (share(k) == Share::group && groups % of_groups == 0);
  }
  bool prepares() const {
    return any_prepared([](Access::Preparation p) { return p != Access::Preparation::none; });
  }
  /// Whether calls of few units pay for what it prepares.
  bool waits() const {
    return any_prepared([](Access::Preparation p) { return p == Access::Preparation::each_call; });
  }

  friend bool operator==(const Accesses&, const Accesses&) = default;

 private:
  template <class F>
  bool any_prepared(F&& f) const {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Access& a) { return f(a.preparation); });
  }
};

}  // namespace tessera::codegen
