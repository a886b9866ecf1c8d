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
    : b_(b), machine_(machine), program_(*source.program), nest_(source.nest), width_(width) {
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
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const unsigned bytes = output_bytes(k);
    Value* to = offset(bases_[outputs_[k]], at, bytes);
    // Lines of the cache are written as a whole: half a line at least, and where one begins.
    if (streams_ == nullptr || width != width_ || width * bytes < 32) {
      v.store(output(k), bytes, to);
      continue;
    }
    Function* f = b_.GetInsertBlock()->getParent();
    BasicBlock* past = BasicBlock::Create(b_.getContext(), "past_caches", f);
    BasicBlock* plain = BasicBlock::Create(b_.getContext(), "plain", f);
    BasicBlock* stored = BasicBlock::Create(b_.getContext(), "stored", f);
    Value* into = b_.CreateAnd(b_.CreatePtrToInt(to, b_.getInt64Ty()),
                               b_.getInt64(std::uint64_t(width * bytes - 1)));
    b_.CreateCondBr(b_.CreateAnd(streams_, b_.CreateIsNull(into)), past, plain);
    b_.SetInsertPoint(past);
    v.store_past_caches(output(k), bytes, to);
    b_.CreateBr(stored);
    b_.SetInsertPoint(plain);
    v.store(output(k), bytes, to);
    b_.CreateBr(stored);
    b_.SetInsertPoint(stored);
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
  Function* f = b_.GetInsertBlock()->getParent();
  BasicBlock* fence = BasicBlock::Create(b_.getContext(), "fence", f);
  BasicBlock* end = BasicBlock::Create(b_.getContext(), "end", f);
  b_.CreateCondBr(streams_, fence, end);
  b_.SetInsertPoint(fence);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
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
    const LoopPeriod period = period_of(nest, width);
    Value* all = b.getInt64(std::uint64_t(period.elements));
    const auto one_by_one = [&](Value* from, Value* to) {
      emit_for(b, from, to, b.getInt64(1), [&](Value* at) { each(1, at, nullptr); });
    };
    // The first period that begins here, and the first that doesn't end here.
    Value* first =
        b.CreateUDiv(b.CreateAdd(begin, b.getInt64(std::uint64_t(period.elements - 1))), all);
    Value* last = b.CreateUDiv(end, all);
    Value* from = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateMul(first, all), end);
    one_by_one(begin, from);
    body->open_periods(period);
    emit_for(b, first, last, b.getInt64(1), [&](Value* number) {
      body->enter_period(number);
      Value* start = b.CreateMul(number, all);
      for (std::int64_t n = 0; n * width < period.elements; ++n) {
        body->set_vector(n);
        each(width, b.CreateAdd(start, b.getInt64(std::uint64_t(n * width))), nullptr);
      }
    });
    body->set_vector(-1);
    one_by_one(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, b.CreateMul(last, all)), end);
    return;
  }
  if (!nest.by_rows) return stretch(begin, end, nullptr);
  Value* length = b.getInt64(std::uint64_t(nest.row()));
  Value* first_row = b.CreateUDiv(begin, length);
  Value* last_row =
      b.CreateUDiv(b.CreateAdd(end, b.getInt64(std::uint64_t(nest.row() - 1))), length);
  // An empty range may begin within a row.
  last_row = b.CreateSelect(b.CreateICmpSLT(begin, end), last_row, first_row);
  emit_for(b, first_row, last_row, b.getInt64(1), [&](Value* row) {
    Value* start = b.CreateMul(row, length);
    Value* stop = b.CreateAdd(start, length);
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
