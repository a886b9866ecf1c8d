// SPDX-License-Identifier: Apache-2.0
// The shards of all devices, and what the steps of a reshard make of them.
#pragma once

#include <cstdint>
#include <vector>

#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {

/// One device's shard: the numbers of the array's elements, and a negative one for padding.
struct LocalArray {
  Dims dims;
  std::vector<std::int64_t> values;
};

/// An array of these dims, whose elements are numbered, on the devices of a mesh. Expectations fail
/// where a device doesn't hold what the sharding after a step gives it.
class ReshardSimulation {
 public:
  ReshardSimulation(MeshRef mesh, Dims dims) : mesh_(std::move(mesh)), dims_(std::move(dims)) {}

  /// Of unreduced axes the devices hold random summands.
  void start(const TensorSharding& s);
  void step(const ReshardStep& s);
  /// Every device holds the block of the padded array that the sharding gives it.
  void verify();

  /// What rows that moved across boundaries took beside the step itself.
  double extra_bytes() const { return extra_bytes_; }
  int extra_collectives() const { return extra_collectives_; }
  /// What an all-to-all took in, padding included.
  double sent() const { return double(sent_); }
  std::int64_t bytes() const { return std::int64_t(shards_[0].values.size()) * 4; }
  const TensorSharding& now() const { return now_; }

 private:
  /// The shard of a device after a step other than a permute, from those of its group before.
  LocalArray after_step(const ReshardStep& s, const std::vector<LocalArray>& members,
                        std::int64_t self) const;
  void permute(const ReshardStep& s);
  /// Brings a dim to blocks of `rows` rows.
  void reblock(const TensorSharding& s, std::size_t dim, std::int64_t rows);
  std::vector<std::size_t> group(std::int64_t device, const IndexList& axes) const;
  /// Element numbers; padding beyond the array's end.
  LocalArray expected(const TensorSharding& s, const Dims& padded, std::int64_t device) const;
  std::int64_t others(std::int64_t total, const IndexList& axes) const;

  MeshRef mesh_;
  Dims dims_;
  TensorSharding now_;
  Dims padded_;
  std::vector<LocalArray> shards_;
  double extra_bytes_ = 0;
  int extra_collectives_ = 0;
  std::int64_t sent_ = 0;
};

}  // namespace tessera::spmd
