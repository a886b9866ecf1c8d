// SPDX-License-Identifier: Apache-2.0
// The derivative of a scan: one scan of both, or a scan that stacks residuals and a linear one.
#include <numeric>

#include "src/ir/cloner.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/jvp/split.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// The operands of a scan are inputs, carries and constants; its results outputs and carries.
struct Scan {
  JvpSite& s;
  const ir::ScanAttrs& attrs;
  std::size_t carries, constants, inputs, outputs;
  /// Of each operand, whether it has a tangent in some step.
  std::vector<bool> perturbed;

  explicit Scan(JvpSite& site)
      : s(site),
        attrs(site.get<ir::ScanAttrs>()),
        carries(std::size_t(attrs.carries)),
        constants(std::size_t(attrs.constants)),
        inputs(site.x.size() - carries - constants),
        outputs(site.shape().elements.size() - carries) {
    for (const Tangent& t : site.dx) perturbed.push_back(!t.is_zero());
  }

  /// The derivative of the step, with all carries that have a tangent in some step.
  Derivative step() {
    for (;;) {
      const JvpMode mode = s.mode;
      Derivative d = differentiate(*s.op.called(0), {inputs, carries, constants}, perturbed, mode);
      bool more = false;
      for (std::size_t k = 0; k < carries; ++k) {
        if (perturbed[inputs + k] || d.tangents[outputs + k] == nullptr) continue;
        perturbed[inputs + k] = more = true;
      }
      if (!more) return d;
    }
  }

  /// The next tangents of the perturbed carries.
  std::vector<Instruction*> next_tangents(ir::Builder& b,
                                          const std::vector<Instruction*>& tangents) const {
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < carries; ++k) {
      if (!perturbed[inputs + k]) continue;
      out.push_back(materialize(b, tangents[outputs + k], s.x[inputs + k]->shape));
    }
    return out;
  }

  /// Operands [from, from + count) that have tangents, as those.
  void append_tangents(std::vector<Instruction*>* to, std::size_t from, std::size_t count) const {
    for (std::size_t k = from; k < from + count; ++k) {
      if (perturbed[k]) to->push_back(s.tangent(k));
    }
  }
  void append_operands(std::vector<Instruction*>* to, std::size_t from, std::size_t count) const {
    to->insert(to->end(), s.x.begin() + std::ptrdiff_t(from),
               s.x.begin() + std::ptrdiff_t(from + count));
  }
  std::int64_t perturbed_among(std::size_t from, std::size_t count) const {
    return std::int64_t(std::count(perturbed.begin() + std::ptrdiff_t(from),
                                   perturbed.begin() + std::ptrdiff_t(from + count), true));
  }

  Instruction* emit(std::vector<Instruction*> operands, std::int64_t carry_count,
                    std::int64_t constant_count, Computation* body) const {
    ir::ScanAttrs a = attrs;
    a.carries = carry_count;
    a.constants = constant_count;
    return s.b.emit(Opcode::scan, std::move(operands), a, {body});
  }

  /// The tangents of the results, which are at hand for those that have one.
  Tangent result_tangents(const std::vector<Instruction*>& step_tangents,
                          std::span<Instruction* const> known) const {
    std::vector<Tangent> out(outputs + carries);
    std::size_t next = 0;
    for (std::size_t k = 0; k < outputs; ++k) {
      if (step_tangents[k] != nullptr) out[k] = known[next++];
    }
    for (std::size_t k = 0; k < carries; ++k) {
      if (perturbed[inputs + k]) out[outputs + k] = known[next++];
    }
    return Tangent::tuple(std::move(out));
  }
};

Tangent joint(Scan& scan) {
  const Derivative d = scan.step();
  JvpSite& s = scan.s;
  ir::Builder in(d.computation);
  in.metadata = s.op.metadata;
  const std::span<Instruction* const> tangents(d.tangents);
  const std::vector<Instruction*> out_tangents = present(tangents.first(scan.outputs));
  const std::vector<Instruction*> next = scan.next_tangents(in, d.tangents);
  std::vector<Instruction*> root(d.results.begin(),
                                 d.results.begin() + std::ptrdiff_t(scan.outputs));
  root.insert(root.end(), out_tangents.begin(), out_tangents.end());
  root.insert(root.end(), d.results.begin() + std::ptrdiff_t(scan.outputs), d.results.end());
  root.insert(root.end(), next.begin(), next.end());
  d.computation->set_root(in.tuple(root));

  std::vector<Instruction*> operands;
  std::size_t from = 0;
  for (const std::size_t size : {scan.inputs, scan.carries, scan.constants}) {
    scan.append_operands(&operands, from, size);
    scan.append_tangents(&operands, from, size);
    from += size;
  }
  const std::int64_t carries =
      std::int64_t(scan.carries) + scan.perturbed_among(scan.inputs, scan.carries);
  const std::int64_t constants = std::int64_t(scan.constants) +
                                 scan.perturbed_among(scan.inputs + scan.carries, scan.constants);
  std::vector<Instruction*> all =
      elements_of(s.b, scan.emit(operands, carries, constants, d.computation));
  // [outputs, tangents, carries, tangents]
  const auto part = [&](std::size_t first, std::size_t count) {
    return std::vector<Instruction*>(all.begin() + std::ptrdiff_t(first),
                                     all.begin() + std::ptrdiff_t(first + count));
  };
  std::vector<Instruction*> results = part(0, scan.outputs);
  const std::size_t behind = scan.outputs + out_tangents.size();
  const std::vector<Instruction*> last = part(behind, scan.carries);
  results.insert(results.end(), last.begin(), last.end());
  std::vector<Instruction*> known = part(scan.outputs, out_tangents.size());
  const std::vector<Instruction*> last_tangents = part(behind + scan.carries, next.size());
  known.insert(known.end(), last_tangents.begin(), last_tangents.end());
  s.result = s.b.tuple(results);
  s.result->sharding = s.op.sharding;
  return scan.result_tangents(d.tangents, known);
}

/// Which residuals of a step are the same in all steps, and where the others come from.
class StepResiduals {
 public:
  StepResiduals(const Scan& scan, const Derivative& d) : scan_(scan), d_(d) {
    std::vector<bool> per_step(d.computation->parameters().size(), false);
    std::vector<std::int64_t> bytes(per_step.size(), 0);
    for (std::size_t k = 0; k < scan.inputs + scan.carries; ++k) {
      const auto number = std::size_t(d.arguments[k]->get<ir::ParameterAttrs>().number);
      per_step[number] = true;
      // Inputs are there anyhow, and so are constants.
      if (k >= scan.inputs) bytes[number] = d.arguments[k]->shape.byte_count();
    }
    varies_ = forward_slice(*d.computation, per_step);
    chosen_ = choose_residuals(d, bytes);
  }

  const Residuals& chosen() const { return chosen_; }
  bool varies(const Instruction* r) const { return varies_[std::size_t(r->index)]; }
  /// The operand of the scan whose slices it is.
  std::optional<std::size_t> input(const Instruction* r) const {
    for (std::size_t k = 0; k < scan_.inputs; ++k) {
      if (d_.arguments[k] == r) return k;
    }
    return {};
  }
  /// The output of the scan that stacks it.
  std::optional<std::size_t> output(const Instruction* r) const {
    for (std::size_t k = 0; k < scan_.outputs; ++k) {
      if (d_.results[k] == r) return k;
    }
    return {};
  }

 private:
  const Scan& scan_;
  const Derivative& d_;
  std::vector<bool> varies_;
  Residuals chosen_;
};

/// A step of `computation`, whose parameters are those of the original one.
Computation* forward_step(const Scan& scan, const Derivative& d,
                          const std::vector<Instruction*>& stacked) {
  const Computation& original = *scan.s.op.called(0);
  Computation* out = original.module()->add_computation(original.name() + ".forward");
  ir::Builder b(out);
  ir::Cloner cloner(*d.computation, out);
  for (std::size_t k = 0; k < d.arguments.size(); ++k) {
    b.metadata = d.arguments[k]->metadata;
    cloner.map(d.arguments[k], b.parameter(std::int64_t(k), d.arguments[k]->shape));
  }
  b.metadata = scan.s.op.metadata;
  std::vector<Instruction*> root;
  const auto take = [&](Instruction* i) { root.push_back(cloner.clone_with_operands(*i)); };
  for (std::size_t k = 0; k < scan.outputs; ++k) take(d.results[k]);
  for (Instruction* r : stacked) take(r);
  for (std::size_t k = 0; k < scan.carries; ++k) take(d.results[scan.outputs + k]);
  for (const Instruction* e : effects_of(d)) cloner.clone_with_operands(*e);
  out->set_root(b.tuple(root));
  return out;
}

Tangent split(Scan& scan) {
  const Derivative d = scan.step();
  JvpSite& s = scan.s;
  const StepResiduals residuals(scan, d);
  std::vector<Instruction*> stacked;
  for (Instruction* r : residuals.chosen().values) {
    if (residuals.varies(r) && !residuals.input(r) && !residuals.output(r)) stacked.push_back(r);
  }
  std::vector<Instruction*> all = elements_of(
      s.b,
      scan.emit(s.x, scan.attrs.carries, scan.attrs.constants, forward_step(scan, d, stacked)));
  std::vector<Instruction*> results(all.begin(), all.begin() + std::ptrdiff_t(scan.outputs));
  const auto last = all.begin() + std::ptrdiff_t(scan.outputs + stacked.size());
  results.insert(results.end(), last, all.end());
  s.result = s.b.tuple(results);
  s.result->sharding = s.op.sharding;

  // The linear scan: [residuals per step, tangents of inputs], [tangents of carries], [residuals of
  // all steps, tangents of constants].
  Computation* step = d.computation->module()->add_computation(s.op.called(0)->name() + ".linear");
  ir::Builder in(step);
  in.metadata = s.op.metadata;
  ir::Cloner outside(*d.computation, s.b.computation());
  for (std::size_t k = 0; k < scan.constants; ++k) {
    const std::size_t place = scan.inputs + scan.carries + k;
    outside.map(d.arguments[place], s.x[place]);
  }
  std::vector<Instruction*> operands, inside(residuals.chosen().values.size()), tangents;
  std::int64_t number = 0;
  std::size_t next_stacked = scan.outputs;
  const auto parameter = [&](const Instruction* like) {
    return in.parameter(number++, like->shape);
  };
  for (std::size_t n = 0; n < inside.size(); ++n) {
    const Instruction* r = residuals.chosen().values[n];
    if (!residuals.varies(r)) continue;
    if (const auto k = residuals.input(r)) {
      operands.push_back(s.x[*k]);
    } else if (const auto o = residuals.output(r)) {
      operands.push_back(all[*o]);
    } else {
      operands.push_back(all[next_stacked++]);
    }
    inside[n] = parameter(r);
  }
  const auto tangent_parameters = [&](std::size_t from, std::size_t count) {
    for (std::size_t k = from; k < from + count; ++k) {
      if (scan.perturbed[k]) tangents.push_back(parameter(d.arguments[k]));
    }
    scan.append_tangents(&operands, from, count);
  };
  tangent_parameters(0, scan.inputs);
  tangent_parameters(scan.inputs, scan.carries);
  std::int64_t constants = 0;
  for (std::size_t n = 0; n < inside.size(); ++n) {
    const Instruction* r = residuals.chosen().values[n];
    if (residuals.varies(r)) continue;
    operands.push_back(outside.clone_with_operands(*r));
    inside[n] = parameter(r);
    ++constants;
  }
  tangent_parameters(scan.inputs + scan.carries, scan.constants);
  constants += scan.perturbed_among(scan.inputs + scan.carries, scan.constants);

  const std::vector<Instruction*> out = linear_part(d, residuals.chosen(), inside, tangents, step);
  std::vector<Instruction*> root = present(std::span<Instruction* const>(out).first(scan.outputs));
  const std::vector<Instruction*> next = scan.next_tangents(in, out);
  root.insert(root.end(), next.begin(), next.end());
  step->set_root(in.tuple(root));
  const std::vector<Instruction*> known = elements_of(
      s.b, scan.emit(operands, scan.perturbed_among(scan.inputs, scan.carries), constants, step));
  return scan.result_tangents(d.tangents, known);
}

}  // namespace

Tangent jvp_scan(JvpSite& s) {
  Scan scan(s);
  return s.mode == JvpMode::joint ? joint(scan) : split(scan);
}

}  // namespace tessera::transforms
