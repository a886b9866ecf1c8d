// SPDX-License-Identifier: Apache-2.0
// Concatenations of what is made on the fly: each part by a loop of its own, or all of them by one
// that chooses.
#include <algorithm>
#include <set>
#include <utility>

#include "src/base/contains.h"
#include "src/codegen/emit/loop_emitter.h"
#include "src/codegen/kernels/loops/concatenation.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using Value = LoopBuilder::Value;

/// What several parts read, each slot once.
struct PartInputs {
  std::vector<SlotId> slots;

  /// The numbers of a part's inputs among those of all.
  std::vector<int> add(const std::vector<SlotId>& own) {
    std::vector<int> out;
    for (const SlotId s : own) {
      const auto at = std::find(slots.begin(), slots.end(), s) - slots.begin();
      if (at == std::ptrdiff_t(slots.size())) slots.push_back(s);
      out.push_back(int(at));
    }
    return out;
  }
};

/// Where the dim of a concatenation is among dims in that order.
std::int64_t place_of(const ir::Instruction& concatenate, const Dims& order) {
  const std::int64_t dim = concatenate.get<ir::DimensionsAttrs>().dims.at(0);
  return std::find(order.begin(), order.end(), dim) - order.begin();
}

}  // namespace

Value Loop::with_parts(const ir::Instruction& concatenate, int stack) {
  if (segment_ && stack == base_) return part_in_segment(concatenate);
  if (segment_ && stack != 0) return nothing(concatenate.shape.dtype);
  return can_select(concatenate, stack) ? selected(concatenate, stack)
                                        : concatenated(concatenate, stack);
}

Dims Loop::order_in(const ir::Instruction& concatenate, int stack) const {
  Dims order = identity_order(concatenate.shape.rank());
  for (int n = stack; n != 0; n = frames_[std::size_t(n)].parent) {
    const Frame& f = frames_[std::size_t(n)];
    order = reordered(order, f.view ? f.view->get<ir::DimensionsAttrs>().dims : f.order);
  }
  return order;
}

/// Seen through transposes it is a concatenation of the parts seen so.
Value Loop::concatenated(const ir::Instruction& concatenate, int stack) {
  const Dims order = order_in(concatenate, stack);
  const std::int64_t dim = place_of(concatenate, order);
  std::vector<ConcatenationPart> parts;
  PartInputs inputs;
  double nanoseconds = 0;
  for (const ir::Instruction* o : concatenate.operands()) {
    Part made = part(*o, stack == 0 ? Dims() : order);
    const double time = made.program->nanoseconds * double(o->shape.element_count());
    const bool compiled = worth_compiling(time, made.program.get());
    nanoseconds += time;
    parts.push_back({std::move(made.program), inputs.add(made.inputs),
                     codegen::transposed(o->shape, order).dims, compiled});
  }
  nanoseconds /= std::max<double>(1, double(concatenate.shape.element_count()));
  for (const SlotId s : inputs.slots) add_input(s);
  return builder_.source(concatenate.shape.dtype,
                         concatenation(concatenate.shape.dtype, std::size_t(dim), std::move(parts)),
                         int(inputs.slots.size()), nanoseconds);
}

namespace {

constexpr double kNever = 1e9;

/// The time of an element of what is made on the fly for `i`, but for what is in `counted`; a long
/// one if it can't be moved to another place in a row.
double time_of_moved(Emitter& e, const ir::Instruction& i,
                     std::set<const ir::Instruction*>* counted) {
  if (!counted->insert(&i).second) return 0;
  if (e.splat(i) || e.facts(i).known || !e.inlined(i)) return 0;
  if (i.is(Opcode::iota) || i.is(Opcode::gather) || e.fuses_producers(i)) {
    return kNever;
  }
  // What has padding or starts, or is put together, has no one place in a row.
  if (is_view(i) && (i.is(Opcode::dynamic_slice) || !(commutes(i) || i.is(Opcode::broadcast)))) {
    return kNever;
  }
  const auto without_ones = [](Dims dims) {
    dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
    return dims;
  };
  // What is stored may be taken to have these dims.
  const auto is_stored = [&e](const ir::Instruction& o) {
    return !e.inlined(o) || e.facts(o).known;
  };
  if (i.is(Opcode::reshape) && !is_stored(*i.operand(0)) &&
      without_ones(i.shape.dims) != without_ones(i.operand(0)->shape.dims)) {
    return kNever;
  }
  const bool reads_through = i.is(Opcode::broadcast) && !keeps_count(i);
  double sum = is_view(i) ? 0 : operation_cost(i);
  for (const ir::Instruction* o : i.operands()) {
    if (reads_through && e.inlined(*o) && !e.facts(*o).known) return kNever;
    sum += time_of_moved(e, *o, counted);
  }
  return sum;
}

}  // namespace

/// Rows are short, and making every part for each element of one takes less than putting what is
/// made of each by itself together.
bool Loop::can_select(const ir::Instruction& concatenate, int stack) {
  if (chosen_ != Chosen::short_rows || !has_kernel_compiler()) return false;
  const Dims order = order_in(concatenate, stack);
  const Dims dims = reordered(concatenate.shape.dims, order);
  constexpr double kMostNanoseconds = 1.5;
  if (row_from(dims, place_of(concatenate, order)) >= kLongRow) return false;
  double nanoseconds = 0;
  for (const ir::Instruction* o : concatenate.operands()) {
    std::set<const ir::Instruction*> counted;
    nanoseconds += time_of_moved(e_, *o, &counted);
  }
  return nanoseconds * time_of_code(true) <= kMostNanoseconds;
}

/// The parts of a concatenation share no values: in a fused program each has its own.
Value Loop::value_of_part(const ir::Instruction& part, int frame) {
  auto others = std::exchange(values_, {});
  const Value made = value(part, frame);
  values_ = std::move(others);
  return made;
}

Value Loop::selected(const ir::Instruction& concatenate, int stack) {
  const std::int64_t dim = concatenate.get<ir::DimensionsAttrs>().dims.at(0);
  const Dims order = order_in(concatenate, stack);
  const Value column = builder_.iota(DType::s32, reordered(concatenate.shape.dims, order),
                                     place_of(concatenate, order));
  std::int64_t end = concatenate.shape.dims[std::size_t(dim)];
  Value out;
  for (std::size_t k = concatenate.operands().size(); k-- > 0;) {
    const ir::Instruction& o = *concatenate.operand(k);
    const int frame = push(stack, concatenate, k);
    const Value made = value_of_part(o, frame);
    out = out.reg < 0 ? made : builder_.select(builder_.below(column, end), made, out);
    end -= o.shape.dims[std::size_t(dim)];
  }
  has_selected_parts_ = true;
  return out;
}

Loop::Loop(Emitter& e, const Dims& dims, const Segment& segment)
    : e_(e),
      count_(element_count(dims) / dims[segment.dim] * segment.size()),
      first_(row_from(dims, std::int64_t(segment.dim)) / dims[segment.dim] * segment.begin),
      all_(element_count(dims)),
      segment_(segment),
      chosen_(Chosen::nothing) {
  base_ = push(segment);
}

/// The part that the segment is, or is within.
Value Loop::part_in_segment(const ir::Instruction& concatenate) {
  std::int64_t begin = 0;
  for (const ir::Instruction* o : concatenate.operands()) {
    const std::int64_t size = o->shape.dims[segment_->dim];
    if (segment_->begin < begin || segment_->end > begin + size) {
      begin += size;
      continue;
    }
    const bool whole = segment_->size() == size;
    const int frame =
        whole ? 0 : push(Segment{segment_->dim, segment_->begin - begin, segment_->end - begin});
    return value_of_part(*o, frame);
  }
  return nothing(concatenate.shape.dtype);
}

bool Loop::by_segments(const ir::Instruction& root, std::size_t dim,
                       const std::vector<std::int64_t>& ends, Value* made) {
  std::vector<ConcatenationPart> parts;
  PartInputs inputs;
  std::set<int> moved;  // inputs that are read anywhere but where the result is written
  double nanoseconds = 0;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    Loop loop(e_, root.shape.dims, Segment{dim, begin, end});
    begin = end;
    const Value v = loop.operation(root);
    if (!loop.fits_) return false;
    ConcatenationPart part;
    part.program = loop.program(v);
    part.dims = root.shape.dims;
    part.dims[dim] = loop.segment_->size();
    part.inputs = inputs.add(loop.inputs_);
    for (std::size_t k = 0; k < part.inputs.size(); ++k) {
      if (!contains(loop.contiguous_, int(k))) moved.insert(part.inputs[k]);
    }
    nanoseconds += part.program->nanoseconds * double(loop.count_);
    for (const Opcode op : loop.computed_) {
      if (!contains(computed_, op)) computed_.push_back(op);
    }
    parts.push_back(std::move(part));
  }
  for (ConcatenationPart& p : parts) {
    p.compiled = worth_compiling(nanoseconds, p.program.get());
  }
  for (const SlotId s : inputs.slots) {
    const int n = add_input(s);
    if (moved.count(n) == 0) contiguous_.push_back(n);
  }
  nanoseconds /= std::max<double>(1, double(count_));
  *made = builder_.source(root.shape.dtype, concatenation(root.shape.dtype, dim, std::move(parts)),
                          int(inputs.slots.size()), nanoseconds);
  return true;
}

namespace {

/// Where the parts of the concatenations end that a loop has in it, all along one dim.
class PartEnds {
 public:
  explicit PartEnds(Emitter& e) : e_(e) {}

  void find(const ir::Instruction& root) {
    visit(root, true);
    ends_.erase(0);
  }
  /// One of them is of computed parts, and each part stands in one piece.
  bool any(const Dims& dims) const {
    constexpr std::size_t kMostParts = 16;
    return computed_ && one_dim_ && ends_.size() > 1 && ends_.size() <= kMostParts &&
           element_count(Dims(dims.begin(), dims.begin() + dim_)) == 1 && row_from(dims, dim_) > 0;
  }
  std::size_t dim() const { return std::size_t(dim_); }
  std::vector<std::int64_t> list() const { return {ends_.begin(), ends_.end()}; }

 private:
  void visit(const ir::Instruction& i, bool is_root) {
    if (!seen_.insert(&i).second || e_.splat(i) || e_.facts(i).known) return;
    if (!is_root && !e_.inlined(i)) return;
    if (i.is(Opcode::concatenate)) {
      const std::int64_t dim = i.get<ir::DimensionsAttrs>().dims.at(0);
      one_dim_ = one_dim_ && (dim_ < 0 || dim_ == dim);
      dim_ = dim;
      computed_ = computed_ || e_.fuses_producers(i);
      std::int64_t end = 0;
      for (const ir::Instruction* o : i.operands()) {
        ends_.insert(end += o->shape.dims[std::size_t(dim)]);
      }
      return;
    }
    if (!is_loop_op(i)) return;
    for (const ir::Instruction* o : i.operands()) {
      if (o->shape.dims == i.shape.dims) visit(*o, false);
    }
  }

  Emitter& e_;
  std::set<const ir::Instruction*> seen_;
  std::set<std::int64_t> ends_;
  std::int64_t dim_ = -1;
  bool one_dim_ = true, computed_ = false;
};

}  // namespace

bool emit_by_parts(Emitter& e, const ir::Instruction& root) {
  PartEnds ends(e);
  ends.find(root);
  if (!ends.any(root.shape.dims)) return false;
  Loop loop(e, root.shape.dims);
  Value made;
  if (!loop.by_segments(root, ends.dim(), ends.list(), &made)) return false;
  loop.finish(root, loop.program(made));
  return true;
}

}  // namespace tessera::codegen
