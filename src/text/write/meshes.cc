// SPDX-License-Identifier: Apache-2.0
// Writes meshes and shardings in the sdy dialect.
#include "src/text/write/meshes.h"

#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/ir/hooks.h"
#include "src/sharding/axes/sdy_text.h"
#include "src/text/write/text.h"

// Compiled apart: names below stand in other sources of this folder too.
namespace tessera::text {
namespace {

using ir::append_int;

const std::string* entry_of(const ir::CustomCallAttrs& call, std::string_view key) {
  for (const auto& [k, v] : call.other) {
    if (k == key) return &v;
  }
  return nullptr;
}

bool is_iota(const std::vector<std::int64_t>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != std::int64_t(i)) return false;
  }
  return true;
}

}  // namespace

MeshSymbols::MeshSymbols(const ir::Module& module,
                         const std::vector<ir::Computation*>& computations,
                         std::set<std::string>* taken)
    : module_(module), taken_(taken) {
  if (module.mesh != nullptr) add(module.mesh);
  for (const ir::Computation* c : computations) {
    for (const auto& i : c->instructions()) {
      for (const TensorSharding& s : i->sharding) note(s);
      const auto* call = i->attrs.get_if<ir::CustomCallAttrs>();
      if (call == nullptr || call->target != ir::kManualComputationTarget) continue;
      for (const char* key : {ir::kManualInShardings, ir::kManualOutShardings}) {
        const std::string* list = entry_of(*call, key);
        if (list == nullptr) continue;
        for_meshes(*i, *list, [&](const MeshRef& mesh) { return add(mesh); });
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

void MeshSymbols::append_definitions(std::string& out) const {
  auto begin = [&](const std::string& symbol) {
    out += "  sdy.mesh ";
    append_symbol(out, symbol);
    out += " = <[";
  };
  for (const Mesh& m : meshes_) {
    begin(m.symbol);
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
    if (!is_iota(m.mesh->device_ids)) {
      out += ", device_ids=";
      append_list(out, m.mesh->device_ids);
    }
    out += ">\n";
  }
  for (const auto& [device, symbol] : single_) {
    begin(symbol);
    out += "], device_ids=[";
    append_int(out, device);
    out += "]>\n";
  }
  if (meshes_.empty() && !empty_.empty()) {
    begin(empty_);
    out += "]>\n";
  }
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

template <class F>
std::string MeshSymbols::for_meshes(const ir::Instruction& i, std::string_view list,
                                    F&& visit) const {
  auto bad = [&](const std::string& why) {
    return ValueError(i.describe() + ": " + why + " in the shardings " + std::string(list),
                      i.location());
  };
  std::string out;
  bool quoted = false;
  for (std::size_t p = 0; p < list.size(); ++p) {
    out += list[p];
    if (list[p] == '"') quoted = !quoted;
    if (quoted || list[p] != '<') continue;
    const std::size_t start = p + 1;
    std::size_t end = start;
    MeshRef mesh;
    if (list.substr(start, 1) == "@") {
      end = list.find_first_of(",>", start);
      if (end == std::string_view::npos) throw bad("no end");
      mesh = module_.mesh != nullptr ? module_.mesh : meshes_.empty() ? nullptr : meshes_[0].mesh;
      if (mesh == nullptr) throw bad("a mesh is named but the module has none");
    } else if (list.substr(start, 5) == "mesh<") {
      int depth = 0;
      for (end = start; end < list.size(); ++end) {
        if (list[end] == '<') ++depth;
        if (list[end] == '>' && --depth == 0) break;
      }
      if (end == list.size()) throw bad("no end");
      mesh = parse_sdy_mesh(list.substr(start, ++end - start));
    } else {
      throw bad("no mesh");
    }
    append_symbol(out, visit(mesh));
    p = end - 1;
  }
  return out;
}

std::string MeshSymbols::renamed_list(const ir::Instruction& i, std::string_view list) const {
  return for_meshes(i, list, [&](const MeshRef& mesh) { return symbol_of(mesh); });
}

}  // namespace tessera::text
