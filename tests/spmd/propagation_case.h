// SPDX-License-Identifier: Apache-2.0
// Programs with some shardings stated, and those that propagation must find.
//
// Shardings are written by dim, separated by bars: "x,y|-?" has axes x and y on dim 0, none on the
// open dim 1. "@1" is a priority, "~z" an axis that stays off the array, "#2" after a name a leaf.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::spmd {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) parts.push_back(part);
  if (!text.empty() && text.back() == at) parts.push_back("");
  return parts;
}

inline TensorSharding parse(const MeshRef& mesh, std::string text) {
  TensorSharding s = TensorSharding::replicated_on(mesh, 0);
  if (auto at = text.find('~'); at != std::string::npos) {
    for (const std::string& axis : split(text.substr(at + 1), ',')) {
      s.replicated.push_back(mesh->find(axis));
    }
    text.resize(at);
  }
  for (std::string dim : split(text, '|')) {
    DimSharding d;
    if (auto at = dim.find('@'); at != std::string::npos) {
      d.priority = std::stoi(dim.substr(at + 1));
      dim.resize(at);
    }
    if (!dim.empty() && dim.back() == '?') {
      d.open = true;
      dim.pop_back();
    }
    for (const std::string& axis : split(dim, ',')) {
      if (axis != "-" && !axis.empty()) d.axes.push_back(mesh->find(axis));
    }
    s.dims.push_back(std::move(d));
  }
  return s;
}

inline std::string print(const TensorSharding& s) {
  std::string text;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    if (d > 0) text += "|";
    std::string axes;
    for (int a : s.dims[d].axes) {
      axes += (axes.empty() ? "" : ",") + s.mesh->axes[std::size_t(a)].to_string();
    }
    text += axes.empty() ? "-" : axes;
    EXPECT_FALSE(s.dims[d].open);
  }
  return text;
}

inline ir::Instruction* find(const ir::Module& module, const std::string& name) {
  for (auto c = module.computations().rbegin(); c != module.computations().rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      if (i->name == name) return i.get();
    }
  }
  ADD_FAILURE() << "no instruction " << name;
  return nullptr;
}

inline std::pair<std::string, std::size_t> leaf(const std::string& name) {
  auto at = name.find('#');
  if (at == std::string::npos) return {name, 0};
  return {name.substr(0, at), std::size_t(std::stoi(name.substr(at + 1)))};
}

using Shardings = std::vector<std::pair<std::string, std::string>>;

inline MeshRef default_mesh() { return make_logical_mesh({{"x", 2}, {"y", 4}, {"z", 2}}); }

inline std::unique_ptr<ir::Module> propagated(const std::string& text, const Shardings& given,
                                              const MeshRef& mesh = default_mesh()) {
  auto module = ir::parse_hlo(text);
  module->num_partitions = mesh->num_devices();
  module->mesh = mesh;
  for (const auto& [key, sharding] : given) {
    auto [name, k] = leaf(key);
    ir::Instruction* i = find(*module, name);
    std::vector<Shape> leaves = flatten(i->shape);
    if (i->sharding.empty()) {
      for (const Shape& l : leaves) i->sharding.push_back(TensorSharding::open_on(mesh, l.rank()));
    }
    i->sharding[k] = parse(mesh, sharding);
  }
  propagate(module.get());
  return module;
}

inline void expect(const ir::Module& module, const Shardings& expected) {
  for (const auto& [key, sharding] : expected) {
    auto [name, k] = leaf(key);
    const ir::Instruction* i = find(module, name);
    ASSERT_GT(i->sharding.size(), k) << key;
    EXPECT_EQ(print(i->sharding[k]), sharding) << key;
  }
}

inline void check(const std::string& text, const Shardings& given, const Shardings& expected) {
  expect(*propagated(text, given), expected);
}

inline std::string entry(const std::string& body, const std::string& others = "") {
  return "HloModule m\n" + others + "\nENTRY e {\n" + body + "\n}\n";
}

inline const char* const kAdd = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
)";

inline const std::string kChain = entry(R"(
  p = f32[16,16] parameter(0)
  n = f32[16,16] negate(p)
  ROOT r = f32[16,16] exponential(n))");

}  // namespace tessera::spmd
