// SPDX-License-Identifier: Apache-2.0
// Layers by longest path, order within a layer by the mean of the neighbours' places.
#include <algorithm>
#include <map>
#include <numeric>

#include "src/compiler/explain/page.h"

namespace tessera::compiler::explain {
namespace {

using Index = std::int64_t;

class DrawingBuilder {
 public:
  explicit DrawingBuilder(const Explanation& e) : values_(e.values()) {
    users_.resize(values_.size());
    for (std::size_t v = 0; v < values_.size(); ++v) {
      for (Index o : values_[v].operands) users_[std::size_t(o)].push_back(Index(v));
    }
    hidden_.resize(values_.size());
    for (std::size_t v = 0; v < values_.size(); ++v) hidden_[v] = hides(v);
  }

  std::vector<Drawing> run() {
    // The entry is last among the values.
    std::vector<std::pair<std::string, std::vector<Index>>> computations;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (computations.empty() || computations.back().first != values_[v].computation) {
        computations.emplace_back(values_[v].computation, std::vector<Index>());
      }
      computations.back().second.push_back(Index(v));
    }
    std::vector<Drawing> out;
    for (auto c = computations.rbegin(); c != computations.rend(); ++c) {
      Drawing d = draw(c->second);
      d.computation = c->first;
      if (!d.nodes.empty()) out.push_back(std::move(d));
    }
    return out;
  }

 private:
  bool hides(std::size_t v) const {
    const ExplainValue& value = values_[v];
    if (value.op == "constant" || value.op == "get-tuple-element") return true;
    if (value.op == "tuple") {
      return !users_[v].empty() && std::none_of(users_[v].begin(), users_[v].end(), [&](Index u) {
        return values_[std::size_t(u)].op == "get-tuple-element";
      });
    }
    // A constant in another shape. Operands stand before their users.
    return (value.op == "broadcast" || value.op == "convert" || value.op == "reshape") &&
           value.operands.size() == 1 && values_[std::size_t(value.operands[0])].op == "constant";
  }

  /// What an operand stands for in the drawing.
  void sources(Index v, std::vector<Index>* out) const {
    const ExplainValue& value = values_[std::size_t(v)];
    if (!hidden_[std::size_t(v)]) {
      out->push_back(v);
    } else if (value.op == "get-tuple-element" || value.op == "tuple") {
      for (Index o : value.operands) sources(o, out);
    }
  }

  Drawing draw(const std::vector<Index>& all) {
    Drawing d;
    std::vector<Index> shown;
    for (Index v : all) {
      if (!hidden_[std::size_t(v)]) shown.push_back(v);
    }
    d.all = shown.size();
    if (shown.size() > kMaxNodes) shown = of_interest(shown);
    std::map<Index, int> node_of;
    for (Index v : shown) {
      node_of.emplace(v, int(d.nodes.size()));
      d.nodes.push_back({v, 0, 0});
    }
    for (Index v : shown) {
      std::vector<Index> from;
      for (Index o : values_[std::size_t(v)].operands) sources(o, &from);
      std::sort(from.begin(), from.end());
      from.erase(std::unique(from.begin(), from.end()), from.end());
      for (Index s : from) {
        auto it = node_of.find(s);
        if (it != node_of.end()) d.edges.emplace_back(it->second, node_of[v]);
      }
    }
    arrange(&d);
    return d;
  }

  /// Movements first, by bytes, with what they take and give; then what annotations speak of.
  std::vector<Index> of_interest(const std::vector<Index>& shown) const {
    std::vector<Index> order;
    for (Index v : shown) {
      const ExplainValue& value = values_[std::size_t(v)];
      const bool stated = std::any_of(value.causes.begin(), value.causes.end(),
                                      [](const ExplainCause& c) { return c.how == "stated"; });
      if (!value.entries.empty() || stated) order.push_back(v);
    }
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return values_[std::size_t(a)].bytes > values_[std::size_t(b)].bytes;
    });
    std::vector<char> keep(values_.size());
    std::vector<Index> out;
    auto take = [&](Index v) {
      if (keep[std::size_t(v)] || hidden_[std::size_t(v)] || out.size() >= kMaxNodes) return;
      keep[std::size_t(v)] = 1;
      out.push_back(v);
    };
    for (Index v : order) {
      take(v);
      std::vector<Index> near;
      for (Index o : values_[std::size_t(v)].operands) sources(o, &near);
      for (Index n : near) take(n);
      for (Index u : users_[std::size_t(v)]) take(u);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  static void arrange(Drawing* d) {
    const std::size_t n = d->nodes.size();
    std::vector<std::vector<int>> up(n), down(n);
    for (const auto& [a, b] : d->edges) {
      up[std::size_t(b)].push_back(a);
      down[std::size_t(a)].push_back(b);
    }
    std::vector<int> layer(n);
    for (std::size_t v = 0; v < n; ++v) {
      for (int o : up[v]) layer[v] = std::max(layer[v], layer[std::size_t(o)] + 1);
    }
    // Arguments stand just above their first use.
    for (std::size_t v = 0; v < n; ++v) {
      if (!up[v].empty() || down[v].empty()) continue;
      int first = layer[std::size_t(down[v][0])];
      for (int u : down[v]) first = std::min(first, layer[std::size_t(u)]);
      layer[v] = first - 1;
    }
    const int layers = n == 0 ? 0 : *std::max_element(layer.begin(), layer.end()) + 1;
    std::vector<std::vector<int>> rows;
    rows.resize(std::size_t(layers));
    for (std::size_t v = 0; v < n; ++v) rows[std::size_t(layer[v])].push_back(int(v));
    for (auto& row : rows) {
      for (std::size_t k = 0; k < row.size(); ++k) {
        d->nodes[std::size_t(row[k])].x = (double(k) - double(row.size() - 1) / 2) * kColumn;
      }
    }
    for (int sweep = 0; sweep < 8; ++sweep) {
      const bool downwards = sweep % 2 == 0;
      for (int k = 0; k < layers; ++k) {
        auto& row = rows[std::size_t(downwards ? k : layers - 1 - k)];
        settle(d, &row, downwards ? up : down);
      }
    }
    for (std::size_t v = 0; v < n; ++v) d->nodes[v].y = layer[v] * kLayer;
  }

  /// Puts the nodes of a row as near as can be to their neighbours' mean, none over another.
  static void settle(Drawing* d, std::vector<int>* row, const std::vector<std::vector<int>>& near) {
    auto x = [&](int v) -> double& { return d->nodes[std::size_t(v)].x; };
    std::map<int, double> want;
    for (int v : *row) {
      double sum = 0;
      for (int u : near[std::size_t(v)]) sum += x(u);
      want[v] = near[std::size_t(v)].empty() ? x(v) : sum / double(near[std::size_t(v)].size());
    }
    std::stable_sort(row->begin(), row->end(), [&](int a, int b) { return want[a] < want[b]; });
    // Blocks of nodes that touch each other stand around the mean of what they want.
    struct Block {
      double at = 0;  ///< of its first node
      std::size_t count = 0;
    };
    std::vector<Block> blocks;
    for (int v : *row) {
      blocks.push_back({want[v], 1});
      while (blocks.size() > 1) {
        Block &a = blocks[blocks.size() - 2], &b = blocks.back();
        if (a.at + double(a.count) * kColumn <= b.at) break;
        const double shifted = b.at - double(a.count) * kColumn;
        a.at = (a.at * double(a.count) + shifted * double(b.count)) / double(a.count + b.count);
        a.count += b.count;
        blocks.pop_back();
      }
    }
    std::size_t k = 0;
    for (const Block& b : blocks) {
      for (std::size_t j = 0; j < b.count; ++j, ++k) x((*row)[k]) = b.at + double(j) * kColumn;
    }
  }

  const std::vector<ExplainValue>& values_;
  std::vector<std::vector<Index>> users_;
  std::vector<char> hidden_;
};

}  // namespace

std::vector<Drawing> draw(const Explanation& e) { return DrawingBuilder(e).run(); }

}  // namespace tessera::compiler::explain
