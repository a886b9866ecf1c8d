// SPDX-License-Identifier: Apache-2.0
// Finds calls of LAPACK and puts the formulas of their routines in their places.
#include "src/compiler/accelerators/lapack.h"

#include <tessera/custom/call_attributes.h>

#include <string>
#include <utility>
#include <vector>

#include "src/compiler/accelerators/factors.h"
#include "src/compiler/accelerators/spectra.h"

namespace tessera::compiler::accelerators {
namespace {

using ir::Instruction;

char letter(const CallAttributes& attributes, const char* name, char otherwise) {
  return attributes.has(name) ? char(attributes.get<std::uint8_t>(name)) : otherwise;
}

Expr triangular_solve(Expr a, Expr b, const CallAttributes& attributes) {
  using Transpose = ir::TriangularSolveAttrs::Transpose;
  const char trans = letter(attributes, "trans_x", 'N');
  ir::TriangularSolveAttrs attrs;
  attrs.left_side = letter(attributes, "side", 'L') == 'L';
  attrs.lower = letter(attributes, "uplo", 'L') == 'L';
  attrs.unit_diagonal = letter(attributes, "diag", 'N') == 'U';
  attrs.transpose_a = trans == 'N'   ? Transpose::none
                      : trans == 'T' ? Transpose::transpose
                                     : Transpose::adjoint;
  return {a.b, a.b->emit(ir::Opcode::triangular_solve, {a.i, b.i}, attrs)};
}

/// What the call gives; nothing if the routine has no form here, or there is nothing to compute.
Exprs formula(ir::Builder* b, const Instruction& call, LapackForms forms) {
  const std::string& target = call.get<ir::CustomCallAttrs>().target;
  if (target.rfind("lapack_", 0) != 0 || target.size() < 9 || call.operands().empty()) return {};
  const std::string routine = target.substr(8);
  const Expr a{b, call.operand(0)};
  if (!a.i->shape.is_array() || a.rank() < 2 || a.i->shape.element_count() == 0) return {};
  const CallAttributes attributes = CallAttributes::parse(*call.backend_config, call.location());
  const bool lower = letter(attributes, "uplo", 'L') == 'L';
  if (routine == "potrf_ffi") return cholesky(a, lower);
  if (routine == "trsm_ffi") return {triangular_solve(a, {b, call.operand(1)}, attributes)};
  if (forms == LapackForms::of_stablehlo) return {};
  if (routine == "getrf_ffi") return lu(a);
  if (routine == "geqrf_ffi") return qr(a);
  if (routine == "orgqr_ffi" || routine == "ungqr_ffi") {
    return {product_of_reflectors(a, {b, call.operand(1)})};
  }
  if (routine == "syevd_ffi" || routine == "heevd_ffi") return symmetric_eigenvalues(a, lower);
  if (routine == "gesdd_ffi" || routine == "gesvd_ffi") {
    return singular_values(a, flatten(call.shape), letter(attributes, "mode", 'S') != 'N');
  }
  return {};
}

}  // namespace

std::size_t lower_lapack(ir::Module* module, LapackForms forms) {
  std::size_t count = 0;
  std::vector<ir::Computation*> computations;
  for (const auto& c : module->computations()) computations.push_back(c.get());
  for (ir::Computation* c : computations) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (i->attrs.get_if<ir::CustomCallAttrs>() != nullptr) calls.push_back(i.get());
    }
    const std::size_t before = count;
    for (Instruction* call : calls) {
      ir::Builder b(c);
      b.metadata = call->metadata;
      const Exprs results = formula(&b, *call, forms);
      if (results.empty()) continue;
      std::vector<Instruction*> parts;
      for (const Expr& r : results) parts.push_back(r.i);
      Instruction* made = call->shape.is_tuple ? b.tuple(std::move(parts)) : parts.at(0);
      call->drop_side_effect();
      call->replace_all_uses_with(made);
      if (c->root() == call) c->set_root(made);
      ++count;
    }
    if (count == before) continue;
    c->sort_topologically();
    c->remove_dead();
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::compiler::accelerators
