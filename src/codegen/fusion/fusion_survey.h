// SPDX-License-Identifier: Apache-2.0
// What fusion knows of a computation whatever its options are.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/fusion/fusion.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {

/// How often a cheap value may be computed.
inline constexpr std::size_t kMaxRepeats = 3;
/// And through how many ops it is followed.
inline constexpr std::size_t kShortChain = 8, kLongChain = 24;

/// By operand of an instruction.
template <class T>
using ByOperand = std::map<std::pair<std::int64_t, std::size_t>, T>;

/// What holds of a computation whatever the options are.
struct FusionPlanner::Survey {
  Survey(const ir::Computation& of, const passes::UniformityFacts& of_facts)
      : computation(of), facts(of_facts) {
    const auto& list = computation.instructions();
    is_loop_op.resize(list.size());
    stored.resize(list.size());
    users.reserve(list.size());
    is_counted.resize(list.size());
    for (const auto& i : list) {
      is_loop_op[at(*i)] = codegen::is_loop_op(*i);
      is_counted[at(*i)] = is_element_gather(*i) && counted_places(*i);
      users.push_back(i->users());
    }
    for (const auto& i : list) {
      stored[at(*i)] =
          users[at(*i)].size() > kMaxRepeats &&
          !costs_at_most(*i, prices::fusion::kCheap, prices::fusion::kCheapArrays, kShortChain);
    }
  }

  static std::size_t at(const ir::Instruction& i) { return std::size_t(i.index); }

  bool known(const ir::Instruction& i) const {
    const auto& leaves = facts.leaves[at(i)];
    return leaves.size() == 1 && leaves[0].known;
  }
  /// What takes no more time, and is made from no more arrays.
  bool costs_at_most(const ir::Instruction& i, double most, int most_arrays,
                     std::size_t chain) const {
    int arrays = 0;
    std::set<const ir::Instruction*> seen;
    return cost(i, chain, &seen, &arrays) <= most && arrays <= most_arrays;
  }
  bool takes_programs(const ir::Instruction& user);
  const Dims& order_of(const ir::Instruction& user, std::size_t k);

  const ir::Computation& computation;
  const passes::UniformityFacts& facts;
  std::vector<bool> is_loop_op;
  std::vector<bool> is_counted;  ///< gathers that are reads at strides
  std::vector<bool> stored;      ///< so many need it that it will not be made for each
  std::vector<ir::UserList> users;

 private:
  /// Of an element, up to what is surely in memory.
  double cost(const ir::Instruction& i, std::size_t chain, std::set<const ir::Instruction*>* seen,
              int* arrays) const;

  std::map<std::int64_t, bool> takes_programs_;
  ByOperand<Dims> orders_;
};

}  // namespace tessera::codegen
