// SPDX-License-Identifier: Apache-2.0
// How far XLA's dot handler would divide the work of a dot with the shardings as they are.
#include "src/spmd/partitioner/layout/given_dot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/contains.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {
namespace {

using Count = std::int64_t;

enum class Kind { batch, left, right, summed, other };
enum Array { kLeft, kRight, kOut };

/// One of the three arrays within a group of devices.
struct Lay {
  std::vector<IndexList> axes;  ///< by factor
  double elements = 1;          ///< of the part that the group has
};

/// Into how many parts each factor is cut in the end.
using Parts = std::vector<Count>;

class GivenDot {
 public:
  GivenDot(const FactorRule& rule, const LogicalMesh& mesh) : rule_(rule), mesh_(mesh) {
    kinds_.assign(rule.factors.size(), Kind::other);
  }

  /// Whether each dim has one factor, and each that is split is a batch, a free or a summed dim.
  bool read(const std::vector<const TensorSharding*>& shardings) {
    const TensorFactors* dims[] = {&rule_.operands[0], &rule_.operands[1], &rule_.results[0]};
    std::vector<int> in(rule_.factors.size(), 0);
    for (int t = 0; t < 3; ++t) {
      for (const IndexList& dim : *dims[t]) {
        if (dim.size() > 1) return false;
        for (const int f : dim) in[std::size_t(f)] |= 1 << t;
      }
    }
    for (std::size_t f = 0; f < in.size(); ++f) {
      const FactorKind kind = rule_.factors[f].kind;
      if (kind == FactorKind::permutation || kind == FactorKind::need_replication) continue;
      if (in[f] == 7) kinds_[f] = Kind::batch;
      if (in[f] == 5) kinds_[f] = Kind::left;
      if (in[f] == 6) kinds_[f] = Kind::right;
      if (in[f] == 3) kinds_[f] = Kind::summed;
    }
    for (int t = 0; t < 3; ++t) {
      Lay& lay = lays_[std::size_t(t)];
      lay.axes.resize(rule_.factors.size());
      if (shardings[std::size_t(t)]->dims.size() != dims[t]->size()) return false;
      for (std::size_t d = 0; d < dims[t]->size(); ++d) {
        const IndexList& axes = shardings[std::size_t(t)]->dims[d].axes;
        if ((*dims[t])[d].empty()) {
          if (parts(axes) > 1) return false;
          continue;
        }
        const auto f = std::size_t((*dims[t])[d][0]);
        lay.elements *= double(rule_.factors[f].size);
        if (parts(axes) == 1) continue;
        if (kinds_[f] == Kind::other) return false;
        for (const int a : axes) {
          if (mesh_.axes[std::size_t(a)].size > 1) lay.axes[f].push_back(a);
        }
      }
    }
    return true;
  }

  double ways() {
    IndexList all;
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {
      if (mesh_.axes[a].size > 1) all.push_back(int(a));
    }
    const Parts found = solve(lays_[kLeft], lays_[kRight], lays_[kOut], all);
    double ways = 1;
    for (std::size_t f = 0; f < found.size(); ++f) {
      const Count size = rule_.factors[f].size, n = found[f];
      if (n > 1) ways *= double(size) / double((size + n - 1) / n);
    }
    return ways;
  }

 private:
  Count parts(const IndexList& axes) const { return ways_of(mesh_, axes); }

  /// Of the factors of one kind together.
  Count parts(const Lay& lay, Kind kind) const {
    Count n = 1;
    for (std::size_t f = 0; f < kinds_.size(); ++f) {
      if (kinds_[f] == kind) n *= parts(lay.axes[f]);
    }
    return n;
  }
  Count parts(const Lay& lay) const {
    Count n = 1;
    for (const IndexList& axes : lay.axes) n *= parts(axes);
    return n;
  }
  bool whole(const Lay& lay) const { return parts(lay) == 1; }
  double held(const Lay& lay) const { return lay.elements / double(parts(lay)); }

  bool same(const Lay& a, const Lay& b) const { return a.axes == b.axes; }

  std::vector<std::size_t> factors(Kind kind) const {
    std::vector<std::size_t> out;
    for (std::size_t f = 0; f < kinds_.size(); ++f) {
      if (kinds_[f] == kind) out.push_back(f);
    }
    return out;
  }
  IndexList axes_of(const Lay& lay, const std::vector<std::size_t>& of) const {
    IndexList out;
    for (const std::size_t f : of) out.insert(out.end(), lay.axes[f].begin(), lay.axes[f].end());
    return out;
  }

  // ----- what a group of devices has

  /// `lay` in a group of the devices that differ in other axes than `grouped`, once it isn't split
  /// in the factors `gone` any more; what else it is split in by those axes is split by others.
  Lay within(const Lay& lay, const std::vector<std::size_t>& gone, const IndexList& grouped,
             const IndexList& devices) const {
    Lay out = lay;
    for (const std::size_t f : gone) out.axes[f].clear();
    IndexList free;
    for (const int a : devices) {
      const bool used = std::any_of(out.axes.begin(), out.axes.end(),
                                    [&](const IndexList& axes) { return contains(axes, a); });
      if (!used && !contains(grouped, a)) free.push_back(a);
    }
    for (IndexList& axes : out.axes) {
      IndexList renamed;
      for (const int a : axes) {
        if (!contains(grouped, a)) {
          renamed.push_back(a);
          continue;
        }
        const auto to = std::find_if(free.begin(), free.end(), [&](int b) {
          return mesh_.axes[std::size_t(b)].size == mesh_.axes[std::size_t(a)].size;
        });
        if (to == free.end()) continue;
        renamed.push_back(*to);
        free.erase(to);
      }
      axes = renamed;
    }
    return out;
  }
  static IndexList without(const IndexList& devices, const IndexList& grouped) {
    IndexList out;
    for (const int a : devices) {
      if (!contains(grouped, a)) out.push_back(a);
    }
    return out;
  }

  /// Dims that together are split in just these axes.
  std::optional<std::vector<std::size_t>> split_in(const Lay& lay, const IndexList& grouped) const {
    std::vector<std::size_t> out;
    std::size_t count = 0;
    for (std::size_t f = 0; f < lay.axes.size(); ++f) {
      if (lay.axes[f].empty()) continue;
      const bool in = std::all_of(lay.axes[f].begin(), lay.axes[f].end(),
                                  [&](int a) { return contains(grouped, a); });
      if (!in) continue;
      out.push_back(f);
      count += lay.axes[f].size();
    }
    if (count != grouped.size()) return std::nullopt;
    return out;
  }

  static bool is_permutation_of(const IndexList& a, const IndexList& b) {
    return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
  }
  /// Axes that the array isn't split in.
  static IndexList unused(const Lay& lay, const IndexList& devices) {
    IndexList out;
    for (const int a : devices) {
      if (std::none_of(lay.axes.begin(), lay.axes.end(),
                       [&](const IndexList& axes) { return contains(axes, a); })) {
        out.push_back(a);
      }
    }
    return out;
  }
  /// The factors cut as `lay` is, in groups that are cut as `within` says.
  Parts cut(const Lay& lay, const std::vector<std::size_t>& of, Parts within) const {
    for (const std::size_t f : of) within[f] *= parts(lay.axes[f]);
    return within;
  }
  Parts cut(const Lay& lay, const std::vector<std::size_t>& of) const {
    return cut(lay, of, Parts(rule_.factors.size(), 1));
  }

  // ----- one dot in one group

  Parts solve(const Lay& l, const Lay& r, const Lay& o, const IndexList& devices) const {
    for (const bool alike : {true, false}) {
      if (auto found = attempt(l, r, o, devices, alike)) return *found;
    }
    // Operands are gathered, and cut as the result is.
    Parts found(rule_.factors.size(), 1);
    for (std::size_t f = 0; f < kinds_.size(); ++f) found[f] = parts(o.axes[f]);
    return found;
  }

  /// `alike`: groups of two arrays must be of the same devices.
  std::optional<Parts> attempt(const Lay& l, const Lay& r, const Lay& o, const IndexList& devices,
                               bool alike) const {
    if (auto found = at_once(l, r, o, devices, false)) return found;
    if (auto found = by_batch(l, r, o, devices, alike)) return found;
    if (auto found = by_free(l, r, o, devices, alike)) return found;
    if (auto found = by_summed(l, r, o, devices, alike)) return found;
    if (whole(l) && whole(r) && !whole(o) && parts(o) < parts(devices)) {
      IndexList fewer;
      for (const IndexList& axes : o.axes) fewer.insert(fewer.end(), axes.begin(), axes.end());
      return solve(l, r, o, fewer);
    }
    return at_once(l, r, o, devices, true);
  }

  /// All devices of the group share in one way. `reshards`: operands are brought to the result.
  std::optional<Parts> at_once(const Lay& l, const Lay& r, const Lay& o, const IndexList& devices,
                               bool reshards) const {
    const Count n = parts(devices);
    if (n == 1) return Parts(rule_.factors.size(), 1);
    const auto batch = factors(Kind::batch), left = factors(Kind::left),
               right = factors(Kind::right), summed = factors(Kind::summed);
    const auto all = [&](const Lay& lay, Kind kind) { return parts(lay, kind) == n; };
    if (all(l, Kind::batch) && all(r, Kind::batch) && same(l, r)) return cut(l, batch);
    if (all(o, Kind::batch)) {
      if (all(l, Kind::batch) && same(l, o)) return cut(l, batch);
      if (all(r, Kind::batch) && same(r, o)) return cut(r, batch);
    }
    if (all(l, Kind::summed) && all(r, Kind::summed)) {
      if (!reshards && !whole(o) && parts(o) != n) return std::nullopt;
      return cut(l, summed);
    }
    if (all(l, Kind::left) && all(o, Kind::left) && same(l, o)) return cut(l, left);
    if (all(r, Kind::right) && all(o, Kind::right) && same(r, o)) return cut(r, right);
    if (reshards) {
      if (all(o, Kind::batch)) return cut(o, batch);
      if (all(o, Kind::left)) return cut(o, left);
      if (all(o, Kind::right)) return cut(o, right);
    }
    if (!whole(o)) return std::nullopt;
    if (all(r, Kind::summed) && whole(l) && r.elements > o.elements) {
      return cut(r, summed);
    }
    if (all(l, Kind::summed) && whole(r) && l.elements > o.elements) {
      return cut(l, summed);
    }
    return std::nullopt;
  }

  std::optional<Parts> by_batch(const Lay& l, const Lay& r, const Lay& o, const IndexList& devices,
                                bool alike) const {
    const Count n = parts(o, Kind::batch);
    if (n == 1 || (parts(l, Kind::batch) != n && parts(r, Kind::batch) != n)) return std::nullopt;
    const auto batch = factors(Kind::batch);
    const auto equal = [&](const Lay& a, const Lay& b) {
      return std::all_of(batch.begin(), batch.end(),
                         [&](std::size_t f) { return a.axes[f] == b.axes[f]; });
    };
    const bool counts_match = std::all_of(batch.begin(), batch.end(), [&](std::size_t f) {
      return parts(l.axes[f]) == parts(r.axes[f]);
    });
    const bool matching = counts_match && (!alike || equal(l, r));
    const Lay& as = matching ? l : o;
    const IndexList grouped = axes_of(as, batch);
    Lay in[2];
    for (const int t : {kLeft, kRight}) {
      const Lay& lay = t == kLeft ? l : r;
      const Lay& other = t == kLeft ? r : l;
      std::vector<std::size_t> gone = batch;
      if (!matching && !whole(lay)) {
        if (alike && !equal(lay, o)) return std::nullopt;
        const Count now = parts(lay) / parts(lay, Kind::batch) * n, all = parts(devices);
        const Count replicas = all / parts(lay);
        const Count wanted = now * (replicas > 1 ? replicas : 1);
        if (wanted < all) return std::nullopt;
        if (wanted > all) {
          if (wanted % all != 0) return std::nullopt;
          const Count ratio = wanted / all;
          const Kind free = t == kLeft ? Kind::left : Kind::right;
          const Count own = parts(lay, free), sum = parts(lay, Kind::summed);
          if (replicas > 1 && replicas % ratio == 0) {
          } else if (ratio == own && (ratio != sum || sum == parts(other, Kind::summed))) {
            for (const std::size_t f : factors(free)) gone.push_back(f);
          } else if (ratio == sum) {
            for (const std::size_t f : factors(Kind::summed)) gone.push_back(f);
          } else {
            return std::nullopt;
          }
        }
      }
      in[t] = within(lay, gone, grouped, devices);
      in[t].elements = lay.elements / double(n);
    }
    Lay out = within(o, batch, grouped, devices);
    out.elements = o.elements / double(n);
    return cut(as, batch, solve(in[kLeft], in[kRight], out, without(devices, grouped)));
  }

  /// No axis splits it twice.
  bool fits(const Lay& lay, const IndexList& devices) const {
    IndexList used;
    for (const IndexList& axes : lay.axes) {
      for (const int a : axes) {
        if (contains(used, a) || !contains(devices, a)) return false;
        used.push_back(a);
      }
    }
    return true;
  }

  /// How the operand that isn't split as the groups are lies in them; empty if it has to be whole.
  std::optional<Lay> for_groups(const Lay& given, const Lay& mine, const Lay& o, Kind own,
                                const IndexList& grouped, const IndexList& devices) const {
    Lay other = given;
    const Count n = parts(grouped), replicas = parts(devices) / parts(other);
    if (whole(other)) return std::nullopt;
    if (replicas > 1 && replicas % n == 0) {
      // What is split in the group's axes is split in those that it wasn't split in yet.
      for (IndexList& axes : other.axes) {
        if (!is_permutation_of(axes, grouped)) continue;
        axes = unused(other, devices);
        break;
      }
      return other;
    }
    const auto clear = [&](const std::vector<std::size_t>& gone) {
      for (const std::size_t f : gone) other.axes[f].clear();
      return other;
    };
    const Count sum = parts(other, Kind::summed), free = parts(other, own);
    const bool may_sum = sum == n && free == parts(o, own);
    const bool may_free = free == n && parts(mine, Kind::summed) == sum;
    if (auto found = split_in(other, grouped)) return clear(*found);
    if (may_sum && (!may_free || held(other) <= held(o))) return clear(factors(Kind::summed));
    if (may_free) return clear(factors(own));
    return std::nullopt;
  }

  std::optional<Parts> by_free(const Lay& l, const Lay& r, const Lay& o, const IndexList& devices,
                               bool alike) const {
    const Count ll = parts(l, Kind::left), ol = parts(o, Kind::left);
    const Count rr = parts(r, Kind::right), orr = parts(o, Kind::right);
    const bool may_left = ll == ol && ll > 1, may_right = rr == orr && rr > 1;
    bool on_left = false;
    std::vector<std::size_t> dims;
    if (may_left || may_right) {
      on_left = may_left && (!may_right || double(ll) * held(r) < double(rr) * held(l));
      dims = factors(on_left ? Kind::left : Kind::right);
    } else {
      on_left = ll > 1 && ol > 1;
      if (!on_left && (rr == 1 || orr == 1)) return std::nullopt;
      const Lay& lay = on_left ? l : r;
      for (const std::size_t f : factors(on_left ? Kind::left : Kind::right)) {
        const Count n = parts(lay.axes[f]);
        if (n > 1 && n == parts(o.axes[f])) dims.push_back(f);
      }
    }
    if (dims.empty()) return std::nullopt;
    const Lay &mine = on_left ? l : r, &given = on_left ? r : l;
    const IndexList grouped = axes_of(o, dims);
    const Count n = parts(grouped);
    const bool equal = std::all_of(dims.begin(), dims.end(),
                                   [&](std::size_t f) { return mine.axes[f] == o.axes[f]; });
    if (alike && !equal) return std::nullopt;
    const Kind own = on_left ? Kind::right : Kind::left;
    std::optional<Lay> found = for_groups(given, mine, o, own, grouped, devices);
    if (!found && !whole(given)) {
      // As the other two arrays ask for it.
      Lay expected = given;
      for (std::size_t f = 0; f < kinds_.size(); ++f) {
        expected.axes[f] = kinds_[f] == Kind::summed ? mine.axes[f] : o.axes[f];
      }
      if (fits(expected, devices)) {
        found = for_groups(expected, mine, o, own, grouped, devices);
      }
    }
    if (!found) {
      found = given;
      for (IndexList& axes : found->axes) axes.clear();
    }
    Lay in = within(mine, dims, grouped, devices), out = within(o, dims, grouped, devices);
    const Lay rest = within(*found, {}, grouped, devices);
    in.elements = mine.elements / double(n);
    out.elements = o.elements / double(n);
    const IndexList left = without(devices, grouped);
    return cut(o, dims, on_left ? solve(in, rest, out, left) : solve(rest, in, out, left));
  }

  /// The result split as an operand is, if it is so and further.
  std::optional<Lay> coarser(const Lay& o, const Lay& operand) const {
    Lay out = o;
    for (std::size_t f = 0; f < kinds_.size(); ++f) {
      if (kinds_[f] == Kind::summed) continue;
      const IndexList &fine = o.axes[f], &coarse = operand.axes[f];
      if (coarse.size() > fine.size() || !std::equal(coarse.begin(), coarse.end(), fine.begin())) {
        return std::nullopt;
      }
      out.axes[f] = coarse;
    }
    return out;
  }

  std::optional<Parts> by_summed(const Lay& l, const Lay& r, const Lay& given,
                                 const IndexList& devices, bool alike) const {
    const Count ls = parts(l, Kind::summed), rs = parts(r, Kind::summed);
    if (ls == 1 || rs == 1) return std::nullopt;
    std::vector<std::size_t> dims = factors(Kind::summed);
    if (ls != rs) {
      std::erase_if(dims, [&](std::size_t f) {
        const Count n = parts(l.axes[f]);
        return n == 1 || n != parts(r.axes[f]);
      });
      if (dims.empty()) return std::nullopt;
    }
    const bool as_left = held(l) > held(r);
    const Lay& as = as_left ? l : r;
    const bool equal = std::all_of(dims.begin(), dims.end(),
                                   [&](std::size_t f) { return l.axes[f] == r.axes[f]; });
    if (alike && !equal) return std::nullopt;
    const IndexList grouped = axes_of(as, dims);
    const Count n = parts(grouped);
    Lay left = within(l, dims, grouped, devices), right = within(r, dims, grouped, devices);
    left.elements = l.elements / double(n);
    right.elements = r.elements / double(n);
    std::vector<std::size_t> gone;
    Lay o = given;
    if (!whole(o) && parts(devices) / parts(o) % n != 0 && whole(left) != whole(right)) {
      if (auto as_operand = coarser(o, whole(left) ? right : left)) o = *as_operand;
    }
    const Count replicas = parts(devices) / parts(o);
    if (!whole(o) && (replicas == 1 || replicas % n != 0)) {
      if (auto found = split_in(o, grouped)) {
        gone = *found;
      } else if (parts(o, Kind::left) == n) {
        gone = factors(Kind::left);
      } else if (parts(o, Kind::right) == n) {
        gone = factors(Kind::right);
      } else if (parts(o, Kind::batch) == n) {
        gone = factors(Kind::batch);
      } else {
        for (std::size_t f = 0; f < kinds_.size(); ++f) gone.push_back(f);
      }
    }
    const Lay out = within(o, gone, grouped, devices);
    return cut(as, dims, solve(left, right, out, without(devices, grouped)));
  }

  const FactorRule& rule_;
  const LogicalMesh& mesh_;
  std::vector<Kind> kinds_;
  std::array<Lay, 3> lays_;
};

}  // namespace

std::optional<double> ways_of_given_dot(const FactorRule& rule,
                                        const std::vector<const TensorSharding*>& operands,
                                        const std::vector<const TensorSharding*>& results) {
  if (operands.size() != 2 || results.size() != 1) return std::nullopt;
  const LogicalMesh* mesh = nullptr;
  for (const TensorSharding* s : {operands[0], operands[1], results[0]}) {
    if (s->mesh) mesh = s->mesh.get();
  }
  if (!mesh) return std::nullopt;
  GivenDot dot(rule, *mesh);
  if (!dot.read({operands[0], operands[1], results[0]})) return std::nullopt;
  return dot.ways();
}

}  // namespace tessera::spmd
