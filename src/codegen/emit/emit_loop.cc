// SPDX-License-Identifier: Apache-2.0
// Loops over elements: fused elementwise ops, and what they read through.
#include <algorithm>
#include <utility>

#include "src/base/contains.h"
#include "src/codegen/emit/loop_emitter.h"
#include "src/codegen/kernels/expressions/view_segments.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/shared_inputs.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using Value = LoopBuilder::Value;

std::string key_of(DType t, const ComposedView& m) {
  KeyWriter key("read");
  key.add(t);
  add_to_key(m, &key);
  return key.take();
}

/// Of an element of a gather, in nanoseconds: each index vector is looked at.
double finding_rows(const ir::Instruction& gather) {
  return prices::index::kRowInLoop /
         double(element_count(gather.get<ir::GatherAttrs>().slice_sizes));
}

}  // namespace

Value Loop::value(const ir::Instruction& i, int stack) {
  const auto it = values_.find({&i, stack});
  if (it != values_.end()) return it->second;
  const Value v = make(i, stack);
  values_.emplace(std::pair{&i, stack}, v);
  return v;
}

int Loop::push(int parent, const ir::Instruction& view, std::size_t operand) {
  const auto [it, added] = frame_ids_.try_emplace({&view, operand, parent}, int(frames_.size()));
  if (added) frames_.push_back({&view, operand, {}, parent, {}});
  return it->second;
}

int Loop::push(const Dims& order) {
  frames_.push_back({nullptr, 0, order, 0, {}});
  return int(frames_.size()) - 1;
}

int Loop::push(const Segment& segment) {
  frames_.push_back({nullptr, 0, {}, 0, segment});
  return int(frames_.size()) - 1;
}

int Loop::add_input(SlotId slot) {
  inputs_.push_back(slot);
  return int(inputs_.size()) - 1;
}

Value Loop::make(const ir::Instruction& i, int stack) {
  if (const auto c = e_.splat(i)) return builder_.constant(*c);
  if (e_.facts(i).known || !e_.inlined(i)) return leaf(i, stack);
  if (i.is(Opcode::iota)) return stack == 0 ? iota(i) : affine(i, stack);
  if (e_.fuses_producers(i)) return with_producers(i, stack);
  if (is_element_gather(i)) return taken(i, stack);
  if (i.is(Opcode::gather)) return stack == 0 ? gathered(i) : nothing(i.shape.dtype);
  if (!is_view(i)) return operation(i, stack);
  const ir::Instruction& source = *i.operand(0);
  if (i.is(Opcode::reshape) && stack == 0) return value(source, 0);
  if (i.is(Opcode::broadcast)) {
    if (const auto c = e_.splat(source)) return builder_.constant(*c);
  }
  if (commutes(i) || keeps_count(i)) return value(source, push(stack, i));
  return leaf(i, stack);
}

Value Loop::operation(const ir::Instruction& i, int stack) {
  if (e_.fuses_producers(i)) return with_producers(i, stack);
  if (is_element_gather(i)) return taken(i, stack);
  std::vector<Value> operands;
  for (const ir::Instruction* o : i.operands()) {
    // An operand of other dims is one scalar for all.
    operands.push_back(o->shape.dims == i.shape.dims ? value(*o, stack) : value(*o, 0));
  }
  const auto v = builder_.apply(i, operands);
  TESSERA_CHECK(v.has_value(), "no block function for " + i.name);
  if (!contains(computed_, i.opcode)) computed_.push_back(i.opcode);
  return *v;
}

Value Loop::view(const ir::Instruction& i) {
  if (commutes(i)) return value(*i.operand(0), push(0, i));
  return read(i.shape.dtype, composed(i, true));
}

Value Loop::iota(const ir::Instruction& i) {
  return builder_.iota(i.shape.dtype, i.shape.dims, i.get<ir::IotaAttrs>().dim);
}

Value Loop::affine(const ir::Instruction& iota, int stack) {
  if (segment_ && !LoopBuilder::has_affine_iotas(iota.shape)) return nothing(iota.shape.dtype);
  ComposedView m = ComposedView::numbers(iota.shape.dims, iota.get<ir::IotaAttrs>().dim);
  if (!see_through(stack, iota, &m)) return nothing(iota.shape.dtype);
  m.simplify();
  if (segment_ && (!m.is_moved_box() || !m.pieces[0].starts.empty())) {
    return nothing(iota.shape.dtype);
  }
  const ComposedView::Piece& p = m.pieces[0];
  std::int64_t base = p.base;
  Dims strides;
  for (const ComposedView::Side& s : p.sides) {
    strides.push_back(s.stride);
    base -= s.origin * s.stride;
  }
  return builder_.affine(iota.shape.dtype, m.dims, base, strides);
}

Value Loop::taken(const ir::Instruction& gather, int stack) {
  const ir::Instruction& array = *gather.operand(0);
  if (!contains(computed_, gather.opcode)) computed_.push_back(gather.opcode);
  if (const auto places = counted_places(gather)) {
    ComposedView m =
        ComposedView::strided(e_.slot(array), gather.shape.dims, places->base, places->strides);
    return see_through(stack, gather, &m) ? read(gather.shape.dtype, std::move(m))
                                          : nothing(gather.shape.dtype);
  }
  const Value index = value(*gather.operand(1), stack);
  add_input(e_.slot(array));
  return builder_.take(array.shape.dtype, index, array.shape.element_count());
}

Value Loop::gathered(const ir::Instruction& gather) {
  for (const ir::Instruction* o : gather.operands()) add_input(e_.slot(*o));
  return builder_.source(gather.shape.dtype, gathered_rows(gather), 2, finding_rows(gather));
}

Loop::Part Loop::part(const ir::Instruction& i, const Dims& order) {
  Loop loop(e_, i.shape.dims);
  const Value v = order.empty() ? loop.value(i) : loop.transposed(i, order);
  return {loop.program(v), std::move(loop.inputs_)};
}

Value Loop::with_producers(const ir::Instruction& i, int stack) {
  if (i.is(Opcode::concatenate)) return with_parts(i, stack);
  if (stack != 0) return nothing(i.shape.dtype);
  const ir::Instruction& of = *i.operand(1);
  Part indices = part(of, {});
  add_input(e_.slot(*i.operand(0)));
  for (const SlotId s : indices.inputs) add_input(s);
  const double each = finding_rows(i) + indices.program->nanoseconds *
                                            double(of.shape.element_count()) /
                                            std::max<double>(1, double(i.shape.element_count()));
  return builder_.source(i.shape.dtype, gathered_rows(i, std::move(indices.program)),
                         1 + int(indices.inputs.size()), each);
}

namespace {

/// Nearly all of it is one array's, and what is at the ends is padding or of that array, too.
bool is_shift(const ComposedView& m, const ViewSegments& view) {
  constexpr std::size_t kMostSegments = 3;
  constexpr std::int64_t kEnds = 8;  // of all one part
  std::int64_t longest = 0;
  for (const ViewSegments::Segment& t : view.segments) longest = std::max(longest, t.end - t.begin);
  const std::int64_t extent = m.dims[std::size_t(view.dim)];
  return view.segments.size() <= kMostSegments && (extent - longest) * kEnds <= extent &&
         std::all_of(m.pieces.begin(), m.pieces.end(),
                     [&](const ComposedView::Piece& p) { return p.input == m.pieces[0].input; });
}

}  // namespace

bool Loop::can_select(const ComposedView& m) const {
  if (!has_kernel_compiler() || (m.pieces.size() == 1 && m.fill < 0)) return false;
  const ViewSegments view = segments_of(m);
  if (view.dim < 0) return false;
  const bool is_short = row_from(m.dims, view.dim) < kLongRow;
  return chosen_ == Chosen::shifts ? !is_short && is_shift(m, view) : is_short;
}

Value Loop::selected(DType t, const ComposedView& m) {
  ViewSegments view = segments_of(m);
  const Value column = builder_.iota(DType::s32, m.dims, std::int64_t(view.dim));
  Value fill;
  if (m.fill >= 0) {
    add_input(SlotId(m.fill));
    fill = builder_.scalar(t);
  }
  Value out = fill;
  const std::int64_t extent = m.dims[std::size_t(view.dim)];
  std::int64_t begin = extent;
  // From the last one back: each is what stands before the next one begins.
  const auto before = [&](Value v) {
    out =
        out.reg < 0 || begin == extent ? v : builder_.select(builder_.below(column, begin), v, out);
  };
  for (std::size_t k = view.segments.size(); k-- > 0;) {
    ViewSegments::Segment& segment = view.segments[k];
    if (segment.end < begin) before(fill), begin = segment.end;
    before(read(t, std::move(segment.part)));
    begin = segment.begin;
  }
  if (begin > 0) before(fill);
  has_selected_parts_ = true;
  return out;
}

Value Loop::leaf(const ir::Instruction& i, int stack) {
  ComposedView m = composed(i, false);
  if (!see_through(stack, i, &m)) return nothing(i.shape.dtype);
  return read(i.shape.dtype, std::move(m));
}

bool Loop::see_through(int stack, const ir::Instruction& i, ComposedView* m) {
  for (int s = stack; s != 0; s = frames_[std::size_t(s)].parent) {
    const Frame& f = frames_[std::size_t(s)];
    if (f.segment) {
      apply_part(f.segment->dim, f.segment->begin, f.segment->size(), m);
      continue;
    }
    const bool shown =
        f.view ? apply_view(*f.view, f.operand, *this, m) : apply_transpose(f.order, m);
    if (!shown && segment_) return false;
    TESSERA_CHECK(shown,
                  "no way to read " + i.name + " as " + (f.view ? f.view->name : "transposed"));
  }
  return true;
}

Value Loop::nothing(DType t) {
  TESSERA_CHECK(segment_.has_value(), "a loop that can't be made, though it is no part of one");
  fits_ = false;
  return builder_.scalar(t);
}

/// `made`: this one is not read from memory though it is not inlined.
ComposedView Loop::composed(const ir::Instruction& i, bool made) {
  if (!made && (e_.facts(i).known || !e_.inlined(i))) {
    return ComposedView::identity(e_.slot(i), i.shape.dims);
  }
  TESSERA_CHECK(is_view(i), i.name + " can't be read through");
  ComposedView out;
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    if (!is_data_operand(i, k)) continue;
    ComposedView part = composed(*i.operand(k), false);
    TESSERA_CHECK(apply_view(i, k, *this, &part),
                  "no way to read " + i.operand(k)->name + " as " + i.name);
    if (k == 0) {
      out = std::move(part);
    } else {
      out.pieces.insert(out.pieces.end(), part.pieces.begin(), part.pieces.end());
    }
  }
  return out;
}

/// The composed view's inputs are slots.
Value Loop::read(DType t, ComposedView m) {
  m.simplify();
  const std::string key = key_of(t, m);
  if (const auto it = read_.find(key); it != read_.end()) return it->second;
  Value v;
  if (m.pieces.empty() && m.fill >= 0) {
    add_input(SlotId(m.fill));
    v = builder_.scalar(t);
  } else if (m.is_moved_box()) {
    const ComposedView::Piece& p = m.pieces[0];
    Dims strides;
    std::int64_t base = p.base;
    for (const ComposedView::Side& s : p.sides) {
      strides.push_back(s.stride);
      base -= s.origin * s.stride;
    }
    std::vector<LoopExpr::Start> starts;
    for (const ComposedView::Start& s : p.starts) {
      add_input(SlotId(s.input));
      starts.push_back(
          {builder_.input(), s.dtype, s.limit, -s.scale * strides[std::size_t(s.dim)]});
    }
    const bool fixed = starts.empty();
    const bool dense = m.dims.size() == 1 && strides[0] == 1 && m.dims[0] == count_;
    const bool one = m.dims.empty() && count_ == 1;
    const int n = add_input(SlotId(p.input));
    // Element k of the result may go where element k was, if the source ends there too.
    const std::int64_t bytes = e_.state().plan().slots[std::size_t(p.input)].bytes;
    if ((dense || one) && fixed && base == first_ && bytes == all_ * std::int64_t(byte_size(t))) {
      contiguous_.push_back(n);
    }
    v = one && fixed ? builder_.contiguous(t, base)
                     : builder_.broadcast(t, m.dims, strides, base, std::move(starts));
  } else if (const int dim = m.part_of_dim(); dim >= 0) {
    const ComposedView::Piece& p = m.pieces[0];
    const ComposedView::Side& part = p.sides[std::size_t(dim)];
    Dims strides;
    for (const ComposedView::Side& side : p.sides) strides.push_back(side.stride);
    add_input(SlotId(p.input));
    if (part.size == 1) {
      strides[std::size_t(dim)] = 0;
      v = builder_.broadcast(t, m.dims, strides, p.base);
    } else {
      v = builder_.windowed(t, m.dims, strides, p.base,
                            {dim, part.origin, part.origin + part.size});
    }
  } else if (chosen_ != Chosen::nothing && can_select(m)) {
    v = selected(t, m);
  } else {
    const auto renumber = [&](int* slot) { *slot = builder_.input(); };
    for (ComposedView::Piece& p : m.pieces) {
      add_input(SlotId(p.input));
      renumber(&p.input);
      for (ComposedView::Start& s : p.starts) {
        add_input(SlotId(s.input));
        renumber(&s.input);
      }
    }
    if (m.fill >= 0) {
      add_input(SlotId(m.fill));
      renumber(&m.fill);
    }
    v = builder_.composed(t, std::move(m));
  }
  read_.emplace(key, v);
  return v;
}

std::shared_ptr<const LoopExpr> Loop::program(Value v) {
  builder_.output(v);
  return builder_.finish();
}

void Loop::finish(const ir::Instruction& root, std::shared_ptr<const LoopExpr> made) {
  store(root, std::move(made), e_.result(root));
  e_.name_step(computed_);
}

void Loop::store(const ir::Instruction& of, std::shared_ptr<const LoopExpr> made, SlotId to) {
  std::vector<runtime::KernelTask::Reuse> reuse;
  for (const int k : contiguous_) reuse.push_back({k, 0, false, false});
  const runtime::Plan& plan = e_.state().plan();
  // A device's part of what is read next may still be in a cache, a result's parts are not.
  const std::int64_t apart =
      e_.is_result(of) ? plan.classes[std::size_t(plan.slots[std::size_t(to)].classes)].count() : 1;
  KernelDescriptor kernel = loop_kernel(made, count_, inputs_.size(), apart);
  std::vector<bool> shared = shared_inputs(*made, count_, e_.byte_counts(inputs_));
  if (made->only_source >= 0) {
    for (const int k : contiguous_) shared[std::size_t(k)] = true;
  }
  kernel.access = Accesses::by_units(std::move(shared));
  e_.task(of, std::move(kernel), inputs_, {to}, std::move(reuse));
}

namespace {

/// Code knows which parts it reads, but for those at the ends of rows.
bool chooses_by_rows(const LoopExpr& made) {
  const LoopNest nest = nest_of(made, /*periodic=*/true);
  if (nest.periodic || !nest.by_rows) return false;
  for (std::size_t k = 0; k < made.registers.size(); ++k) {
    if (made.registers[k].window && nest.made[k]) return false;
  }
  return true;
}

/// What `value` makes in a loop, for `finish`. `computes`: from what it reads.
template <class F, class G>
void emit_elements(Emitter& e, const Dims& dims, bool computes, F&& value, G&& finish) {
  Loop loop(e, dims, Loop::Chosen::short_rows);
  std::shared_ptr<const LoopExpr> made = loop.program(value(&loop));
  // Otherwise vectors would choose among parts as they run.
  const bool chosen = loop.has_selected_parts() && nest_of(*made, /*periodic=*/true).periodic;
  if (!chosen && computes && has_kernel_compiler()) {
    Loop shifts(e, dims, Loop::Chosen::shifts);
    std::shared_ptr<const LoopExpr> by_rows = shifts.program(value(&shifts));
    if (shifts.has_selected_parts() && chooses_by_rows(*by_rows)) {
      return finish(&shifts, std::move(by_rows));
    }
  }
  if (chosen || !loop.has_selected_parts()) return finish(&loop, std::move(made));
  Loop plain(e, dims);
  made = plain.program(value(&plain));
  finish(&plain, std::move(made));
}

/// As the result of `root`.
template <class F>
void emit_elements(Emitter& e, const ir::Instruction& root, bool computes, F&& value) {
  emit_elements(e, root.shape.dims, computes, value,
                [&](Loop* loop, std::shared_ptr<const LoopExpr> made) {
                  loop->finish(root, std::move(made));
                });
}

}  // namespace

void emit_loop(Emitter& e, const ir::Instruction& root) {
  if (emit_by_parts(e, root)) return;
  emit_elements(e, root, true, [&](Loop* loop) { return loop->operation(root); });
}

void emit_view(Emitter& e, const ir::Instruction& i) {
  emit_elements(e, i, false, [&](Loop* loop) { return loop->view(i); });
}

void emit_in_order(Emitter& e, const ir::Instruction& of, const ir::Instruction& i,
                   const Dims& order, SlotId to) {
  emit_elements(
      e, i.shape.dims, false, [&](Loop* loop) { return loop->transposed(i, order); },
      [&](Loop* loop, std::shared_ptr<const LoopExpr> made) {
        loop->store(of, std::move(made), to);
      });
}

bool emit_broadcast(Emitter& e, const ir::Instruction& i) {
  if (keeps_count(i)) {
    const Dims& at = i.get<ir::DimensionsAttrs>().dims;
    if (std::is_sorted(at.begin(), at.end())) {
      e.alias(i, e.slots(*i.operand(0)));
      return true;
    }
  }
  emit_view(e, i);
  return true;
}

bool emit_iota(Emitter& e, const ir::Instruction& i) {
  Loop loop(e, i.shape.dims);
  std::shared_ptr<const LoopExpr> made = loop.program(loop.iota(i));
  loop.finish(i, std::move(made));
  return true;
}

}  // namespace tessera::codegen
