// SPDX-License-Identifier: Apache-2.0
// Meshes and shardings in sdy's form.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/text/write/sink.h"

namespace tessera::text {

/// The meshes that a module's shardings are on, as symbols of the text.
class MeshSymbols {
 public:
  /// `taken`: symbols that are in use; names of meshes are added to it.
  MeshSymbols(const ir::Module& module, const std::vector<ir::Computation*>& computations,
              std::set<std::string>* taken);

  /// All of them, as `<["x"=2, "y"=4]>`.
  void define(Sink& sink) const;
  /// Of the largest one; 1 if there is none.
  std::int64_t devices() const;
  /// `<@mesh, [{"x"}, {}]>`. Not for shardings with manual axes, which sdy lacks.
  void append_sharding(std::string& out, const TensorSharding& s, std::int64_t rank) const;
  /// `[<@mesh, [{"x"}, {}]>, ...]`
  std::string list_text(const std::vector<TensorSharding>& list) const;

 private:
  struct Mesh {
    MeshRef mesh;
    std::string symbol;
  };
  const std::string& add(const MeshRef& mesh);
  const std::string& symbol_of(const MeshRef& mesh) const;
  std::string unused(const std::string& name);
  void note(const TensorSharding& s);

  std::set<std::string>* taken_;
  std::vector<Mesh> meshes_;                        // few: looked through in order
  std::unordered_map<MeshRef, std::size_t> known_;  // keeps the meshes that lists were read to
  std::map<std::int64_t, std::string> single_;      // devices of maximal shardings
  std::string empty_;                               // the mesh without axes, if one is needed
};

}  // namespace tessera::text
