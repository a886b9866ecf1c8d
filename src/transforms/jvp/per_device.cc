// SPDX-License-Identifier: Apache-2.0
// Derivatives of code per device (shard_map).
#include <algorithm>

#include "src/ir/analysis/varying_axes.h"
#include "src/ir/cloner.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/jvp/split.h"
#include "src/transforms/utils/custom_vjp.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// A manual computation that is put together: its operands and results with their shardings.
class Manual {
 public:
  Manual(const JvpSite& s, const std::string& name)
      : s_(s), attrs_(s.get<ir::ManualComputationAttrs>()), b(s.b.module()->add_computation(name)) {
    b.metadata = s.op.metadata;
    attrs_.in_shardings.clear();
    attrs_.out_shardings.clear();
  }

  /// Gives the parameter for it, which is of that shape.
  Instruction* add_operand(Instruction* operand, const Shape& inside, TensorSharding sharding) {
    operands_.push_back(operand);
    attrs_.in_shardings.push_back(std::move(sharding));
    return b.parameter(std::int64_t(operands_.size()) - 1, inside);
  }
  void add_result(Instruction* inside, const Shape& whole, TensorSharding sharding) {
    results_.push_back(inside);
    shapes_.push_back(whole);
    attrs_.out_shardings.push_back(std::move(sharding));
  }
  /// The axes over which values of its computation vary that it gives so far, and these.
  std::vector<ir::VaryingAxes> varying(const std::vector<Instruction*>& values) {
    b.computation()->set_root(b.tuple(values));
    ir::InstructionData data;
    data.opcode = Opcode::manual_computation;
    data.attrs = attrs_;
    Instruction probe(std::move(data));
    probe.set_called({b.computation()});
    return ir::VaryingAnalysis(probe).results();
  }
  std::vector<Instruction*> finish() {
    b.computation()->set_root(b.tuple(results_));
    return elements_of(s_.b, s_.b.emit_shaped(Opcode::manual_computation, Shape::tuple(shapes_),
                                              operands_, attrs_, {b.computation()}));
  }

 private:
  const JvpSite& s_;
  ir::ManualComputationAttrs attrs_;
  std::vector<Instruction*> operands_, results_;
  std::vector<Shape> shapes_;

 public:
  ir::Builder b;  ///< of its body
};

/// How a value of the body that varies over these axes is given out: with a leading dim along them.
struct Stored {
  TensorSharding sharding;
  std::int64_t parts = 1;
};

Stored stored(const ir::ManualComputationAttrs& attrs, const ir::VaryingAxes& varying,
              std::int64_t rank) {
  Stored out;
  const bool automatic = attrs.mesh && attrs.manual_axes.size() < attrs.mesh->axes.size();
  out.sharding = TensorSharding::replicated_on(attrs.mesh, rank + 1);
  for (DimSharding& d : out.sharding.dims) d.open = automatic;
  DimSharding& leading = out.sharding.dims[0];
  leading.open = false;
  for (const int a : attrs.manual_axes) {
    const MeshAxis& axis = attrs.mesh->axes[std::size_t(a)];
    if (varying.count(axis.name) == 0) continue;
    leading.axes.push_back(a);
    out.parts *= axis.size;
  }
  return out;
}

/// A value of the first computation that the second one is given.
struct Kept {
  Instruction* value = nullptr;  ///< outside
  TensorSharding sharding;
  bool leading = false;  ///< it has a leading dim of its own
};

class Derivation {
 public:
  explicit Derivation(JvpSite& site)
      : s_(site),
        attrs_(site.get<ir::ManualComputationAttrs>()),
        name_(site.op.called(0)->name()),
        shapes_(flatten(site.op.shape)) {
    for (const Instruction* x : site.x) {
      if (x->shape.is_tuple) site.refuse("it takes a tuple; pass the elements as operands");
    }
    std::vector<bool> perturbed;
    for (const Tangent& t : site.dx) perturbed.push_back(!t.is_zero());
    ir::VaryingAxes own;
    for (const int a : attrs_.manual_axes) {
      own.insert(attrs_.mesh->axes[std::size_t(a)].name);
    }
    note_types(*site.op.called(0), ir::VaryingAnalysis(site.op), own);
    d_ = differentiate(*site.op.called(0), {site.x.size()}, perturbed, site.mode);
  }

  Tangent joint() {
    Manual both(s_, name_ + ".jvp");
    ir::Cloner cloner(*d_.computation, both.b.computation());
    for (std::size_t k = 0; k < s_.x.size(); ++k) {
      cloner.map(d_.arguments[k], argument(&both, k, s_.x[k]));
    }
    for (std::size_t k = 0; k < s_.x.size(); ++k) {
      if (s_.dx[k].is_zero()) continue;
      cloner.map(d_.tangent_arguments[k], argument(&both, k, s_.dx[k].array));
    }
    for (std::size_t k = 0; k < d_.results.size(); ++k) {
      give(&both, k, cloner.clone_with_operands(*d_.results[k]));
    }
    for (std::size_t k = 0; k < d_.results.size(); ++k) {
      if (d_.tangents[k] == nullptr) continue;
      give(&both, k, cloner.clone_with_operands(*d_.tangents[k]));
    }
    const std::vector<Instruction*> all = both.finish();
    const std::span<Instruction* const> leaves(all);
    set_result(leaves.first(shapes_.size()));
    return placed(leaves.subspan(shapes_.size()));
  }

  Tangent split() {
    const Residuals residuals =
        choose_residuals(d_, std::vector<std::int64_t>(d_.computation->parameters().size(), 0));
    const std::vector<Kept> kept = forward(residuals);
    if (present(d_.tangents).empty()) return {};
    Manual linear(s_, name_ + ".linear");
    std::vector<Instruction*> inside, tangents;
    for (std::size_t n = 0; n < kept.size(); ++n) {
      const Shape& shape = residuals.values[n]->shape;
      Dims dims = shape.dims;
      if (kept[n].leading) dims.insert(dims.begin(), 1);
      inside.push_back(
          linear.add_operand(kept[n].value, Shape(shape.dtype, dims), kept[n].sharding));
    }
    for (std::size_t k = 0; k < s_.x.size(); ++k) {
      if (!s_.dx[k].is_zero()) tangents.push_back(argument(&linear, k, s_.dx[k].array));
    }
    for (std::size_t n = 0; n < kept.size(); ++n) {
      if (kept[n].leading) {
        inside[n] = linear.b.reshape(inside[n], residuals.values[n]->shape.dims);
      }
    }
    const std::vector<Instruction*> out =
        linear_part(d_, residuals, inside, tangents, linear.b.computation());
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (out[k] != nullptr) give(&linear, k, out[k]);
    }
    return placed(linear.finish());
  }

 private:
  Instruction* argument(Manual* to, std::size_t k, Instruction* value) const {
    return to->add_operand(value, d_.arguments[k]->shape, attrs_.in_shardings.at(k));
  }
  void give(Manual* to, std::size_t k, Instruction* inside) const {
    to->add_result(inside, shapes_.at(k), attrs_.out_shardings.at(k));
  }
  void set_result(std::span<Instruction* const> leaves) {
    s_.result = from_leaves(s_.b, s_.op.shape, leaves);
    if (s_.op.has_sharding()) s_.result->sharding = s_.op.sharding;
  }
  /// The tangents that are there, where they belong.
  Tangent placed(std::span<Instruction* const> known) const {
    std::vector<Instruction*> leaves;
    std::size_t next = 0;
    for (const Instruction* t : d_.tangents) {
      leaves.push_back(t == nullptr ? nullptr : known[next++]);
    }
    return tangent_from_leaves(s_.op.shape, leaves);
  }

  /// The results, and what the linear one needs: operands as they are, results that are given out
  /// whole, and others as results of their own.
  std::vector<Kept> forward(const Residuals& residuals) {
    Manual first(s_, name_ + ".forward");
    ir::CloneOptions options;
    options.fresh_channels = true;
    ir::Cloner cloner(*d_.computation, first.b.computation(), options);
    for (std::size_t k = 0; k < s_.x.size(); ++k) {
      cloner.map(d_.arguments[k], argument(&first, k, s_.x[k]));
    }
    std::vector<Instruction*> results, values;
    for (Instruction* r : d_.results) results.push_back(cloner.clone_with_operands(*r));
    for (const Instruction* r : residuals.values) {
      if (r->shape.is_tuple) s_.refuse("its derivative needs the tuple " + r->name);
      values.push_back(cloner.clone_with_operands(*r));
    }
    const std::vector<ir::VaryingAxes> varying = first.varying(values);
    for (std::size_t k = 0; k < results.size(); ++k) give(&first, k, results[k]);
    std::vector<Kept> out(values.size());
    std::vector<std::size_t> place(values.size(), 0);
    std::size_t count = results.size();
    for (std::size_t n = 0; n < values.size(); ++n) {
      const auto at = std::find(d_.arguments.begin(), d_.arguments.end(), residuals.values[n]);
      if (at != d_.arguments.end()) {
        const auto k = std::size_t(at - d_.arguments.begin());
        out[n] = {s_.x[k], attrs_.in_shardings.at(k), false};
        continue;
      }
      for (std::size_t k = 0; k < results.size() && place[n] == 0; ++k) {
        if (results[k] != values[n] || !is_whole(varying[n], attrs_.out_shardings.at(k))) continue;
        out[n].sharding = attrs_.out_shardings[k];
        place[n] = k + 1;
      }
      if (place[n] != 0) continue;
      Dims dims = values[n]->shape.dims;
      const Stored how = stored(attrs_, varying[n], std::int64_t(dims.size()));
      dims.insert(dims.begin(), 1);
      Instruction* inside = first.b.reshape(values[n], dims);
      dims[0] = how.parts;
      first.add_result(inside, Shape(inside->shape.dtype, dims), how.sharding);
      out[n] = {nullptr, how.sharding, true};
      place[n] = ++count;
    }
    const std::vector<Instruction*> all = first.finish();
    set_result(std::span<Instruction* const>(all).first(shapes_.size()));
    for (std::size_t n = 0; n < out.size(); ++n) {
      if (place[n] != 0) out[n].value = all[place[n] - 1];
    }
    return out;
  }

  /// Whether a result has all that devices know of a value that varies over these axes.
  bool is_whole(const ir::VaryingAxes& varying, const TensorSharding& sharding) const {
    if (!sharding.unreduced.empty()) return false;
    ir::VaryingAxes told;
    for (const DimSharding& d : sharding.dims) {
      for (const int a : d.axes) told.insert(sharding.mesh->axes[std::size_t(a)].name);
    }
    return std::includes(told.begin(), told.end(), varying.begin(), varying.end());
  }

  JvpSite& s_;
  const ir::ManualComputationAttrs& attrs_;
  std::string name_;
  std::vector<Shape> shapes_;  ///< of the results
  Derivative d_;
};

}  // namespace

Tangent jvp_manual_computation(JvpSite& s) {
  Derivation of(s);
  return s.mode == JvpMode::joint ? of.joint() : of.split();
}

}  // namespace tessera::transforms
