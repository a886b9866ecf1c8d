// SPDX-License-Identifier: Apache-2.0
// Emits reductions by a program. It may not be commutative: each lane takes a stretch of a row, and
// the lanes are combined in order. One that is so but for NaNs (of which the first one wins, say)
// reads a row as it stands in memory, and once more in order if it met a NaN.
#include "src/codegen/llvm/program_reduce.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace tessera::codegen {
namespace {

using llvm::Value;

class ProgramReduceEmitter {
 public:
  ProgramReduceEmitter(llvm::IRBuilder<>& b, const Machine& machine,
                       const ProgramReduceSource& source)
      : b_(b), machine_(machine), source_(source) {
    unsigned width = 64;
    for (const auto& o : source.operands) {
      width = std::min(width, vector_width(*o.elements.program, machine));
    }
    // Two vectors of each: what combines them takes several steps in a row.
    width_ = 2 * std::min(width, vector_width(*source.reducer, machine));
  }

  bool emit(llvm::Function* f) {
    const auto pointer = [&](Value* list, std::int64_t k) {
      Value* at = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), list, std::uint64_t(k));
      return b_.CreateLoad(b_.getPtrTy(), at);
    };
    for (std::size_t k = 0; k < source_.operands.size(); ++k) {
      const auto& o = source_.operands[k];
      Value* inputs =
          b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), f->getArg(0), std::uint64_t(o.first_input));
      bodies_.push_back(std::make_unique<LoopBody>(
          b_, machine_, o.elements, width_,
          LoopBody::Arguments{inputs, nullptr, nullptr, nullptr, nullptr}));
      bytes_.push_back(bodies_.back()->output_bytes(0));
      if (bytes_.back() > 8) return false;
      // All lanes have to be in one row of the reads.
      const LoopNest& nest = o.elements.nest;
      const std::int64_t together = source_.b == 1 ? source_.reduced : source_.b;
      if (nest.by_rows && nest.row() % together != 0) return false;
      outputs_.push_back(pointer(f->getArg(1), std::int64_t(k)));
      init_.push_back(vectors(1).load_splat(pointer(f->getArg(0), source_.init + std::int64_t(k)),
                                            bytes_.back()));
    }
    Value* begin = f->getArg(3);
    Value* end = f->getArg(4);
    if (source_.b == 1) {
      rows(begin, end);
    } else {
      Value* b = number(source_.b);
      if (source_.by_planes) {
        begin = b_.CreateMul(begin, b);
        end = b_.CreateMul(end, b);
      }
      columns(begin, end);
    }
    b_.CreateRetVoid();
    return complete_;
  }

 private:
  /// Columns that are accumulated at a time.
  static constexpr std::uint64_t kColumns = 256;
  using Values = std::vector<Lanes>;

  VectorBuilder vectors(unsigned width) const { return VectorBuilder(b_, machine_, width); }
  Value* number(std::int64_t n) const { return b_.getInt64(std::uint64_t(n)); }
  Value* offset(Value* base, Value* elements, unsigned bytes) const {
    return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(elements, b_.getInt64(bytes)));
  }
  std::size_t count() const { return bodies_.size(); }

  /// Memory for so many of each operand's sums.
  std::vector<Value*> sums(std::uint64_t n) {
    std::vector<Value*> out;
    for (std::size_t k = 0; k < count(); ++k) {
      llvm::AllocaInst* a = b_.CreateAlloca(b_.getInt8Ty(), b_.getInt64(n * bytes_[k]));
      a->setAlignment(llvm::Align(64));
      out.push_back(a);
    }
    return out;
  }
  Values load(const VectorBuilder& v, const std::vector<Value*>& from, Value* at) const {
    Values out;
    for (std::size_t k = 0; k < count(); ++k) {
      out.push_back(v.load(offset(from[k], at, bytes_[k]), bytes_[k]));
    }
    return out;
  }
  void store(const VectorBuilder& v, const Values& values, const std::vector<Value*>& to,
             Value* at) const {
    for (std::size_t k = 0; k < count(); ++k) {
      v.store(values[k], bytes_[k], offset(to[k], at, bytes_[k]));
    }
  }
  Values combined(const VectorBuilder& v, const Values& sums, const Values& values) {
    Values all = sums;
    all.insert(all.end(), values.begin(), values.end());
    auto out = emit_program(v, *source_.reducer, all);
    if (out && out->size() == count()) return *std::move(out);
    complete_ = false;
    return sums;
  }
  Values elements(unsigned width, Value* at, std::int64_t lane_step) {
    Values out;
    for (std::size_t k = 0; k < count(); ++k) {
      const LoopNest& nest = source_.operands[k].elements.nest;
      Value* column = nullptr;
      if (nest.by_rows) {
        Value* row = b_.CreateUDiv(at, number(nest.row()));
        column = b_.CreateSub(at, b_.CreateMul(row, number(nest.row())));
        bodies_[k]->enter_row(row);
      }
      bodies_[k]->set_lane_step(lane_step);
      if (!complete_ || !bodies_[k]->run(width, at, column)) {
        complete_ = false;
        out.push_back(init_[k]);
      } else {
        out.push_back(bodies_[k]->output(0));
      }
    }
    return out;
  }

  void rows(Value* begin, Value* end) {
    // The first become registers; the lanes are looked up by number.
    const RowSums sums = {this->sums(width_), this->sums(width_), this->sums(1)};
    const bool interleaved = source_.any_order && source_.reduced >= 2 * width_;
    llvm::AllocaInst* nans = nullptr;
    if (interleaved) nans = b_.CreateAlloca(vectors(width_).vector(b_.getInt1Ty()));
    emit_for(b_, begin, end, number(1), [&](Value* row) {
      Value* first = b_.CreateMul(row, number(source_.reduced));
      if (interleaved) {
        Value* any = interleaved_row(first, sums, nans);
        if (any != nullptr) emit_if(any, [&] { ordered_row(first, sums); });
      } else {
        ordered_row(first, sums);
      }
      const VectorBuilder one = vectors(1);
      store(one, load(one, sums.total, b_.getInt64(0)), outputs_, row);
    });
  }

  /// Memory for the sums of a row.
  struct RowSums {
    std::vector<Value*> running, lanes, total;
  };
  void begin_row(const RowSums& sums) { store(vectors(1), init_, sums.total, b_.getInt64(0)); }
  void add(const RowSums& sums, const Values& values) {
    const VectorBuilder one = vectors(1);
    Value* zero = b_.getInt64(0);
    store(one, combined(one, load(one, sums.total, zero), values), sums.total, zero);
  }
  /// The running sums of all lanes, in order.
  void add_lanes(const RowSums& sums) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
    Value* zero = b_.getInt64(0);
    store(wide, load(wide, sums.running, zero), sums.lanes, zero);
    emit_for(b_, zero, number(width_), number(1),
             [&](Value* lane) { add(sums, load(one, sums.lanes, lane)); });
  }
  void rest_of_row(const RowSums& sums, Value* begin, Value* end) {
    emit_for(b_, begin, end, number(1), [&](Value* at) { add(sums, elements(1, at, 1)); });
  }

  void ordered_row(Value* first, const RowSums& sums) {
    const std::int64_t length = source_.reduced, stretch = length / width_;
    const VectorBuilder wide = vectors(width_);
    Value* zero = b_.getInt64(0);
    Value* end = b_.CreateAdd(first, number(length));
    begin_row(sums);
    if (stretch == 0) return rest_of_row(sums, first, end);
    store(wide, elements(width_, first, stretch), sums.running, zero);
    emit_for(b_, number(1), number(stretch), number(1), [&](Value* t) {
      const Values next = elements(width_, b_.CreateAdd(first, t), stretch);
      store(wide, combined(wide, load(wide, sums.running, zero), next), sums.running, zero);
    });
    add_lanes(sums);
    rest_of_row(sums, b_.CreateAdd(first, number(stretch * width_)), end);
  }

  /// Returns whether the row has NaNs; null if there are none in its types.
  Value* interleaved_row(Value* first, const RowSums& sums, llvm::AllocaInst* nans) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
    Value* zero = b_.getInt64(0);
    llvm::Type* mask = nans->getAllocatedType();
    b_.CreateStore(llvm::Constant::getNullValue(mask), nans);
    bool any = false;
    const auto look = [&](const VectorBuilder& v, const Values& values) {
      for (std::size_t k = 0; k < count(); ++k) {
        Value* found = is_nan(v, k, values[k]);
        if (found == nullptr) continue;
        any = true;
        if (v.width == 1) {
          Value* one_lane = b_.CreateExtractElement(found, std::uint64_t(0));
          found = b_.CreateInsertElement(llvm::Constant::getNullValue(mask), one_lane,
                                         std::uint64_t(0));
        }
        b_.CreateStore(b_.CreateOr(b_.CreateLoad(mask, nans), found), nans);
      }
    };
    begin_row(sums);
    const std::int64_t steps = source_.reduced / width_;
    const Values before = elements(width_, first, 1);
    look(wide, before);
    store(wide, before, sums.running, zero);
    emit_for(b_, number(1), number(steps), number(1), [&](Value* t) {
      Value* at = b_.CreateAdd(first, b_.CreateMul(t, number(width_)));
      const Values next = elements(width_, at, 1);
      look(wide, next);
      store(wide, combined(wide, load(wide, sums.running, zero), next), sums.running, zero);
    });
    look(one, init_);
    Value* rest = b_.CreateAdd(first, number(steps * width_));
    Value* end = b_.CreateAdd(first, number(source_.reduced));
    add_lanes(sums);
    emit_for(b_, rest, end, number(1), [&](Value* at) {
      const Values next = elements(1, at, 1);
      look(one, next);
      add(sums, next);
    });
    return any ? b_.CreateOrReduce(b_.CreateLoad(mask, nans)) : nullptr;
  }

  /// Lanes of operand k that are NaN; null if its type has none.
  Value* is_nan(const VectorBuilder& v, std::size_t k, const Lanes& values) const {
    const std::uint64_t infinity = source_.operands[k].infinity;
    if (infinity == 0) return nullptr;
    const unsigned bits = bytes_[k] * 8;
    llvm::Type* integers = v.integers(bits);
    Value* magnitude = b_.CreateAnd(v.as_bits(values, bytes_[k]),
                                    v.integer(integers, (std::uint64_t(1) << (bits - 1)) - 1));
    return b_.CreateICmpUGT(magnitude, v.integer(integers, infinity));
  }

  void emit_if(Value* condition, const std::function<void()>& then) {
    llvm::Function* f = b_.GetInsertBlock()->getParent();
    llvm::BasicBlock* yes = llvm::BasicBlock::Create(b_.getContext(), "", f);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(b_.getContext(), "", f);
    b_.CreateCondBr(condition, yes, after);
    b_.SetInsertPoint(yes);
    then();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  /// Results [begin, end), side by side.
  void columns(Value* begin, Value* end) {
    const std::vector<Value*> held = sums(kColumns);
    Value* b = number(source_.b);
    Value* last = b_.CreateUDiv(b_.CreateAdd(end, number(source_.b - 1)), b);
    emit_for(b_, b_.CreateUDiv(begin, b), last, number(1), [&](Value* a) {
      Value* plane = b_.CreateMul(a, b);
      const auto within = [&](Value* result) {
        Value* low = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, plane);
        Value* next = b_.CreateAdd(plane, b);
        return b_.CreateSub(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, low, next), plane);
      };
      Value* c1 = within(end);
      emit_for(b_, within(begin), c1, b_.getInt64(kColumns), [&](Value* c) {
        Value* n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.getInt64(kColumns),
                                            b_.CreateSub(c1, c));
        each_sum(n, [&](const VectorBuilder& v, Value* k) {
          Values init;
          for (const Lanes& i : init_) {
            init.push_back(
                {i.kind, v.splat(b_.CreateExtractElement(i.value, std::uint64_t(0))), nullptr});
          }
          store(v, init, held, k);
        });
        emit_for(b_, b_.getInt64(0), number(source_.reduced), number(1), [&](Value* r) {
          Value* row = b_.CreateAdd(b_.CreateMul(a, number(source_.reduced)), r);
          Value* first = b_.CreateAdd(b_.CreateMul(row, b), c);
          each_sum(n, [&](const VectorBuilder& v, Value* k) {
            const Values next = elements(v.width, b_.CreateAdd(first, k), 1);
            store(v, combined(v, load(v, held, k), next), held, k);
          });
        });
        each_sum(n, [&](const VectorBuilder& v, Value* k) {
          store(v, load(v, held, k), outputs_, b_.CreateAdd(b_.CreateAdd(plane, c), k));
        });
      });
    });
  }
  void each_sum(Value* n, const std::function<void(const VectorBuilder&, Value*)>& f) {
    emit_counts(b_, n, {width_, 1}, [&](unsigned w, Value* k) { f(vectors(w), k); });
  }

  llvm::IRBuilder<>& b_;
  const Machine& machine_;
  const ProgramReduceSource& source_;
  unsigned width_;
  std::vector<std::unique_ptr<LoopBody>> bodies_;
  std::vector<unsigned> bytes_;
  std::vector<Value*> outputs_;
  Values init_;
  bool complete_ = true;
};

}  // namespace

bool emit_program_reduce_function(llvm::Module* module, const Machine& machine,
                                  const ProgramReduceSource& source, const char* name) {
  llvm::Function* f = add_loop_function(module, name);
  llvm::IRBuilder<> b(&f->getEntryBlock());
  return ProgramReduceEmitter(b, machine, source).emit(f);
}

}  // namespace tessera::codegen
