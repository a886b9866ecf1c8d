// SPDX-License-Identifier: Apache-2.0
// Runs short steps: as code that has the loops among them in it, or one call after the other.
#include "src/codegen/kernels/chains/step_program.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "src/base/threads/run_memory.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/concatenation.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// A program with its kernels. Steps are numbered instructions; loops are jumps.
struct ProgramAttrs {
  struct Call {
    runtime::Kernel kernel;
    std::int64_t units = 0;
    std::size_t inputs = 0, outputs = 0;
  };
  struct Operand {
    Place::Kind kind;
    std::int64_t number;  ///< of the input or output; where in the scratch memory
    std::int64_t first_byte = 0;
  };
  struct Instruction {
    enum class Kind : std::uint8_t { call, copy, jump, jump_unless, jump_unless_branch } kind;
    std::int64_t number = 0;  ///< of the call; bytes of a copy; where to go
    Operand from{}, to{};     ///< of a copy; `from` is a predicate or a selector
    std::int32_t branch = 0, branches = 0;
  };
  std::vector<Call> calls;
  std::vector<Operand> operands;  ///< inputs, then outputs, of one call after the other
  std::vector<Instruction> instructions;
  std::size_t bytes = 0;  ///< of scratch memory
  /// If there is, it has the calls' addresses and what they are called with.
  std::shared_ptr<const KernelCode> code;
};

class Memory {
 public:
  Memory(const ProgramAttrs& a, const KernelCall& call)
      : call_(call),
        memory_(a.bytes + a.calls.size() * sizeof(KernelCall) +
                (a.operands.size() + 1 + 2 * a.calls.size()) * sizeof(std::byte*)),
        calls_(reinterpret_cast<KernelCall*>(memory_.data() + a.bytes)),
        pointers_(reinterpret_cast<std::byte**>(calls_ + a.calls.size())) {
    std::byte** next = pointers_;
    const ProgramAttrs::Operand* operand = a.operands.data();
    for (std::size_t k = 0; k < a.calls.size(); ++k) {
      const ProgramAttrs::Call& c = a.calls[k];
      std::byte** const first = next;
      for (std::size_t o = 0; o < c.inputs + c.outputs; ++o) *next++ = at(*operand++);
      new (calls_ + k) KernelCall{c.kernel.attributes.get(), first, first + c.inputs, 0, c.units};
    }
    pointers_ = next;
  }

  std::byte* at(const ProgramAttrs::Operand& o) const {
    // Kernels don't write their inputs.
    std::byte* const whole = o.kind == Place::Kind::input
                                 ? const_cast<std::byte*>(call_.inputs[o.number])
                             : o.kind == Place::Kind::output ? call_.outputs[o.number]
                                                             : memory_.data() + o.number;
    return whole + o.first_byte;
  }
  std::byte* scratch() const { return memory_.data(); }
  KernelCall* calls() const { return calls_; }
  std::byte** rest() const { return pointers_; }

 private:
  const KernelCall& call_;
  const ScratchMemory memory_;
  KernelCall* const calls_;
  std::byte** pointers_;
};

void run_code(const ProgramAttrs& a, const KernelCall& call) {
  const Memory memory(a, call);
  std::byte** const made = memory.rest();
  made[0] = memory.scratch();
  for (std::size_t k = 0; k < a.calls.size(); ++k) {
    made[1 + 2 * k] = reinterpret_cast<std::byte*>(a.calls[k].kernel.function);
    made[2 + 2 * k] = reinterpret_cast<std::byte*>(memory.calls() + k);
  }
  reinterpret_cast<LoopFunction>(a.code->entry())(call.inputs, call.outputs, made, 0, 1, 0, 0);
}

/// Each call once: loops might not end.
void rehearse(const ProgramAttrs& a, const KernelCall& call) {
  const Memory memory(a, call);
  for (std::size_t k = 0; k < a.calls.size(); ++k) {
    a.calls[k].kernel.function(memory.calls()[k]);
  }
}

void run_steps(const KernelCall& call) {
  const auto& a = *static_cast<const ProgramAttrs*>(call.attributes);
  if (RunMemory::rehearses()) return rehearse(a, call);
  if (a.code) return run_code(a, call);
  using Kind = ProgramAttrs::Instruction::Kind;
  const Memory memory(a, call);
  for (std::size_t n = 0; n < a.instructions.size(); ++n) {
    const ProgramAttrs::Instruction& i = a.instructions[n];
    switch (i.kind) {
      case Kind::call:
        a.calls[std::size_t(i.number)].kernel.function(memory.calls()[i.number]);
        break;
      case Kind::copy:
        std::memcpy(memory.at(i.to), memory.at(i.from), std::size_t(i.number));
        break;
      case Kind::jump:
        n = std::size_t(i.number) - 1;
        break;
      case Kind::jump_unless:
        if (*memory.at(i.from) == std::byte(0)) n = std::size_t(i.number) - 1;
        break;
      case Kind::jump_unless_branch: {
        std::int32_t index;
        std::memcpy(&index, memory.at(i.from), sizeof index);
        if (index < 0 || index >= i.branches) index = i.branches - 1;
        if (index != i.branch) n = std::size_t(i.number) - 1;
        break;
      }
    }
  }
}

/// More is more code than is worth it.
constexpr std::size_t kMostInCode = 64;
/// Of what a register or two hold.
constexpr std::int64_t kLocalBytes = 64;

StepSource source_of(const std::shared_ptr<const StepProgram>& shared) {
  const StepProgram& program = *shared;
  StepSource source{shared, {}, {}, 0, {}, {}, {}};
  for (const std::int64_t bytes : program.scratch) {
    source.scratch.push_back(source.scratch_bytes);
    source.scratch_bytes += rounded_scratch(bytes);
  }
  const auto small = [](const std::vector<std::int64_t>& bytes) {
    std::vector<bool> out;
    for (const std::int64_t b : bytes) out.push_back(b <= kLocalBytes);
    return out;
  };
  source.local_inputs = small(program.inputs);
  source.local_outputs = small(program.outputs);
  source.local_scratch = small(program.scratch);
  std::size_t in_code = 0;
  for_each_link(program.steps, [&](const StepProgram::Link& link) {
    std::optional<LoopNest> nest;
    const LoopExpr* loop = link.kernel.body.loop();
    if (loop != nullptr && in_code < kMostInCode) nest = nest_of(*loop, /*periodic=*/true);
    if (nest && nest->any_made) nest.reset();
    in_code += nest ? 1 : 0;
    if (!nest) {
      for (const auto* places : {&link.inputs, &link.outputs}) {
        for (const Place& p : *places) {
          (p.kind == Place::Kind::input    ? source.local_inputs
           : p.kind == Place::Kind::output ? source.local_outputs
                                           : source.local_scratch)[std::size_t(p.number)] = false;
        }
      }
    }
    source.nests.push_back(std::move(nest));
  });
  return source;
}

/// Chains of short steps that would not be compiled one by one are not worth it either.
bool is_worth_compiling(const StepProgram& program, double nanoseconds) {
  bool worth = worth_compiling(nanoseconds, nullptr);
  for (const StepProgram::Step& s : program.steps) {
    worth = worth || std::holds_alternative<StepProgram::Loop>(s.what);
  }
  for_each_link(program.steps, [&](const StepProgram::Link& link) {
    const LoopExpr* loop = link.kernel.body.loop();
    worth = worth || (loop != nullptr && loop->has_functions());
  });
  return worth;
}

class ProgramMaker {
 public:
  explicit ProgramMaker(std::shared_ptr<const StepProgram> program)
      : program_(std::move(program)), attrs_(std::make_shared<ProgramAttrs>()) {}

  std::shared_ptr<ProgramAttrs> make(const std::string& key, bool compiled, double nanoseconds) {
    const StepSource source = source_of(program_);
    attrs_->bytes = source.scratch_bytes;
    offsets_ = source.scratch;
    if (compiled) attrs_->code = code_of(source, key, nanoseconds);
    std::size_t n = 0;
    for_each_link(program_->steps, [&](const StepProgram::Link& link) {
      if (!attrs_->code || !source.nests[n]) add_call(link);
      ++n;
    });
    if (!attrs_->code) add(program_->steps);
    return attrs_;
  }

 private:
  using Instruction = ProgramAttrs::Instruction;
  using Kind = Instruction::Kind;

  ProgramAttrs::Operand operand(const Place& p) const {
    return {p.kind, p.kind == Place::Kind::scratch ? offsets_[std::size_t(p.number)] : p.number};
  }

  void add_call(const StepProgram::Link& link) {
    attrs_->calls.push_back(
        {link.kernel.make(), link.kernel.units, link.inputs.size(), link.outputs.size()});
    for (const Place& p : link.inputs) attrs_->operands.push_back(operand(p));
    for (const Place& p : link.outputs) {
      attrs_->operands.push_back(operand(p));
      attrs_->operands.back().first_byte = link.first_byte;
    }
  }

  void add(const StepProgram::Block& steps) {
    std::vector<Instruction>& to = attrs_->instructions;
    for (const StepProgram::Step& step : steps) {
      if (std::holds_alternative<StepProgram::Link>(step.what)) {
        to.push_back({Kind::call, next_call_++});
      } else if (const auto* copy = std::get_if<StepProgram::Copy>(&step.what)) {
        to.push_back({Kind::copy, copy->bytes, operand(copy->from), operand(copy->to)});
      } else if (const auto* loop = std::get_if<StepProgram::Loop>(&step.what)) {
        const auto begin = std::int64_t(to.size());
        add(loop->condition);
        const std::size_t exit = to.size();
        to.push_back({Kind::jump_unless, 0, operand(loop->predicate)});
        add(loop->body);
        to.push_back({Kind::jump, begin});
        to[exit].number = std::int64_t(to.size());
      } else {
        add(std::get<StepProgram::Branches>(step.what));
      }
    }
  }

  void add(const StepProgram::Branches& branches) {
    std::vector<Instruction>& to = attrs_->instructions;
    const std::size_t n = branches.blocks.size();
    std::vector<std::size_t> ends;
    for (std::size_t b = 0; b < n; ++b) {
      const std::size_t test = to.size();
      if (b + 1 < n) {
        to.push_back({branches.boolean ? Kind::jump_unless : Kind::jump_unless_branch,
                      0,
                      operand(branches.selector),
                      {},
                      std::int32_t(b),
                      std::int32_t(n)});
      }
      add(branches.blocks[b]);
      if (b + 1 == n) break;
      ends.push_back(to.size());
      to.push_back({Kind::jump});
      to[test].number = std::int64_t(to.size());
    }
    for (const std::size_t end : ends) to[end].number = std::int64_t(to.size());
  }

  std::shared_ptr<const StepProgram> program_;
  std::shared_ptr<ProgramAttrs> attrs_;
  std::vector<std::int64_t> offsets_;
  std::int64_t next_call_ = 0;
};

void add_to_key(KeyWriter& key, const StepProgram::Block& steps);

void add_to_key(KeyWriter& key, const StepProgram::Step& step) {
  key.add(step.what.index());
  if (const auto* link = std::get_if<StepProgram::Link>(&step.what)) {
    add_to_key(key, static_cast<const Link&>(*link));
    key.add(link->first_byte);
  } else if (const auto* copy = std::get_if<StepProgram::Copy>(&step.what)) {
    key.add_all(copy->from, copy->to, copy->bytes);
  } else if (const auto* loop = std::get_if<StepProgram::Loop>(&step.what)) {
    add_to_key(key, loop->condition);
    key.add(loop->predicate);
    add_to_key(key, loop->body);
  } else {
    const auto& branches = std::get<StepProgram::Branches>(step.what);
    key.add_all(branches.selector, branches.boolean, branches.blocks.size());
    for (const StepProgram::Block& block : branches.blocks) add_to_key(key, block);
  }
}

void add_to_key(KeyWriter& key, const StepProgram::Block& steps) {
  key.add(steps.size());
  for (const StepProgram::Step& s : steps) add_to_key(key, s);
}

/// Loops one behind the other as a link each.
StepProgram::Block with_parts(StepProgram::Block steps) {
  StepProgram::Block out;
  for (StepProgram::Step& step : steps) {
    if (auto* loop = std::get_if<StepProgram::Loop>(&step.what)) {
      loop->condition = with_parts(std::move(loop->condition));
      loop->body = with_parts(std::move(loop->body));
    } else if (auto* branches = std::get_if<StepProgram::Branches>(&step.what)) {
      for (StepProgram::Block& b : branches->blocks) b = with_parts(std::move(b));
    }
    const auto* link = std::get_if<StepProgram::Link>(&step.what);
    const auto* made = link != nullptr ? link->kernel.body.as<KernelBody::Parts>() : nullptr;
    if (made == nullptr) {
      out.push_back(std::move(step));
      continue;
    }
    std::int64_t first = link->first_byte;
    for (const ConcatenationPart& part : *made->parts) {
      StepProgram::Link one;
      one.kernel = loop_kernel(part.program, element_count(part.dims), part.inputs.size());
      for (const int k : part.inputs) one.inputs.push_back(link->inputs.at(std::size_t(k)));
      one.outputs = link->outputs;
      one.first_byte = first;
      first += one.kernel.units * made->element_bytes;
      if (one.kernel.units > 0) out.emplace_back().what = std::move(one);
    }
  }
  return out;
}

}  // namespace

StepProgram::Block with_places(const StepProgram::Block& steps,
                               const std::function<Place(const Place&)>& moved) {
  StepProgram::Block out = steps;
  for (StepProgram::Step& step : out) {
    if (auto* link = std::get_if<StepProgram::Link>(&step.what)) {
      for (auto* places : {&link->inputs, &link->outputs}) {
        for (Place& p : *places) p = moved(p);
      }
    } else if (auto* copy = std::get_if<StepProgram::Copy>(&step.what)) {
      copy->from = moved(copy->from);
      copy->to = moved(copy->to);
    } else if (auto* loop = std::get_if<StepProgram::Loop>(&step.what)) {
      loop->condition = with_places(loop->condition, moved);
      loop->predicate = moved(loop->predicate);
      loop->body = with_places(loop->body, moved);
    } else {
      auto& branches = std::get<StepProgram::Branches>(step.what);
      branches.selector = moved(branches.selector);
      for (StepProgram::Block& block : branches.blocks) block = with_places(block, moved);
    }
  }
  return out;
}

KernelDescriptor step_program_kernel(StepProgram program, double nanoseconds) {
  static constexpr runtime::KernelLabel kLabel = {
      "chain/steps",
      "short steps in a row, or a loop of them: calls would take longer than they do"};
  program.steps = with_parts(std::move(program.steps));
  KernelDescriptor kernel;
  kernel.label = &kLabel;
  kernel.nanoseconds = nanoseconds;
  KeyWriter key("steps");
  key.add_all(program.inputs, program.outputs, program.scratch);
  add_to_key(key, program.steps);
  kernel.key = key.take();
  const bool compiled = is_worth_compiling(program, nanoseconds);
  const auto steps = std::make_shared<const StepProgram>(std::move(program));
  kernel.body = KernelBody::Steps{steps};
  kernel.make = [steps, key = kernel.key, compiled, nanoseconds] {
    return runtime::Kernel{run_steps, ProgramMaker(steps).make(key, compiled, nanoseconds)};
  };
  return kernel;
}

}  // namespace tessera::codegen
