// SPDX-License-Identifier: Apache-2.0
// Sharding propagation over a module.
#pragma once

#include <memory>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

namespace propagation {
struct Graph;
struct Provenance;
}  // namespace propagation

/// Gives every instruction a sharding, from those of parameters, results and constraints, by factor
/// rules (Shardy's priorities: user priority, then op kind, then aggressiveness).
///
/// On entry: entry parameters and the root may have shardings (closed where the user fixed them;
/// open dims may be extended), `Sharding` custom calls have theirs. On exit: all instructions of
/// all reachable computations have closed shardings on one mesh, refined so that axes are equal or
/// disjoint (module->mesh); carries of loops, branches' results and call boundaries agree.
/// Constants, iotas and broadcasts of scalars are duplicated per user first, so that one use's
/// sharding doesn't leak into another.
///
/// `provenance`: records what set each axis (propagation/provenance.h). The module is then for
/// reading: slices of loops' inputs are left in the loops.
void propagate(ir::Module* module, propagation::Provenance* provenance = nullptr);

/// Propagation that can be repeated with more shardings stated: what would follow if this array
/// were sharded so?
class Propagation {
 public:
  /// Prepares the module, which must outlive this. `once`: it will not be asked again.
  explicit Propagation(ir::Module* module, bool once = false);
  ~Propagation();

  struct Pin {
    int value = 0;
    TensorSharding sharding;
    friend bool operator==(const Pin&, const Pin&) = default;
  };
  /// Whether the sharding is propagation's to choose: not the program's, and none of its arguments
  /// or results; and whether it could be this one.
  bool is_free(int value, const TensorSharding& sharding) const;
  /// Writes the shardings of all instructions, from the module's own and these. The first run's
  /// arguments and results stay as they are in later ones.
  void run(const std::vector<Pin>& pins = {});
  /// The module's arrays and ops.
  const propagation::Graph& graph() const;
  /// That its shardings are on: a refinement of the module's.
  const MeshRef& mesh() const;
  /// As the last run left it, closed.
  TensorSharding sharding_of(int value) const;
  /// In place of `run`, for a report: takes the graph away.
  void run_once(propagation::Provenance* provenance);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::spmd
