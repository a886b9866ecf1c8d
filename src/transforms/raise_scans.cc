// SPDX-License-Identifier: Apache-2.0
// While loops of known length become scans.
#include "src/transforms/raise_scans.h"

#include <algorithm>
#include <map>
#include <optional>

#include "src/ir/cloner.h"
#include "src/ir/post_order.h"
#include "src/ir/rewrite/while_view.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

void inline_calls(Computation* c) {
  for (;;) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::call) && !i->has_sharding() && i->control_predecessors().empty()) {
        calls.push_back(i.get());
      }
    }
    if (calls.empty()) return;
    for (Instruction* call : calls) {
      ir::CloneOptions options;
      options.default_metadata = call->metadata;
      Instruction* result = ir::inline_computation(c, *call->called(0), call->operands(), options);
      call->replace_all_uses_with(result);
      if (!result->is(Opcode::tuple)) continue;
      for (Instruction* user : result->users()) {
        if (!user->is(Opcode::get_tuple_element) || user->has_sharding()) continue;
        const auto k = std::size_t(user->get<ir::GetTupleElementAttrs>().index);
        user->replace_all_uses_with(result->operand(k));
      }
    }
    c->sort_topologically();
    c->remove_dead();
  }
}

/// first + step * trip.
struct Affine {
  std::int64_t first = 0, step = 0;
};

/// The places that a trip reads and writes, as functions of its number.
class Places {
 public:
  Places(const ir::WhileView& view, const ir::LoopCounter& counter)
      : view_(view), counter_(counter) {}

  std::optional<Affine> operator()(const Instruction* i) {
    const auto known = cache_.find(i->index);
    if (known != cache_.end()) return known->second;
    std::optional<Affine> out = compute(*i);
    cache_.emplace(i->index, out);
    return out;
  }

 private:
  std::optional<Affine> compute(const Instruction& i) {
    if (!i.shape.is_scalar()) return {};
    if (const auto n = ir::known_integer(i)) return Affine{*n, 0};
    if (const auto k = ir::WhileView::carry_of(i, true)) {
      if (*k == counter_.carry) return Affine{counter_.start, counter_.step};
      if (!view_.is_invariant(*k, true) || view_.init(*k) == nullptr) return {};
      const auto n = ir::known_integer(*view_.init(*k));
      return n ? std::optional(Affine{*n, 0}) : std::nullopt;
    }
    const auto at = [&](std::size_t k) { return (*this)(i.operand(k)); };
    switch (i.opcode) {
      case Opcode::copy:
      case Opcode::convert:
      case Opcode::reshape:
        return i.operand(0)->shape.is_scalar() ? at(0) : std::nullopt;
      case Opcode::negate:
        return combine(Affine{}, at(0), -1);
      case Opcode::add:
        return combine(at(0), at(1), 1);
      case Opcode::subtract:
        return combine(at(0), at(1), -1);
      case Opcode::select: {
        const auto chosen = always(*i.operand(0));
        return chosen ? at(*chosen ? 1 : 2) : std::nullopt;
      }
      default:
        return {};
    }
  }

  static std::optional<Affine> combine(const std::optional<Affine>& a,
                                       const std::optional<Affine>& b, std::int64_t sign) {
    if (!a || !b) return {};
    constexpr std::int64_t kFar = std::int64_t(1) << 31;
    const Affine out{a->first + sign * b->first, a->step + sign * b->step};
    // Numbers that might wrap are not followed.
    if (std::abs(out.first) >= kFar || std::abs(out.step) >= kFar) return {};
    return out;
  }

  /// What a comparison gives in all trips.
  std::optional<bool> always(const Instruction& i) {
    if (!i.is(Opcode::compare)) return {};
    const auto a = (*this)(i.operand(0)), b = (*this)(i.operand(1));
    const auto difference = combine(a, b, -1);
    if (!difference) return {};
    const std::int64_t d0 = difference->first;
    const std::int64_t d1 = d0 + difference->step * std::max<std::int64_t>(counter_.trips - 1, 0);
    const std::int64_t low = std::min(d0, d1), high = std::max(d0, d1);
    switch (i.get<ir::CompareAttrs>().direction) {
      case ir::Direction::lt:
        return high < 0 ? std::optional(true) : low >= 0 ? std::optional(false) : std::nullopt;
      case ir::Direction::ge:
        return low >= 0 ? std::optional(true) : high < 0 ? std::optional(false) : std::nullopt;
      case ir::Direction::gt:
        return low > 0 ? std::optional(true) : high <= 0 ? std::optional(false) : std::nullopt;
      case ir::Direction::le:
        return high <= 0 ? std::optional(true) : low > 0 ? std::optional(false) : std::nullopt;
      default:
        return {};
    }
  }

  const ir::WhileView& view_;
  const ir::LoopCounter& counter_;
  std::map<std::int64_t, std::optional<Affine>> cache_;
};

/// Slices of one row of dim 0, a row a trip.
struct Rows {
  std::int64_t first = 0;  ///< the lowest row
  bool reverse = false;    ///< trip 0 takes the highest one
};

/// Not a broadcast that also puts dims in another order.
bool is_in_order(const Instruction& i) {
  const auto* a = i.attrs.get_if<ir::DimensionsAttrs>();
  return a == nullptr || std::is_sorted(a->dims.begin(), a->dims.end());
}

class Raising {
 public:
  Raising(Instruction* loop, const ir::LoopCounter& counter)
      : loop_(loop), view_(*loop), counter_(counter), places_(view_, counter_) {}

  void run() {
    classify();
    const bool reverse = chosen_direction();
    build_step(reverse);
    replace(reverse);
  }

 private:
  enum class Role { carry, constant, output };
  struct Input {
    std::size_t carry = 0;
    Instruction* slice = nullptr;  ///< in the body
    Rows rows;
  };
  struct Output {
    std::size_t carry = 0;
    Instruction* update = nullptr;  ///< in the body
    Rows rows;
  };

  /// If the operands of a slice from `first` say one whole row whose number is the trip's.
  std::optional<Rows> rows_of(const Instruction& i, std::size_t first, const Shape& whole,
                              const Dims& sizes) {
    if (whole.rank() == 0 || sizes[0] != 1) return {};
    if (i.operands().size() != first + sizes.size()) return {};
    for (std::size_t d = 1; d < sizes.size(); ++d) {
      const auto at = places_(i.operand(first + d));
      if (sizes[d] != whole.dims[d] || !at || at->step != 0 || at->first != 0) return {};
    }
    const auto at = places_(i.operand(first));
    if (!at || std::abs(at->step) != 1 || counter_.trips == 0) return {};
    const std::int64_t last = at->first + at->step * (counter_.trips - 1);
    const Rows out{std::min(at->first, last), at->step < 0};
    if (out.first < 0 || out.first + counter_.trips > whole.dims[0]) return {};
    return out;
  }

  void classify() {
    roles_.assign(view_.size(), Role::carry);
    for (std::size_t k = 0; k < view_.size(); ++k) {
      const std::vector<Instruction*> reads = view_.reads(k);
      if (view_.is_invariant(k, true)) {
        roles_[k] = Role::constant;
        for (Instruction* read : reads) {
          for (Instruction* user : read->users()) {
            if (!user->is(Opcode::dynamic_slice) || user->operand(0) != read) continue;
            const Dims& sizes = user->get<ir::DynamicSliceAttrs>().sizes;
            if (const auto rows = rows_of(*user, 1, read->shape, sizes)) {
              inputs_.push_back({k, user, *rows});
            }
          }
        }
        continue;
      }
      Instruction* next = view_.next(k);
      if (k == counter_.carry || !next->is(Opcode::dynamic_update_slice) || reads.size() != 1) {
        continue;
      }
      // Written row by row, and not read.
      if (next->operand(0) != reads[0] || !reads[0]->only_use() || next->use_count() != 1) continue;
      const auto rows = rows_of(*next, 2, next->shape, next->operand(1)->shape.dims);
      if (!rows) continue;
      roles_[k] = Role::output;
      outputs_.push_back({k, next, *rows});
    }
  }

  /// That of most rows; those of the other kind stay slices of constants and updates of carries.
  bool chosen_direction() {
    std::size_t forward = 0, backward = 0;
    for (const Input& i : inputs_) ++(i.rows.reverse ? backward : forward);
    for (const Output& o : outputs_) ++(o.rows.reverse ? backward : forward);
    const bool reverse = backward > forward;
    std::erase_if(inputs_, [&](const Input& i) { return i.rows.reverse != reverse; });
    std::erase_if(outputs_, [&](const Output& o) {
      if (o.rows.reverse == reverse) return false;
      roles_[o.carry] = Role::carry;
      return true;
    });
    return reverse;
  }

  std::vector<std::size_t> with_role(Role role) const {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < roles_.size(); ++k) {
      if (roles_[k] == role) out.push_back(k);
    }
    return out;
  }

  void build_step(bool) {
    const Computation& body = view_.body();
    step_ = loop_->parent->module()->add_computation(body.name());
    ir::Builder b(step_);
    ir::Cloner cloner(body, step_);
    std::int64_t number = 0;
    for (const Input& i : inputs_) {
      b.metadata = i.slice->metadata;
      Dims dims = i.slice->shape.dims;
      Shape row(i.slice->shape.dtype, Dims(dims.begin() + 1, dims.end()));
      Instruction* parameter = b.parameter(number++, row);
      for (Instruction* user : i.slice->users()) {
        if (user->is(Opcode::reshape) && user->shape.dims == row.dims) cloner.map(user, parameter);
      }
      cloner.map(i.slice, b.reshape(parameter, dims));
    }
    std::map<std::size_t, Instruction*> values;
    for (const Role role : {Role::carry, Role::constant}) {
      for (const std::size_t k : with_role(role)) {
        b.metadata = loop_->metadata;
        values[k] = b.parameter(number++, Shape(view_.shape(k).dtype, view_.shape(k).dims));
        for (Instruction* read : view_.reads(k)) cloner.map(read, values[k]);
      }
    }
    std::vector<Instruction*> root;
    for (const Output& o : outputs_) {
      const Instruction* update = o.update->operand(1);
      const Dims row(update->shape.dims.begin() + 1, update->shape.dims.end());
      const bool from_row = (update->is(Opcode::reshape) || update->is(Opcode::broadcast)) &&
                            update->operand(0)->shape.dims == row && is_in_order(*update);
      if (from_row) update = update->operand(0);
      b.metadata = o.update->metadata;
      root.push_back(b.reshape(cloner.clone_with_operands(*update), row));
    }
    for (const std::size_t k : with_role(Role::carry)) {
      root.push_back(cloner.clone_with_operands(*view_.next(k)));
    }
    b.metadata = loop_->metadata;
    step_->set_root(b.tuple(root));
    step_->remove_dead();
  }

  void replace(bool reverse) {
    ir::Builder b(loop_->parent);
    b.metadata = loop_->metadata;
    std::vector<Instruction*> operands;
    const auto init = [&](std::size_t k) { return view_.init(k); };
    const auto rows = [&](Instruction* x, std::int64_t first) {
      Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
      if (first == 0 && limits[0] == counter_.trips) return x;
      starts[0] = first;
      limits[0] = first + counter_.trips;
      return b.slice(x, starts, limits);
    };
    for (const Input& i : inputs_) operands.push_back(rows(init(i.carry), i.rows.first));
    const std::vector<std::size_t> carries = with_role(Role::carry);
    const std::vector<std::size_t> constants = with_role(Role::constant);
    for (const std::size_t k : carries) operands.push_back(init(k));
    for (const std::size_t k : constants) operands.push_back(init(k));
    ir::ScanAttrs a;
    a.length = counter_.trips;
    a.carries = std::int64_t(carries.size());
    a.constants = std::int64_t(constants.size());
    a.reverse = reverse;
    Instruction* scan = b.emit(Opcode::scan, operands, a, {step_});
    std::vector<Instruction*> results(view_.size(), nullptr);
    for (const std::size_t k : constants) results[k] = init(k);
    for (std::size_t n = 0; n < outputs_.size(); ++n) {
      const Output& o = outputs_[n];
      Instruction* stacked = b.get_tuple_element(scan, std::int64_t(n));
      const Shape& whole = view_.shape(o.carry);
      if (whole.dims[0] != counter_.trips) {
        std::vector<Instruction*> starts;
        for (std::int64_t d = 0; d < whole.rank(); ++d) {
          starts.push_back(b.scalar(DType::s32, d == 0 ? double(o.rows.first) : 0));
        }
        stacked = b.dynamic_update_slice(init(o.carry), stacked, starts);
      }
      results[o.carry] = stacked;
    }
    for (std::size_t n = 0; n < carries.size(); ++n) {
      results[carries[n]] = b.get_tuple_element(scan, std::int64_t(outputs_.size() + n));
    }
    Instruction* tuple = b.tuple(results);
    tuple->sharding = loop_->sharding;
    loop_->replace_all_uses_with(tuple);
    for (Instruction* user : tuple->users()) {
      if (!user->is(Opcode::get_tuple_element) || user->has_sharding()) continue;
      const auto k = std::size_t(user->get<ir::GetTupleElementAttrs>().index);
      user->replace_all_uses_with(results[k]);
    }
  }

  Instruction* loop_;
  ir::WhileView view_;
  ir::LoopCounter counter_;
  Places places_;
  std::vector<Role> roles_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  Computation* step_ = nullptr;
};

}  // namespace

std::size_t raise_scans_in(Computation* computation) {
  std::size_t count = 0;
  for (Computation* c : ir::post_order({computation})) {
    std::vector<Instruction*> loops;
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::while_)) loops.push_back(i.get());
    }
    bool changed = false;
    for (Instruction* loop : loops) {
      const ir::WhileView view(*loop);
      if (!view.has_tuples()) continue;
      inline_calls(&view.body());
      inline_calls(&view.condition());
      const auto counter = view.counter();
      if (!counter || !view.has_separate_carries()) continue;
      Raising(loop, *counter).run();
      changed = true;
      ++count;
    }
    if (changed) {
      c->sort_topologically();
      c->remove_dead();
    }
  }
  return count;
}

std::size_t raise_scans(ir::Module* module) {
  const std::size_t count = raise_scans_in(module->entry());
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::transforms
