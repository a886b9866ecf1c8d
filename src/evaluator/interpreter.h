// SPDX-License-Identifier: Apache-2.0
// Walks computations for a set of devices side by side. One device is the plain case.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::evaluator {

/// Devices that are at the same place of the program, ascending.
using Active = std::vector<std::int64_t>;
/// One literal for each active device.
using Values = std::vector<Literal>;

/// A control-flow op inside which only some devices go on.
struct Divergence {
  const ir::Instruction* op;
  Active away;  ///< the devices that took another branch or left the loop
};

class Interpreter {
 public:
  enum class Mode : std::uint8_t {
    one_device,      ///< collectives are over one device
    no_collectives,  ///< they are an error
    side_by_side,
  };
  Interpreter(Mode mode, ir::ProcessGrid grid) : mode_(mode), grid_(grid) {}

  /// `arguments[parameter][position in active]`.
  Values run(const ir::Computation& computation, const Active& active,
             const std::vector<const Values*>& arguments);
  Values step(const ir::Instruction& in, const Active& active,
              const std::vector<const Values*>& operands);

 private:
  /// What is no longer needed after each instruction.
  struct Plan {
    std::vector<std::vector<std::int64_t>> dead_after;
  };
  const Plan& plan_of(const ir::Computation& computation);

  // control_flow.cc
  Values run_while(const ir::Instruction& in, const Active& active, const Values& init);
  Values run_conditional(const ir::Instruction& in, const Active& active,
                         const std::vector<const Values*>& operands);
  Values run_custom_partitioning(const ir::Instruction& in, const Active& active,
                                 const std::vector<const Values*>& operands);
  Values run_custom_call(const ir::Instruction& in, const Active& active,
                         const std::vector<const Values*>& operands);
  Values run_call(const ir::Instruction& in, const Active& active,
                  const std::vector<const Values*>& operands);

  /// rng-get-and-update-state, rng: as XLA does on a CPU, each keeps a state of its own, which all
  /// devices see equal.
  Values run_random_state(const ir::Instruction& in, const Active& active,
                          const std::vector<const Values*>& operands);

  // collectives.cc
  Values run_ragged_all_to_all(const ir::Instruction& in, const Active& active,
                               const std::vector<const Values*>& operands);
  Values run_collective(const ir::Instruction& in, const Active& active,
                        const std::vector<const Values*>& operands);
  /// The groups of a collective, of devices.
  std::vector<std::vector<std::int64_t>> lists_of(const ir::Instruction& in) const;
  /// Groups as positions in `active`; throws if only a part of one is here.
  std::vector<std::vector<std::size_t>> groups_of(
      const ir::Instruction& in, const Active& active,
      const std::vector<std::vector<std::int64_t>>& groups) const;

  Mode mode_;
  ir::ProcessGrid grid_;
  std::vector<Divergence> divergences_;
  std::unordered_map<const ir::Computation*, std::unique_ptr<Plan>> plans_;
  /// What each random operation has drawn so far: 128 bits, low part first.
  std::unordered_map<const ir::Instruction*, std::array<std::uint64_t, 2>> random_states_;
};

}  // namespace tessera::evaluator
