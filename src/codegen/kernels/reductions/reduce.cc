// SPDX-License-Identifier: Apache-2.0
// Reduce kernels: rows, columns and many short rows of one op, and programs as reducers.
#include "src/codegen/kernels/reductions/reduce.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "src/base/contains.h"
#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/combine.h"
#include "src/codegen/kernels/reductions/compiled_reduce.h"
#include "src/codegen/kernels/reductions/reduce_table.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using runtime::KernelCall;

// -- One commutative op ---------------------------------------------------------------------------

/// An operand as the kernel has it: see ReduceOperand.
struct OperandLoop {
  int first_input = 0;
  std::shared_ptr<const FusedLoop> program;
};

struct SingleAttrs {
  ReduceShape shape;
  DType dtype = DType::f32;  ///< of the elements
  DType held = DType::f32;   ///< of the sums: f32 for f16 and bf16, rounded once at the end
  BlockFunction op = nullptr;
  bool by_rows = false;      ///< units are rows of a, else columns of b
  std::int64_t columns = 1;  ///< of a unit; the last one may have more
  OperandLoop operand;
  int init = 1;
};

constexpr std::int64_t kLanes = 1024;

struct Buffers {
  alignas(64) std::byte acc[kLanes * 16];
  alignas(64) std::byte values[kLanes * 16];
  alignas(64) std::byte made[kLanes * 16];
};

Buffers& buffers() {
  struct Kept {
    std::unique_ptr<Buffers> all = std::make_unique<Buffers>();
  };
  return *thread_scratch<Kept>().all;
}

/// The elements to be reduced, wherever they come from.
class Elements {
 public:
  /// Those before `end` are all read, in order: many may be made at a time.
  Elements(const KernelCall& call, const SingleAttrs& s, std::int64_t end)
      : program_(s.operand.program.get()),
        inputs_(call.inputs + s.operand.first_input),
        bytes_(std::int64_t(byte_size(s.dtype))),
        end_(end) {}

  static std::int64_t most(std::int64_t bytes) {
    return std::int64_t(sizeof(Buffers::made)) / bytes;
  }

  const std::byte* get(std::int64_t at, std::int64_t n) {
    if (program_ == nullptr) return inputs_[0] + at * bytes_;
    std::byte* made = buffers().made;
    if (at < from_ || at + n > to_) {
      from_ = at;
      to_ = std::max(at + n, std::min(at + most(bytes_), end_));
      program_->run(inputs_, &made, from_, to_, from_);
    }
    return made + (at - from_) * bytes_;
  }

 private:
  const FusedLoop* program_;
  const std::byte* const* inputs_;
  std::int64_t bytes_, end_;
  std::int64_t from_ = 0, to_ = 0;
};

/// Loads n elements as the held type.
const std::byte* load(const SingleAttrs& s, const std::byte* from, std::int64_t n,
                      std::byte* scratch) {
  if (s.dtype == s.held) return from;
  const std::byte* in[] = {from};
  lift_block(s.dtype)({nullptr, scratch, in, 0, n});
  return scratch;
}

void store(const SingleAttrs& s, const std::byte* held, std::int64_t n, std::byte* to) {
  const std::byte* in[] = {held};
  const BlockFunction f =
      s.dtype == s.held ? copy_block(byte_size(s.held)) : convert_block(s.held, s.dtype);
  f({nullptr, to, in, 0, n});
}

void op_into(const SingleAttrs& s, std::byte* acc, const std::byte* value, std::int64_t n) {
  const std::byte* in[] = {acc, value};
  s.op({nullptr, acc, in, 0, n});
}

/// A contiguous run: lane by lane, then the lanes by halves. The order of a sum depends on its
/// length alone.
void reduce_row(const SingleAttrs& s, Elements& elements, std::int64_t row, std::int64_t n,
                const std::byte* init, std::byte* out) {
  Buffers& b = buffers();
  const auto wide = std::int64_t(byte_size(s.held));
  const auto values = [&](std::int64_t at, std::int64_t count) {
    return load(s, elements.get(at, count), count, b.values);
  };
  std::int64_t lanes = std::min(n, kLanes);
  if (lanes > 0) {
    std::memcpy(b.acc, values(row, lanes), std::size_t(lanes * wide));
    for (std::int64_t i = lanes; i < n; i += lanes) {
      const std::int64_t m = std::min(lanes, n - i);
      op_into(s, b.acc, values(row + i, m), m);
    }
    while (lanes > 1) {
      const std::int64_t half = (lanes + 1) / 2;
      op_into(s, b.acc, b.acc + half * wide, lanes - half);
      lanes = half;
    }
  }
  alignas(16) std::byte first[16];
  std::memcpy(first, load(s, init, 1, b.values), std::size_t(wide));
  if (n > 0) op_into(s, first, b.acc, 1);
  store(s, first, 1, out);
}

/// Columns [c0, c0 + n) of one [reduced, b] plane.
void reduce_columns(const SingleAttrs& s, Elements& elements, std::int64_t plane, std::int64_t n,
                    const std::byte* init, std::byte* out) {
  Buffers& b = buffers();
  copy_strided(load(s, init, 1, b.values), 0, n, int(byte_size(s.held)), b.acc);
  for (std::int64_t r = 0; r < s.shape.reduced; ++r) {
    const std::byte* from = elements.get(plane + r * s.shape.b, n);
    op_into(s, b.acc, load(s, from, n, b.values), n);
  }
  store(s, b.acc, n, out);
}

/// Many short rows [a0, a1): side by side, so that no row pays for a call.
void reduce_short_rows(const SingleAttrs& s, const KernelCall& call, Elements& elements,
                       std::int64_t a0, std::int64_t a1) {
  Buffers& b = buffers();
  const auto bytes = std::int64_t(byte_size(s.dtype));
  alignas(64) static thread_local std::byte picked[kLanes * 16];
  // What is made has to fit.
  const std::int64_t lanes =
      s.operand.program ? std::min(kLanes, Elements::most(bytes) / s.shape.reduced) : kLanes;
  for (std::int64_t first = a0; first < a1; first += lanes) {
    const std::int64_t n = std::min(lanes, a1 - first);
    copy_strided(load(s, call.inputs[s.init], 1, b.values), 0, n, int(byte_size(s.held)), b.acc);
    const std::byte* rows = elements.get(first * s.shape.reduced, n * s.shape.reduced);
    for (std::int64_t r = 0; r < s.shape.reduced; ++r) {
      copy_strided(rows + r * bytes, s.shape.reduced, n, int(bytes), picked);
      op_into(s, b.acc, load(s, picked, n, b.values), n);
    }
    store(s, b.acc, n, call.outputs[0] + first * bytes);
  }
}

void run_single(const KernelCall& call) {
  const auto& s = *static_cast<const SingleAttrs*>(call.attributes);
  const auto bytes = std::int64_t(byte_size(s.dtype));
  const std::byte* init = call.inputs[s.init];
  std::byte* out = call.outputs[0];
  const std::int64_t plane = s.shape.reduced * s.shape.b;
  const std::int64_t a0 = s.by_rows ? call.begin : 0, a1 = s.by_rows ? call.end : s.shape.a;
  const std::int64_t b0 = s.by_rows ? 0 : call.begin * s.columns;
  const std::int64_t b1 =
      s.by_rows || (call.end + 1) * s.columns > s.shape.b ? s.shape.b : call.end * s.columns;
  const bool all_columns = b0 == 0 && b1 == s.shape.b && s.shape.b <= kLanes;
  Elements elements(call, s, all_columns ? a1 * plane : 0);
  if (s.shape.b == 1 && s.shape.reduced <= 32) return reduce_short_rows(s, call, elements, a0, a1);
  for (std::int64_t a = a0; a < a1; ++a) {
    if (s.shape.b == 1) {
      reduce_row(s, elements, a * plane, s.shape.reduced, init, out + a * bytes);
      continue;
    }
    for (std::int64_t c = b0; c < b1; c += kLanes) {
      reduce_columns(s, elements, a * plane + c, std::min(kLanes, b1 - c), init,
                     out + (a * s.shape.b + c) * bytes);
    }
  }
}

// -- Any scalar computation -----------------------------------------------------------------------

struct GeneralAttrs {
  ReduceShape shape;
  std::shared_ptr<const FusedLoop> program;
  std::vector<std::int64_t> bytes;  ///< element size of each operand
  std::vector<OperandLoop> operands;
  int init = 0;
};

constexpr std::int64_t kChunk = 256;

/// Rows of each operand for `n` lanes, and the lanes' sums.
struct Lanes {
  std::vector<std::vector<std::byte>> acc, values;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;

  explicit Lanes(const GeneralAttrs& g) {
    const std::size_t k = g.bytes.size();
    acc.resize(k);
    values.resize(k);
    for (std::size_t i = 0; i < k; ++i) {
      acc[i].resize(std::size_t(kChunk * g.bytes[i]));
      values[i].resize(std::size_t(kChunk * g.bytes[i]));
      in.push_back(acc[i].data());
      out.push_back(acc[i].data());
    }
    for (std::size_t i = 0; i < k; ++i) in.push_back(values[i].data());
  }
  /// sums = f(sums, values) in lanes [0, n).
  void step(const GeneralAttrs& g, std::int64_t n) { g.program->run(in.data(), out.data(), 0, n); }
};

/// One long contiguous row: lanes take a stretch of it each, and are combined in order.
void reduce_long_row(const GeneralAttrs& g, const KernelCall& call, std::int64_t row,
                     Lanes* lanes) {
  const std::size_t k = g.bytes.size();
  const std::int64_t length = g.shape.reduced / kChunk;  // of a lane's stretch
  const auto gather = [&](std::vector<std::vector<std::byte>>* to, std::int64_t first,
                          std::int64_t stride, std::int64_t n) {
    for (std::size_t i = 0; i < k; ++i) {
      const auto size = std::size_t(g.bytes[i]);
      const std::byte* from = call.inputs[i] + std::size_t(row * g.shape.reduced + first) * size;
      std::byte* at = (*to)[i].data();
      for (std::int64_t l = 0; l < n; ++l, at += size, from += stride * std::int64_t(size)) {
        std::memcpy(at, from, size);
      }
    }
  };
  gather(&lanes->acc, 0, length, kChunk);
  for (std::int64_t t = 1; t < length; ++t) {
    gather(&lanes->values, t, length, kChunk);
    lanes->step(g, kChunk);
  }
  // Lane 0 takes the initial value's place: init op lane 0 op lane 1 ... op the rest.
  std::vector<std::vector<std::byte>> sums = lanes->acc;
  const auto add = [&](std::size_t i, const std::byte* from) {
    std::memcpy(lanes->values[i].data(), from, std::size_t(g.bytes[i]));
  };
  for (std::size_t i = 0; i < k; ++i) {
    std::memcpy(lanes->acc[i].data(), call.inputs[k + i], std::size_t(g.bytes[i]));
  }
  for (std::int64_t l = 0; l < kChunk; ++l) {
    for (std::size_t i = 0; i < k; ++i) add(i, sums[i].data() + l * g.bytes[i]);
    lanes->step(g, 1);
  }
  for (std::int64_t r = length * kChunk; r < g.shape.reduced; ++r) {
    for (std::size_t i = 0; i < k; ++i) {
      add(i, call.inputs[i] + (row * g.shape.reduced + r) * g.bytes[i]);
    }
    lanes->step(g, 1);
  }
  for (std::size_t i = 0; i < k; ++i) {
    std::memcpy(call.outputs[i] + row * g.bytes[i], lanes->acc[i].data(), std::size_t(g.bytes[i]));
  }
}

void run_general(const KernelCall& call) {
  const auto& g = *static_cast<const GeneralAttrs*>(call.attributes);
  const std::size_t k = g.bytes.size();
  Lanes lanes(g);
  const std::int64_t b = g.shape.b;
  if (b == 1 && g.shape.a < kChunk && g.shape.reduced >= 4 * kChunk) {
    for (std::int64_t a = call.begin; a < call.end; ++a) reduce_long_row(g, call, a, &lanes);
    return;
  }
  // Units are the results in order; a chunk of them runs side by side.
  for (std::int64_t first = call.begin; first < call.end; first += kChunk) {
    const std::int64_t n = std::min(kChunk, call.end - first);
    for (std::size_t i = 0; i < k; ++i) {
      copy_strided(call.inputs[k + i], 0, n, int(g.bytes[i]), lanes.acc[i].data());
    }
    for (std::int64_t r = 0; r < g.shape.reduced; ++r) {
      for (std::size_t i = 0; i < k; ++i) {
        const auto size = std::size_t(g.bytes[i]);
        std::byte* to = lanes.values[i].data();
        for (std::int64_t j = first; j < first + n; ++j, to += size) {
          const std::int64_t at = (j / b * g.shape.reduced + r) * b + j % b;
          std::memcpy(to, call.inputs[i] + std::size_t(at) * size, size);
        }
      }
      lanes.step(g, n);
    }
    for (std::size_t i = 0; i < k; ++i) {
      std::memcpy(call.outputs[i] + first * g.bytes[i], lanes.acc[i].data(),
                  std::size_t(n * g.bytes[i]));
    }
  }
}

/// Elements of all operands that are made at a time, if a plane has no more; and of the largest
/// plane that is made rather than read from memory.
constexpr std::int64_t kMadeAtOnce = 8192, kLargestMade = 1 << 20;

/// Units are planes [reduced, b]: some are made, then reduced.
void run_general_made(const KernelCall& call) {
  const auto& g = *static_cast<const GeneralAttrs*>(call.attributes);
  const std::size_t k = g.bytes.size();
  const std::int64_t plane = g.shape.reduced * g.shape.b;
  const std::int64_t step =
      std::max<std::int64_t>(1, kMadeAtOnce / std::max<std::int64_t>(plane, 1));
  std::vector<std::vector<std::byte>> made(k);
  std::vector<const std::byte*> inputs(2 * k);
  std::vector<std::byte*> outputs(k);
  for (std::size_t i = 0; i < k; ++i) inputs[k + i] = call.inputs[std::size_t(g.init) + i];
  for (std::int64_t a = call.begin; a < call.end; a += step) {
    const std::int64_t n = std::min(step, call.end - a);
    for (std::size_t i = 0; i < k; ++i) {
      const std::byte* const* from = call.inputs + g.operands[i].first_input;
      if (const FusedLoop* program = g.operands[i].program.get()) {
        made[i].resize(std::size_t(n * plane * g.bytes[i]));
        std::byte* out[] = {made[i].data()};
        program->run(from, out, a * plane, (a + n) * plane, a * plane);
        inputs[i] = made[i].data();
      } else {
        inputs[i] = from[0] + a * plane * g.bytes[i];
      }
      outputs[i] = call.outputs[i] + a * g.shape.b * g.bytes[i];
    }
    run_general({call.attributes, inputs.data(), outputs.data(), 0, n * g.shape.b});
  }
}

/// [a kept, reduced, b kept] if the dims stand so, else the reduced ones last.
ReduceShape shape_of(const ir::Instruction& reduce, Dims* transpose) {
  const auto& reduced = reduce.get<ir::DimensionsAttrs>().dims;
  const Shape& operand = reduce.operand(0)->shape;
  ReduceShape shape;
  int stage = 0;
  bool fits = true;
  Dims order, last;
  for (std::int64_t d = 0; d < operand.rank(); ++d) {
    const std::int64_t size = operand.dim(d);
    const bool is_reduced = contains(reduced, d);
    (is_reduced ? last : order).push_back(d);
    if (size == 1) continue;
    if (is_reduced) {
      fits = fits && stage <= 1;
      stage = 1;
      shape.reduced *= size;
    } else {
      if (stage == 1) stage = 2;
      (stage == 0 ? shape.a : shape.b) *= size;
    }
  }
  if (!fits) {
    *transpose = order;
    transpose->insert(transpose->end(), last.begin(), last.end());
    shape.a *= shape.b;
    shape.b = 1;
  }
  return shape;
}

bool is_single(const ir::Instruction& reduce) {
  const Shape& operand = reduce.operand(0)->shape;
  return reduce.operands().size() == 2 && !reduce.shape.is_tuple &&
         operand.dtype == reduce.shape.dtype &&
         single_op(*reduce.called()[0], held_type(operand.dtype)) != nullptr;
}

}  // namespace

Dims reduce_order(const ir::Instruction& reduce) {
  Dims transpose;
  shape_of(reduce, &transpose);
  if (!transpose.empty() && !reduce_kernel(reduce).kernel) transpose.clear();
  return transpose;
}

bool reduce_takes_programs(const ir::Instruction& reduce) {
  Dims transpose;
  const ReduceShape shape = shape_of(reduce, &transpose);
  if (!transpose.empty() || shape.a * shape.reduced * shape.b == 0) return false;
  return is_single(reduce) ||
         (shape.reduced * shape.b <= kLargestMade && program_of(*reduce.called()[0]) != nullptr &&
          reduce_kernel(reduce).kernel);
}

ReducePlan reduce_kernel(const ir::Instruction& reduce) {
  const std::size_t k = reduce.operands().size() / 2;
  std::vector<ReduceOperand> operands(k);
  for (std::size_t i = 0; i < k; ++i) operands[i].first_input = int(i);
  return reduce_kernel(reduce, operands, int(k));
}

namespace {

/// What reduce_kernel makes a kernel of.
struct Reduction {
  const ir::Instruction& reduce;
  const std::vector<ReduceOperand>& operands;
  int first_init;
  ReduceShape shape;
  std::shared_ptr<const LoopExpr> reducer;  ///< null of one op

  const Shape& array() const { return reduce.operand(0)->shape; }
  double elements() const { return double(shape.a) * double(shape.reduced) * double(shape.b); }
  /// Of the elements, by programs.
  double making() const {
    double out = 0;
    for (const ReduceOperand& o : operands) {
      if (o.program) out += elements() * o.program->nanoseconds;
    }
    return out;
  }
  double interpreted() const {
    if (reducer == nullptr) {
      const auto bytes = double(byte_size(array().dtype));
      return prices::call::kReduce + elements() * bytes * prices::byte::kReducedByBlocks + making();
    }
    return prices::call::kGeneralReduce +
           elements() * (reducer->nanoseconds + double(operands.size())) + making();
  }
  bool is_compiled() const {
    if (reducer == nullptr) return worth_compiling(interpreted(), operands[0].program.get());
    return std::any_of(operands.begin(), operands.end(), [&](const ReduceOperand& o) {
      return worth_compiling(interpreted(), o.program.get());
    });
  }
  std::string operand_keys() const {
    KeyWriter key("operands");
    for (const ReduceOperand& o : operands) {
      key.add_all(o.first_input, o.program ? o.program->key() : std::string());
    }
    return key.take();
  }
};

/// Sums of another type than the elements would need a conversion first.
bool keeps_types(const ir::Instruction& reduce) {
  for (std::size_t i = 0; i < reduce.operands().size() / 2; ++i) {
    const Shape& out = reduce.shape.is_tuple ? reduce.shape.elements[i] : reduce.shape;
    if (out.dtype != reduce.operand(i)->shape.dtype) return false;
  }
  return true;
}

KernelDescriptor op_kernel(const Reduction& r, bool compiled) {
  KernelDescriptor kernel;
  const ReduceShape& shape = r.shape;
  const std::shared_ptr<const LoopExpr>& program = r.operands[0].program;
  const Opcode op = *ir::as_binary_reducer(*r.reduce.called()[0]);
  SingleAttrs s;
  s.shape = shape;
  s.dtype = r.array().dtype;
  s.held = held_type(s.dtype);
  s.op = single_op(*r.reduce.called()[0], s.held);
  s.by_rows = shape.b == 1 || shape.a >= 8;
  s.operand.first_input = r.operands[0].first_input;
  s.init = r.first_init;
  // Short runs are no use to a program.
  if (program) s.columns = std::min<std::int64_t>(shape.b, 64);
  kernel.units = s.by_rows ? shape.a : shape.b / s.columns;
  if (s.by_rows) kernel.access.results = Share::own;
  kernel.nanoseconds = std::max(r.interpreted() * time_of_code(compiled),
                                r.elements() * double(byte_size(s.dtype)) * prices::byte::kReduced);
  kernel.key = kernel_key("reduce", shape.a, shape.reduced, shape.b, s.dtype, op, s.by_rows,
                          s.columns, r.operand_keys(), s.init, compiled);
  kernel.body =
      KernelBody::Reduction{program, op == Opcode::maximum && shape.b == 1 && is_floating(s.dtype)};
  kernel.make = [s, program, op, compiled] {
    if (compiled) {
      const ReduceOperand operand = {s.operand.first_input, program};
      auto kernel = compiled_reduce(
          s.shape, s.by_rows ? ReduceUnits{} : ReduceUnits{ReduceUnits::columns, s.columns},
          operand, s.dtype, {.kind = BlockOp::Kind::binary, .opcode = op, .type = s.held}, s.init);
      if (kernel) return *std::move(kernel);
    }
    auto made = std::make_shared<SingleAttrs>(s);
    made->operand.program = make_loop(program, compiled);
    return runtime::Kernel{run_single, std::move(made)};
  };
  return kernel;
}

KernelDescriptor program_kernel(const Reduction& r, bool compiled) {
  KernelDescriptor kernel;
  const ReduceShape& shape = r.shape;
  GeneralAttrs g;
  std::vector<DType> types;
  for (std::size_t i = 0; i < r.operands.size(); ++i) {
    types.push_back(r.reduce.operand(i)->shape.dtype);
    g.bytes.push_back(std::int64_t(byte_size(types.back())));
  }
  g.shape = shape;
  g.init = r.first_init;
  const bool made_here = std::any_of(r.operands.begin(), r.operands.end(),
                                     [](const ReduceOperand& o) { return o.program != nullptr; });
  kernel.units = made_here ? shape.a : std::max<std::int64_t>(1, shape.a * shape.b);
  if (shape.a * shape.b == 0) kernel.units = 0;
  if (made_here || shape.b == 1) kernel.access.results = Share::own;
  if (r.operands.size() == 1) kernel.body = KernelBody::Reduction{r.operands[0].program};
  kernel.nanoseconds = r.interpreted();
  kernel.key = kernel_key("general-reduce", shape.a, shape.reduced, shape.b, g.bytes, made_here,
                          r.reducer->key(), r.operand_keys(), g.init, compiled);
  kernel.make = [g = std::move(g), reducer = r.reducer, operands = r.operands,
                 types = std::move(types), made_here, compiled] {
    auto made = std::make_shared<GeneralAttrs>(g);
    if (compiled) {
      auto kernel =
          compiled_reduce(g.shape, {made_here ? ReduceUnits::planes : ReduceUnits::results, 1},
                          operands, types, reducer, g.init);
      if (kernel) return *std::move(kernel);
    }
    made->program = make_loop(reducer, compiled);
    for (const ReduceOperand& o : operands) {
      made->operands.push_back({o.first_input, make_loop(o.program, compiled)});
    }
    return runtime::Kernel{made_here ? run_general_made : run_general, std::move(made)};
  };
  return kernel;
}

}  // namespace

ReducePlan reduce_kernel(const ir::Instruction& reduce, const std::vector<ReduceOperand>& operands,
                         int first_init) {
  ReducePlan plan;
  Reduction r{reduce, operands, first_init, shape_of(reduce, &plan.transpose), nullptr};
  ReduceOperation operation;
  operation.one_op = is_single(reduce);
  if (!operation.one_op) {
    r.reducer = program_of(*reduce.called()[0]);
    operation.has_loop = r.reducer != nullptr && keeps_types(reduce);
  }
  operation.compiled = (operation.one_op || operation.has_loop) && r.is_compiled();
  const auto& line = choose_reduce(operation);
  if (line.how == ReduceKernel::none) return plan;
  plan.kernel = line.how == ReduceKernel::op ? op_kernel(r, operation.compiled)
                                             : program_kernel(r, operation.compiled);
  plan.kernel.label = &line.label;
  return plan;
}

KernelDescriptor map_kernel(const ir::Instruction& map) {
  auto program = program_of(*map.called()[0]);
  if (!program || map.shape.is_tuple) return {};
  return loop_kernel(std::move(program), map.shape.element_count());
}

}  // namespace tessera::codegen
