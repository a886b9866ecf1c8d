// SPDX-License-Identifier: Apache-2.0
// Collects a region, and decides what each device has of its arrays.
#include "src/spmd/partitioner/stencils/region.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/contains.h"
#include "src/spmd/rules/projection.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::stencils {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Ops of a region, windows of an array, stretches of a window: beyond, it isn't a stencil.
constexpr std::size_t kMostOps = 3000, kMostWindows = 4, kMostStretches = 24;
/// Devices on each side whose rows are fetched, and ops that are left out at most.
constexpr std::int64_t kMostHops = 4;
constexpr int kMostLeftOut = 32;
/// Rows of a block that may be computed more than once, to save exchanges: one in so many.
constexpr std::int64_t kRepeatedShare = 4;

}  // namespace

Region::Region(Instruction* seed, std::int64_t dim, MeshRef mesh, const cost::Machine& machine,
               LayoutOf layout_of, bool whole)
    : mesh_(std::move(mesh)), machine_(machine), layout_of_(layout_of) {
  // The seed is split, or what it is made of.
  const auto use = row_use(*seed, dim);
  std::optional<TensorSharding> layout = layout_of_(*seed, mesh_);
  std::int64_t d = dim;
  for (std::size_t i = 0; use && i < use->parts.size(); ++i) {
    if (layout && layout->shards(d) > 1) break;
    layout = layout_of_(*use->parts[i].array, mesh_);
    d = use->parts[i].dim;
  }
  if (!layout || (layout->shards(d) == 1) != whole) {
    consistent_ = false;
    return;
  }
  axes_ = layout->dims[std::size_t(d)].axes;
  ways_ = layout->shards(d);
  start(seed, dim);
}

Region::Region(Instruction* seed, std::int64_t dim, const IndexList& axes, MeshRef mesh,
               const cost::Machine& machine)
    : mesh_(std::move(mesh)),
      machine_(machine),
      layout_of_(nullptr),
      axes_(axes),
      ways_(tessera::ways_of(*mesh_, axes)) {
  start(seed, dim);
}

/// Blocks of rows are those of what is read and split alike.
void Region::start(Instruction* seed, std::int64_t dim) {
  const auto use = row_use(*seed, dim);
  for (std::size_t i = 0; use && block_ == 0 && i < use->parts.size(); ++i) {
    const RowPart& p = use->parts[i];
    if (layout_of_ != nullptr) {
      const auto part = layout_of_(*p.array, mesh_);
      if (!part || part->dims[std::size_t(p.dim)].axes != axes_) continue;
    }
    const std::int64_t block = ceil_div(p.array->shape.dim(p.dim), ways_) * p.spread;
    if (block % p.stride == 0) block_ = block / p.stride;
  }
  if (block_ == 0) block_ = ceil_div(seed->shape.dim(dim), ways_);
  collect(seed, dim);
}

std::optional<TensorSharding> Region::layout(const Node& n) const {
  if (layout_of_ != nullptr) return layout_of_(*n.x, mesh_);
  TensorSharding s = TensorSharding::replicated_on(mesh_, n.x->shape.rank());
  s.dims[std::size_t(n.dim)].axes = axes_;
  return s;
}

const Node* Region::find(const Instruction* x) const {
  const auto it = index_.find(x);
  return it == index_.end() ? nullptr : &nodes_[it->second];
}
Node* Region::node(const Instruction* x) {
  const auto it = index_.find(x);
  return it == index_.end() ? nullptr : &nodes_[it->second];
}

/// False if it can't be part of the region in this way.
bool Region::enter(Instruction* x, std::int64_t dim, std::int64_t num, std::int64_t den) {
  if (!x->shape.is_array()) return false;
  const std::int64_t common = std::gcd(num, den);
  num /= common;
  den /= common;
  if (const Node* known = find(x)) {
    return known->dim == dim && known->num == num && known->den == den;
  }
  if (block_ * num % den != 0) return false;
  const std::int64_t block = block_ * num / den, size = x->shape.dim(dim);
  // A half, or all of what others are halves of, is somewhere else on each device. A few rows may
  // be those of an edge.
  if (size >= 2 * ways_ * block || (2 * size <= ways_ * block && size > 2 * block)) return false;
  Node n;
  n.x = x;
  n.dim = dim;
  n.num = num;
  n.den = den;
  n.use = ir::row_use(*x, dim);
  index_.emplace(x, nodes_.size());
  open_.push_back(nodes_.size());
  nodes_.push_back(std::move(n));
  return true;
}

void Region::collect(Instruction* seed, std::int64_t dim) {
  consistent_ = enter(seed, dim, 1, 1);
  while (!open_.empty()) {
    const std::size_t at = open_.back();
    open_.pop_back();
    if (nodes_.size() > kMostOps) {
      consistent_ = false;
      return;
    }
    // Copies: nodes move as others are entered.
    const std::optional<RowUse> use = nodes_[at].use;
    Instruction* x = nodes_[at].x;
    const std::int64_t d = nodes_[at].dim, num = nodes_[at].num, den = nodes_[at].den;
    bool fits = true;
    for (std::size_t i = 0; use && i < use->parts.size(); ++i) {
      const RowPart& p = use->parts[i];
      fits = enter(p.array, p.dim, num * p.stride, den * p.spread) && fits;
    }
    if (!fits) nodes_[at].use.reset();
    for (Instruction* user : ir::row_users(*x, d)) {
      if (!user->shape.is_array()) continue;
      for (std::int64_t to = 0; to < user->shape.rank(); ++to) {
        const std::optional<RowUse> by = ir::row_use(*user, to);
        if (!by) continue;
        const auto p = std::find_if(by->parts.begin(), by->parts.end(), [&](const RowPart& part) {
          return part.dim == d && (part.array == x || user->operand(part.operand) == x);
        });
        if (p == by->parts.end()) continue;
        enter(user, to, num * p->spread, den * p->stride);
        break;
      }
    }
  }
  std::sort(nodes_.begin(), nodes_.end(),
            [](const Node& a, const Node& b) { return a.x->index < b.x->index; });
  for (std::size_t i = 0; i < nodes_.size(); ++i) index_[nodes_[i].x] = i;
}

/// Its own rows of the result of these blocks can be made the array.
bool Region::may_leave(const Node& n) const {
  return rows(n) <= ways_ * n.block && rows(n) > (ways_ - 1) * n.block;
}

/// Somebody else takes it than the rows of what is computed so.
bool Region::is_wanted(const Node& n,
                       const std::function<bool(const Instruction*)>& computed) const {
  const auto users = ir::row_users(*n.x, n.dim);
  return n.x == n.x->parent->root() ||
         std::any_of(users.begin(), users.end(), [&](const Instruction* u) {
           if (!computed(u)) return true;
           // Also in another place than that of rows.
           std::size_t rows = 0, all = 0;
           for (const Instruction* o : u->operands()) all += o == n.x ? 1 : 0;
           for (const RowPart& p : find(u)->use->parts) {
             rows += p.array == n.x || u->operand(p.operand) == n.x ? 1 : 0;
           }
           return rows == 0 || rows < all;
         });
}

bool Region::choose_block() {
  // The arrays that come in decide, and those that leave.
  std::map<std::int64_t, double> weights;
  for (const Node& n : nodes_) {
    const auto layout = this->layout(n);
    if (!layout || layout->dims[std::size_t(n.dim)].axes != axes_) continue;
    const auto users = ir::row_users(*n.x, n.dim);
    const bool leaves = n.x == n.x->parent->root() ||
                        std::any_of(users.begin(), users.end(),
                                    [&](const Instruction* u) { return find(u) == nullptr; });
    if (n.use && !leaves) continue;
    const std::int64_t block = ceil_div(rows(n), ways_) * n.den;
    if (block % n.num == 0) weights[block / n.num] += double(n.x->shape.byte_count());
  }
  double most = 0;
  for (const auto& [block, weight] : weights) {
    if (weight > most) {
      most = weight;
      block_ = block;
    }
  }
  std::int64_t longest = 0;
  for (Node& n : nodes_) {
    n.block = block_ * n.num % n.den == 0 ? block_ * n.num / n.den : 0;
    if (n.block == 0) n.use.reset();
    longest = std::max(longest, n.block);
  }
  return most > 0 && longest > 1;
}

void Region::choose_computed() {
  std::vector<char> able;
  for (Node& n : nodes_) {
    const auto layout = this->layout(n);
    n.plain = layout && layout->unreduced.empty() && n.block > 0 &&
              layout->dims[std::size_t(n.dim)].axes == axes_ && ceil_div(rows(n), ways_) == n.block;
    n.computed = n.wanted = n.cut = false;
    n.windows.clear();
    n.taken.reset();
    able.push_back(n.use.has_value() && rows(n) > 0);
  }
  auto is_able = [&](const Instruction* x) {
    const auto it = index_.find(x);
    return it != index_.end() && able[it->second] != 0;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& n = nodes_[i];
      if (!able[i]) continue;
      bool ok = std::all_of(n.use->parts.begin(), n.use->parts.end(), [&](const RowPart& p) {
        const Node* part = find(p.array);
        return part && part->dim == p.dim && (part->plain || is_able(p.array));
      });
      if (ok && !n.plain && !may_leave(n)) ok = !is_wanted(n, is_able);
      if (ok) continue;
      able[i] = 0;
      changed = true;
    }
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& n = nodes_[i];
    if (!able[i]) continue;
    n.computed = n.use->moves_rows() || n.use->parts.empty() || !n.plain ||
                 std::any_of(n.use->parts.begin(), n.use->parts.end(),
                             [&](const RowPart& p) { return find(p.array)->computed; });
  }
  // What can't be computed so is as it was.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!able[i]) nodes_[i].use.reset();
  }
}

std::optional<Window> Region::valid(const Node& n, Window w) const {
  if (n.plain) {
    // Rows that are so far away are those of the other end.
    const std::int64_t size = rows(n);
    if (ways_ == 1) return Window{w.lo, w.hi, w.cyclic || w.lo < 0 || w.hi > size};
    if (size == ways_ * n.block) {
      const std::int64_t by = floor_div(w.lo + w.hi - n.block + size, 2 * size) * size;
      if (by != 0) w = {w.lo - by, w.hi - by, true};
    }
    return w;
  }
  if (w.cyclic) return w;
  Window out{w.hi, w.lo, false};
  for (std::int64_t c = 0; c < ways_; ++c) {
    const std::int64_t lo = std::max(w.lo, -c * n.block),
                       hi = std::min(w.hi, rows(n) - c * n.block);
    if (lo >= hi) continue;
    out.lo = std::min(out.lo, lo);
    out.hi = std::max(out.hi, hi);
  }
  if (out.lo >= out.hi) return std::nullopt;
  return out;
}

Composition Region::composition(const Node& n, const Window& w) const {
  return composed(*n.use, rows(n), n.block, w, Stretch::kAny);
}

namespace {

bool is_zero(const Instruction* x) {
  while (x->is(Opcode::copy) || x->is(Opcode::convert) || x->is(Opcode::broadcast)) {
    x = x->operand(0);
  }
  if (!x->is(Opcode::constant) || x->get<ir::ConstantAttrs>().elided) return false;
  const auto& bytes = x->get<ir::ConstantAttrs>().value;
  return std::all_of(bytes.bytes(), bytes.bytes() + bytes.byte_count(),
                     [](std::byte b) { return b == std::byte(0); });
}

}  // namespace

bool Region::has_padding(const Node& n) const {
  const Node& part = *find(n.use->parts.front().array);
  const bool zeros = n.x->is(Opcode::convolution) || is_zero(n.x->operand(1));
  return zeros && part.plain && part.taken && !part.taken->cyclic && (!part.computed || part.cut) &&
         rows(part) == ways_ * part.block;
}

Composition Region::padded(const Node& n, const Window& w) const {
  RowPart part = n.use->parts.front();
  const Node& of = *find(part.array);
  part.offset = part.begin = 0;
  part.end = rows(of);
  part.stride = part.spread = part.extent = 1;
  return composed({RowUse::Kind::moved, {part}}, rows(of), of.block, w, Stretch::kPadding);
}

/// `outside`: what stands where the result has no rows.
Composition Region::composed(const RowUse& use, std::int64_t size, std::int64_t block,
                             const Window& w, int outside) const {
  Composition out;
  std::vector<std::int64_t> cuts{0, w.rows()};
  struct Placed {
    std::int64_t begin, end;  // in rows of the result, of its repetition
  };
  std::vector<Placed> placed;
  // The devices c for which lo <= c * block + base < hi, [first, second).
  const auto devices = [&](std::int64_t lo, std::int64_t hi, std::int64_t base) {
    if (block <= 0)
      return std::pair<std::int64_t, std::int64_t>{0, lo <= base && base < hi ? ways_ : 0};
    return std::pair{std::clamp<std::int64_t>(ceil_div(lo - base, block), 0, ways_),
                     std::clamp<std::int64_t>(ceil_div(hi - base, block), 0, ways_)};
  };
  const auto cut_at = [&](std::int64_t row) {
    const auto [first, last] = devices(row - w.rows() + 1, row, w.lo);
    for (std::int64_t c = first; c < last; ++c) cuts.push_back(row - c * block - w.lo);
  };
  const std::int64_t around = w.cyclic ? 1 : 0;
  for (std::int64_t k = -around; k <= around; ++k) {
    for (std::size_t p = 0; p < use.parts.size(); ++p) {
      const RowPart& part = use.parts[p];
      out.pieces.push_back({p, w.lo - k * size, k * size});
      placed.push_back({part.begin + k * size, part.end + k * size});
      cut_at(placed.back().begin);
      cut_at(placed.back().end);
    }
  }
  if (!w.cyclic) {
    cut_at(0);
    cut_at(size);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Stretch s{cuts[i], cuts[i + 1], {}};
    const std::int64_t base = w.lo + s.begin;
    std::vector<ByCoordinate::Range> choices;
    const auto choose = [&](std::int64_t lo, std::int64_t hi, int choice) {
      const auto [first, last] = devices(lo, hi, base);
      choices.push_back({first, last, choice});
    };
    // Of an update the later part wins.
    for (std::size_t p = 0; p < placed.size(); ++p) {
      choose(placed[p].begin, placed[p].end, int(p));
    }
    if (!w.cyclic && outside == Stretch::kAny) {
      constexpr std::int64_t far = std::int64_t(1) << 60;
      choose(-far, 0, Stretch::kAny);
      choose(size, far, Stretch::kAny);
    }
    s.choice = ByCoordinate::of_ranges(ways_, Stretch::kPadding, choices);
    if (!out.stretches.empty()) {
      // Where a device may have anything, it has what suits the neighbouring rows.
      Stretch& last = out.stretches.back();
      bool agree = true;
      ByCoordinate both;
      for_equal<2>({&s.choice, &last.choice}, [&](std::int64_t, std::int64_t count, const auto& v) {
        agree &= v[0] == v[1] || v[0] == Stretch::kAny || v[1] == Stretch::kAny;
        both.append(count, v[1] == Stretch::kAny ? v[0] : v[1], 0);
      });
      if (agree) {
        last.choice = std::move(both);
        last.end = s.end;
        continue;
      }
    }
    out.stretches.push_back(std::move(s));
  }
  const std::size_t top = use.kind == RowUse::Kind::update ? 1 : 0;
  const int below = top == 1 ? 0 : Stretch::kPadding;
  bool changes = false;
  out.whole = !w.cyclic && top + 1 == use.parts.size() && outside == Stretch::kAny;
  for (const Stretch& s : out.stretches) {
    out.whole = out.whole && s.choice.count(std::int64_t(top)) > 0;
    changes = changes || s.choice.count(below) > 0;
  }
  out.whole = out.whole && changes;
  return out;
}

Window Region::taken_by(const Piece& piece, const RowPart& part, const Stretch& s) const {
  Window w = piece.of(part, s);
  const Node& of = *find(part.array);
  const std::int64_t size = rows(of);
  if (!of.plain || !part.is_shift() || size != ways_ * of.block) return w;
  // Seen from the rows that are made, those of the other end may be nearer.
  const std::int64_t off = w.lo - (piece.lo + s.begin);
  if (ways_ == 1) {
    // There is no other device that has them: they are put where they are wanted.
    w = {w.lo + piece.around, w.hi + piece.around, piece.around != 0};
  }
  if (2 * std::abs(off) <= size) return w;
  const std::int64_t by = off > 0 ? size : -size;
  return {w.lo - by, w.hi - by, true};
}

void Region::parts_of(const Node& n, const Window& w,
                      std::vector<std::pair<const Instruction*, Window>>* out) const {
  if (n.use->kind == RowUse::Kind::alike) {
    for (const RowPart& p : n.use->parts) out->emplace_back(p.array, w);
    return;
  }
  if (!n.use->only_moves()) {
    const RowPart& p = n.use->parts.front();
    out->emplace_back(p.array, Window{p.first_of(w.lo), p.end_of(w.hi), w.cyclic});
    return;
  }
  const Composition c = composition(n, w);
  auto take = [&](std::size_t piece, const Stretch& s) {
    const Piece& p = c.pieces[piece];
    const RowPart& part = n.use->parts[p.part];
    const Window of = taken_by(p, part, s);
    // Between rows that are spread there may be none.
    if (of.lo < of.hi) out->emplace_back(part.array, of);
  };
  if (c.whole) {
    const Stretch all{0, w.rows(), {}};
    for (std::size_t i = 0; i < c.pieces.size(); ++i) take(i, all);
    return;
  }
  for (const Stretch& s : c.stretches) {
    std::vector<char> used(c.pieces.size(), 0);
    for_equal<1>({&s.choice}, [&](std::int64_t, std::int64_t, const auto& v) {
      if (v[0] < 0) return;
      const auto choice = std::size_t(v[0]);
      used[choice] = 1;
      // What is updated is there as well.
      if (n.use->kind == RowUse::Kind::update && c.pieces[choice].part == 1) used[choice - 1] = 1;
    });
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) take(i, s);
    }
  }
}

bool Region::add_window(const Instruction* x, Window w) {
  Node& n = *node(x);
  const auto clipped = valid(n, w);
  if (!clipped) return true;
  w = *clipped;
  if (n.plain) {
    if (n.taken) w = hull(w, *n.taken);
    n.taken = w;
    return in_reach(n, w);
  }
  std::vector<Window> apart;
  for (const Window& other : n.windows) {
    if (other.cyclic == w.cyclic && other.lo <= w.hi + 1 && w.lo <= other.hi + 1) {
      w = hull(w, other);
    } else {
      apart.push_back(other);
    }
  }
  apart.push_back(w);
  n.windows = std::move(apart);
  return n.windows.size() <= kMostWindows && w.rows() <= (2 * kMostHops + 1) * n.block;
}

bool Region::in_reach(const Node& n, const Window& w) const {
  const std::int64_t most = ways_ == 1 ? n.block / 2 : std::min(kMostHops, ways_ - 1) * n.block;
  return w.lo >= -most && w.hi <= n.block + most;
}

bool Region::demand(Node* n) {
  const Window own{0, n->block, false};
  const auto computed = [&](const Instruction* x) {
    const Node* user = find(x);
    return user && user->computed;
  };
  if (n->computed) n->wanted = is_wanted(*n, computed);
  if (n->computed && n->wanted && !n->plain && !add_window(n->x, own)) return false;
  if (n->plain && n->use) {
    std::optional<Window> all = n->taken;
    if (all && n->wanted) all = hull(*all, own);
    if (all && !own.has(*all)) {
      // More rows than its own: fetched, or computed here as well.
      const bool few = (all->rows() - n->block) * kRepeatedShare <= n->block;
      double fetched = (n->computed ? price_of(*n, own) : 0) + price_of_window(*n, *n->taken);
      // Rows that are read where they are, or made there, would be written for that.
      if (n->computed) fetched += price_of_copy(*n, n->taken->rows());
      const bool fetch = !few || price_of(*n, *all) > repeats_ * fetched;
      if (!fetch && !n->computed) {
        n->computed = true;
        n->wanted = is_wanted(*n, computed);
        if (n->wanted) all = hull(*all, own);
      }
      n->cut = fetch && n->computed;
    }
    if (n->cut || (n->wanted && !all)) all = own;
    if (n->computed && all) n->windows = {*all};
  }
  if (!n->computed) return true;
  for (const Window& w : n->windows) {
    if (n->use->only_moves() && composition(*n, w).stretches.size() > kMostStretches) return false;
    if (n->use->kind == RowUse::Kind::windows && w.cyclic) return false;
    std::vector<std::pair<const Instruction*, Window>> parts;
    parts_of(*n, w, &parts);
    for (const auto& [part, window] : parts) {
      if (!add_window(part, window)) return false;
    }
  }
  return true;
}

bool Region::demand_rows() {
  for (int left_out = 0; left_out < kMostLeftOut; ++left_out) {
    choose_computed();
    const bool any = std::any_of(nodes_.begin(), nodes_.end(),
                                 [](const Node& n) { return n.computed && n.use->moves_rows(); });
    if (!any) return false;
    bool ok = true;
    for (std::size_t i = nodes_.size(); ok && i-- > 0;) {
      if (demand(&nodes_[i])) continue;
      ok = false;
      nodes_[i].use.reset();
    }
    if (ok) return has_all_rows();
  }
  return false;
}

/// What each window is made of is there, as it will be asked for.
bool Region::has_all_rows() const {
  const auto has = [this](const Instruction* x, const Window& w) {
    const Node& n = *find(x);
    const auto clipped = valid(n, w);
    if (!clipped) return true;
    if (n.plain && n.taken && (!n.computed || n.cut)) return n.taken->has(*clipped);
    return std::any_of(n.windows.begin(), n.windows.end(), [&](const Window& other) {
      return other.has(*clipped) && (n.plain || other.cyclic == clipped->cyclic);
    });
  };
  for (const Node& n : nodes_) {
    if (!n.computed) continue;
    for (const Window& w : n.windows) {
      std::vector<std::pair<const Instruction*, Window>> parts;
      parts_of(n, w, &parts);
      for (const auto& [part, window] : parts) {
        if (!has(part, window)) return false;
      }
    }
  }
  return true;
}

}  // namespace tessera::spmd::stencils
