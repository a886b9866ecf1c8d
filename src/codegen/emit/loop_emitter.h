// SPDX-License-Identifier: Apache-2.0
// The loop of one op: a program for its elements, with all that is made on the fly in it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/codegen/emit/emitter.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {

class Loop : private ViewScalars {
 public:
  using Value = LoopBuilder::Value;

  /// What concatenations and padding are made of is read for all elements, and chosen from, if that
  /// takes little.
  enum class Chosen {
    nothing,
    short_rows,
    shifts,  ///< an array by a few rows or columns, with padding or rows of its own at the ends
  };
  Loop(Emitter& e, const Dims& dims, Chosen chosen = Chosen::nothing)
      : e_(e), count_(element_count(dims)), all_(count_), chosen_(chosen) {}
  /// Some places of one dim.
  struct Segment {
    std::size_t dim = 0;
    std::int64_t begin = 0, end = 0;
    std::int64_t size() const { return end - begin; }
  };
  /// Of what has these dims a segment alone, which stands in one piece there.
  Loop(Emitter& e, const Dims& dims, const Segment& segment);

  /// Of the op whose loop this is, or of something that is made on the fly here.
  Value value(const ir::Instruction& i) { return value(i, 0); }
  Value operation(const ir::Instruction& i) { return operation(i, base_); }
  /// Of the op whose loop this is, its segments behind one another, up to each of `ends`. False if
  /// one of them can't be made by itself.
  bool by_segments(const ir::Instruction& root, std::size_t dim,
                   const std::vector<std::int64_t>& ends, Value* made);
  /// Of a view that is to be made.
  Value view(const ir::Instruction& i);
  Value iota(const ir::Instruction& i);
  /// Of something that is made on the fly here, its dims in another order.
  Value transposed(const ir::Instruction& i, const Dims& order) { return value(i, push(order)); }

  std::shared_ptr<const LoopExpr> program(Value v);
  /// Adds the step that stores what the program makes as the result of `root`.
  void finish(const ir::Instruction& root, std::shared_ptr<const LoopExpr> made);
  /// The same in any place, for a step of `of`.
  void store(const ir::Instruction& of, std::shared_ptr<const LoopExpr> made, SlotId to);
  const std::vector<SlotId>& inputs() const { return inputs_; }
  bool has_selected_parts() const { return has_selected_parts_; }

 private:
  /// A view, or dims in another order.
  struct Frame {
    const ir::Instruction* view = nullptr;
    std::size_t operand = 0;  ///< of a concatenation
    Dims order;
    int parent = 0;
    std::optional<Segment> segment;  ///< that is all there is of it
  };
  /// What is computed in a loop of its own here.
  struct Part {
    std::shared_ptr<const LoopExpr> program;
    std::vector<SlotId> inputs;
  };

  Value value(const ir::Instruction& i, int stack);
  Value make(const ir::Instruction& i, int stack);
  Value operation(const ir::Instruction& i, int stack);
  Value leaf(const ir::Instruction& i, int stack);
  Value affine(const ir::Instruction& iota, int stack);
  /// A view of `i` as what stands in the stack shows it.
  bool see_through(int stack, const ir::Instruction& i, ComposedView* m);
  /// A value for what can't be made in a segment.
  Value nothing(DType t);
  Value taken(const ir::Instruction& gather, int stack);
  Value gathered(const ir::Instruction& gather);
  Value with_producers(const ir::Instruction& i, int stack);
  Value with_parts(const ir::Instruction& concatenate, int stack);
  Value part_in_segment(const ir::Instruction& concatenate);
  Value value_of_part(const ir::Instruction& part, int frame);
  Value concatenated(const ir::Instruction& concatenate, int stack);
  Value selected(const ir::Instruction& concatenate, int stack);
  bool can_select(const ir::Instruction& concatenate, int stack);
  /// Of a concatenation's dims, seen through transposes.
  Dims order_in(const ir::Instruction& concatenate, int stack) const;
  Value selected(DType t, const ComposedView& m);
  bool can_select(const ComposedView& m) const;
  /// `order`: that of its dims; empty if they stay.
  Part part(const ir::Instruction& i, const Dims& order);
  Value read(DType t, ComposedView m);
  ComposedView composed(const ir::Instruction& i, bool made);
  int push(int parent, const ir::Instruction& view, std::size_t operand = 0);
  int push(const Dims& order);
  int push(const Segment& segment);
  int input(const ir::Instruction& scalar) override { return e_.slot(scalar); }
  int add_input(SlotId slot);

  Emitter& e_;
  std::int64_t count_;
  std::int64_t first_ = 0, all_;  ///< of a segment: where it stands, and in how many elements
  std::optional<Segment> segment_;
  int base_ = 0;  ///< the frame of a segment
  bool fits_ = true;
  Chosen chosen_;
  bool has_selected_parts_ = false;
  LoopBuilder builder_;
  std::vector<Frame> frames_{Frame{}};
  std::map<std::tuple<const ir::Instruction*, std::size_t, int>, int>
      frame_ids_;                                                   // looked up, never walked
  std::map<std::pair<const ir::Instruction*, int>, Value> values_;  // likewise
  std::map<std::string, Value> read_;                               // by what is read
  std::vector<SlotId> inputs_;
  std::vector<int> contiguous_;
  std::vector<ir::Opcode> computed_;  ///< each once, in the order of their first use
};

/// Loops walk longer rows by themselves.
inline constexpr std::int64_t kLongRow = 64;
/// Elements for one place in the dims before `dim`.
inline std::int64_t row_from(const Dims& dims, std::int64_t dim) {
  return element_count(Dims(dims.begin() + dim, dims.end()));
}

/// The loop of `root` as one for each part of the concatenations in it. False if it is no better.
bool emit_by_parts(Emitter& e, const ir::Instruction& root);
/// `i`, which is made on the fly for the step `of`, its dims in another order.
void emit_in_order(Emitter& e, const ir::Instruction& of, const ir::Instruction& i,
                   const Dims& order, SlotId to);

}  // namespace tessera::codegen
