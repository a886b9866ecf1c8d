// SPDX-License-Identifier: Apache-2.0
// Emits a custom call as one kernel, parallel over its batch units.
#include "src/codegen/custom_calls/call_kernel.h"

#include <limits>

#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/codegen/kernels/evaluator_call.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

struct CallAttrs {
  PreparedCall call;
  std::vector<Shape> operands, results;
};

void run_call(const runtime::KernelCall& call) {
  const auto& attrs = *static_cast<const CallAttrs*>(call.attributes);
  std::vector<BufferView> operands;
  std::vector<MutableBufferView> results;
  operands.reserve(attrs.operands.size());
  results.reserve(attrs.results.size());
  for (std::size_t i = 0; i < attrs.operands.size(); ++i) {
    const Shape& s = attrs.operands[i];
    operands.emplace_back(s.dtype, std::span<const std::int64_t>(s.dims), call.inputs[i]);
  }
  for (std::size_t i = 0; i < attrs.results.size(); ++i) {
    const Shape& s = attrs.results[i];
    results.emplace_back(s.dtype, std::span<const std::int64_t>(s.dims), call.outputs[i]);
  }
  attrs.call.run(operands, results, call.begin, call.end);
}

/// A call of the wrong shapes is an error when it is run: it may stand where nothing runs it.
PreparedCall prepare_or_fail_later(const ir::Instruction& call) {
  try {
    return prepare_call(call);
  } catch (const ShapeError& e) {
    PreparedCall out;
    out.run = [e](auto, auto, std::int64_t, std::int64_t) { throw e; };
    return out;
  }
}

}  // namespace

KernelDescriptor call_kernel(const ir::Instruction& call) {
  CallAttrs attrs;
  attrs.call = prepare_or_fail_later(call);
  for (const ir::Instruction* o : call.operands()) {
    for (Shape& leaf : flatten(o->shape)) attrs.operands.push_back(std::move(leaf));
  }
  attrs.results = flatten(call.shape);
  KernelDescriptor kernel;
  kernel.units = attrs.call.units;
  kernel.nanoseconds = attrs.call.nanoseconds;
  const ir::CustomCallTarget* target = ir::find_custom_call(call.get<ir::CustomCallAttrs>().target);
  kernel.access = attrs.call.access;
  kernel.may_throw = attrs.call.may_throw;
  kernel.has_effects = target != nullptr && !target->is_pure();
  kernel.make = kernel_maker(run_call, std::move(attrs));
  return kernel;
}

namespace {

char letter_of(DType t) {
  return t == DType::f32 ? 's' : t == DType::f64 ? 'd' : t == DType::c64 ? 'c' : 'z';
}

bool lapack_has(DType t) { return is_one_of(kFloats + kComplex, t); }

/// A routine called on arrays like an op's operands.
PreparedCall prepare_routine(const ir::Instruction& op, const std::string& routine,
                             const Shape& result, const CallAttributes& attributes) {
  register_builtin_custom_calls();
  ir::Module module("routine");
  ir::Builder b(module.add_computation("routine"));
  b.metadata = op.metadata;
  std::vector<ir::Instruction*> operands;
  for (const ir::Instruction* o : op.operands()) {
    operands.push_back(b.parameter(std::int64_t(operands.size()), o->shape));
  }
  ir::CustomCallAttrs attrs;
  attrs.target = "lapack_" + (letter_of(op.shape.dtype) + routine) + "_ffi";
  ir::Instruction* call = b.emit_shaped(ir::Opcode::custom_call, result, operands, attrs);
  call->backend_config = attributes.to_string();
  return prepare_call(*call);
}

/// What potrf leaves: one triangle is the factor, and the other one still the matrix; all is NaN
/// where it failed.
template <class T>
void finish_factor(T* matrix, std::int64_t n, bool lower, bool failed) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (failed) {
        matrix[i * n + j] = T(std::numeric_limits<double>::quiet_NaN());
      } else if (lower ? j > i : j < i) {
        matrix[i * n + j] = T(0);
      }
    }
  }
}

struct FactorAttrs {
  PreparedCall call;
  Shape shape, info;
  bool lower = false;
};

void run_factor(const runtime::KernelCall& call) {
  const auto& attrs = *static_cast<const FactorAttrs*>(call.attributes);
  const Shape& s = attrs.shape;
  std::vector<std::int32_t> info(std::size_t(attrs.call.units), 0);
  const std::span<const std::int64_t> dims(s.dims), batch(attrs.info.dims);
  attrs.call.run(std::vector<BufferView>{{s.dtype, dims, call.inputs[0]}},
                 std::vector<MutableBufferView>{{s.dtype, dims, call.outputs[0]},
                                                {DType::s32, batch, info.data()}},
                 call.begin, call.end);
  const std::int64_t n = s.dims.back();
  for (std::int64_t b = call.begin; b < call.end; ++b) {
    const bool failed = info[std::size_t(b)] != 0;
    for_type(kFloats + kComplex, s.dtype, [&](auto tag) {
      auto* const first = reinterpret_cast<typename decltype(tag)::type*>(call.outputs[0]);
      finish_factor(first + b * n * n, n, attrs.lower, failed);
      return true;
    });
  }
}

KernelDescriptor cholesky_kernel(const ir::Instruction& op) {
  FactorAttrs attrs;
  attrs.shape = Shape(op.shape.dtype, op.shape.dims);
  attrs.info = Shape(DType::s32, Dims(op.shape.dims.begin(), op.shape.dims.end() - 2));
  attrs.lower = op.get<ir::CholeskyAttrs>().lower;
  attrs.call = prepare_routine(op, "potrf", Shape::tuple({attrs.shape, attrs.info}),
                               {{"uplo", std::uint8_t(attrs.lower ? 'L' : 'U')}});
  KernelDescriptor kernel;
  kernel.units = attrs.call.units;
  kernel.nanoseconds = attrs.call.nanoseconds;
  kernel.make = kernel_maker(run_factor, std::move(attrs));
  return kernel;
}

KernelDescriptor triangular_kernel(const ir::Instruction& op) {
  using Transpose = ir::TriangularSolveAttrs::Transpose;
  const auto& a = op.get<ir::TriangularSolveAttrs>();
  const char trans = a.transpose_a == Transpose::none        ? 'N'
                     : a.transpose_a == Transpose::transpose ? 'T'
                                                             : 'C';
  CallAttrs attrs;
  const Shape result(op.shape.dtype, op.shape.dims);
  attrs.call = prepare_routine(op, "trsm", result,
                               {{"side", std::uint8_t(a.left_side ? 'L' : 'R')},
                                {"uplo", std::uint8_t(a.lower ? 'L' : 'U')},
                                {"trans_x", std::uint8_t(trans)},
                                {"diag", std::uint8_t(a.unit_diagonal ? 'U' : 'N')}});
  for (const ir::Instruction* o : op.operands()) attrs.operands.push_back(o->shape);
  attrs.results = {result};
  KernelDescriptor kernel;
  kernel.units = attrs.call.units;
  kernel.nanoseconds = attrs.call.nanoseconds;
  kernel.make = kernel_maker(run_call, std::move(attrs));
  return kernel;
}

}  // namespace

bool has_solver_kernel(const ir::Instruction& op) {
  const bool solver = op.is(ir::Opcode::cholesky) || op.is(ir::Opcode::triangular_solve);
  return solver && op.shape.is_array() && lapack_has(op.shape.dtype);
}

KernelDescriptor solver_kernel(const ir::Instruction& op) {
  return op.is(ir::Opcode::cholesky) ? cholesky_kernel(op) : triangular_kernel(op);
}

namespace {

struct LibraryOperation {
  bool is_call = false, has_solver = false;
};
enum class LibraryKernel : std::uint8_t { call, solver, evaluator };
constexpr KernelLine<LibraryOperation, LibraryKernel> kLibrary[] = {
    {{"library/custom-call", "the function that is registered for the target"},
     [](const LibraryOperation& o) { return o.is_call; },
     LibraryKernel::call},
    {{"library/solver",
      "a factorisation or a triangular system: LAPACK, or ours for small matrices"},
     [](const LibraryOperation& o) { return o.has_solver; },
     LibraryKernel::solver},
    {kOnEvaluator, always<LibraryOperation>, LibraryKernel::evaluator},
};

}  // namespace

KernelFamily library_family() { return family_of("library", kLibrary); }

KernelDescriptor library_kernel(const ir::Instruction& op,
                                const std::shared_ptr<const ir::Instruction>& copy) {
  const auto& line =
      choose(kLibrary, LibraryOperation{op.is(ir::Opcode::custom_call), has_solver_kernel(op)});
  KernelDescriptor kernel = line.how == LibraryKernel::call     ? call_kernel(op)
                            : line.how == LibraryKernel::solver ? solver_kernel(op)
                                                                : evaluator_kernel(copy);
  kernel.label = &line.label;
  return kernel;
}

}  // namespace tessera::codegen
