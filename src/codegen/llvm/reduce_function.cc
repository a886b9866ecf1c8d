// SPDX-License-Identifier: Apache-2.0
// Emits reductions: rows lane by lane, and columns side by side. A reducer that isn't commutative
// gets a row in order: each lane takes a stretch of it, and the lanes are combined in order. One
// that is so but for NaNs (of which the first one wins, say) reads a row as it stands in memory,
// and once more in order if it met a NaN.
#include "src/codegen/llvm/reduce_function.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/codegen/llvm/conversions.h"
#include "src/codegen/llvm/elementwise_ops.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using llvm::Value;
using Order = ReduceSource::Order;

/// Of each operand: sums, or elements.
using Values = std::vector<Lanes>;

/// One sum of each operand in memory, that becomes registers where it can.
class Sums {
 public:
  Sums(const VectorBuilder& v, const std::vector<ReduceSource::Operand>& operands) {
    for (const ReduceSource::Operand& o : operands) {
      Place p;
      p.type = v.vector(v.element(o.held));
      p.real = v.b.CreateAlloca(p.type);
      if (is_complex(o.held)) p.imaginary = v.b.CreateAlloca(p.type);
      places_.push_back(p);
    }
  }
  Values get(llvm::IRBuilder<>& b) const {
    Values out;
    for (const Place& p : places_) {
      Value* re = b.CreateLoad(p.type, p.real);
      out.push_back(p.imaginary == nullptr
                        ? VectorBuilder::bits(re)
                        : VectorBuilder::complex(re, b.CreateLoad(p.type, p.imaginary)));
    }
    return out;
  }
  void set(llvm::IRBuilder<>& b, const Values& v) const {
    for (std::size_t k = 0; k < places_.size(); ++k) {
      b.CreateStore(v[k].value, places_[k].real);
      if (places_[k].imaginary != nullptr) b.CreateStore(v[k].imaginary, places_[k].imaginary);
    }
  }

 private:
  struct Place {
    llvm::Type* type;
    Value *real, *imaginary = nullptr;
  };
  std::vector<Place> places_;
};

class ReduceEmitter {
 public:
  ReduceEmitter(llvm::IRBuilder<>& b, const Machine& machine, const ReduceSource& source)
      : b_(b), machine_(machine), source_(source), width_(vector_width(*source.reducer, machine)) {
    for (const auto& o : source.operands) {
      width_ = std::min(width_, vector_width(*o.elements.program, machine));
    }
    // Two vectors of each: what combines them takes several steps in a row.
    if (source.order != Order::any) width_ *= 2;
  }

  bool emit(llvm::Function* f) {
    const auto pointer = [&](Value* list, std::int64_t k) {
      Value* at = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), list, std::uint64_t(k));
      return b_.CreateLoad(b_.getPtrTy(), at);
    };
    for (std::size_t k = 0; k < count(); ++k) {
      const ReduceSource::Operand& o = source_.operands[k];
      Value* inputs =
          b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), f->getArg(0), std::uint64_t(o.first_input));
      bodies_.push_back(std::make_unique<LoopBody>(
          b_, machine_, o.elements, width_,
          LoopBody::Arguments{inputs, nullptr, nullptr, nullptr, nullptr}));
      held_bytes_.push_back(unsigned(byte_size(o.held)));
      outputs_.push_back(pointer(f->getArg(1), std::int64_t(k)));
      const Lanes init = vectors(1).load_splat(
          pointer(f->getArg(0), source_.init + std::int64_t(k)), unsigned(byte_size(o.dtype)));
      init_.push_back(held(vectors(1), k, init));
    }
    if (!reads_in_order()) return false;
    Value* begin = f->getArg(3);
    Value* end = f->getArg(4);
    if (source_.short_rows) {
      short_rows(begin, end);
    } else if (source_.b == 1) {
      Value* each = number(source_.units.size);
      begin = b_.CreateMul(begin, each);
      end = b_.CreateMul(end, each);
      if (source_.order == Order::any) {
        rows_by_lanes(begin, end);
      } else {
        rows_in_order(begin, end);
      }
    } else {
      columns(begin, end);
    }
    b_.CreateRetVoid();
    return complete_;
  }

 private:
  /// Memory for the sums of some columns: half of the nearest cache.
  static constexpr std::int64_t kSumBytes = 16384;
  /// Columns at a time by a program: what makes their elements may go to each line of memory once
  /// for several rows, which have to be read while it is in cache.
  static constexpr std::int64_t kColumns = 256;

  VectorBuilder vectors(unsigned width) const { return VectorBuilder(b_, machine_, width); }
  Value* number(std::int64_t n) const { return b_.getInt64(std::uint64_t(n)); }
  Value* offset(Value* base, Value* elements, unsigned bytes) const {
    return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(elements, b_.getInt64(bytes)));
  }
  std::size_t count() const { return source_.operands.size(); }
  DType held_type(std::size_t k) const { return source_.operands[k].held; }

  /// Whether all lanes that are read at once are in one row of the reads.
  bool reads_in_order() const {
    if (source_.order == Order::any) return true;
    const std::int64_t together = source_.b == 1 ? source_.reduced : source_.b;
    return std::all_of(source_.operands.begin(), source_.operands.end(), [&](const auto& o) {
      const LoopNest& nest = o.elements.nest;
      return byte_size(o.held) <= 8 && (!nest.by_rows || nest.row() % together == 0);
    });
  }

  /// Elements in the type of the accumulator.
  Lanes held(const VectorBuilder& v, std::size_t k, const Lanes& x) {
    const DType dtype = source_.operands[k].dtype;
    if (dtype == held_type(k)) return numbers(v, k, x);
    Value* lifted = emit_lift(v, dtype, x);
    if (lifted != nullptr) return VectorBuilder::bits(lifted);
    return missing(v, k);
  }
  /// In the place of what has no code.
  Lanes missing(const VectorBuilder& v, std::size_t k) {
    complete_ = false;
    Value* zero = llvm::Constant::getNullValue(v.vector(v.element(held_type(k))));
    return is_complex(held_type(k)) ? VectorBuilder::complex(zero, zero)
                                    : VectorBuilder::bits(zero);
  }
  /// Of the accumulator's type already: as numbers, not as a mask or in other bits.
  Lanes numbers(const VectorBuilder& v, std::size_t k, const Lanes& x) const {
    if (is_complex(held_type(k))) return v.as_complex(held_type(k), x);
    return VectorBuilder::bits(v.as(held_type(k), x));
  }
  Values combined(const VectorBuilder& v, const Values& sums, const Values& values) {
    Values all = sums;
    all.insert(all.end(), values.begin(), values.end());
    auto out = emit_program(v, *source_.reducer, all);
    if (!out || out->size() != count()) {
      complete_ = false;
      return sums;
    }
    for (std::size_t k = 0; k < count(); ++k) (*out)[k] = numbers(v, k, (*out)[k]);
    return *std::move(out);
  }
  /// The elements from `at` on; `column`: of `at` in its row, or null if that isn't entered yet.
  Values elements(unsigned width, Value* at, Value* column) {
    const VectorBuilder v = vectors(width);
    Values out;
    for (std::size_t k = 0; k < count(); ++k) {
      const LoopNest& nest = source_.operands[k].elements.nest;
      Value* here = column;
      if (nest.by_rows && column == nullptr) {
        Value* row = b_.CreateUDiv(at, number(nest.row()));
        here = b_.CreateSub(at, b_.CreateMul(row, number(nest.row())));
        bodies_[k]->enter_row(row);
      }
      complete_ = complete_ && bodies_[k]->run(width, at, here);
      out.push_back(complete_ ? held(v, k, bodies_[k]->output(0)) : missing(v, k));
    }
    return out;
  }
  /// The same, with lanes so many elements apart.
  Values elements_apart(Value* at, std::int64_t step) {
    for (const auto& body : bodies_) body->set_lane_step(step);
    Values out = elements(width_, at, nullptr);
    for (const auto& body : bodies_) body->set_lane_step(1);
    return out;
  }
  /// Goes through elements [begin, end) in steps of these widths.
  void each_element(llvm::ArrayRef<unsigned> widths, Value* begin, Value* end,
                    const std::function<void(unsigned, Value*, Value*)>& f) {
    if (count() == 1) {
      return emit_range(b_, bodies_[0].get(), source_.operands[0].elements.nest, widths, begin, end,
                        f);
    }
    emit_counts(b_, b_.CreateSub(end, begin), widths,
                [&](unsigned w, Value* k) { f(w, b_.CreateAdd(begin, k), nullptr); });
  }
  /// Results from number `at` on.
  void store(const VectorBuilder& v, const Values& sums, Value* at) {
    for (std::size_t k = 0; k < count(); ++k) {
      const DType dtype = source_.operands[k].dtype;
      std::optional<Lanes> out = sums[k];
      if (dtype != held_type(k)) out = emit_convert(v, held_type(k), dtype, sums[k]);
      if (!out) {
        complete_ = false;
        return;
      }
      const auto bytes = unsigned(byte_size(dtype));
      v.store(*out, bytes, offset(outputs_[k], at, bytes));
    }
  }

  /// Memory for so many sums of each operand, which are looked up by number.
  std::vector<Value*> memory(std::int64_t n) {
    std::vector<Value*> out;
    for (const unsigned bytes : held_bytes_) {
      llvm::AllocaInst* a = b_.CreateAlloca(b_.getInt8Ty(), number(n * bytes));
      a->setAlignment(llvm::Align(64));
      out.push_back(a);
    }
    return out;
  }
  Values load(const VectorBuilder& v, const std::vector<Value*>& from, Value* at) const {
    Values out;
    for (std::size_t k = 0; k < count(); ++k) {
      const Lanes bits = v.load(offset(from[k], at, held_bytes_[k]), held_bytes_[k]);
      out.push_back(numbers(v, k, bits));
    }
    return out;
  }
  void keep(const VectorBuilder& v, const Values& values, const std::vector<Value*>& to,
            Value* at) const {
    for (std::size_t k = 0; k < count(); ++k) {
      v.store(values[k], held_bytes_[k], offset(to[k], at, held_bytes_[k]));
    }
  }

  /// What changes nothing that it is combined with, by a reducer of one op.
  std::optional<Values> identity(const VectorBuilder& v) const {
    const DType held = held_type(0);
    llvm::Type* type = v.vector(v.element(held));
    const Opcode op = source_.reducer->ops[0].op.opcode;
    if (is_complex(held)) {
      if (op != Opcode::add) return std::nullopt;
      return Values{VectorBuilder::complex(v.constant(type, -0.0), v.constant(type, -0.0))};
    }
    const bool is_signed = is_signed_integer(held);
    const std::uint64_t most = ~std::uint64_t(0) >> (64 - held_bytes_[0] * 8 + (is_signed ? 1 : 0));
    const double infinity = std::numeric_limits<double>::infinity();
    const auto value = [&](double of_floats, std::uint64_t of_integers) {
      return Values{VectorBuilder::bits(is_float(held) ? v.constant(type, of_floats)
                                                       : v.integer(type, of_integers))};
    };
    const bool pred = held == DType::pred;
    switch (op) {
      case Opcode::add:
        return value(-0.0, 0);
      case Opcode::multiply:
        return value(1, 1);
      case Opcode::maximum:
        return value(-infinity, is_signed ? ~most : 0);
      case Opcode::minimum:
        return value(infinity, pred ? 1 : most);
      case Opcode::and_:
        return value(0, pred ? 1 : ~std::uint64_t(0));
      case Opcode::or_:
      case Opcode::xor_:
        return value(0, 0);
      default:
        return std::nullopt;
    }
  }

  /// The upper lanes combined with the lower ones, of which there are n.
  Values halved(const Values& all, unsigned n) {
    llvm::SmallVector<int> low, high;
    for (unsigned k = 0; k < n; ++k) {
      low.push_back(int(k));
      high.push_back(int(n + k));
    }
    const auto part = [&](const llvm::SmallVector<int>& lanes) {
      Values out = all;
      for (Lanes& l : out) {
        l.value = b_.CreateShuffleVector(l.value, lanes);
        if (l.imaginary != nullptr) l.imaginary = b_.CreateShuffleVector(l.imaginary, lanes);
      }
      return out;
    };
    const Values x = part(low), y = part(high);
    return combined(vectors(n), x, y);
  }
  /// The lanes combined to one, by halves.
  Values folded(Values all) {
    for (unsigned n = width_ / 2; n >= 1; n /= 2) all = halved(all, n);
    return all;
  }

  /// Each row in vectors, the last ones narrower, all of which are there at once.
  void short_rows(Value* begin, Value* end) {
    emit_for(b_, begin, end, number(1), [&](Value* row) {
      bodies_[0]->enter_row(row);
      Value* first = b_.CreateMul(row, number(source_.reduced));
      std::optional<Values> sum;
      std::int64_t column = 0;
      for (unsigned w = width_; w >= 1; w /= 2) {
        if (sum) sum = halved(*sum, w);
        const VectorBuilder v = vectors(w);
        for (; complete_ && source_.reduced - column >= std::int64_t(w); column += w) {
          Value* at = number(column);
          const Values x = elements(w, b_.CreateAdd(first, at), at);
          sum = sum ? combined(v, *sum, x) : x;
        }
      }
      if (!complete_) return;
      const VectorBuilder one = vectors(1);
      store(one, combined(one, init_, *sum), row);
    });
  }

  /// Each row lane by lane, in several sums side by side if its elements cost little. The order
  /// depends on the length of rows alone.
  void rows_by_lanes(Value* begin, Value* end) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
    const auto neutral = identity(wide);
    const auto neutral_one = identity(one);
    if (!neutral) {
      complete_ = false;
      return;
    }
    constexpr std::size_t kCheapOps = 6, kSums = 4;
    const std::size_t ops = source_.operands[0].elements.program->ops.size();
    const std::size_t n = ops <= kCheapOps ? kSums : 1;
    std::vector<Sums> sums;
    for (std::size_t k = 0; k < n; ++k) sums.emplace_back(wide, source_.operands);
    const Sums rest(one, source_.operands);
    Value* length = number(source_.reduced);
    emit_for(b_, begin, end, number(1), [&](Value* row) {
      for (const Sums& s : sums) s.set(b_, *neutral);
      rest.set(b_, *neutral_one);
      Value* first = b_.CreateMul(row, length);
      each_element({unsigned(n) * width_, width_, 1}, first, b_.CreateAdd(first, length),
                   [&](unsigned w, Value* at, Value* column) {
                     const unsigned each = w == 1 ? 1 : width_;
                     for (unsigned k = 0; k * each < w; ++k) {
                       const Sums& to = w == 1 ? rest : sums[k];
                       add(to, vectors(each),
                           elements(each, plus(at, k * each), plus(column, k * each)));
                     }
                   });
      Values total = sums[0].get(b_);
      for (std::size_t k = 1; k < n; ++k) total = combined(wide, total, sums[k].get(b_));
      const Values out = combined(one, folded(total), rest.get(b_));
      store(one, combined(one, init_, out), row);
    });
  }
  Value* plus(Value* at, unsigned k) {
    return at == nullptr || k == 0 ? at : b_.CreateAdd(at, b_.getInt64(k));
  }
  void add(const Sums& to, const VectorBuilder& v, const Values& values) {
    to.set(b_, combined(v, to.get(b_), values));
  }

  /// What the sums of a row in order are held in.
  struct RowSums {
    Sums running, total;
    std::vector<Value*> lanes;
  };
  void rows_in_order(Value* begin, Value* end) {
    const RowSums sums = {Sums(vectors(width_), source_.operands),
                          Sums(vectors(1), source_.operands), memory(width_)};
    const bool interleaved = source_.order == Order::any_but_nans && source_.reduced >= 2 * width_;
    llvm::AllocaInst* nans = nullptr;
    if (interleaved) nans = b_.CreateAlloca(vectors(width_).vector(b_.getInt1Ty()));
    emit_for(b_, begin, end, number(1), [&](Value* row) {
      Value* first = b_.CreateMul(row, number(source_.reduced));
      if (interleaved) {
        Value* any = interleaved_row(first, sums, nans);
        if (any != nullptr) emit_if(b_, any, [&] { ordered_row(first, sums); });
      } else {
        ordered_row(first, sums);
      }
      store(vectors(1), sums.total.get(b_), row);
    });
  }
  /// The running sums of all lanes, in order.
  void add_lanes(const RowSums& sums) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
    keep(wide, sums.running.get(b_), sums.lanes, number(0));
    emit_for(b_, number(0), number(width_), number(1),
             [&](Value* lane) { add(sums.total, one, load(one, sums.lanes, lane)); });
  }
  void rest_of_row(const RowSums& sums, Value* begin, Value* end) {
    emit_for(b_, begin, end, number(1),
             [&](Value* at) { add(sums.total, vectors(1), elements(1, at, nullptr)); });
  }

  void ordered_row(Value* first, const RowSums& sums) {
    const std::int64_t length = source_.reduced, stretch = length / width_;
    Value* end = b_.CreateAdd(first, number(length));
    sums.total.set(b_, init_);
    if (stretch == 0) return rest_of_row(sums, first, end);
    sums.running.set(b_, elements_apart(first, stretch));
    emit_for(b_, number(1), number(stretch), number(1), [&](Value* t) {
      const Values next = elements_apart(b_.CreateAdd(first, t), stretch);
      add(sums.running, vectors(width_), next);
    });
    add_lanes(sums);
    rest_of_row(sums, b_.CreateAdd(first, number(stretch * width_)), end);
  }

  /// Returns whether the row has NaNs; null if there are none in its types.
  Value* interleaved_row(Value* first, const RowSums& sums, llvm::AllocaInst* nans) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
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
    sums.total.set(b_, init_);
    const std::int64_t steps = source_.reduced / width_;
    const Values before = elements(width_, first, nullptr);
    look(wide, before);
    sums.running.set(b_, before);
    emit_for(b_, number(1), number(steps), number(1), [&](Value* t) {
      Value* at = b_.CreateAdd(first, b_.CreateMul(t, number(width_)));
      const Values next = elements(width_, at, nullptr);
      look(wide, next);
      add(sums.running, wide, next);
    });
    look(one, init_);
    Value* rest = b_.CreateAdd(first, number(steps * width_));
    Value* end = b_.CreateAdd(first, number(source_.reduced));
    add_lanes(sums);
    emit_for(b_, rest, end, number(1), [&](Value* at) {
      const Values next = elements(1, at, nullptr);
      look(one, next);
      add(sums.total, one, next);
    });
    return any ? b_.CreateOrReduce(b_.CreateLoad(mask, nans)) : nullptr;
  }

  /// Lanes of operand k that are NaN; null if its type has none.
  Value* is_nan(const VectorBuilder& v, std::size_t k, const Lanes& values) const {
    const std::uint64_t infinity = source_.operands[k].infinity;
    if (infinity == 0) return nullptr;
    const unsigned bits = held_bytes_[k] * 8;
    llvm::Type* integers = v.integers(bits);
    Value* magnitude = b_.CreateAnd(v.as_bits(values, held_bytes_[k]),
                                    v.integer(integers, (std::uint64_t(1) << (bits - 1)) - 1));
    return b_.CreateICmpUGT(magnitude, v.integer(integers, infinity));
  }

  /// Planes, and the columns of plane `a`, that units [begin, end) are.
  struct Part {
    Value *begin, *end;
    std::function<Value*(Value*a)> first_column, last_column;
  };
  Part part_of(Value* begin, Value* end) {
    const auto always = [](Value* v) { return [v](Value*) { return v; }; };
    Value *b = number(source_.b), *unit = number(source_.units.size);
    switch (source_.units.are) {
      case ReduceUnits::planes:
        return {b_.CreateMul(begin, unit), b_.CreateMul(end, unit), always(number(0)), always(b)};
      case ReduceUnits::columns: {
        // The last unit has what is left.
        Value* last = b_.CreateSelect(b_.CreateICmpSGE(end, number(source_.b / source_.units.size)),
                                      b, b_.CreateMul(end, unit));
        return {number(0), number(source_.a), always(b_.CreateMul(begin, unit)), always(last)};
      }
      case ReduceUnits::results:
        break;
    }
    const auto within = [this, b](Value* result, Value* a) {
      Value* plane = b_.CreateMul(a, b);
      Value* low = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, plane);
      Value* next = b_.CreateAdd(plane, b);
      return b_.CreateSub(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, low, next), plane);
    };
    return {b_.CreateUDiv(begin, b), b_.CreateUDiv(b_.CreateAdd(end, number(source_.b - 1)), b),
            [within, begin](Value* a) { return within(begin, a); },
            [within, end](Value* a) { return within(end, a); }};
  }

  /// Of the vectors that go through columns: what is left of short rows takes narrower ones.
  llvm::SmallVector<unsigned> widths_of_columns() const {
    constexpr std::int64_t kManyVectors = 8;
    const LoopNest& nest = source_.operands[0].elements.nest;
    const std::int64_t row = nest.by_rows ? std::min(nest.row(), source_.b) : source_.b;
    llvm::SmallVector<unsigned> out = {width_};
    for (unsigned w = width_ / 2; w >= 4 && row < kManyVectors * width_; w /= 2) {
      if ((row % width_) & w) out.push_back(w);
    }
    out.push_back(1);
    return out;
  }

  /// The accumulators of some columns stay in the nearest cache while their rows are read.
  void columns(Value* begin, Value* end) {
    const llvm::SmallVector<unsigned> widths = widths_of_columns();
    const std::int64_t together =
        source_.order == Order::any ? kSumBytes / held_bytes_[0] : kColumns;
    const std::vector<Value*> sums = memory(together);
    const Part part = part_of(begin, end);
    emit_for(b_, part.begin, part.end, number(1), [&](Value* a) {
      Value* last = part.last_column(a);
      emit_for(b_, part.first_column(a), last, number(together), [&](Value* c) {
        Value* n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number(together),
                                            b_.CreateSub(last, c));
        each_sum(n, [&](const VectorBuilder& v, Value* k) { keep(v, splat(v, init_), sums, k); });
        Value* plane = b_.CreateMul(a, number(source_.reduced));
        emit_for(b_, number(0), number(source_.reduced), number(1), [&](Value* r) {
          Value* first = b_.CreateAdd(b_.CreateMul(b_.CreateAdd(plane, r), number(source_.b)), c);
          each_element(widths, first, b_.CreateAdd(first, n),
                       [&](unsigned w, Value* at, Value* column) {
                         const VectorBuilder v = vectors(w);
                         const Values next = elements(w, at, column);
                         Value* k = b_.CreateSub(at, first);
                         keep(v, combined(v, load(v, sums, k), next), sums, k);
                       });
        });
        each_sum(n, [&](const VectorBuilder& v, Value* k) {
          Value* result = b_.CreateAdd(b_.CreateAdd(b_.CreateMul(a, number(source_.b)), c), k);
          store(v, load(v, sums, k), result);
        });
      });
    });
  }
  void each_sum(Value* n, const std::function<void(const VectorBuilder&, Value*)>& f) {
    emit_counts(b_, n, {width_, 1}, [&](unsigned w, Value* k) { f(vectors(w), k); });
  }
  /// One lane for all.
  Values splat(const VectorBuilder& v, Values one) const {
    for (Lanes& l : one) {
      l.value = v.splat(b_.CreateExtractElement(l.value, std::uint64_t(0)));
      if (l.imaginary == nullptr) continue;
      l.imaginary = v.splat(b_.CreateExtractElement(l.imaginary, std::uint64_t(0)));
    }
    return one;
  }

  llvm::IRBuilder<>& b_;
  const Machine& machine_;
  const ReduceSource& source_;
  unsigned width_;
  std::vector<std::unique_ptr<LoopBody>> bodies_;
  std::vector<unsigned> held_bytes_;
  std::vector<Value*> outputs_;
  Values init_;  ///< of one lane
  bool complete_ = true;
};

}  // namespace

bool emit_reduce_function(llvm::Module* module, const Machine& machine, const ReduceSource& source,
                          const char* name) {
  llvm::Function* f = add_loop_function(module, name);
  llvm::IRBuilder<> b(&f->getEntryBlock());
  return ReduceEmitter(b, machine, source).emit(f);
}

}  // namespace tessera::codegen
