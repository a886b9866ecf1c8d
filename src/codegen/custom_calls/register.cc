// SPDX-License-Identifier: Apache-2.0
// Registers the targets that there are from the start: calls of the host, and the LAPACK routines
// under JAX's custom call names.
#include <mutex>

#include "src/codegen/custom_calls/custom_calls.h"
#include "src/codegen/custom_calls/lapack_target.h"
#include "src/codegen/kernels/products/blas_setup.h"

namespace tessera::codegen {
namespace {

/// tridiagonal_solve_perturbed_ffi has one name for all types.
class AnyType : public ir::CustomCallTarget, public CallKernel {
 public:
  explicit AnyType(const lapack::Routine& routine)
      : f32_(routine, DType::f32), f64_(routine, DType::f64) {}
  PreparedCall prepare(const ir::Instruction& call) const override {
    return of(call).prepare(call);
  }
  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    return of(call).rule(call);
  }
  bool has_leading_batch_dims() const override { return f32_.has_leading_batch_dims(); }

 private:
  const lapack::Target& of(const ir::Instruction& call) const {
    if (!call.operands().empty() && is_complex(call.operand(0)->shape.dtype)) {
      throw NotImplementedError("custom call to \"" + call.get<ir::CustomCallAttrs>().target +
                                    "\" (" + call.describe() + ") of complex numbers: only real " +
                                    "systems are solved",
                                call.location());
    }
    return !call.operands().empty() && call.operand(0)->shape.dtype == DType::f64 ? f64_ : f32_;
  }

  lapack::Target f32_, f64_;
};

/// dce_sink, by which JAX keeps what computes its operands.
class Sink : public ir::CustomCallTarget, public CallKernel {
 public:
  PreparedCall prepare(const ir::Instruction&) const override {
    PreparedCall out;
    out.run = [](auto, auto, std::int64_t, std::int64_t) {};
    out.nanoseconds = 0;
    return out;
  }
  bool takes_parts() const override { return true; }
  bool is_pure() const override { return false; }
};

void add(const lapack::Routine& routine) {
  if (routine.name.find('?') == std::string::npos) {
    const auto target = std::make_shared<AnyType>(routine);
    register_custom_call(routine.name, target, target);
    return;
  }
  const std::pair<char, DType> types[] = {
      {'s', DType::f32}, {'d', DType::f64}, {'c', DType::c64}, {'z', DType::c128}};
  for (const auto& [letter, dtype] : types) {
    std::string name =
        is_complex(dtype) && !routine.complex_name.empty() ? routine.complex_name : routine.name;
    name[name.find('?')] = letter;
    const auto target = std::make_shared<lapack::Target>(routine, dtype);
    register_custom_call(name, target, target);
  }
}

}  // namespace

void register_builtin_custom_calls() {
  static std::once_flag once;
  std::call_once(once, [] {
    keep_blas_to_one_thread();
    for (const lapack::Routine& r : lapack::solvers()) add(r);
    for (const lapack::Routine& r : lapack::spectra()) add(r);
    register_host_callbacks();
    const auto sink = std::make_shared<Sink>();
    register_custom_call("dce_sink", sink, sink);
    register_sparse_products();
  });
}

}  // namespace tessera::codegen
