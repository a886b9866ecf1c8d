// SPDX-License-Identifier: Apache-2.0
// Emits reductions: rows lane by lane, and columns side by side.
#include "src/codegen/llvm/reduce_function.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "src/codegen/llvm/conversions.h"
#include "src/codegen/llvm/elementwise_ops.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using llvm::Value;

/// Sums in memory, that become registers where they can.
class Sums {
 public:
  Sums(const VectorBuilder& v, DType held) : complex_(is_complex(held)) {
    llvm::Type* part = v.vector(v.element(held));
    real_ = v.b.CreateAlloca(part);
    if (complex_) imaginary_ = v.b.CreateAlloca(part);
    part_ = part;
  }
  Lanes get(llvm::IRBuilder<>& b) const {
    Value* re = b.CreateLoad(part_, real_);
    return complex_ ? VectorBuilder::complex(re, b.CreateLoad(part_, imaginary_))
                    : VectorBuilder::bits(re);
  }
  void set(llvm::IRBuilder<>& b, const Lanes& v) const {
    b.CreateStore(v.value, real_);
    if (complex_) b.CreateStore(v.imaginary, imaginary_);
  }

 private:
  bool complex_;
  llvm::Type* part_;
  Value *real_, *imaginary_ = nullptr;
};

class ReduceEmitter {
 public:
  ReduceEmitter(llvm::IRBuilder<>& b, const Machine& machine, const ReduceSource& source)
      : b_(b),
        machine_(machine),
        source_(source),
        held_(source.combine.type),
        held_bytes_(unsigned(byte_size(held_))),
        width_(std::min(vector_width(*source.elements.program, machine),
                        std::max(2U, machine.vector_bytes / std::min(held_bytes_, 8U)))) {}

  bool emit(llvm::Function* f) {
    const LoopBody::Arguments arguments = {f->getArg(0), nullptr, nullptr, nullptr, nullptr};
    LoopBody body(b_, machine_, source_.elements, width_, arguments);
    body_ = &body;
    out_ = b_.CreateLoad(b_.getPtrTy(), f->getArg(1));
    Value* at =
        b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), f->getArg(0), std::uint64_t(source_.init));
    init_ = VectorBuilder(b_, machine_, 1)
                .load_splat(b_.CreateLoad(b_.getPtrTy(), at), unsigned(byte_size(source_.dtype)));
    Value* begin = f->getArg(3);
    Value* end = f->getArg(4);
    if (source_.short_rows) {
      short_rows(begin, end);
    } else if (source_.b == 1) {
      Value* each = b_.getInt64(std::uint64_t(source_.rows));
      rows(b_.CreateMul(begin, each), b_.CreateMul(end, each));
    } else {
      columns(begin, end);
    }
    b_.CreateRetVoid();
    return complete_;
  }

 private:
  /// Memory for the sums of some columns: half of the nearest cache.
  static constexpr std::uint64_t kSumBytes = 16384;
  VectorBuilder vectors(unsigned width) const { return VectorBuilder(b_, machine_, width); }

  /// Elements in the type of the accumulator.
  Lanes held(const VectorBuilder& v, const Lanes& x) {
    if (source_.dtype == held_) return numbers(v, x);
    Value* lifted = emit_lift(v, source_.dtype, x);
    if (lifted != nullptr) return VectorBuilder::bits(lifted);
    complete_ = false;
    return VectorBuilder::bits(v.constant(v.vector(v.element(held_)), 0));
  }
  /// Of the accumulator's type already: as numbers, not as bits or a mask.
  Lanes numbers(const VectorBuilder& v, const Lanes& x) const {
    if (is_complex(held_)) return v.as_complex(held_, x);
    return VectorBuilder::bits(v.as(held_, x));
  }
  Lanes combined(const VectorBuilder& v, const Lanes& x, const Lanes& y) {
    const std::optional<Lanes> out = emit_operation(v, source_.combine, {x, y});
    if (!out) {
      complete_ = false;
      return x;
    }
    return numbers(v, *out);
  }
  void store(const VectorBuilder& v, const Lanes& sums, Value* element) {
    std::optional<Lanes> out = sums;
    if (source_.dtype != held_) out = emit_convert(v, held_, source_.dtype, sums);
    if (!out) {
      complete_ = false;
      return;
    }
    const auto bytes = unsigned(byte_size(source_.dtype));
    Value* to = b_.CreateGEP(b_.getInt8Ty(), out_, b_.CreateMul(element, b_.getInt64(bytes)));
    v.store(*out, bytes, to);
  }

  /// What changes nothing that it is combined with.
  std::optional<Lanes> identity(const VectorBuilder& v) const {
    llvm::Type* type = v.vector(v.element(held_));
    const Opcode op = source_.combine.opcode;
    if (is_complex(held_)) {
      if (op != Opcode::add) return std::nullopt;
      return VectorBuilder::complex(v.constant(type, -0.0), v.constant(type, -0.0));
    }
    const bool is_signed = is_signed_integer(held_);
    const std::uint64_t most = ~std::uint64_t(0) >> (64 - held_bytes_ * 8 + (is_signed ? 1 : 0));
    const double infinity = std::numeric_limits<double>::infinity();
    const auto number = [&](double of_floats, std::uint64_t of_integers) {
      return VectorBuilder::bits(is_float(held_) ? v.constant(type, of_floats)
                                                 : v.integer(type, of_integers));
    };
    const bool pred = held_ == DType::pred;
    switch (op) {
      case Opcode::add:
        return number(-0.0, 0);
      case Opcode::multiply:
        return number(1, 1);
      case Opcode::maximum:
        return number(-infinity, is_signed ? ~most : 0);
      case Opcode::minimum:
        return number(infinity, pred ? 1 : most);
      case Opcode::and_:
        return number(0, pred ? 1 : ~std::uint64_t(0));
      case Opcode::or_:
      case Opcode::xor_:
        return number(0, 0);
      default:
        return std::nullopt;
    }
  }

  /// The upper lanes combined with the lower ones, of which there are n.
  Lanes halved(const Lanes& all, unsigned n) {
    llvm::SmallVector<int> low, high;
    for (unsigned k = 0; k < n; ++k) {
      low.push_back(int(k));
      high.push_back(int(n + k));
    }
    const auto part = [&](const llvm::SmallVector<int>& lanes) {
      Lanes out = all;
      out.value = b_.CreateShuffleVector(all.value, lanes);
      if (all.imaginary != nullptr) out.imaginary = b_.CreateShuffleVector(all.imaginary, lanes);
      return out;
    };
    const Lanes x = part(low), y = part(high);
    return combined(vectors(n), x, y);
  }
  /// The lanes combined to one, by halves.
  Lanes folded(Lanes all) {
    for (unsigned n = width_ / 2; n >= 1; n /= 2) all = halved(all, n);
    return all;
  }

  /// Each row in vectors, the last ones narrower, all of which are there at once.
  void short_rows(Value* begin, Value* end) {
    emit_for(b_, begin, end, b_.getInt64(1), [&](Value* row) {
      body_->enter_row(row);
      Value* first = b_.CreateMul(row, b_.getInt64(std::uint64_t(source_.reduced)));
      std::optional<Lanes> sum;
      std::int64_t column = 0;
      for (unsigned w = width_; w >= 1; w /= 2) {
        if (sum) sum = halved(*sum, w);
        const VectorBuilder v = vectors(w);
        for (; complete_ && source_.reduced - column >= std::int64_t(w); column += w) {
          Value* at = b_.getInt64(std::uint64_t(column));
          complete_ = body_->run(w, b_.CreateAdd(first, at), at);
          if (!complete_) return;
          const Lanes x = held(v, body_->output(0));
          sum = sum ? combined(v, *sum, x) : x;
        }
      }
      const VectorBuilder one = vectors(1);
      store(one, combined(one, held(one, init_), *sum), row);
    });
  }

  /// Each row lane by lane, in several sums side by side if its elements cost little. The order
  /// depends on the length of rows alone.
  void rows(Value* begin, Value* end) {
    const VectorBuilder wide = vectors(width_), one = vectors(1);
    const auto neutral = identity(wide);
    const auto neutral_one = identity(one);
    if (!neutral) {
      complete_ = false;
      return;
    }
    constexpr std::size_t kCheapOps = 6, kSums = 4;
    const std::size_t n = source_.elements.program->ops.size() <= kCheapOps ? kSums : 1;
    std::vector<Sums> sums;
    for (std::size_t k = 0; k < n; ++k) sums.emplace_back(wide, held_);
    const Sums rest(one, held_);
    Value* length = b_.getInt64(std::uint64_t(source_.reduced));
    emit_for(b_, begin, end, b_.getInt64(1), [&](Value* row) {
      for (const Sums& s : sums) s.set(b_, *neutral);
      rest.set(b_, *neutral_one);
      Value* first = b_.CreateMul(row, length);
      emit_range(b_, body_, source_.elements.nest, {unsigned(n) * width_, width_, 1}, first,
                 b_.CreateAdd(first, length), [&](unsigned w, Value* at, Value* column) {
                   const unsigned each = w == 1 ? 1 : width_;
                   for (unsigned k = 0; k * each < w; ++k) {
                     const Sums& to = w == 1 ? rest : sums[k];
                     add(to, each, plus(at, k * each), plus(column, k * each));
                   }
                 });
      Lanes total = sums[0].get(b_);
      for (std::size_t k = 1; k < n; ++k) total = combined(wide, total, sums[k].get(b_));
      Lanes out = combined(one, folded(total), rest.get(b_));
      store(one, combined(one, held(one, init_), out), row);
    });
  }
  Value* plus(Value* at, unsigned k) {
    return at == nullptr || k == 0 ? at : b_.CreateAdd(at, b_.getInt64(k));
  }
  void add(const Sums& to, unsigned width, Value* at, Value* column) {
    if (!complete_ || !body_->run(width, at, column)) {
      complete_ = false;
      return;
    }
    const VectorBuilder v = vectors(width);
    to.set(b_, combined(v, to.get(b_), held(v, body_->output(0))));
  }

  /// The accumulators of some columns stay in the nearest cache while their rows are read.
  void columns(Value* begin, Value* end) {
    const auto number = [&](std::int64_t n) { return b_.getInt64(std::uint64_t(n)); };
    const std::uint64_t columns = kSumBytes / held_bytes_;
    Value* sums = b_.CreateAlloca(b_.getInt8Ty(), b_.getInt64(kSumBytes));
    llvm::cast<llvm::AllocaInst>(sums)->setAlignment(llvm::Align(64));
    Value *a0 = begin, *a1 = end, *c0 = b_.getInt64(0), *c1 = number(source_.b);
    if (source_.by_rows) {
      a0 = b_.CreateMul(begin, number(source_.rows));
      a1 = b_.CreateMul(end, number(source_.rows));
    } else {
      a0 = b_.getInt64(0);
      a1 = number(source_.a);
      c0 = b_.CreateMul(begin, number(source_.columns));
      // The last unit has what is left.
      const std::int64_t units = source_.b / source_.columns;
      c1 = b_.CreateSelect(b_.CreateICmpSGE(end, number(units)), c1,
                           b_.CreateMul(end, number(source_.columns)));
    }
    emit_for(b_, a0, a1, b_.getInt64(1), [&](Value* a) {
      emit_for(b_, c0, c1, b_.getInt64(columns), [&](Value* c) {
        Value* n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.getInt64(columns),
                                            b_.CreateSub(c1, c));
        each_sum(n, [&](const VectorBuilder& v, Value* k) {
          Lanes init = held(vectors(1), init_);
          init.value = v.splat(b_.CreateExtractElement(init.value, std::uint64_t(0)));
          if (init.imaginary != nullptr) {
            init.imaginary = v.splat(b_.CreateExtractElement(init.imaginary, std::uint64_t(0)));
          }
          v.store(init, held_bytes_, sum(sums, k));
        });
        Value* plane = b_.CreateMul(a, number(source_.reduced));
        emit_for(b_, b_.getInt64(0), number(source_.reduced), b_.getInt64(1), [&](Value* r) {
          Value* first = b_.CreateAdd(b_.CreateMul(b_.CreateAdd(plane, r), number(source_.b)), c);
          emit_range(b_, body_, source_.elements.nest, {width_, 1}, first, b_.CreateAdd(first, n),
                     [&](unsigned w, Value* at, Value* column) {
                       if (!complete_ || !body_->run(w, at, column)) {
                         complete_ = false;
                         return;
                       }
                       const VectorBuilder v = vectors(w);
                       Value* to = sum(sums, b_.CreateSub(at, first));
                       const Lanes before = numbers(v, v.load(to, held_bytes_));
                       v.store(combined(v, before, held(v, body_->output(0))), held_bytes_, to);
                     });
        });
        each_sum(n, [&](const VectorBuilder& v, Value* k) {
          Value* element = b_.CreateAdd(b_.CreateAdd(b_.CreateMul(a, number(source_.b)), c), k);
          store(v, numbers(v, v.load(sum(sums, k), held_bytes_)), element);
        });
      });
    });
  }
  Value* sum(Value* sums, Value* k) {
    return b_.CreateGEP(b_.getInt8Ty(), sums, b_.CreateMul(k, b_.getInt64(held_bytes_)));
  }
  void each_sum(Value* n, const std::function<void(const VectorBuilder&, Value*)>& f) {
    emit_counts(b_, n, {width_, 1}, [&](unsigned w, Value* k) { f(vectors(w), k); });
  }

  llvm::IRBuilder<>& b_;
  const Machine& machine_;
  const ReduceSource& source_;
  const DType held_;
  const unsigned held_bytes_, width_;
  LoopBody* body_ = nullptr;
  Value* out_ = nullptr;
  Lanes init_;
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
