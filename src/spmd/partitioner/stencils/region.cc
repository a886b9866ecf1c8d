// SPDX-License-Identifier: Apache-2.0
// Collects a region, and decides what each device has of its arrays.
#include "src/spmd/partitioner/stencils/region.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/contains.h"
#include "src/cost/work.h"
#include "src/spmd/reshard/row_exchange.h"
#include "src/spmd/sharding_util.h"

namespace tessera::spmd::stencils {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Ops of a region, windows of an array, stretches of a window: beyond, it isn't a stencil.
constexpr std::size_t kMostOps = 3000, kMostWindows = 4, kMostStretches = 24;
/// Devices on each side whose rows are fetched, and ops that are left out at most.
constexpr std::int64_t kMostHops = 4;
constexpr int kMostLeftOut = 32;
/// Arrays that are looked at for the price of a window.
constexpr int kMostVisits = 200;
/// Rows of a block that may be computed more than once, to save exchanges: one in so many.
constexpr std::int64_t kRepeatedShare = 4;
constexpr double kNever = 1e30;

Window hull(const Window& a, const Window& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.cyclic || b.cyclic};
}

}  // namespace

Region::Region(Instruction* seed, std::int64_t dim, MeshRef mesh, const cost::Machine& machine,
               LayoutOf layout_of)
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
  if (!layout || layout->shards(d) == 1) {
    consistent_ = false;
    return;
  }
  axes_ = layout->dims[std::size_t(d)].axes;
  ways_ = layout->shards(d);
  // Of what is split, for now.
  for (std::size_t i = 0; use && block_ == 0 && i < use->parts.size(); ++i) {
    const RowPart& p = use->parts[i];
    const auto part = layout_of_(*p.array, mesh_);
    if (!part || part->dims[std::size_t(p.dim)].axes != axes_) continue;
    const std::int64_t block = ceil_div(p.array->shape.dim(p.dim), ways_) * p.spread;
    if (block % p.stride == 0) block_ = block / p.stride;
  }
  if (block_ == 0) block_ = ceil_div(seed->shape.dim(dim), ways_);
  collect(seed, dim);
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
    const auto layout = layout_of_(*n.x, mesh_);
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
    const auto layout = layout_of_(*n.x, mesh_);
    n.plain = layout && layout->unreduced.empty() && n.block > 0 &&
              layout->dims[std::size_t(n.dim)].axes == axes_ &&
              ceil_div(rows(n), ways_) == n.block;
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
  return zeros && part.plain && part.taken && !part.taken->cyclic &&
         (!part.computed || part.cut) && rows(part) == ways_ * part.block;
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
  const std::int64_t around = w.cyclic ? 1 : 0;
  for (std::int64_t k = -around; k <= around; ++k) {
    for (std::size_t p = 0; p < use.parts.size(); ++p) {
      const RowPart& part = use.parts[p];
      out.pieces.push_back({p, w.lo - k * size});
      placed.push_back({part.begin + k * size, part.end + k * size});
      for (std::int64_t c = 0; c < ways_; ++c) {
        for (const std::int64_t row : {placed.back().begin, placed.back().end}) {
          const std::int64_t j = row - c * block - w.lo;
          if (j > 0 && j < w.rows()) cuts.push_back(j);
        }
      }
    }
  }
  for (std::int64_t c = 0; c < ways_ && !w.cyclic; ++c) {
    for (const std::int64_t row : {std::int64_t(0), size}) {
      const std::int64_t j = row - c * block - w.lo;
      if (j > 0 && j < w.rows()) cuts.push_back(j);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Stretch s{cuts[i], cuts[i + 1], {}};
    for (std::int64_t c = 0; c < ways_; ++c) {
      const std::int64_t row = c * block + w.lo + s.begin;
      int choice = !w.cyclic && (row < 0 || row >= size) ? outside : Stretch::kPadding;
      for (std::size_t p = 0; p < placed.size() && choice != Stretch::kAny; ++p) {
        // Of an update the later part wins.
        if (placed[p].begin <= row && row < placed[p].end) choice = int(p);
      }
      s.choice.push_back(choice);
    }
    if (!out.stretches.empty()) {
      // Where a device may have anything, it has what suits the neighbouring rows.
      Stretch& last = out.stretches.back();
      bool agree = true;
      for (std::size_t c = 0; c < s.choice.size(); ++c) {
        agree &= s.choice[c] == last.choice[c] || s.choice[c] == Stretch::kAny ||
                 last.choice[c] == Stretch::kAny;
      }
      if (agree) {
        for (std::size_t c = 0; c < s.choice.size(); ++c) {
          if (last.choice[c] == Stretch::kAny) last.choice[c] = s.choice[c];
        }
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
    out.whole = out.whole && contains(s.choice, int(top));
    changes = changes || contains(s.choice, below);
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
    for (const int choice : s.choice) {
      if (choice < 0) continue;
      used[std::size_t(choice)] = 1;
      // What is updated is there as well.
      if (n.use->kind == RowUse::Kind::update && c.pieces[std::size_t(choice)].part == 1) {
        used[std::size_t(choice) - 1] = 1;
      }
    }
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
  const std::int64_t most = std::min(kMostHops, ways_ - 1) * n.block;
  return w.lo >= -most && w.hi <= n.block + most;
}

double Region::row_bytes(const Node& n) const {
  const auto layout = layout_of_(*n.x, mesh_);
  return layout ? spmd::row_bytes(n.x->shape, *layout, n.dim)
                : double(n.x->shape.byte_count()) / double(rows(n));
}

/// It only says where elements of one array are.
bool Region::is_view(const Node& n) const {
  return n.use && n.use->parts.size() == 1 && price_of_work(n, 1) == 0;
}

double Region::price_of_work(const Node& n, std::int64_t count) const {
  // What only moves elements is read where they are.
  if (ir::has_trait(n.x->opcode, ir::traits::alias | ir::traits::repeats | ir::traits::permutes) ||
      n.x->is(Opcode::slice) || n.x->is(Opcode::pad) || n.x->is(Opcode::concatenate)) {
    return 0;
  }
  // What one op alone reads is computed where that is.
  const bool fused = n.use && ir::is_elementwise(n.x->opcode) && n.x->users().size() < 2;
  const double arithmetic = fused ? machine_.work(row_bytes(n) / 4 * double(count))
                                  : price_of_copy(n, count);
  return arithmetic + price_of_op(n) * double(count);
}

/// Of the arithmetic of a row, where that is what takes time.
double Region::price_of_op(const Node& n) const {
  if (!n.x->is(Opcode::convolution)) return 0;
  const auto layout = layout_of_(*n.x, mesh_);
  double parts = 1;
  for (std::int64_t d = 0; layout && d < layout->rank(); ++d) parts *= double(layout->shards(d));
  return machine_.work(cost::contraction_flops(*n.x)) * double(ways_) /
         (std::max(parts, double(ways_)) * double(rows(n)));
}

/// Of rows that are written, and read.
double Region::price_of_copy(const Node& n, std::int64_t count) const {
  return 2 * machine_.pass(row_bytes(n) * double(count));
}

/// Of the rows that other devices have.
double Region::price_of_window(const Node& n, const Window& w) const {
  const std::int64_t below = std::max<std::int64_t>(-w.lo, 0);
  const std::int64_t above = std::max<std::int64_t>(w.hi - n.block, 0);
  if (below + above == 0) return 0;
  return machine_.permutes(double(below + above) * row_bytes(n),
                           int(ceil_div(below, n.block) + ceil_div(above, n.block)),
                           machine_.route(*mesh_, axes_));
}

/// What a window takes of arrays that are there, and what it takes to compute it.
bool Region::take(const Instruction* x, const Window& w, Taken* out) const {
  if (++out->visits > kMostVisits) return false;
  const Node& n = *find(x);
  const auto clipped = valid(n, w);
  if (!clipped) return true;
  if (n.computed && n.use->parts.empty()) return true;
  // What several ops take may be fetched, too, and saves looking further.
  if (!n.computed || (n.plain && !is_view(n) && ir::row_users(*n.x, n.dim).size() > 1)) {
    const auto [it, is_new] = out->windows.emplace(n.x->index, std::pair{&n, *clipped});
    if (is_new && n.taken) it->second.second = hull(*clipped, *n.taken);
    it->second.second = hull(it->second.second, *clipped);
    return in_reach(n, it->second.second);
  }
  out->work += price_of_work(n, clipped->rows());
  std::vector<std::pair<const Instruction*, Window>> parts;
  parts_of(n, *clipped, &parts);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return take(part.first, part.second, out); });
}

double Region::price_of(const Node& n, const Window& w) const {
  Taken taken;
  taken.work = price_of_work(n, w.rows());
  std::vector<std::pair<const Instruction*, Window>> parts;
  parts_of(n, w, &parts);
  for (const auto& [part, window] : parts) {
    if (!take(part, window, &taken)) return kNever;
  }
  double price = taken.work;
  for (const auto& [index, had] : taken.windows) {
    const Node& part = *had.first;
    price += price_of_window(part, had.second);
    if (part.taken) price -= price_of_window(part, *part.taken);
  }
  return price;
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
    if (ok) return true;
  }
  return false;
}

/// Only concatenations along the dim use it, which take its rows from where they are.
bool Region::taken_through(const Node& n) const {
  if (!n.x->is(Opcode::slice) || !n.use->parts[0].is_shift()) return false;
  const auto users = ir::row_users(*n.x, n.dim);
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Instruction* u) {
    const Node* user = find(u);
    return u->is(Opcode::concatenate) && user && user->use && user->use->moves_rows();
  });
}

/// Somebody outside fetches rows of the array around windows, too.
bool Region::is_fetched_outside(const Node& n) const {
  const auto users = n.x->users();
  return std::any_of(users.begin(), users.end(), [&](const Instruction* u) {
    const Node* user = find(u);
    if (u->operand(0) != n.x || (user && user->computed)) return false;
    if (const auto* w = u->attrs.get_if<ir::WindowAttrs>()) {
      return w->dims[std::size_t(n.dim)].size > 1;
    }
    const auto* c = u->attrs.get_if<ir::ConvolutionAttrs>();
    return c && contains(c->input_spatial, n.dim);
  });
}

Region::Price Region::price_as_it_is() const {
  Price price;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> fetched;
  for (const Node& n : nodes_) {
    if (!n.computed || !n.use->moves_rows() || taken_through(n)) continue;
    if (n.use->kind == RowUse::Kind::windows) {
      const RowPart& p = n.use->parts[0];
      const std::int64_t block = ceil_div(rows(n), ways_);
      const std::int64_t spread = (p.array->shape.dim(p.dim) - 1) * p.spread + 1;
      Dims begin;
      for (std::int64_t c = 0; c < ways_; ++c) begin.push_back(c * block * p.stride + p.offset);
      const RowExchangePlan plan = plan_windows(
          {spread_part(ways_, p.array->shape.dim(p.dim), 0, p.spread - 1, spread)}, begin, spread,
          (block - 1) * p.stride + p.extent);
      const Node& part = *find(p.array);
      // Equal rows are fetched once.
      const bool is_new = fetched.emplace(part.x->index, begin[0], plan.block).second;
      if (is_new && !is_fetched_outside(part)) {
        price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(part), plan.permutes,
                                         machine_.route(*mesh_, axes_));
      }
      if (plan.permutes > 0) price.copied += price_of_copy(part, plan.block);
      continue;
    }
    std::vector<RowSource> sources;
    for (const RowPart& p : n.use->parts) {
      std::int64_t size = p.array->shape.dim(p.dim), offset = p.offset;
      if (const Node* part = find(p.array); part->computed && taken_through(*part)) {
        size = part->use->parts[0].array->shape.dim(p.dim);
        offset += part->use->parts[0].offset;
      }
      RowSource s;
      const std::int64_t block = ceil_div(size, ways_);
      s.array = sources.size();
      s.rows = ceil_div(block * p.spread, p.stride);
      for (std::int64_t c = 0; c < ways_; ++c) {
        const auto at = [&](std::int64_t row) {
          return ceil_div(row * p.spread - offset, p.stride);
        };
        s.start.push_back(at(c * block));
        s.lo.push_back(std::max(at(c * block), p.begin));
        s.hi.push_back(std::min(at(std::min((c + 1) * block, size)), p.end));
      }
      sources.push_back(std::move(s));
    }
    const RowExchangePlan plan =
        plan_row_exchange(sources, ways_, rows(n), ceil_div(rows(n), ways_));
    price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(n), plan.permutes,
                                     machine_.route(*mesh_, axes_));
    // Blocks of other lengths don't lie in the same place on each device: rows are picked one by
    // one.
    const bool aligned = std::all_of(sources.begin(), sources.end(), [&](const RowSource& s) {
      return s.rows == plan.block || s.rows < plan.block / 2;
    });
    if (!aligned) price.copied += price_of_copy(n, plan.block);
  }
  return price;
}

Region::Price Region::price_by_windows() const {
  Price price;
  for (const Node& n : nodes_) {
    if (n.taken && (!n.computed || n.cut) && !Window{0, n.block, false}.has(*n.taken)) {
      price.moved += price_of_window(n, *n.taken);
      price.copied += price_of_copy(n, n.taken->rows());
    }
    if (n.wanted && !n.plain) {
      const RowExchangePlan plan = plan_row_exchange({block_part(ways_, rows(n), n.block)}, ways_,
                                                     rows(n), ceil_div(rows(n), ways_));
      price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(n), plan.permutes,
                                       machine_.route(*mesh_, axes_));
      price.copied += price_of_copy(n, plan.block);
    }
    for (const Window& w : n.windows) {
      const std::int64_t more = w.rows() - n.block;
      if (n.computed && more > 0) price.moved += price_of_work(n, more);
      if (!n.computed || n.use->kind != RowUse::Kind::windows || has_padding(n)) continue;
      const Node& part = *find(n.use->parts.front().array);
      const Window from{n.use->parts.front().first_of(w.lo), n.use->parts.front().end_of(w.hi)};
      if (padded(n, from).stretches.size() > 1) price.copied += price_of_copy(part, from.rows());
    }
  }
  return price;
}

bool Region::pays() {
  if (!consistent_ || !choose_block()) return false;
  // What is best for one array needn't be so for all.
  const std::vector<Node> before = nodes_;
  const auto tried = [&](double repeats) {
    nodes_ = before;
    repeats_ = repeats;
    return demand_rows();
  };
  constexpr double kNotAtAll = 0, kByPrice = 1, kRather = 4, kAlways = 1e9, kHardlyMore = 1.05;
  double best = kByPrice, least = kNever;
  for (const double repeats : {kByPrice, kNotAtAll, kRather, kAlways}) {
    if (!tried(repeats)) continue;
    const Price windows = price_by_windows(), as_it_is = price_as_it_is();
    const bool pays = windows.moved < as_it_is.moved ||
                      (windows.moved <= kHardlyMore * as_it_is.moved &&
                       windows.moved + windows.copied < as_it_is.moved + as_it_is.copied);
    if (!pays || windows.moved + windows.copied >= least) continue;
    least = windows.moved + windows.copied;
    best = repeats;
  }
  const bool ok_ = least < kNever && tried(best);
  if (getenv("HDBG")) {
    fprintf(stderr, "region ways %ld block %ld: %d\n", ways_, block_, ok_);
    for (const Node& n : nodes_) {
      fprintf(stderr, "  %s dim %ld x%ld/%ld %s%s%s%s%s", n.x->name.c_str(), n.dim, n.num, n.den, n.use ? "" : "NOUSE ", n.plain ? "plain " : "", n.computed ? "computed " : "", n.wanted ? "wanted " : "", n.cut ? "cut " : "");
      for (const Window& w : n.windows) fprintf(stderr, " [%ld,%ld%s)", w.lo, w.hi, w.cyclic ? "c" : "");
      if (n.taken) fprintf(stderr, " taken [%ld,%ld%s)", n.taken->lo, n.taken->hi, n.taken->cyclic ? "c" : "");
      fprintf(stderr, "\n");
    }
  }
  return ok_;
}

}  // namespace tessera::spmd::stencils
