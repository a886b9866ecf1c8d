// SPDX-License-Identifier: Apache-2.0
// Emits short steps one after the other. Numbers that only their code uses become registers.
#include "src/codegen/llvm/step_function.h"

#include <vector>

#include "src/codegen/kernels/chains/step_program.h"
#include "src/codegen/llvm/loop_function.h"

namespace tessera::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

/// The widths of the vectors that a row is made of. Empty if all rows take more than a few: these
/// have code of their own each, so that numbers between steps stay in registers.
std::vector<unsigned> vectors_of(std::int64_t row, std::int64_t rows, unsigned most) {
  constexpr std::size_t kMostVectors = 6;
  std::vector<unsigned> out;
  unsigned width = most;
  for (std::int64_t left = row; left > 0 && out.size() <= kMostVectors; left -= width) {
    while (std::int64_t(width) > left) width /= 2;
    out.push_back(width);
  }
  if (out.size() * std::size_t(rows) > kMostVectors) out.clear();
  return out;
}

class StepEmitter {
 public:
  StepEmitter(Function* f, const Machine& machine, const StepSource& source)
      : f_(f), b_(&f->getEntryBlock()), machine_(machine), source_(source) {}

  bool run() {
    const StepProgram& program = *source_.program;
    Value* scratch = element(f_->getArg(2), 0);
    for (std::size_t k = 0; k < program.inputs.size(); ++k) {
      Value* given = element(f_->getArg(0), k);
      inputs_.push_back(source_.local_inputs[k] ? local(program.inputs[k], given) : given);
    }
    std::vector<Value*> given;
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      given.push_back(element(f_->getArg(1), k));
      outputs_.push_back(source_.local_outputs[k] ? local(program.outputs[k], given[k]) : given[k]);
    }
    for (std::size_t k = 0; k < program.scratch.size(); ++k) {
      scratch_.push_back(source_.local_scratch[k]
                             ? local(program.scratch[k], nullptr)
                             : b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch,
                                                             std::uint64_t(source_.scratch[k])));
    }
    emit(program.steps);
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      if (source_.local_outputs[k]) copy(outputs_[k], given[k], program.outputs[k]);
    }
    b_.CreateRetVoid();
    return complete_;
  }

 private:
  Value* element(Value* list, std::size_t k) {
    return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), list, k));
  }

  void copy(Value* from, Value* to, std::int64_t bytes) {
    b_.CreateMemCpy(to, llvm::MaybeAlign(1), from, llvm::MaybeAlign(1), std::uint64_t(bytes));
  }

  Value* local(std::int64_t bytes, Value* from) {
    llvm::IRBuilder<> entry(&f_->getEntryBlock(), f_->getEntryBlock().begin());
    auto* type = llvm::ArrayType::get(entry.getInt8Ty(), std::uint64_t(bytes));
    llvm::AllocaInst* out = entry.CreateAlloca(type);
    out->setAlignment(llvm::Align(64));
    if (from != nullptr) copy(from, out, bytes);
    return out;
  }

  Value* at(const Place& p) const {
    return (p.kind == Place::Kind::input    ? inputs_
            : p.kind == Place::Kind::output ? outputs_
                                            : scratch_)[std::size_t(p.number)];
  }

  /// In memory that goes as soon as what it points to is known.
  Value* list(const std::vector<Place>& places, std::int64_t first_byte = 0) {
    llvm::IRBuilder<> entry(&f_->getEntryBlock(), f_->getEntryBlock().begin());
    Value* out = entry.CreateAlloca(
        llvm::ArrayType::get(entry.getPtrTy(), std::max<std::size_t>(1, places.size())));
    for (std::size_t k = 0; k < places.size(); ++k) {
      Value* from =
          b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), at(places[k]), std::uint64_t(first_byte));
      b_.CreateStore(from, b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), out, k));
    }
    return out;
  }

  void emit(const StepProgram::Block& steps) {
    for (const StepProgram::Step& step : steps) {
      std::visit([&](const auto& what) { emit(what); }, step.what);
    }
  }

  void emit(const StepProgram::Copy& c) { copy(at(c.from), at(c.to), c.bytes); }

  void emit(const StepProgram::Link& link) {
    const std::optional<LoopNest>& nest = source_.nests[next_link_++];
    if (!nest) return call();
    const KernelBody::Loop& loop = *link.kernel.body.as<KernelBody::Loop>();
    const LoopSource source{loop.program, *nest};
    Value* zero = b_.getInt64(0);
    const std::int64_t n = link.kernel.units * loop.elements_per_unit;
    const unsigned most = vector_width(*source.program, machine_);
    if (n == 0) return;
    const std::int64_t row = source.nest.by_rows ? source.nest.row() : n;
    const std::vector<unsigned> few =
        source.nest.periodic ? std::vector<unsigned>() : vectors_of(row, n / row, most);
    const unsigned width = few.empty() ? most : few.front();
    LoopBody body(b_, machine_, source, width,
                  {list(link.inputs), list(link.outputs, link.first_byte), nullptr, zero, zero});
    const auto each = [&](unsigned w, Value* at, Value* column) {
      complete_ = complete_ && body.run(w, at, column);
      if (complete_) body.store(w, at);
    };
    if (!few.empty()) {
      for (std::int64_t first = 0; first < n; first += row) {
        if (source.nest.by_rows) body.enter_row(b_.getInt64(std::uint64_t(first / row)));
        std::int64_t column = 0;
        for (const unsigned w : few) {
          each(w, b_.getInt64(std::uint64_t(first + column)), b_.getInt64(std::uint64_t(column)));
          column += w;
        }
      }
    } else if (const LoopPeriod period = period_of(source.nest, width);
               source.nest.periodic && period.row == 0) {
      emit_periods(&body, source.nest, period, width, n, each);
    } else {
      emit_range(b_, &body, source.nest, {width, 1}, zero, b_.getInt64(std::uint64_t(n)), each);
    }
  }

  /// Of so many elements; the last period, which isn't whole, by shorter and shorter vectors.
  template <class Each>
  void emit_periods(LoopBody* body, const LoopNest& nest, const LoopPeriod& period, unsigned width,
                    std::int64_t n, const Each& each) {
    const auto number = [&](std::int64_t k) { return b_.getInt64(std::uint64_t(k)); };
    const std::int64_t whole = n / period.elements * period.elements;
    if (whole > 0) {
      emit_range(b_, body, nest, {width, 1}, number(0), number(whole), each);
    } else {
      body->open_periods(period);
    }
    if (whole == n) return;
    body->enter_period(nullptr, number(whole / period.elements));
    for (std::int64_t place = 0; place < n - whole; place += width) {
      while (place + width > n - whole) width /= 2;
      body->set_place(place);
      each(width, number(whole + place), nullptr);
    }
    body->set_place(-1);
  }

  void call() {
    Value* function = element(f_->getArg(2), 1 + 2 * next_call_);
    Value* argument = element(f_->getArg(2), 2 + 2 * next_call_);
    ++next_call_;
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
    b_.CreateCall(type, function, {argument});
  }

  BasicBlock* block(const char* name) { return BasicBlock::Create(b_.getContext(), name, f_); }

  void emit(const StepProgram::Branches& branches) {
    std::vector<BasicBlock*> starts;
    for (std::size_t k = 0; k < branches.blocks.size(); ++k) starts.push_back(block("branch"));
    BasicBlock* after = block("after");
    if (branches.boolean) {
      Value* selector = b_.CreateLoad(b_.getInt8Ty(), at(branches.selector));
      b_.CreateCondBr(b_.CreateIsNotNull(selector), starts.at(0), starts.back());
    } else {
      Value* selector = b_.CreateLoad(b_.getInt32Ty(), at(branches.selector));
      llvm::SwitchInst* choice = b_.CreateSwitch(selector, starts.back(), unsigned(starts.size()));
      for (std::size_t k = 0; k + 1 < starts.size(); ++k) {
        choice->addCase(b_.getInt32(std::uint32_t(k)), starts[k]);
      }
    }
    for (std::size_t k = 0; k < starts.size(); ++k) {
      b_.SetInsertPoint(starts[k]);
      emit(branches.blocks[k]);
      b_.CreateBr(after);
    }
    b_.SetInsertPoint(after);
  }

  void emit(const StepProgram::Loop& loop) {
    BasicBlock *condition = block("condition"), *body = block("body"), *after = block("after");
    b_.CreateBr(condition);
    b_.SetInsertPoint(condition);
    emit(loop.condition);
    Value* predicate = b_.CreateLoad(b_.getInt8Ty(), at(loop.predicate));
    b_.CreateCondBr(b_.CreateIsNotNull(predicate), body, after);
    b_.SetInsertPoint(body);
    emit(loop.body);
    b_.CreateBr(condition);
    b_.SetInsertPoint(after);
  }

  Function* f_;
  llvm::IRBuilder<> b_;
  const Machine& machine_;
  const StepSource& source_;
  std::vector<Value*> inputs_, outputs_, scratch_;
  std::size_t next_link_ = 0, next_call_ = 0;
  bool complete_ = true;
};

}  // namespace

bool emit_step_function(llvm::Module* module, const Machine& machine, const StepSource& source,
                        const char* name) {
  return StepEmitter(add_loop_function(module, name), machine, source).run();
}

}  // namespace tessera::codegen
