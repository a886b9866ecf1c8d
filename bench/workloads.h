// SPDX-License-Identifier: Apache-2.0
// Programs of the kinds that users run, each on one device and on meshes of 8.
#pragma once

#include <tessera/tessera.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::bench {

using Arrays = std::vector<Array>;

/// A way to shard a workload's inputs.
struct Variant {
  std::string name;
  Mesh::Shape mesh;
  /// One per input; the last one stands for those that follow, too.
  std::vector<PartitionSpec> specs;
};
struct Workload {
  std::string name;
  std::function<Arrays()> inputs;
  /// `mesh`: null on one device.
  std::function<Arrays(const Arrays&, const Mesh* mesh)> run;
  /// Besides "one", on one device.
  std::vector<Variant> variants;
};

}  // namespace tessera::bench
