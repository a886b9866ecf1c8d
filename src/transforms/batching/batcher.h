// SPDX-License-Identifier: Apache-2.0
// Batcher: walks computations and has each op's rule compute it for the batch.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "src/transforms/batching/batched.h"
#include "src/transforms/batching/dependence.h"

namespace tessera::transforms::batching {

/// One batch in one module. Equal callees on equal dims are shared.
class Batcher {
 public:
  Batcher(ir::Module* module, const BatchOptions& options)
      : module_(module), options_(options), dependence_(options.axis_name) {}

  std::int64_t size() const { return options_.size; }
  const BatchOptions& options() const { return options_; }
  ir::Module* module() const { return module_; }
  Dependence& dependence() { return dependence_; }

  /// As transforms::batch.
  BatchedComputation computation(const ir::Computation& source, const Dims& in_dims,
                                 const Dims& out_dims = {});
  /// What a computation does with these arguments, appended.
  Batched run(ir::Builder& b, const ir::Computation& source, std::vector<Batched> arguments);

  /// An array with the batch on that dim: moved there, or the same for all entries.
  ir::Instruction* at(ir::Builder& b, const Batched& array, std::int64_t dim);
  /// A tree with its leaves on these dims, those on kAsItComes as they are.
  Batched arranged(ir::Builder& b, const Batched& value, const Dims& dims);

 private:
  Batched instruction(ir::Builder& b, const ir::Instruction& i,
                      const std::vector<const Batched*>& operands);

  ir::Module* module_;
  BatchOptions options_;
  Dependence dependence_;
  std::map<std::tuple<const ir::Computation*, Dims, Dims>, BatchedComputation> made_;
};

}  // namespace tessera::transforms::batching
