// SPDX-License-Identifier: Apache-2.0
// The arrays of a module and the ops that tie their shardings together.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd::propagation {

/// One array, or several that always have one sharding (a loop's carry: the body's parameter, its
/// result,
/// ...).
struct Value {
  TensorSharding sharding;
  Dims dims;
  /// Takes part: rank above 0, and axes of the module's mesh.
  bool active = false;
  bool given = false;  ///< the program states its sharding, wholly or in part
  const ir::Instruction* given_by = nullptr;  ///< where it does
  int adopted = -1;  ///< the constraint (a value) whose sharding this one begins with
  /// Of the program's arguments or results: only even splits, as callers expect.
  bool boundary = false;
  /// A result of which the program says nothing, or an argument or result that is AUTO.
  bool open_boundary = false;
  int uses = 0;
};

enum class Family : std::uint8_t {
  same_layout,  ///< elementwise, reshape, transpose, data-flow: operand and result have the same
                ///< layout
  dynamic,      ///< dynamic-slice, dynamic-update-slice
  broadcast,
  other,
};

/// An instruction with a rule, or an edge of data flow.
struct Op {
  const FactorRule* rule = nullptr;
  const ir::Instruction* instruction = nullptr;
  IndexList operands, results;  ///< values, as in the rule
  Family family = Family::other;
  bool elementwise = false;
  bool single_use = false;  ///< no operand of rank above 0 has another use
  /// Which way axes may flow; a propagation barrier closes one or both.
  bool forward = true, backward = true;
};

/// A custom_partitioning call whose shardings its callbacks determine.
struct CallbackOp {
  ir::Instruction* instruction = nullptr;
  IndexList operands, results;
  // Of the values when the callbacks were last asked.
  std::uint64_t operand_version = ~std::uint64_t(0), result_version = ~std::uint64_t(0);
};

struct Provenance;

struct Graph {
  std::vector<Value> values;
  /// By value: grows with each change.
  std::vector<std::uint32_t> versions;
  std::vector<Op> ops;
  std::vector<CallbackOp> callbacks;
  std::deque<FactorRule> rules;
  Provenance* provenance = nullptr;            ///< records what happens; null: nothing is recorded
  std::vector<ir::Computation*> computations;  ///< callees first; reducers and the like left out

  /// Bodies of per-device code are left out.
  bool has(const ir::Instruction& i) const {
    return i.parent == recent_.first || base.count(i.parent) > 0;
  }
  int value_of(const ir::Instruction* instruction, std::size_t leaf = 0) const {
    return value_of_leaf[std::size_t(first_leaf(instruction)) + leaf];
  }
  std::size_t leaf_count(const ir::Instruction* instruction) const {
    return std::size_t(first_leaf_after(instruction) - first_leaf(instruction));
  }
  /// Ops that touch a value.
  std::span<const int> ops_of(int value) const {
    const auto begin = std::size_t(op_starts[std::size_t(value)]);
    return std::span(op_list).subspan(begin,
                                      std::size_t(op_starts[std::size_t(value) + 1]) - begin);
  }

  std::int64_t first_leaf(const ir::Instruction* i) const {
    return leaf_starts[std::size_t(base_of(i->parent) + i->index)];
  }
  std::int64_t first_leaf_after(const ir::Instruction* i) const {
    return leaf_starts[std::size_t(base_of(i->parent) + i->index + 1)];
  }
  std::int64_t base_of(const ir::Computation* c) const {
    if (c != recent_.first) recent_ = {c, base.at(c)};
    return recent_.second;
  }

  std::unordered_map<const ir::Computation*, std::int64_t> base;
  std::vector<std::int64_t> leaf_starts;
  std::vector<int> value_of_leaf;
  std::vector<int> op_starts, op_list;  ///< by value: where its ops begin, and the ops

 private:
  /// Looked up last: instructions are met computation by computation.
  mutable std::pair<const ir::Computation*, std::int64_t> recent_{nullptr, 0};
};

/// `mesh`: the one that active values are on.
Graph build_graph(ir::Module* module, const MeshRef& mesh);

/// Roots of called computations that have shardings of their own are copied, since all that a loop
/// carries or branches return must have one sharding.
void free_roots(ir::Module* module);

/// Reads what HLO text says by custom calls: members of sharding groups get the group's number and
/// lose the call; constraints open the dims that they leave unspecified.
void normalize_custom_calls(ir::Module* module);

/// Gives each user of a constant, iota or broadcast scalar (and of elementwise ops of those) its
/// own.
void split_constants(ir::Module* module);

/// After propagation: arrays that loops read bit by bit along split dims are carried whole, where
/// that moves less.
void gather_before_loops(ir::Module* module);

/// Joins ops that move elements where they are one move: pad and slice, pad and window, batch dims
/// written as indices that count.
void fold_moves(ir::Module* module);

}  // namespace tessera::spmd::propagation
