// SPDX-License-Identifier: Apache-2.0
// Writes shardings as Shardy's frontend attributes (xla.sdy.*).
#include "src/ir/hlo/sdy_attributes.h"

#include <algorithm>

#include "src/ir/hlo/text_out.h"

namespace tessera::ir {

const std::string* SdyMeshNames::find(const MeshRef& mesh) const {
  for (const auto& [known, name] : named_) {
    if (known == mesh || same_mesh(known, mesh)) return &name;
  }
  return nullptr;
}

bool SdyMeshNames::keeps_name(const MeshRef& mesh) const {
  const std::string* name = mesh == nullptr ? nullptr : find(mesh);
  return name != nullptr && *name == mesh->name;
}

void SdyMeshNames::add(const MeshRef& mesh) {
  if (mesh == nullptr || find(mesh) != nullptr) return;
  auto taken = [&](const std::string& name) {
    return std::any_of(named_.begin(), named_.end(),
                       [&](const auto& entry) { return entry.second == name; });
  };
  std::string name = mesh->name.empty() ? "mesh" : mesh->name;
  for (int n = 0; taken(name); ++n) {
    name = (mesh->name.empty() ? "mesh" : mesh->name) + "_" + std::to_string(n);
  }
  named_.emplace_back(mesh, name);
}

void SdyMeshNames::collect(const std::vector<Computation*>& computations) {
  for (const Computation* c : computations) {
    for (const auto& i : c->instructions()) {
      for (const TensorSharding& s : i->sharding) add(s.mesh);
      const auto* manual = i->attrs.get_if<ManualComputationAttrs>();
      if (manual != nullptr && manual->names_mesh) add(manual->mesh);
    }
  }
}

std::string SdyMeshNames::table_text() const {
  std::string out = "{";
  for (std::size_t n = 0; n < named_.size(); ++n) {
    const auto& [mesh, name] = named_[n];
    if (n > 0) out += ", ";
    out += name + " = #sdy.mesh<[";
    const std::string* last = nullptr;
    for (const MeshAxis& axis : mesh->axes) {
      // A refined axis is written once, unsplit: its major piece stands for it.
      if (axis.pre != 1 || (last != nullptr && *last == axis.name)) continue;
      if (last != nullptr) out += ", ";
      last = &axis.name;
      append_quoted(out, axis.name);
      out += '=';
      append_int(out, axis.full);
    }
    out += ']';
    if (!mesh->device_ids.empty()) {
      out += ", device_ids=[";
      for (std::size_t i = 0; i < mesh->device_ids.size(); ++i) {
        if (i > 0) out += ", ";
        append_int(out, mesh->device_ids[i]);
      }
      out += ']';
    }
    out += '>';
  }
  return out + "}";
}

std::string SdyMeshNames::sharding_text(const Instruction& i) const {
  constexpr std::string_view kPrefix = "#sdy.sharding";
  std::vector<std::string> texts;
  const auto has_mesh = [](const TensorSharding& s) {
    return s.kind == TensorSharding::Kind::axes && s.mesh != nullptr;
  };
  if (std::none_of(i.sharding.begin(), i.sharding.end(), has_mesh)) return "";
  for (const TensorSharding& s : i.sharding) {
    if (s.kind == TensorSharding::Kind::maximal) {
      texts.push_back("#sdy.sharding<@maximal_mesh_" + std::to_string(s.device) + ", []>");
      continue;
    }
    if (s.kind != TensorSharding::Kind::axes) return "";
    if (s.mesh == nullptr) {
      texts.push_back(s.to_string());
      continue;
    }
    const std::string* name = find(s.mesh);
    if (name == nullptr) return "";
    if (*name == s.mesh->name) {
      texts.push_back(s.to_string());
      continue;
    }
    auto renamed = std::make_shared<LogicalMesh>(*s.mesh);
    renamed->name = *name;
    TensorSharding copy = s;
    copy.mesh = std::move(renamed);
    texts.push_back(copy.to_string());
  }
  if (texts.empty()) return "";
  if (!i.shape.is_tuple && texts.size() == 1) return texts[0];
  std::string out = "#sdy.sharding_per_value<[";
  for (std::size_t n = 0; n < texts.size(); ++n) {
    if (n > 0) out += ", ";
    out += std::string_view(texts[n]).substr(kPrefix.size());
  }
  return out + "]>";
}

}  // namespace tessera::ir
