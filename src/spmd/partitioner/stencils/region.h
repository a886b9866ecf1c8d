// SPDX-License-Identifier: Apache-2.0
// A stencil along a split dim: ops that take rows of a few arrays at offsets and put them together,
// and the rows that each device needs of every array for its own rows of the results.
//
// A device at coordinate c along the axes that split the dim owns rows [c b, c b + b) of an array
// that is laid out plainly. Of any array in the region it may have a window instead: rows
// [c b + lo, c b + hi), whatever the length of the array. Of arrays with a row for so many rows of
// others (every second one, windows with a stride, repetitions) b is shorter or longer by as much.
// Windows of one array differ in where they begin only, so that rows at an offset are a slice of
// the window on every device. Only windows of arrays that are there already (or that it is cheaper
// to compute once) need rows of neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/cost/machine.h"
#include "src/ir/analysis/row_use.h"
#include "src/ir/module.h"
#include "src/spmd/reshard/by_coordinate.h"

namespace tessera::spmd::stencils {

using ir::RowPart;
using ir::RowUse;

/// Rows [c b + lo, c b + hi) on the device at c.
struct Window {
  std::int64_t lo = 0, hi = 0;
  /// The array goes on with its first row behind its last one.
  bool cyclic = false;

  std::int64_t rows() const { return hi - lo; }
  bool has(const Window& other) const { return lo <= other.lo && other.hi <= hi; }
};

/// The least window that has both.
inline Window hull(const Window& a, const Window& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.cyclic || b.cyclic};
}

/// How an array along one dim is had.
struct Node {
  ir::Instruction* x = nullptr;
  std::int64_t dim = 0;
  /// Of its rows, `num` are where `den` of the seed's are.
  std::int64_t num = 1, den = 1;
  std::int64_t block = 0;  ///< rows of a device; 0: there is no whole number
  std::optional<RowUse> use;
  /// Plainly laid out, split by the region's axes into blocks of its size.
  bool plain = false;
  bool computed = false;  ///< by windows
  /// Users outside need it as it is.
  bool wanted = false;
  /// Computed by windows that are the blocks, of which larger ones are put together again.
  bool cut = false;
  std::vector<Window> windows;  ///< of what is computed so, apart from each other
  std::optional<Window> taken;  ///< of what is there
};

/// Rows [begin, end) of a window, and where they come from.
struct Stretch {
  static constexpr int kAny = -1, kPadding = -2;
  std::int64_t begin = 0, end = 0;
  /// By device coordinate: which piece, or one of these.
  ByCoordinate choice;
};

/// A part of an op as it is seen from a window: row j of the window is row lo + j of the result, as
/// the part counts.
struct Piece {
  std::size_t part = 0;
  std::int64_t lo = 0;
  std::int64_t around = 0;  ///< rows by which that is before the window, of one that goes around

  /// What is needed of the part for rows of a stretch.
  Window of(const RowPart& p, const Stretch& s) const {
    return {p.first_of(lo + s.begin), p.end_of(lo + s.end), false};
  }
};

struct Composition {
  std::vector<Piece> pieces;
  std::vector<Stretch> stretches;
  /// Each stretch has rows of the last piece on some device, and on others padding, or rows of the
  /// first piece that it updates: both are taken whole, and each row is one or the other.
  bool whole = false;
};

/// The layout of an array on the prime axes of a mesh; none if it has none there.
using LayoutOf = std::optional<TensorSharding> (*)(const ir::Instruction& x, const MeshRef& mesh);

class Region {
 public:
  /// All ops that are connected to that one along the dim.
  /// `whole`: along one that isn't split, so that windows only save putting rows together.
  Region(ir::Instruction* seed, std::int64_t dim, MeshRef mesh, const cost::Machine& machine,
         LayoutOf layout_of, bool whole = false);

  /// As if all its arrays were split along their rows by these axes.
  Region(ir::Instruction* seed, std::int64_t dim, const IndexList& axes, MeshRef mesh,
         const cost::Machine& machine);

  /// What its ops receive together: by windows, or each by itself, where that is less.
  struct Exchange {
    double permutes = 0, seconds = 0;  ///< without the time that permutes take to start
    std::size_t ops = 0;               ///< that move rows
  };
  /// None if that isn't known.
  std::optional<Exchange> exchange();
  /// Whether it pays to compute it by windows. `steps`: of steps of a loop, which is worth more.
  bool pays(bool steps = false);

  /// In the order of the computation.
  const std::vector<Node>& nodes() const { return nodes_; }
  const IndexList& axes() const { return axes_; }
  std::int64_t ways() const { return ways_; }
  const Node* find(const ir::Instruction* x) const;
  /// The rows of a window that some device has, or where those of a cyclic one are; none if none
  /// has.
  std::optional<Window> valid(const Node& n, Window w) const;
  /// Of a window of an op that moves rows.
  Composition composition(const Node& node, const Window& window) const;
  /// Of a window on what windows of an op see: rows of its part, and padding around them.
  Composition padded(const Node& node, const Window& window) const;
  /// Rows beyond the ends of the part are fetched as zeros, which that padding is.
  bool has_padding(const Node& node) const;
  /// What rows of a stretch take of a part.
  Window taken_by(const Piece& piece, const RowPart& part, const Stretch& s) const;

 private:
  Node* node(const ir::Instruction* x);
  std::optional<TensorSharding> layout(const Node& n) const;
  void start(ir::Instruction* seed, std::int64_t dim);
  std::int64_t rows(const Node& n) const { return n.x->shape.dim(n.dim); }
  void collect(ir::Instruction* seed, std::int64_t dim);
  bool enter(ir::Instruction* x, std::int64_t dim, std::int64_t num, std::int64_t den);
  Composition composed(const RowUse& use, std::int64_t size, std::int64_t block, const Window& w,
                       int outside) const;
  bool choose_block();
  bool may_leave(const Node& n) const;
  bool is_wanted(const Node& n, const std::function<bool(const ir::Instruction*)>& computed) const;
  void choose_computed();
  /// What can't be had in windows is left as it is; false if that is too much.
  bool demand_rows();
  bool has_all_rows() const;
  bool in_reach(const Node& n, const Window& w) const;
  bool demand(Node* n);
  bool add_window(const ir::Instruction* x, Window w);
  /// What computing this window takes of the parts.
  void parts_of(const Node& n, const Window& w,
                std::vector<std::pair<const ir::Instruction*, Window>>* out) const;
  double row_bytes(const Node& n) const;
  bool is_view(const Node& n) const;
  bool is_shared(const Node& n) const;
  double price_of_work(const Node& n, std::int64_t count) const;
  double price_of_op(const Node& n) const;
  double price_of_copy(const Node& n, std::int64_t count) const;
  double price_of_window(const Node& n, const Window& w) const;
  /// By index in the computation: an array that is there, and what is taken of it.
  struct Taken {
    std::map<std::int64_t, std::pair<const Node*, Window>> windows;
    double work = 0;
    int visits = 0;
  };
  bool take(const ir::Instruction* x, const Window& w, Taken* out) const;
  /// Of a window and all that it takes.
  double price_of(const Node& n, const Window& w) const;
  /// Copies count only against others: less that moves is worth any.
  struct Price {
    double moved = 0;  ///< also of what is computed more than once
    double permutes = 0;
    double copied = 0;  ///< of arrays that are put together from rows
  };
  bool is_fetched_outside(const Node& n) const;
  Price price_as_it_is() const;
  Price price_by_windows() const;
  bool taken_through(const Node& n) const;

  std::vector<Node> nodes_;
  std::unordered_map<const ir::Instruction*, std::size_t> index_;
  MeshRef mesh_;
  const cost::Machine& machine_;
  LayoutOf layout_of_;  ///< null: all are split by the region's axes
  IndexList axes_;
  std::int64_t ways_ = 1, block_ = 0;  ///< of the seed
  std::vector<std::size_t> open_;      ///< nodes whose neighbours aren't known yet
  /// Rows are computed more than once if that takes less than so many times fetching them.
  double repeats_ = 1;
  bool consistent_ = true;
};

}  // namespace tessera::spmd::stencils
