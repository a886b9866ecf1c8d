// SPDX-License-Identifier: Apache-2.0
// Emits loops over elements, by vectors.
#include "src/codegen/llvm/loop_function.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "src/codegen/llvm/elementwise_ops.h"

namespace tessera::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;
using Kind = LoopExpr::Kind;

void emit_for(llvm::IRBuilder<>& b, Value* begin, Value* end, Value* step,
              const std::function<void(Value*)>& body) {
  Function* f = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* loop = BasicBlock::Create(b.getContext(), "loop", f);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "after", f);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode* at = b.CreatePHI(b.getInt64Ty(), 2);
  at->addIncoming(begin, before);
  body(at);
  Value* next = b.CreateAdd(at, step);
  at->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
}

namespace {

Lanes constant_of(const VectorBuilder& v, const LoopExpr& program, const LoopExpr::Register& r) {
  const std::byte* from = program.constants.data() + r.constant;
  const auto bytes = std::size_t(r.element_bytes);
  if (bytes == 16) {
    double parts[2];
    std::copy_n(from, 16, reinterpret_cast<std::byte*>(parts));
    llvm::Type* t = v.vector(v.b.getDoubleTy());
    return VectorBuilder::complex(v.constant(t, parts[0]), v.constant(t, parts[1]));
  }
  std::uint64_t bits = 0;
  std::copy_n(from, bytes, reinterpret_cast<std::byte*>(&bits));
  return VectorBuilder::bits(v.integer(v.integers(unsigned(bytes) * 8), bits));
}

}  // namespace

LoopBody::LoopBody(llvm::IRBuilder<>& b, const Machine& machine, const LoopSource& source,
                   unsigned width, const Arguments& arguments)
    : b_(b),
      machine_(machine),
      program_(*source.program),
      nest_(source.nest),
      width_(width),
      pitch_(source.pitch) {
  const std::size_t n = program_.registers.size();
  bases_.resize(n);
  row_.resize(n);
  first_in_window_.resize(n);
  fixed_.resize(n);
  values_.resize(n);
  const VectorBuilder v(b, machine, width);
  for (std::size_t k = 0; k < n; ++k) {
    const Register& r = program_.registers[k];
    const auto bytes = unsigned(r.element_bytes);
    if (nest_.made[k]) {
      // Its block begins with element `begin`.
      bases_[k] = offset(pointer(arguments.made, k), b.CreateNeg(arguments.begin), bytes);
      continue;
    }
    switch (r.kind) {
      case Kind::contiguous:
      case Kind::broadcast:
      case Kind::scalar:
        bases_[k] = offset(pointer(arguments.inputs, std::size_t(r.index)),
                           first_element(r, arguments), bytes);
        if (r.kind == Kind::scalar) fixed_[k] = v.load_splat(bases_[k], bytes);
        break;
      case Kind::array:
        bases_[k] = pointer(arguments.inputs, std::size_t(r.index));
        break;
      case Kind::constant:
        fixed_[k] = constant_of(v, program_, r);
        break;
      case Kind::output:
        if (outputs_.size() <= std::size_t(r.index)) outputs_.resize(std::size_t(r.index) + 1);
        outputs_[std::size_t(r.index)] = k;
        if (arguments.outputs != nullptr) {
          bases_[k] = offset(pointer(arguments.outputs, std::size_t(r.index)),
                             b.CreateSub(first_element(r, arguments), arguments.first), bytes);
        }
        break;
      default:
        break;
    }
  }
}

Value* LoopBody::pointer(Value* list, std::size_t k) const {
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), list, k));
}

/// Of what is read or written, from where its array begins.
Value* LoopBody::first_element(const Register& r, const Arguments& arguments) const {
  Value* out = b_.getInt64(std::uint64_t(r.offset));
  for (const LoopExpr::Start& s : r.starts) {
    Value* at = b_.CreateLoad(b_.getIntNTy(unsigned(byte_size(s.dtype)) * 8),
                              pointer(arguments.inputs, std::size_t(s.input)));
    if (is_signed_integer(s.dtype))
      at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at,
                                    llvm::ConstantInt::get(at->getType(), 0));
    // It is not negative any more: a limit that the type can't reach doesn't matter.
    at = b_.CreateZExt(at, b_.getInt64Ty());
    at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at, b_.getInt64(std::uint64_t(s.limit)));
    out = b_.CreateAdd(out, b_.CreateMul(at, b_.getInt64(std::uint64_t(s.scale))));
  }
  return out;
}

unsigned LoopBody::output_bytes(std::size_t k) const {
  return unsigned(program_.registers[outputs_[k]].element_bytes);
}

Value* LoopBody::offset(Value* base, Value* elements, unsigned bytes) const {
  return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(elements, b_.getInt64(bytes)));
}

bool LoopBody::run(unsigned width, Value* at, Value* column) {
  const VectorBuilder v(b_, machine_, width);
  // All is read before anything is stored: an output may lie where an input did.
  for (std::size_t k = 0; k < program_.registers.size(); ++k) {
    const Kind kind = program_.registers[k].kind;
    if (kind == Kind::temporary || kind == Kind::output || kind == Kind::array) continue;
    values_[k] = read(v, k, at, column);
  }
  for (const LoopExpr::Op& op : program_.ops) {
    if (op.op.kind == BlockOp::Kind::take) {
      values_[std::size_t(op.out)] = taken(v, op);
      continue;
    }
    std::vector<Lanes> operands;
    for (const int r : op.operands) operands.push_back(values_[std::size_t(r)]);
    const std::optional<Lanes> made = emit_operation(v, op.op, operands);
    if (!made) return false;
    values_[std::size_t(op.out)] = *made;
  }
  return complete_;
}

void LoopBody::store(unsigned width, Value* at) {
  const VectorBuilder v(b_, machine_, width);
  if (between_rows_ != nullptr) at = b_.CreateAdd(at, between_rows_);
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const unsigned bytes = output_bytes(k);
    Value* to = offset(bases_[outputs_[k]], at, bytes);
    // Lines of the cache are written as a whole: half a line at least, and where one begins.
    if (streams_ == nullptr || width != width_ || width * bytes < 32) {
      v.store(output(k), bytes, to);
      continue;
    }
    Value* into = b_.CreateAnd(b_.CreatePtrToInt(to, b_.getInt64Ty()),
                               b_.getInt64(std::uint64_t(width * bytes - 1)));
    emit_if(
        b_, b_.CreateAnd(streams_, b_.CreateIsNull(into)),
        [&] { v.store_past_caches(output(k), bytes, to); }, [&] { v.store(output(k), bytes, to); });
  }
}

void LoopBody::may_stream(Value* condition) {
#if defined(__x86_64__)
  streams_ = condition;
#else
  (void)condition;
#endif
}

/// Such stores come in no order: others may read them behind a fence.
void LoopBody::finish_streams() {
#if defined(__x86_64__)
  emit_if(b_, streams_, [&] { b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {}); });
#endif
}

void emit_counts(llvm::IRBuilder<>& b, Value* n, llvm::ArrayRef<unsigned> widths,
                 const std::function<void(unsigned, Value*)>& each) {
  Value* first = b.getInt64(0);
  for (std::size_t k = 0; k < widths.size(); ++k) {
    const unsigned width = widths[k];
    if (k > 0 && width == widths[k - 1]) continue;
    Value* left = b.CreateSub(n, first);
    Value* last = width == 1 ? n : b.CreateSub(n, b.CreateURem(left, b.getInt64(width)));
    emit_for(b, first, last, b.getInt64(width), [&](Value* at) { each(width, at); });
    first = last;
  }
}

namespace {

using Each = std::function<void(unsigned, Value*, Value*)>;

/// Rows of which elements [begin, end) are some.
struct RowsOfRange {
  RowsOfRange(llvm::IRBuilder<>& b, std::int64_t row, Value* begin, Value* end)
      : length(b.getInt64(std::uint64_t(row))), first(b.CreateUDiv(begin, length)) {
    last = b.CreateUDiv(b.CreateAdd(end, b.getInt64(std::uint64_t(row - 1))), length);
    // An empty range may begin within a row.
    last = b.CreateSelect(b.CreateICmpSLT(begin, end), last, first);
  }
  Value *length, *first, *last;
};

/// A loop by periods: their vectors, and what begins or ends within one, element by element.
class Periods {
 public:
  Periods(llvm::IRBuilder<>& b, LoopBody* body, const LoopPeriod& period, unsigned width,
          const Each& each)
      : b_(b), body_(*body), period_(period), width_(width), each_(each) {}

  void emit(Value* begin, Value* end) {
    body_.open_periods(period_);
    if (period_.row == 0) return between(begin, end, nullptr, number(0), end);
    const RowsOfRange rows(b_, period_.row, begin, end);
    emit_for(b_, rows.first, rows.last, number(1), [&](Value* row) {
      Value* start = b_.CreateMul(row, rows.length);
      Value* stop = b_.CreateAdd(start, rows.length);
      Value* from = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, start, begin);
      Value* to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stop, end);
      between(from, to, row, start, stop);
    });
  }

 private:
  Value* number(std::int64_t n) const { return b_.getInt64(std::uint64_t(n)); }
  void one_by_one(Value* from, Value* to) {
    emit_for(b_, from, to, number(1), [&](Value* at) { each_(1, at, nullptr); });
  }
  /// The first elements of a period: by vectors, then by shorter ones.
  void vectors(Value* start, std::int64_t elements) {
    unsigned width = width_;
    for (std::int64_t place = 0; place < elements; place += width) {
      while (place + width > elements) width /= 2;
      body_.set_place(place);
      each_(width, b_.CreateAdd(start, number(place)), nullptr);
    }
    body_.set_place(-1);
  }
  /// Elements [from, to) of the row, or of the range, from `start` to `stop`.
  void between(Value* from, Value* to, Value* row, Value* start, Value* stop) {
    Value* all = number(period_.elements);
    // The first period that begins here, and the first that doesn't end here.
    Value* before = b_.CreateAdd(b_.CreateSub(from, start), number(period_.elements - 1));
    Value* first = b_.CreateUDiv(before, all);
    Value* last = b_.CreateUDiv(b_.CreateSub(to, start), all);
    const auto begin_of = [&](Value* n) { return b_.CreateAdd(start, b_.CreateMul(n, all)); };
    Value* whole = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, begin_of(first), to);
    one_by_one(from, whole);
    emit_for(b_, first, last, number(1), [&](Value* n) {
      body_.enter_period(row, n);
      vectors(begin_of(n), period_.elements);
    });
    Value* rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole, begin_of(last));
    if (period_.row == 0) return one_by_one(rest, to);
    // The row's last period, if all there is of it is asked for.
    const std::int64_t count = period_.row / period_.elements;
    Value* begins = b_.CreateICmpEQ(rest, begin_of(number(count)));
    Value* is_whole = b_.CreateAnd(begins, b_.CreateICmpEQ(to, stop));
    emit_if(
        b_, is_whole,
        [&] {
          body_.enter_period(row, number(count));
          vectors(rest, period_.row % period_.elements);
        },
        [&] { one_by_one(rest, to); });
  }

  llvm::IRBuilder<>& b_;
  LoopBody& body_;
  const LoopPeriod period_;
  const unsigned width_;
  const Each& each_;
};

}  // namespace

void emit_range(llvm::IRBuilder<>& b, LoopBody* body, const LoopNest& nest,
                llvm::ArrayRef<unsigned> widths, Value* begin, Value* end,
                const std::function<void(unsigned, Value*, Value*)>& each) {
  const auto stretch = [&](Value* from, Value* to, Value* column_of_from) {
    emit_counts(b, b.CreateSub(to, from), widths, [&](unsigned width, Value* k) {
      each(width, b.CreateAdd(from, k),
           column_of_from == nullptr ? nullptr : b.CreateAdd(column_of_from, k));
    });
  };
  if (nest.periodic) {
    const unsigned width = widths.front();
    return Periods(b, body, period_of(nest, width), width, each).emit(begin, end);
  }
  if (!nest.by_rows) return stretch(begin, end, nullptr);
  const RowsOfRange rows(b, nest.row(), begin, end);
  emit_for(b, rows.first, rows.last, b.getInt64(1), [&](Value* row) {
    Value* start = b.CreateMul(row, rows.length);
    Value* stop = b.CreateAdd(start, rows.length);
    Value* from = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, start, begin);
    Value* to = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stop, end);
    body->enter_row(row);
    stretch(from, to, b.CreateSub(from, start));
  });
}

unsigned vector_width(const LoopExpr& program, const Machine& machine) {
  unsigned widest = 1;
  for (const LoopExpr::Register& r : program.registers) {
    widest = std::max(widest, unsigned(r.element_bytes));
  }
  // Complex numbers are two vectors.
  return std::max(2U, machine.vector_bytes / std::min(widest, 8U));
}

std::optional<std::vector<Lanes>> emit_program(const VectorBuilder& v, const LoopExpr& program,
                                               const std::vector<Lanes>& inputs) {
  std::vector<Lanes> values(program.registers.size());
  std::vector<Lanes> out;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const LoopExpr::Register& r = program.registers[k];
    if (r.kind == Kind::contiguous || r.kind == Kind::scalar) {
      values[k] = inputs.at(std::size_t(r.index));
    } else if (r.kind == Kind::constant) {
      values[k] = constant_of(v, program, r);
    } else if (r.generated() || r.kind == Kind::array) {
      return std::nullopt;
    } else if (r.kind == Kind::output && out.size() <= std::size_t(r.index)) {
      out.resize(std::size_t(r.index) + 1);
    }
  }
  for (const LoopExpr::Op& op : program.ops) {
    std::vector<Lanes> operands;
    for (const int r : op.operands) operands.push_back(values[std::size_t(r)]);
    const std::optional<Lanes> made = emit_operation(v, op.op, operands);
    if (!made) return std::nullopt;
    values[std::size_t(op.out)] = *made;
    const LoopExpr::Register& r = program.registers[std::size_t(op.out)];
    if (r.kind == Kind::output) out[std::size_t(r.index)] = *made;
  }
  return out;
}

Function* add_loop_function(llvm::Module* module, const char* name) {
  llvm::LLVMContext& context = module->getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* number = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                              {pointer, pointer, pointer, number, number, number, number}, false);
  Function* f = Function::Create(type, Function::ExternalLinkage, name, module);
  BasicBlock::Create(context, "entry", f);
  return f;
}

bool emit_loop_function(llvm::Module* module, const Machine& machine, const LoopSource& source,
                        const char* name) {
  Function* f = add_loop_function(module, name);
  llvm::IRBuilder<> b(&f->getEntryBlock());
  const unsigned width = vector_width(*source.program, machine);
  Value* begin = f->getArg(3);
  LoopBody body(b, machine, source, width,
                {f->getArg(0), f->getArg(1), f->getArg(2), begin, f->getArg(5)});
  body.may_stream(b.CreateIsNotNull(f->getArg(6)));
  bool complete = true;
  emit_range(b, &body, source.nest, {width, 1}, begin, f->getArg(4),
             [&](unsigned w, Value* at, Value* column) {
               complete = complete && body.run(w, at, column);
               if (complete) body.store(w, at);
             });
  body.finish_streams();
  b.CreateRetVoid();
  return complete;
}

}  // namespace tessera::codegen
