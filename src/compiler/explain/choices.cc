// SPDX-License-Identifier: Apache-2.0
// What the solver chose, edge by edge, in the report's terms.
#include <map>
#include <string>
#include <utility>

#include "src/compiler/explain/explain.h"

namespace tessera::compiler::explain {
namespace {

using Array = spmd::ShardingDecision::Array;

std::string spec_text(const TensorSharding& s) { return s.to_spec_string(); }

}  // namespace

void add_choices(const Run& run, std::vector<ExplainValue>* values) {
  std::map<std::pair<std::string, std::string>, std::int64_t> index;
  for (const ExplainValue& v : *values) {
    index.emplace(std::pair(v.computation, v.name), std::int64_t(index.size()));
  }
  // What the compiler put in itself isn't among the values.
  const auto find = [&](const Array& a) {
    const auto it = index.find({a.computation, a.instruction});
    return it == index.end() ? std::int64_t(-1) : it->second;
  };
  for (const spmd::ShardingDecision& d : run.compilation.decisions) {
    ExplainChoice choice;
    std::int64_t first = -1;
    for (const Array& a : d.arrays) {
      const std::int64_t at = find(a);
      if (at < 0) continue;
      if (first < 0) {
        first = at;
      } else if (choice.with.empty() || choice.with.back() != at) {
        choice.with.push_back(at);
      }
    }
    if (first < 0) continue;
    choice.spec = spec_text(d.chosen);
    choice.seconds = d.seconds;
    if (d.next) {
      choice.next_spec = spec_text(*d.next);
      choice.next_seconds = d.next_seconds;
    }
    for (const spmd::ShardingDecision::Edge& e : d.edges) {
      const std::int64_t op = find(e.op);
      if (op < 0) continue;
      ExplainEdge edge;
      edge.op = op;
      edge.operand = e.operand;
      edge.spec = spec_text(e.needed);
      edge.seconds = e.seconds;
      edge.next_seconds = e.next_seconds;
      choice.edges.push_back(std::move(edge));
    }
    (*values)[std::size_t(first)].choice = std::move(choice);
  }
}

}  // namespace tessera::compiler::explain
