// SPDX-License-Identifier: Apache-2.0
// The formulas of LAPACK's routines, as HLO text for the shapes of a call. Loops over columns with
// masks in place of slices: all matrices of a batch at once.
#include "src/compiler/accelerators/lapack.h"

#include <tessera/custom/call_attributes.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/compiler/accelerators/formula_lines.h"
#include "src/compiler/accelerators/spectra.h"
#include "src/ir/cloner.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::compiler::accelerators {
namespace {

using ir::Instruction;

char letter(const CallAttributes& attributes, const char* name, char otherwise) {
  return attributes.has(name) ? char(attributes.get<std::uint8_t>(name)) : otherwise;
}

std::string cholesky(const Instruction& call, const CallAttributes& attributes) {
  Lines b(call.operand(0)->shape);
  const bool lower = letter(attributes, "uplo", 'L') == 'L';
  const std::string a = b.op(b.dtype(), b.all(), "parameter(0)");
  const std::string factor = b.op(
      b.dtype(), b.all(), std::string("cholesky(") + a + "), lower=" + (lower ? "true" : "false"));
  const std::string kept = b.compare(b.all(), b.iota(b.all(), b.row_dim()),
                                     b.iota(b.all(), b.column_dim()), lower ? "GE" : "LE");
  const std::string out = b.select(b.dtype(), b.all(), kept, factor, a);
  // A matrix that isn't positive definite has NaNs for its factor.
  const std::string nan =
      b.binary(DType::pred, b.all(), "and", b.compare(b.all(), factor, factor, "NE"), kept);
  const std::string bad = b.op(DType::s32, b.all(), "convert(" + nan + ")");
  const std::string info =
      b.reduce(DType::s32, b.batch(), bad, {b.row_dim(), b.column_dim()}, "maximum", "0");
  return "HloModule potrf\n" + reducer_texts(b) + "ENTRY main {\n" + b.text + "  ROOT out = (" +
         Lines::type(b.dtype(), b.all()) + ", " + Lines::type(DType::s32, b.batch()) + ") tuple(" +
         out + ", " + info + ")\n}\n";
}

std::string triangular(const Instruction& call, const CallAttributes& attributes) {
  const char trans = letter(attributes, "trans_x", 'N');
  const auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
  return "HloModule trsm\nENTRY main {\n  a = " + call.operand(0)->shape.to_string() +
         " parameter(0)\n  b = " + call.operand(1)->shape.to_string() +
         " parameter(1)\n  ROOT x = " + call.operand(1)->shape.to_string() +
         " triangular-solve(a, b), left_side=" + flag(letter(attributes, "side", 'L') == 'L') +
         ", lower=" + flag(letter(attributes, "uplo", 'L') == 'L') +
         ", unit_diagonal=" + flag(letter(attributes, "diag", 'N') == 'U') + ", transpose_a=" +
         (trans == 'N'   ? "NO_TRANSPOSE"
          : trans == 'T' ? "TRANSPOSE"
                         : "ADJOINT") +
         "\n}\n";
}

/// A loop that counts `steps`: the text of a module whose entry takes what `initial` makes of the
/// parameters, and gives all that is carried but the counter.
struct Carried {
  std::string type, initial, next;
};
std::string counting_loop(const char* name, std::int64_t steps, const Lines& body,
                          const Lines& entry, const std::vector<Carried>& carried,
                          const std::vector<std::string>& read_back) {
  std::string types = "s32[]", initial = "start", next = "next", results, result_types;
  for (const Carried& c : carried) {
    types += ", " + c.type;
    initial += ", " + c.initial;
    next += ", " + c.next;
  }
  std::string out = "HloModule " + std::string(name) + "\n" + reducer_texts(body);
  out += "body {\n  state = (" + types + ") parameter(0)\n  k = s32[] get-tuple-element(state), " +
         "index=0\n";
  for (std::size_t c = 0; c < carried.size(); ++c) {
    out += "  c" + std::to_string(c) + " = " + carried[c].type +
           " get-tuple-element(state), index=" + std::to_string(c + 1) + "\n";
  }
  out += body.text + "  one = s32[] constant(1)\n  next = s32[] add(k, one)\n  ROOT made = (" +
         types + ") tuple(" + next + ")\n}\n";
  out += "condition {\n  state = (" + types +
         ") parameter(0)\n  k = s32[] get-tuple-element(state), index=0\n  end = s32[] constant(" +
         std::to_string(steps) + ")\n  ROOT more = pred[] compare(k, end), direction=LT\n}\n";
  out += "ENTRY main {\n" + entry.text + "  start = s32[] constant(0)\n  first = (" + types +
         ") tuple(" + initial + ")\n  last = (" + types +
         ") while(first), condition=condition, body=body\n";
  for (std::size_t r = 0; r < read_back.size(); ++r) {
    out += "  r" + std::to_string(r) + " = " + carried[r].type +
           " get-tuple-element(last), index=" + std::to_string(r + 1) + "\n";
    results += (r > 0 ? ", r" : "r") + std::to_string(r);
    result_types += (r > 0 ? ", " : "") + carried[r].type;
  }
  return out + (read_back.size() == 1
                    ? "  ROOT out = " + result_types + " copy(r0)\n}\n"
                    : "  ROOT out = (" + result_types + ") tuple(" + results + ")\n}\n");
}

/// Gaussian elimination with row exchanges. Carried: the matrix, pivots, info.
std::string lu(const Instruction& call) {
  const Shape& shape = call.operand(0)->shape;
  const Shape& pivots = call.shape.elements.at(1);
  Lines b(shape), entry(shape);
  const std::int64_t last_row = b.rows().back() - 1;
  const std::string row = b.iota(b.all(), b.row_dim()), column = b.iota(b.all(), b.column_dim());
  const std::string k = b.broadcast(DType::s32, b.all(), "k", {});
  const std::string in_column = b.compare(b.all(), column, k, "EQ");
  const std::string in_row = b.compare(b.all(), row, k, "EQ");
  // The largest element of the column, at or below the diagonal.
  const std::string size = b.op(b.real(), b.all(), "abs(c0)");
  const std::string here =
      b.binary(DType::pred, b.all(), "and", in_column, b.compare(b.all(), row, k, "GE"));
  const std::string candidates =
      b.select(b.real(), b.all(), here, size, b.constant(b.real(), "-1", b.all()));
  const std::string most =
      b.reduce(b.real(), b.batch(), candidates, {b.row_dim(), b.column_dim()}, "maximum", "-1");
  const std::string is_most =
      b.binary(DType::pred, b.all(), "and", here,
               b.compare(b.all(), candidates, b.spread(b.real(), most, false, false), "EQ"));
  const std::string end = b.constant(DType::s32, std::to_string(last_row), b.all());
  const std::string pivot =
      b.reduce(DType::s32, b.batch(), b.select(DType::s32, b.all(), is_most, row, end),
               {b.row_dim(), b.column_dim()}, "minimum", std::to_string(last_row));
  const std::string in_pivot =
      b.compare(b.all(), row, b.spread(DType::s32, pivot, false, false), "EQ");
  const std::string upper = b.row("c0", in_pivot);
  const std::string upper_all = b.spread(b.dtype(), upper, false, true);
  const std::string lower_all = b.spread(b.dtype(), b.row("c0", in_row), false, true);
  const std::string swapped = b.select(b.dtype(), b.all(), in_row, upper_all,
                                       b.select(b.dtype(), b.all(), in_pivot, lower_all, "c0"));
  const std::string on_diagonal = b.binary(DType::pred, b.all(), "and", in_row, in_column);
  const std::string diagonal =
      b.reduce(b.dtype(), b.batch(),
               b.select(b.dtype(), b.all(), on_diagonal, swapped, b.zeros(b.dtype(), b.all())),
               {b.row_dim(), b.column_dim()}, "add", b.zero());
  const std::string regular = b.compare(b.batch(), diagonal, b.zeros(b.dtype(), b.batch()), "NE");
  const std::string below = b.binary(DType::pred, b.all(), "and", b.compare(b.all(), row, k, "GT"),
                                     b.spread(DType::pred, regular, false, false));
  const std::string quotient =
      b.binary(b.dtype(), b.all(), "divide", swapped, b.spread(b.dtype(), diagonal, false, false));
  const std::string scaled =
      b.select(b.dtype(), b.all(), b.binary(DType::pred, b.all(), "and", below, in_column),
               quotient, swapped);
  const std::string product =
      b.binary(b.dtype(), b.all(), "multiply",
               b.spread(b.dtype(), b.column(scaled, in_column), true, false), upper_all);
  const std::string rest =
      b.binary(DType::pred, b.all(), "and", below, b.compare(b.all(), column, k, "GT"));
  const std::string next = b.select(
      b.dtype(), b.all(), rest, b.binary(b.dtype(), b.all(), "subtract", scaled, product), scaled);
  // LAPACK counts from 1.
  const Dims& places = pivots.dims;
  Dims batch_dims;
  for (std::int64_t d = 0; d < b.rank() - 2; ++d) batch_dims.push_back(d);
  const std::string pivot_places = b.broadcast(
      DType::s32, places,
      b.binary(DType::s32, b.batch(), "add", pivot, b.ones(DType::s32, b.batch())), batch_dims);
  const std::string is_place = b.compare(places, b.iota(places, b.rank() - 2),
                                         b.broadcast(DType::s32, places, "k", {}), "EQ");
  const std::string next_pivots = b.select(DType::s32, places, is_place, pivot_places, "c1");
  const std::string first_fault =
      b.binary(DType::pred, b.batch(), "and",
               b.compare(b.batch(), diagonal, b.zeros(b.dtype(), b.batch()), "EQ"),
               b.compare(b.batch(), "c2", b.zeros(DType::s32, b.batch()), "EQ"));
  const std::string number =
      b.binary(DType::s32, b.batch(), "add", b.broadcast(DType::s32, b.batch(), "k", {}),
               b.ones(DType::s32, b.batch()));
  const std::string info = b.select(DType::s32, b.batch(), first_fault, number, "c2");
  const std::string a = entry.op(b.dtype(), b.all(), "parameter(0)");
  const std::vector<Carried> carried{
      {Lines::type(b.dtype(), b.all()), a, next},
      {Lines::type(DType::s32, places), entry.zeros(DType::s32, places), next_pivots},
      {Lines::type(DType::s32, b.batch()), entry.zeros(DType::s32, b.batch()), info}};
  return counting_loop("getrf", places.back(), b, entry, carried, {"a", "pivots", "info"});
}

/// Householder's reflectors. Carried: the matrix, and tau.
std::string qr(const Instruction& call) {
  const Shape& shape = call.operand(0)->shape;
  const Dims& places = call.shape.elements.at(1).dims;
  Lines b(shape), entry(shape);
  const DType t = b.dtype(), real = b.real();
  const Dims& one = b.batch();
  Dims batch_dims;
  for (std::int64_t d = 0; d < b.rank() - 2; ++d) batch_dims.push_back(d);
  const std::string row = b.iota(b.all(), b.row_dim()), column = b.iota(b.all(), b.column_dim());
  const std::string k = b.broadcast(DType::s32, b.all(), "k", {});
  const std::string in_column = b.compare(b.all(), column, k, "EQ");
  const std::string at_row = b.compare(b.all(), row, k, "EQ");
  const std::string below = b.compare(b.all(), row, k, "GT");
  const auto both = [&](const std::string& x, const std::string& y) {
    return b.binary(DType::pred, b.all(), "and", x, y);
  };
  const auto total = [&](DType type, const std::string& mask, const std::string& x) {
    return b.reduce(type, one, b.select(type, b.all(), mask, x, b.zeros(type, b.all())),
                    {b.row_dim(), b.column_dim()}, "add", type == t ? b.zero() : "0");
  };
  const std::string alpha = total(t, both(in_column, at_row), "c0");
  const std::string tail = total(real, both(in_column, below), b.squares("c0", b.all()));
  const std::string norm =
      b.op(real, one, "sqrt(" + b.binary(real, one, "add", tail, b.squares(alpha, one)) + ")");
  const std::string alpha_re = b.is_complex() ? b.op(real, one, "real(" + alpha + ")") : alpha;
  const std::string negative = b.op(real, one, "negate(" + norm + ")");
  const std::string beta_re =
      b.select(real, one, b.compare(one, alpha_re, b.zeros(real, one), "GE"), negative, norm);
  const std::string beta = b.as_complex(beta_re, one);
  // Nothing to do where all below is 0 (and what stands there is real).
  std::string idle = b.compare(one, tail, b.zeros(real, one), "EQ");
  if (b.is_complex()) {
    const std::string im = b.op(real, one, "imag(" + alpha + ")");
    idle = b.binary(DType::pred, one, "and", idle, b.compare(one, im, b.zeros(real, one), "EQ"));
  }
  const std::string safe_beta = b.select(t, one, idle, b.ones(t, one), beta);
  const std::string tau = b.select(
      t, one, idle, b.zeros(t, one),
      b.binary(t, one, "divide", b.binary(t, one, "subtract", safe_beta, alpha), safe_beta));
  const std::string scale =
      b.select(t, one, idle, b.ones(t, one), b.binary(t, one, "subtract", alpha, safe_beta));
  const std::string quotient =
      b.binary(t, b.all(), "divide", "c0", b.spread(t, scale, false, false));
  // The reflector in its column, all else 0, and then for all columns.
  const std::string only = b.select(
      t, b.all(), both(in_column, below), quotient,
      b.select(t, b.all(), both(in_column, at_row), b.ones(t, b.all()), b.zeros(t, b.all())));
  const std::string v =
      b.spread(t, b.reduce(t, b.rows(), only, {b.column_dim()}, "add", b.zero()), true, false);
  const std::string w =
      b.reduce(t, b.columns(), b.binary(t, b.all(), "multiply", b.conjugate(v, b.all()), "c0"),
               {b.row_dim()}, "add", b.zero());
  const std::string step =
      b.binary(t, b.all(), "multiply", b.spread(t, b.conjugate(tau, one), false, false),
               b.binary(t, b.all(), "multiply", v, b.spread(t, w, false, true)));
  const std::string right = b.compare(b.all(), column, k, "GT");
  const std::string applied =
      b.select(t, b.all(), right, b.binary(t, b.all(), "subtract", "c0", step), "c0");
  const std::string new_diagonal = b.select(t, one, idle, alpha, beta);
  const std::string with_diagonal = b.select(t, b.all(), both(in_column, at_row),
                                             b.spread(t, new_diagonal, false, false), applied);
  const std::string next = b.select(t, b.all(), both(in_column, below), quotient, with_diagonal);
  const std::string is_place = b.compare(places, b.iota(places, b.rank() - 2),
                                         b.broadcast(DType::s32, places, "k", {}), "EQ");
  const std::string taus =
      b.select(t, places, is_place, b.broadcast(t, places, tau, batch_dims), "c1");
  const std::string a = entry.op(t, b.all(), "parameter(0)");
  const std::vector<Carried> carried{{Lines::type(t, b.all()), a, next},
                                     {Lines::type(t, places), entry.zeros(t, places), taus}};
  return counting_loop("geqrf", places.back(), b, entry, carried, {"a", "tau"});
}

/// The product of reflectors, from the last to the first. Carried: the product, reflectors, tau.
std::string product_of_reflectors(const Instruction& call) {
  const Shape& shape = call.operand(0)->shape;
  const Dims& places = call.operand(1)->shape.dims;
  Lines b(shape), entry(shape);
  const DType t = b.dtype();
  const std::int64_t steps = places.back();
  const std::string last = b.op(DType::s32, {}, "constant(" + std::to_string(steps - 1) + ")");
  const std::string reflector = b.op(DType::s32, {}, "subtract(" + last + ", k)");
  const std::string row = b.iota(b.all(), b.row_dim()), column = b.iota(b.all(), b.column_dim());
  const std::string k = b.broadcast(DType::s32, b.all(), reflector, {});
  const std::string in_column = b.compare(b.all(), column, k, "EQ");
  const auto both = [&](const std::string& x, const std::string& y) {
    return b.binary(DType::pred, b.all(), "and", x, y);
  };
  const std::string only =
      b.select(t, b.all(), both(in_column, b.compare(b.all(), row, k, "GT")), "c1",
               b.select(t, b.all(), both(in_column, b.compare(b.all(), row, k, "EQ")),
                        b.ones(t, b.all()), b.zeros(t, b.all())));
  const std::string v =
      b.spread(t, b.reduce(t, b.rows(), only, {b.column_dim()}, "add", b.zero()), true, false);
  const std::string is_place = b.compare(places, b.iota(places, b.rank() - 2),
                                         b.broadcast(DType::s32, places, reflector, {}), "EQ");
  const std::string tau =
      b.reduce(t, b.batch(), b.select(t, places, is_place, "c2", b.zeros(t, places)),
               {b.rank() - 2}, "add", b.zero());
  const std::string w =
      b.reduce(t, b.columns(), b.binary(t, b.all(), "multiply", b.conjugate(v, b.all()), "c0"),
               {b.row_dim()}, "add", b.zero());
  const std::string step =
      b.binary(t, b.all(), "multiply", b.spread(t, tau, false, false),
               b.binary(t, b.all(), "multiply", v, b.spread(t, w, false, true)));
  const std::string next = b.binary(t, b.all(), "subtract", "c0", step);
  const std::string a = entry.op(t, b.all(), "parameter(0)");
  const std::string taus = entry.op(t, places, "parameter(1)");
  const std::string unit = entry.select(t, b.all(),
                                        entry.compare(b.all(), entry.iota(b.all(), b.row_dim()),
                                                      entry.iota(b.all(), b.column_dim()), "EQ"),
                                        entry.ones(t, b.all()), entry.zeros(t, b.all()));
  const std::vector<Carried> carried{{Lines::type(t, b.all()), unit, next},
                                     {Lines::type(t, b.all()), a, "c1"},
                                     {Lines::type(t, places), taus, "c2"}};
  return counting_loop("orgqr", steps, b, entry, carried, {"q"});
}

/// Empty if the routine has no form here, or there is nothing to compute.
std::string formula(const Instruction& call, LapackForms forms) {
  const std::string& target = call.get<ir::CustomCallAttrs>().target;
  if (target.rfind("lapack_", 0) != 0 || target.size() < 9 || call.operands().empty()) return "";
  const std::string routine = target.substr(8);
  const Shape& a = call.operand(0)->shape;
  if (!a.is_array() || a.rank() < 2 || a.element_count() == 0) return "";
  const CallAttributes attributes = CallAttributes::parse(*call.backend_config, call.location());
  if (routine == "potrf_ffi") return cholesky(call, attributes);
  if (routine == "trsm_ffi") return triangular(call, attributes);
  if (forms == LapackForms::of_stablehlo) return "";
  if (routine == "getrf_ffi") return lu(call);
  if (routine == "geqrf_ffi") return qr(call);
  if (routine == "orgqr_ffi" || routine == "ungqr_ffi") return product_of_reflectors(call);
  if (routine == "syevd_ffi" || routine == "heevd_ffi") {
    return symmetric_eigenvalues(call.operand(0)->shape, letter(attributes, "uplo", 'L') == 'L');
  }
  if (routine == "gesdd_ffi" || routine == "gesvd_ffi") {
    return singular_values(call.operand(0)->shape, flatten(call.shape),
                           letter(attributes, "mode", 'S') != 'N');
  }
  return "";
}

std::size_t lower_once(ir::Module* module, LapackForms forms) {
  std::size_t count = 0;
  std::vector<ir::Computation*> computations;
  for (const auto& c : module->computations()) computations.push_back(c.get());
  for (ir::Computation* c : computations) {
    std::vector<std::pair<Instruction*, std::string>> calls;
    for (const auto& i : c->instructions()) {
      if (i->attrs.get_if<ir::CustomCallAttrs>() == nullptr) continue;
      if (std::string text = formula(*i, forms); !text.empty()) {
        calls.emplace_back(i.get(), std::move(text));
      }
    }
    for (const auto& [call, text] : calls) {
      const std::unique_ptr<ir::Module> parsed = ir::parse_hlo(text, "<formula>");
      ir::Computation* body = module->import(*parsed->entry());
      ir::CloneOptions options;
      options.default_metadata = call->metadata;
      const std::vector<Instruction*> operands = call->operands();
      Instruction* made = ir::inline_computation(c, *body, operands, options);
      call->drop_side_effect();
      call->replace_all_uses_with(made);
      if (c->root() == call) c->set_root(made);
    }
    if (calls.empty()) continue;
    c->sort_topologically();
    c->remove_dead();
    count += calls.size();
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace

std::size_t lower_lapack(ir::Module* module, LapackForms forms) {
  std::size_t all = 0;
  // Some formulas call other routines.
  while (const std::size_t count = lower_once(module, forms)) all += count;
  return all;
}

}  // namespace tessera::compiler::accelerators
