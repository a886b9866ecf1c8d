// SPDX-License-Identifier: Apache-2.0
// Writes meshes and shardings in the sdy dialect.
#include "src/text/write/meshes.h"

#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/text/write/text.h"

namespace tessera::text {
namespace {

using ir::append_int;

bool in_order(const std::vector<std::int64_t>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != std::int64_t(i)) return false;
  }
  return true;
}

}  // namespace

MeshSymbols::MeshSymbols(const ir::Module& module,
                         const std::vector<ir::Computation*>& computations,
                         std::set<std::string>* taken)
    : taken_(taken) {
  if (module.mesh != nullptr) add(module.mesh);
  for (const ir::Computation* c : computations) {
    for (const auto& i : c->instructions()) {
      for (const TensorSharding& s : i->sharding) note(s);
      const auto* manual = i->attrs.get_if<ir::ManualComputationAttrs>();
      if (manual == nullptr) continue;
      for (const auto* list : {&manual->in_shardings, &manual->out_shardings}) {
        for (const TensorSharding& s : *list) note(s);
      }
    }
  }
  // A sharding without axes stands on any mesh; this one for a module that has none.
  if (meshes_.empty() && !empty_.empty()) empty_ = unused("empty_mesh");
}

std::string MeshSymbols::unused(const std::string& name) {
  const std::string base = name.empty() ? "mesh" : name;
  std::string out = base;
  for (int n = 0; !taken_->insert(out).second; ++n) out = base + "_" + std::to_string(n);
  return out;
}

const std::string& MeshSymbols::add(const MeshRef& mesh) {
  auto known = known_.find(mesh);
  if (known != known_.end()) return meshes_[known->second].symbol;
  std::size_t at = 0;
  while (at < meshes_.size() && !same_mesh(meshes_[at].mesh, mesh)) ++at;
  if (at == meshes_.size()) meshes_.push_back({mesh, unused(mesh->name)});
  known_.emplace(mesh, at);
  return meshes_[at].symbol;
}

void MeshSymbols::note(const TensorSharding& s) {
  if (s.kind == TensorSharding::Kind::maximal) {
    std::string& symbol = single_[s.device];
    if (symbol.empty()) symbol = unused("maximal_mesh_" + std::to_string(s.device));
  } else if (s.kind == TensorSharding::Kind::axes && s.mesh != nullptr) {
    add(s.mesh);
  } else {
    empty_ = "empty_mesh";
  }
}

const std::string& MeshSymbols::symbol_of(const MeshRef& mesh) const {
  auto known = known_.find(mesh);
  if (known != known_.end()) return meshes_[known->second].symbol;
  for (const Mesh& m : meshes_) {
    if (same_mesh(m.mesh, mesh)) return m.symbol;
  }
  throw InternalError("a mesh was not found among those of its module");
}

std::int64_t MeshSymbols::devices() const {
  std::int64_t most = 1;
  for (const Mesh& m : meshes_) most = std::max(most, m.mesh->num_devices());
  return most;
}

void MeshSymbols::define(Sink& sink) const {
  for (const Mesh& m : meshes_) {
    std::string out = "<[";
    bool first = true;
    for (const MeshAxis& axis : m.mesh->axes) {
      // A refined axis is written once, unsplit: its major piece stands for it. Pieces of
      // size 1 may share that place.
      if (axis.pre != 1) continue;
      if (!first && &axis != &m.mesh->axes[0] && (&axis - 1)->name == axis.name) continue;
      if (!first) out += ", ";
      first = false;
      append_string(out, axis.name);
      out += '=';
      append_int(out, axis.full);
    }
    out += ']';
    if (!in_order(m.mesh->device_ids)) {
      out += ", device_ids=";
      append_list(out, m.mesh->device_ids);
    }
    sink.mesh(m.symbol, out + ">");
  }
  for (const auto& [device, symbol] : single_) {
    sink.mesh(symbol, "<[], device_ids=[" + std::to_string(device) + "]>");
  }
  if (meshes_.empty() && !empty_.empty()) sink.mesh(empty_, "<[]>");
}

void MeshSymbols::append_sharding(std::string& out, const TensorSharding& s,
                                  std::int64_t rank) const {
  out += '<';
  if (s.kind == TensorSharding::Kind::maximal) {
    append_symbol(out, single_.at(s.device));
    out += ", []>";
    return;
  }
  const bool axes = s.kind == TensorSharding::Kind::axes;
  if (axes && s.mesh != nullptr) {
    append_symbol(out, symbol_of(s.mesh));
    const std::string text = s.to_string();
    out.append(text, std::string_view("#sdy.sharding<@").size() + s.mesh->name.size());
    return;
  }
  append_symbol(out, meshes_.empty() ? empty_ : meshes_[0].symbol);
  out += ", [";
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d > 0) out += ", ";
    const bool open = !axes || (std::size_t(d) < s.dims.size() && s.dims[std::size_t(d)].open);
    out += open ? "{?}" : "{}";
  }
  out += "]>";
}

std::string MeshSymbols::list_text(const std::vector<TensorSharding>& list) const {
  std::string out = "[";
  for (const TensorSharding& s : list) {
    if (out.size() > 1) out += ", ";
    append_sharding(out, s, s.rank());
  }
  return out + "]";
}

}  // namespace tessera::text
