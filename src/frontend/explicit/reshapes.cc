// SPDX-License-Identifier: Apache-2.0
// Explicit mode's rule of reshapes: which splits and merges of dims keep a sharding.
#include <algorithm>

#include "src/frontend/explicit/rules.h"

namespace tessera::frontend::explicit_rules {

using AxisList = ShardingType::AxisList;

namespace {

/// Neighbouring dims on both sides with the same number of elements: [begin, end).
struct Group {
  std::size_t from_begin, from_end, to_begin, to_end;

  bool is_plain() const { return from_end - from_begin == 1 && to_end - to_begin == 1; }
};

/// The dims larger than one.
std::vector<std::size_t> proper_dims(const Dims& dims) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1) out.push_back(d);
  }
  return out;
}

class Reshape {
 public:
  explicit Reshape(const TypedOp& op)
      : op_(op),
        type_(op.type(0)),
        from_(op.shape(0).dims),
        to_(op.op.shape.dims),
        from_dims_(proper_dims(from_)),
        to_dims_(proper_dims(to_)),
        out_(ShardingType::replicated(op.mesh(), to_.size())) {}

  ShardingType result() {
    out_.reduced = type_.reduced;
    out_.unreduced = type_.unreduced;
    out_.kind = type_.kind;
    const bool split = std::any_of(type_.dims.begin(), type_.dims.end(),
                                   [](const AxisList& d) { return !d.empty(); });
    if (!split) return out_;
    const std::vector<Group> groups = grouped();
    if (std::count_if(groups.begin(), groups.end(), [](const Group& g) { return !g.is_plain(); }) >
        1) {
      refuse("it splits or merges dims in several places at once");
    }
    for (const Group& g : groups) {
      if (g.is_plain()) {
        out_.dims[to_dims_[g.to_begin]] = axes(g.from_begin);
      } else if (g.from_end - g.from_begin == 1) {
        distribute(axes(g.from_begin), g);
      } else if (g.to_end - g.to_begin == 1) {
        merge(g);
      } else {
        keep_unsplit(g);
      }
    }
    keep_dims_of_one();
    return out_;
  }

 private:
  const AxisList& axes(std::size_t k) const { return type_.dims[from_dims_[k]]; }

  [[noreturn]] void refuse(const std::string& why) const {
    op_.refuse("to " + Shape(op_.op.shape.dtype, to_).to_string() + " " + why +
                   ", so that how the result is sharded isn't clear",
               "out_sharding, the spec of the result; or reshard() of the operand before");
  }

  std::vector<Group> grouped() const {
    std::vector<Group> out;
    std::size_t i = 0, j = 0;
    while (i < from_dims_.size() || j < to_dims_.size()) {
      Group g{i, i, j, j};
      std::int64_t a = 1, b = 1;
      do {
        // An empty array: the rest is one group.
        const bool more_from = i < from_dims_.size() && (a <= b || j >= to_dims_.size());
        if (more_from) {
          a *= from_[from_dims_[i++]];
        } else if (j < to_dims_.size()) {
          b *= to_[to_dims_[j++]];
        } else {
          break;
        }
      } while (a != b);
      g.from_end = i;
      g.to_end = j;
      out.push_back(g);
    }
    return out;
  }

  /// Axes of one dim over the dims that it is split into, outermost first.
  void distribute(const AxisList& axes, const Group& g) {
    std::size_t next = 0;
    for (std::size_t k = g.to_begin; k < g.to_end && next < axes.size(); ++k) {
      std::int64_t left = to_[to_dims_[k]];
      while (left > 1 && next < axes.size()) {
        const std::int64_t size = type_.mesh.axis_size(axes[next]);
        if (left % size != 0) {
          refuse("a dim of " + std::to_string(to_[to_dims_[k]]) + " can't be split evenly by '" +
                 axes[next] + "', of size " + std::to_string(size));
        }
        out_.dims[to_dims_[k]].push_back(axes[next++]);
        left /= size;
      }
    }
  }

  /// Parts stay contiguous only if all but the last of the split dims have one element per device.
  void merge(const Group& g) {
    std::size_t last = g.from_begin;
    bool any = false;
    for (std::size_t k = g.from_begin; k < g.from_end; ++k) {
      if (axes(k).empty()) continue;
      last = k;
      any = true;
    }
    if (!any) return;
    AxisList all;
    for (std::size_t k = g.from_begin; k <= last; ++k) {
      if (k < last && type_.parts(from_dims_[k]) != from_[from_dims_[k]]) {
        refuse("dim " + std::to_string(from_dims_[k]) +
               " has several elements on each device, and "
               "dim " +
               std::to_string(from_dims_[last]) + ", which is merged into it, is split");
      }
      all.insert(all.end(), axes(k).begin(), axes(k).end());
    }
    out_.dims[to_dims_[g.to_begin]] = std::move(all);
  }

  void keep_unsplit(const Group& g) const {
    for (std::size_t k = g.from_begin; k < g.from_end; ++k) {
      if (!axes(k).empty()) refuse("dims that are split are regrouped");
    }
  }

  /// Dims of one element may be split by axes of size 1. They keep these where as many stand
  /// between the same larger dims.
  void keep_dims_of_one() {
    if (from_dims_.size() != to_dims_.size()) return;
    for (std::size_t k = 0; k <= from_dims_.size(); ++k) {
      const auto bounds = [&](const std::vector<std::size_t>& dims, std::size_t rank) {
        return std::pair(k == 0 ? 0 : dims[k - 1] + 1, k == dims.size() ? rank : dims[k]);
      };
      const auto [from, from_end] = bounds(from_dims_, from_.size());
      const auto [to, to_end] = bounds(to_dims_, to_.size());
      if (from_end - from != to_end - to) continue;
      for (std::size_t n = 0; n < from_end - from; ++n) out_.dims[to + n] = type_.dims[from + n];
    }
  }

  const TypedOp& op_;
  const ShardingType& type_;
  const Dims& from_;
  const Dims& to_;
  std::vector<std::size_t> from_dims_, to_dims_;
  ShardingType out_;
};

}  // namespace

ShardingType reshape(const TypedOp& op) { return Reshape(op).result(); }

}  // namespace tessera::frontend::explicit_rules
