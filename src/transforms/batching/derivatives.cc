// SPDX-License-Identifier: Apache-2.0
// Batches calls that say how their derivative is computed: the rules are batched with them.
#include <algorithm>
#include <memory>
#include <utility>

#include "src/ir/hooks.h"
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::CustomDerivativeAttrs;
using ir::Instruction;

namespace {

bool has_tangent(const Shape& s) {
  return s.is_array() && (is_floating(s.dtype) || is_complex(s.dtype));
}

/// Where the operands of a custom derivative on a batch, those without derivative, tangents and
/// residuals hold the batch. All its results do on dim 0: a result that doesn't depend on the batch
/// may have a tangent that does.
struct BatchedDims {
  Dims operands, nondiff, tangents, residuals;
  std::size_t results = 0, result_tangents = 0;
};

/// A custom derivative on a batch.
class BatchedRule {
 public:
  BatchedRule(Batcher& batcher, BatchedDims dims) : batcher_(batcher), dims_(std::move(dims)) {}
  BatchedRule(Batcher& batcher, const Instruction& op, Dims operand_dims) : batcher_(batcher) {
    dims_.operands = std::move(operand_dims);
    const auto nondiff = std::size_t(op.get<CustomDerivativeAttrs>().nondiff);
    for (std::size_t k = 0; k < dims_.operands.size(); ++k) {
      if (k < nondiff) dims_.nondiff.push_back(dims_.operands[k]);
      if (k >= nondiff && has_tangent(op.operand(k)->shape)) {
        dims_.tangents.push_back(dims_.operands[k]);
      }
    }
    for (const Shape& s : flatten(op.shape)) {
      dims_.results += 1;
      dims_.result_tangents += has_tangent(s) ? 1 : 0;
    }
  }

  const BatchedDims& dims() const { return dims_; }

  Computation* primal(const Computation& source) {
    return batcher_.computation(source, dims_.operands, Dims(dims_.results, 0)).computation;
  }

  /// `perturbed`: the tangents that are parameters; empty: all.
  Computation* jvp(const Computation& source, const std::vector<bool>& perturbed = {}) {
    Dims in = dims_.operands;
    for (std::size_t k = 0; k < dims_.tangents.size(); ++k) {
      if (perturbed.empty() || perturbed[k]) in.push_back(dims_.tangents[k]);
    }
    const std::size_t results = flatten(source.root()->shape).size();
    return batcher_.computation(source, in, Dims(results, 0)).computation;
  }

  /// Remembers the residuals' dims for the way back.
  Computation* forward(const Computation& source) {
    const std::size_t count = flatten(source.root()->shape).size();
    Flags in;
    for (std::int64_t d : dims_.operands) in.push_back(d != kNotBatched);
    const Flags depends = batcher_.dependence().results(source, in);
    Dims out(dims_.results, 0);
    dims_.residuals.clear();
    for (std::size_t k = dims_.results; k < count; ++k) {
      dims_.residuals.push_back(depends[k] ? 0 : kNotBatched);
    }
    out.insert(out.end(), dims_.residuals.begin(), dims_.residuals.end());
    return batcher_.computation(source, in_dims_checked(source, dims_.operands), out).computation;
  }

  /// An operand that all entries share gets the sum of their cotangents. `perturbed`: the operands
  /// that get one; empty: all. `given`: how many cotangents of results it takes.
  Computation* backward(const Computation& source, const std::vector<bool>& perturbed,
                        std::size_t given) {
    Dims in = dims_.nondiff;
    in.insert(in.end(), dims_.residuals.begin(), dims_.residuals.end());
    in.insert(in.end(), given, 0);
    Dims wanted = dims_.tangents;
    const std::size_t count = flatten(source.root()->shape).size();
    if (wanted.size() != count) {
      wanted.clear();
      for (std::size_t k = 0; k < dims_.tangents.size() && k < perturbed.size(); ++k) {
        if (perturbed[k]) wanted.push_back(dims_.tangents[k]);
      }
      TESSERA_CHECK(wanted.size() == count, "cotangents of " + source.name());
    }
    const BatchedComputation whole =
        batcher_.computation(source, in_dims_checked(source, in), wanted);
    if (whole.out_dims == wanted) return whole.computation;
    // Sums of what should not be batched.
    ir::Builder b(batcher_.module()->add_computation(source.name()));
    b.metadata = source.root()->metadata;
    std::vector<Instruction*> parameters;
    for (const Instruction* p : whole.computation->parameters()) {
      parameters.push_back(b.parameter(std::int64_t(parameters.size()), p->shape, p->name));
    }
    Instruction* call = b.call(whole.computation, parameters);
    std::vector<Instruction*> results;
    for (std::size_t k = 0; k < count; ++k) {
      Instruction* x = b.get_tuple_element(call, std::int64_t(k));
      if (wanted[k] == kNotBatched && whole.out_dims[k] != kNotBatched) {
        const DType type = x->shape.dtype;
        x = b.reduce(x, b.zero(type), {whole.out_dims[k]},
                     ir::scalar_computation(b.module(), ir::Opcode::add, type));
      }
      results.push_back(x);
    }
    b.computation()->set_root(b.tuple(results));
    return b.computation();
  }

 private:
  static const Dims& in_dims_checked(const Computation& source, const Dims& dims) {
    std::size_t count = 0;
    for (const Instruction* p : source.parameters()) count += flatten(p->shape).size();
    TESSERA_CHECK(count == dims.size(), "the parameters of " + source.name());
    return dims;
  }

  Batcher& batcher_;
  BatchedDims dims_;
};

/// The same of a backward rule that asks which cotangents are zero.
class BatchedBackward : public ir::BackwardRule {
 public:
  BatchedBackward(std::shared_ptr<ir::BackwardRule> entry, BatchedDims dims,
                  std::vector<bool> perturbed, BatchOptions options)
      : entry_(std::move(entry)),
        dims_(std::move(dims)),
        perturbed_(std::move(perturbed)),
        options_(std::move(options)) {}

  Computation* trace(ir::Module* module, const std::vector<bool>& zero) override {
    Batcher batcher(module, options_);
    const auto given = std::size_t(std::count(zero.begin(), zero.end(), false));
    return BatchedRule(batcher, dims_).backward(*entry_->trace(module, zero), perturbed_, given);
  }

 private:
  const std::shared_ptr<ir::BackwardRule> entry_;
  const BatchedDims dims_;
  const std::vector<bool> perturbed_;
  const BatchOptions options_;
};

/// Has the rule of an entry traced when it is asked for, and batches what comes of it.
class BatchedRules : public ir::DerivativeRules {
 public:
  BatchedRules(const Instruction& op, Dims operand_dims, const BatchOptions& options)
      : rules_(op.get<CustomDerivativeAttrs>().rules),
        operand_dims_(std::move(operand_dims)),
        options_(options) {
    // Kept apart: the module may lose what nothing else runs.
    kept_.num_partitions = op.parent->module()->num_partitions;
    kept_.mesh = op.parent->module()->mesh;
    Computation* primal = kept_.import(*op.called(0));
    ir::Builder b(kept_.add_computation(rules_->name()));
    auto copy = std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(op));
    std::vector<Instruction*> operands;
    for (const Instruction* o : op.operands()) {
      operands.push_back(b.parameter(std::int64_t(operands.size()), o->shape));
    }
    copy->set_operands(std::move(operands));
    copy->set_called({primal});
    b.computation()->set_root(b.computation()->add(std::move(copy)));
    entry_ = b.computation();
  }

  std::string name() const override { return rules_->name(); }

  Computation* jvp(const Instruction& op, const std::vector<bool>& perturbed) override {
    ir::Module* module = op.parent->module();
    const Instruction& entry = *module->import(*entry_)->root();
    const Computation* traced = rules_->jvp(entry, perturbed);
    Batcher batcher(module, options_);
    BatchedRule rule(batcher, entry, operand_dims_);
    const bool all = !entry.get<CustomDerivativeAttrs>().symbolic_zeros;
    return rule.jvp(*traced, all ? std::vector<bool>() : perturbed);
  }

  Vjp vjp(const Instruction& op, const std::vector<bool>& perturbed) override {
    ir::Module* module = op.parent->module();
    const Instruction& entry = *module->import(*entry_)->root();
    const Vjp traced = rules_->vjp(entry, perturbed);
    Batcher batcher(module, options_);
    BatchedRule rule(batcher, entry, operand_dims_);
    Vjp out;
    out.forward = rule.forward(*traced.forward);
    out.backward = rule.backward(*traced.backward, perturbed, rule.dims().result_tangents);
    out.residuals = traced.residuals;
    if (traced.rule != nullptr) {
      out.rule = std::make_shared<BatchedBackward>(traced.rule, rule.dims(), perturbed, options_);
    }
    return out;
  }

 private:
  const std::shared_ptr<ir::DerivativeRules> rules_;
  const Dims operand_dims_;
  const BatchOptions options_;
  ir::Module kept_;
  const Computation* entry_ = nullptr;  ///< the op on one entry, as the rule knows it
};

}  // namespace

Batched batch_remat(BatchSite& site) {
  const BatchedComputation body = site.batcher.computation(*site.op.called(0), site.operand_dims());
  const Shape shape = batched_shape(site.op.shape, body.out_dims, site.size());
  Instruction* made =
      site.emit_calling(shape, site.packed_operands(), site.op.attrs, {body.computation});
  return unpacked(site.b, made, body.out_dims);
}

namespace {

/// As its rule says; one that was read from text is a call of its primal.
Batched by_batching_rule(BatchSite& site) {
  const auto& attrs = site.op.get<CustomDerivativeAttrs>();
  if (attrs.batching != nullptr && attrs.batching->sequential()) return loop_over_entries(site);
  Dims dims;
  std::vector<bool> batched;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    if (site.operand(i).is_tuple) site.not_implemented("it takes a tuple");
    dims.push_back(site.batched(i) ? 0 : kNotBatched);
    batched.push_back(site.batched(i));
  }
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    operands.push_back(batched[i] ? site.at(i, 0) : site.array(i));
  }
  if (attrs.batching == nullptr) {
    const BatchedComputation body = site.batcher.computation(*site.op.called(0), dims);
    return unpacked(site.b, site.b.call(body.computation, std::move(operands)), body.out_dims);
  }
  const ir::BatchingRule::Batched rule = attrs.batching->batch(site.op, site.size(), batched);
  Dims out;
  for (const bool b : rule.results) out.push_back(b ? 0 : kNotBatched);
  const Batched made =
      unpacked(site.b, site.b.call(rule.computation, std::move(operands)), std::move(out));
  return from_leaves(site.op.shape, leaves(made));
}

}  // namespace

Batched batch_custom_derivative(BatchSite& site) {
  const Instruction& op = site.op;
  auto attrs = op.get<CustomDerivativeAttrs>();
  if (attrs.kind == CustomDerivativeAttrs::Kind::batch) return by_batching_rule(site);
  Dims dims;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    if (site.operand(i).is_tuple) site.not_implemented("it takes a tuple");
    dims.push_back(site.dim(i));
  }
  BatchedRule rule(site.batcher, op, dims);
  std::vector<Computation*> called{rule.primal(*op.called(0))};
  if (op.called().size() > 1) {
    if (attrs.kind == CustomDerivativeAttrs::Kind::jvp) {
      called.push_back(rule.jvp(*op.called(1)));
    } else {
      called.push_back(rule.forward(*op.called(1)));
      called.push_back(rule.backward(*op.called(2), {}, rule.dims().result_tangents));
    }
  }
  if (attrs.rules) {
    attrs.rules = std::make_shared<BatchedRules>(op, dims, site.batcher.options());
  }
  const Dims out(flatten(op.shape).size(), 0);
  const Shape shape = batched_shape(op.shape, out, site.size());
  return unpacked(site.b, site.emit_calling(shape, site.packed_operands(), attrs, called), out);
}

}  // namespace tessera::transforms::batching
