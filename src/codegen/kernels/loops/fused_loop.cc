// SPDX-License-Identifier: Apache-2.0
// Fused loops: the interpreter that runs an elementwise program by blocks, and calls of their code.
#include "src/codegen/kernels/loops/fused_loop.h"

#include <algorithm>
#include <cstring>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/read_index.h"

namespace tessera::codegen {

namespace {
constexpr std::size_t kRegisters = 64;
}  // namespace

FusedLoop::FusedLoop(const LoopExpr& program)
    : registers_(program.registers),
      views_(program.views),
      constants_(program.constants),
      only_source_(program.only_source) {
  for (const LoopExpr::Op& op : program.ops) {
    Op made;
    made.function = block_function(op.op);
    if (op.op.kind == BlockOp::Kind::reduce_precision) {
      made.attributes = std::make_shared<const ir::ReducePrecisionAttrs>(op.op.precision);
    } else if (op.op.kind == BlockOp::Kind::take) {
      made.attributes = std::make_shared<const std::int32_t>(op.op.last);
    }
    made.operands = op.operands;
    made.out = op.out;
    made.scalars = op.scalars;
    ops_.push_back(std::move(made));
  }
  for (const auto& [source, first_input] : program.sources) {
    sources_.emplace_back(source.make(), first_input);
  }
  if (only_source_ >= 0) block_ = 4096;
  place_registers();
}

FusedLoop::FusedLoop(const std::shared_ptr<const LoopExpr>& program, bool compiled)
    : FusedLoop(*program) {
  if (!compiled || ops_.empty()) return;
  const LoopSource source{program, nest_of(*program, /*periodic=*/true)};
  code_ = code_of(source, program->key());
  if (!code_) return;
  for (std::size_t r = 0; r < registers_.size(); ++r) {
    if (source.nest.made[r]) made_.push_back(int(r));
  }
}

std::shared_ptr<const FusedLoop> FusedLoop::with_pitch(
    const std::shared_ptr<const LoopExpr>& program, std::int64_t row, std::int64_t pitch) {
  const LoopSource source{program, nest_of(*program, /*periodic=*/false, row), pitch};
  if (!source.nest.by_rows || source.nest.row() != row || source.nest.any_made) return nullptr;
  FusedLoop loop(*program);
  KeyWriter key("rows");
  key.add_all(program->key(), row, pitch);
  loop.code_ = loop.ops_.empty() ? nullptr : code_of(source, key.take());
  return loop.code_ ? std::make_shared<const FusedLoop>(std::move(loop)) : nullptr;
}

void FusedLoop::place_registers() {
  // Places in scratch memory, given back after the last use.
  std::vector<std::size_t> last(registers_.size(), 0);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    for (const int r : ops_[i].operands) last[std::size_t(r)] = i;
    last[std::size_t(ops_[i].out)] = std::max(last[std::size_t(ops_[i].out)], i);
  }
  std::vector<std::int64_t> free;
  int widest = 1;
  const auto take = [&](Register& r) {
    if (free.empty()) free.push_back(places_++);
    r.constant = free.back();
    free.pop_back();
    widest = std::max(widest, r.element_bytes);
  };
  for (std::size_t r = 0; r < registers_.size(); ++r) {
    if (!registers_[r].generated()) continue;
    generated_.push_back(int(r));
    if (int(r) != only_source_) take(registers_[r]);
  }
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    auto& out = registers_[std::size_t(ops_[i].out)];
    if (out.kind == Kind::temporary) take(out);
    std::vector<int> dying = ops_[i].operands;
    dying.push_back(ops_[i].out);
    std::sort(dying.begin(), dying.end());
    dying.erase(std::unique(dying.begin(), dying.end()), dying.end());
    for (const int r : dying) {
      const auto& reg = registers_[std::size_t(r)];
      const bool placed = reg.kind == Kind::temporary || reg.generated();
      if (placed && last[std::size_t(r)] == i) free.push_back(reg.constant);
    }
  }
  if (places_ > 0) {
    const std::int64_t fitting = (24 << 10) / (std::int64_t(places_) * widest);
    block_ = std::clamp<std::int64_t>(fitting / 64 * 64, 128, 2048);
    place_bytes_ = block_ * widest;
  }
}

void FusedLoop::generate(const Register& r, const std::byte* source, std::int64_t begin,
                         std::int64_t n, std::byte* out) const {
  if (r.kind == Kind::iota) {
    const std::int64_t size = r.dims[1], inner = r.dims[2];
    const auto fill = [&](auto* o, const auto& convert) {
      std::int64_t value = begin / inner % size, left = inner - begin % inner;
      for (std::int64_t i = 0; i < n;) {
        const std::int64_t run = std::min(left, n - i);
        const auto v = convert(value);
        for (std::int64_t k = 0; k < run; ++k) o[i + k] = v;
        i += run;
        left = inner;
        value = value + 1 == size ? 0 : value + 1;
      }
    };
    if (is_small_float(r.dtype)) {
      fill(reinterpret_cast<std::uint8_t*>(out),
           [&](std::int64_t n) { return small_float_bits(r.dtype, double(n)); });
      return;
    }
    dispatch_dtype(r.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      fill(reinterpret_cast<T*>(out), [](std::int64_t n) { return convert_element<T>(n); });
    });
    return;
  }
  const std::size_t rank = r.dims.size();
  if (r.window) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t rest = begin + i, from = 0;
      for (std::size_t d = rank; d-- > 0; rest /= r.dims[d]) {
        const std::int64_t c = rest % r.dims[d];
        from += (int(d) == r.window.dim ? r.window.of(c) : c) * r.strides[d];
      }
      std::memcpy(out + i * r.element_bytes, source + from * r.element_bytes,
                  std::size_t(r.element_bytes));
    }
    return;
  }
  const std::int64_t inner = r.dims[rank - 1];
  constexpr std::size_t kFew = 8;
  std::int64_t few[kFew];
  Dims many;
  if (rank > kFew) many.resize(rank);
  std::int64_t* at = rank > kFew ? many.data() : few;
  std::int64_t rest = begin, offset = 0;
  for (std::size_t d = rank; d-- > 0;) {
    at[d] = rest % r.dims[d];
    rest /= r.dims[d];
    offset += at[d] * r.strides[d];
  }
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t run = std::min(inner - at[rank - 1], n - i);
    copy_strided(source + offset * r.element_bytes, r.strides[rank - 1], run, r.element_bytes,
                 out + i * r.element_bytes);
    i += run;
    offset -= at[rank - 1] * r.strides[rank - 1];
    at[rank - 1] = 0;
    for (std::size_t d = rank - 1; d-- > 0;) {
      offset += r.strides[d];
      if (++at[d] < r.dims[d]) break;
      offset -= r.dims[d] * r.strides[d];
      at[d] = 0;
    }
  }
}

namespace {

/// A buffer for each scope that is open on this thread.
struct ScratchBuffers {
  std::vector<std::vector<std::byte>> buffers;
  std::size_t open = 0;
};
ScratchBuffers& scratch_buffers() { return thread_scratch<ScratchBuffers>(); }

}  // namespace

ScratchMemory::ScratchMemory(std::size_t bytes) {
  ScratchBuffers& all = scratch_buffers();
  if (all.open == all.buffers.size()) all.buffers.emplace_back();
  std::vector<std::byte>& mine = all.buffers[all.open++];
  if (mine.size() < bytes + 64) mine.resize(bytes + 64);
  data_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(mine.data()) + 63) &
                                       ~std::uintptr_t(63));
}
ScratchMemory::~ScratchMemory() { --scratch_buffers().open; }

void FusedLoop::run(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                    std::int64_t end, std::int64_t first, bool stream) const {
  if (code_) {
    run_code(inputs, outputs, begin, end, first, stream && !overwrites(inputs, outputs));
  } else {
    interpret(inputs, outputs, begin, end, first);
  }
}

bool FusedLoop::overwrites(const std::byte* const* inputs, std::byte* const* outputs) const {
  for (const Register& out : registers_) {
    if (out.kind != Kind::output) continue;
    for (const Register& r : registers_) {
      if (r.kind == Kind::contiguous && inputs[r.index] == outputs[out.index]) return true;
    }
  }
  return false;
}

void FusedLoop::run_code(const std::byte* const* inputs, std::byte* const* outputs,
                         std::int64_t begin, std::int64_t end, std::int64_t first,
                         bool stream) const {
  const auto code = reinterpret_cast<LoopFunction>(code_->entry());
  if (made_.empty()) return code(inputs, outputs, nullptr, begin, end, first, stream ? 1 : 0);
  constexpr std::int64_t kBlock = 2048;
  std::vector<std::byte*> made(registers_.size(), nullptr);
  std::int64_t bytes = 0;
  for (const int k : made_) bytes += kBlock * registers_[std::size_t(k)].element_bytes;
  const ScratchMemory scratch{std::size_t(bytes)};
  std::byte* next = scratch.data();
  std::vector<ResolvedView> views;
  for (const int k : made_) {
    const Register& r = registers_[std::size_t(k)];
    made[std::size_t(k)] = next;
    next += kBlock * r.element_bytes;
    if (r.kind == Kind::composed) {
      views.emplace_back(views_[std::size_t(r.index)], inputs, r.element_bytes);
    }
  }
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    std::size_t view = 0;
    for (const int k : made_) {
      const Register& r = registers_[std::size_t(k)];
      if (r.kind == Kind::composed) {
        views[view++].generate(at, n, made[std::size_t(k)]);
      } else {
        make(r, inputs, at, n, made[std::size_t(k)]);
      }
    }
    code(inputs, outputs, made.data(), at, at + n, first, stream ? 1 : 0);
  }
}

namespace {

/// Of what is read or written, from where its array begins.
std::int64_t offset_of(const LoopExpr::Register& r, const std::byte* const* inputs) {
  std::int64_t out = r.offset;
  for (const LoopExpr::Start& s : r.starts) {
    const std::int64_t at = read_index(inputs[s.input], s.dtype);
    out += std::clamp<std::int64_t>(at, 0, s.limit) * s.scale;
  }
  return out;
}

const std::byte* first_element(const LoopExpr::Register& r, const std::byte* array,
                               const std::byte* const* inputs) {
  return array + offset_of(r, inputs) * r.element_bytes;
}

}  // namespace

void FusedLoop::make(const Register& r, const std::byte* const* inputs, std::int64_t begin,
                     std::int64_t n, std::byte* out) const {
  if (r.kind == Kind::source) {
    const auto& [source, first_input] = sources_[std::size_t(r.index)];
    return source->generate(inputs + first_input, begin, n, out);
  }
  generate(r, r.kind == Kind::iota ? nullptr : first_element(r, inputs[r.index], inputs), begin, n,
           out);
}

void FusedLoop::interpret(const std::byte* const* inputs, std::byte* const* outputs,
                          std::int64_t begin, std::int64_t end, std::int64_t first) const {
  const std::int64_t block = block_ == 0 ? std::max<std::int64_t>(1, end - begin) : block_;
  const ScratchMemory scratch(std::size_t(places_) * std::size_t(place_bytes_));
  std::byte* const places = scratch.data();
  std::byte* few[kRegisters];
  std::vector<std::byte*> many;
  std::byte** pointers = few;
  if (registers_.size() > kRegisters) {
    many.resize(registers_.size());
    pointers = many.data();
  }
  std::vector<ResolvedView> views;
  for (const int g : generated_) {
    const Register& r = registers_[std::size_t(g)];
    if (r.kind != Kind::composed) continue;
    views.emplace_back(views_[std::size_t(r.index)], inputs, r.element_bytes);
  }
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t n = std::min(block, end - at);
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      const Register& r = registers_[i];
      switch (r.kind) {
        case Kind::contiguous:
          pointers[i] = const_cast<std::byte*>(first_element(r, inputs[r.index], inputs)) +
                        at * r.element_bytes;
          break;
        case Kind::array:
          pointers[i] = const_cast<std::byte*>(inputs[r.index]);
          break;
        case Kind::scalar:
          pointers[i] = const_cast<std::byte*>(first_element(r, inputs[r.index], inputs));
          break;
        case Kind::constant:
          pointers[i] = const_cast<std::byte*>(constants_.data()) + r.constant;
          break;
        case Kind::output:
          pointers[i] = outputs[r.index] + (offset_of(r, inputs) + at - first) * r.element_bytes;
          break;
        default:
          pointers[i] = int(i) == only_source_ ? outputs[0] + (at - first) * r.element_bytes
                                               : places + r.constant * place_bytes_;
      }
    }
    for (const int g : generated_) {
      const Register& r = registers_[std::size_t(g)];
      if (r.kind == Kind::composed) {
        views[std::size_t(r.index)].generate(at, n, pointers[g]);
        continue;
      }
      make(r, inputs, at, n, pointers[g]);
    }
    for (const Op& op : ops_) {
      const std::byte* in[3];
      for (std::size_t k = 0; k < op.operands.size(); ++k) in[k] = pointers[op.operands[k]];
      op.function({op.attributes.get(), pointers[op.out], in, op.scalars, n});
    }
  }
}

namespace {

/// So many bytes don't stay in a cache until they are read again: measured.
constexpr std::int64_t kStreamFrom = std::int64_t(24) << 20;

struct LoopAttrs {
  FusedLoop loop;
  bool streams;
};

std::int64_t bytes_of_element(const LoopExpr& program) {
  std::int64_t out = 0;
  for (const LoopExpr::Register& r : program.registers) {
    if (r.kind == LoopExpr::Kind::output) out += r.element_bytes;
  }
  return out;
}

struct LoopOperation {
  bool compiled = false;  ///< it runs long enough, and there is code for all that it computes
};
enum class LoopKernel : std::uint8_t { code, blocks };
constexpr KernelLine<LoopOperation, LoopKernel> kLoops[] = {
    {{"loop/compiled", "long enough that compiling it pays"},
     [](const LoopOperation& l) { return l.compiled; },
     LoopKernel::code},
    {{"loop/blocks", "too short to compile, or without code: interpreted in blocks of elements"},
     always<LoopOperation>,
     LoopKernel::blocks},
};

}  // namespace

KernelFamily loop_family() { return family_of("loop", kLoops); }

KernelDescriptor loop_kernel(std::shared_ptr<const LoopExpr> program, std::int64_t elements,
                             std::size_t inputs, std::int64_t times) {
  using namespace prices;
  KernelDescriptor kernel;
  kernel.units = elements;
  kernel.nanoseconds =
      call::kLoop + double(elements) * (program->nanoseconds + element::kInput * double(inputs));
  // The number of elements is the task's.
  const auto& line =
      choose(kLoops, LoopOperation{worth_compiling(kernel.nanoseconds, program.get())});
  kernel.label = &line.label;
  const bool compiled = line.how == LoopKernel::code;
  kernel.nanoseconds =
      call::kLoop + double(elements) * (program->nanoseconds * time_of_code(compiled) +
                                        element::kInput * double(inputs) +
                                        byte::kWritten * double(bytes_of_element(*program)));
  if (program->only_source < 0) {
    kernel.body = KernelBody::Loop{program};
  } else {
    const LoopExpr::Register& made = program->registers[std::size_t(program->only_source)];
    const auto& parts = program->sources[std::size_t(made.index)].first.parts;
    if (parts) kernel.body = KernelBody::Parts{parts, made.element_bytes};
  }
  const bool streams = elements * bytes_of_element(*program) * times >= kStreamFrom;
  kernel.key = kernel_key("loop", program->key(), compiled, streams);
  kernel.make = [program = std::move(program), compiled, streams] {
    return runtime::Kernel{
        [](const runtime::KernelCall& call) {
          const auto& a = *static_cast<const LoopAttrs*>(call.attributes);
          a.loop.run(call.inputs, call.outputs, call.begin, call.end, 0,
                     a.streams && call.may_stream);
        },
        std::make_shared<const LoopAttrs>(LoopAttrs{FusedLoop(program, compiled), streams})};
  };
  return kernel;
}

}  // namespace tessera::codegen
