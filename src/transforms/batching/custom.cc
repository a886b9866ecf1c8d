// SPDX-License-Identifier: Apache-2.0
// Batches custom calls, by what is known of their targets, and custom partitioning.
#include <charconv>

#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::Instruction;

namespace {

/// The text of `operand_layout_constraints` with the batch as the most major dim of each operand.
std::string layouts_on_batch(const Instruction& call, const std::vector<Instruction*>& operands) {
  const std::vector<Dims> layouts = ir::operand_layouts(call);
  std::string out = "{";
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Shape shape(operands[i]->shape.dtype, operands[i]->shape.dims);
    if (i < layouts.size() && layouts[i].size() + 1 == shape.dims.size()) {
      shape.layout = shifted(layouts[i], 0);
      shape.layout.push_back(0);
    }
    out += (i > 0 ? ", " : "") + shape.to_string_with_layout();
  }
  return out + "}";
}

/// A call whose leading dims are a batch gets one more.
Batched on_leading_dims(BatchSite& site) {
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, 0));
  ir::Attributes attrs = site.op.attrs;
  for (auto& [key, text] : attrs.edit_call_attrs()->other) {
    if (key == "operand_layout_constraints") text = layouts_on_batch(site.op, operands);
  }
  const Dims dims(flatten(site.op.shape).size(), 0);
  const Shape shape = batched_shape(site.op.shape, dims, site.size());
  Instruction* made = site.emit_calling(shape, operands, std::move(attrs), site.op.called());
  // What the text says of the shapes of one entry.
  auto said = *made->frontend_attributes;
  said.erase("xla.sdy.sharding_rule");
  const auto count = said.find("num_batch_dims");
  std::int64_t number = 0;
  if (count != said.end()) {
    const std::string& text = count->second;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc()) count->second = std::to_string(number + 1);
  }
  made->frontend_attributes = std::move(said);
  return unpacked(site.b, made, dims);
}

}  // namespace

namespace {

/// A function of the host that takes batches is called once.
Batched batch_host_callback(BatchSite& site, const ir::HostCallback& host) {
  using Batching = ir::HostCallback::Batching;
  if (host.ordered()) {
    throw ValueError(
        "vmap of an ordered io_callback: the entries of a batch have no order; valid: ordered = "
        "false, or a scan over the entries in place of the vmap",
        site.op.location());
  }
  if (host.batching() == Batching::sequential) return loop_over_entries(site);
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    if (host.batching() == Batching::broadcast_all || site.dim(i) != kNotBatched) {
      operands.push_back(site.at(i, 0));
      continue;
    }
    Dims dims = site.array(i)->shape.dims;
    dims.insert(dims.begin(), 1);
    operands.push_back(site.b.reshape(site.array(i), dims));
  }
  const Dims dims(flatten(site.op.shape).size(), 0);
  Instruction* made = site.emit_calling(batched_shape(site.op.shape, dims, site.size()), operands,
                                        site.op.attrs, {});
  made->backend_config = site.op.backend_config;
  return unpacked(site.b, made, dims);
}

}  // namespace

/// A call of which nothing is known is made for one entry after the other.
Batched batch_custom_call(BatchSite& site) {
  if (const auto& host = site.op.get<ir::CustomCallAttrs>().host) {
    return batch_host_callback(site, *host);
  }
  const ir::CustomCallTarget* target =
      ir::find_custom_call(site.op.get<ir::CustomCallAttrs>().target);
  if (target == nullptr) return loop_over_entries(site);
  const bool unary = site.op.operands().size() == 1 && site.op.operand(0)->shape.is_array();
  if (unary && target->is_marker()) return site.emit({site.array(0)}, site.dim(0));
  if (target->has_leading_batch_dims()) return on_leading_dims(site);
  if (const Computation* body = target->body(site.b.module(), site.op)) {
    // What gives its operand says something of it, also on a batch.
    if (unary && body->root() == body->parameter(0)) {
      return site.emit({site.array(0)}, site.dim(0));
    }
    std::vector<Batched> arguments;
    for (std::size_t i = 0; i < site.operand_count(); ++i) arguments.push_back(site.operand(i));
    return site.batcher.run(site.b, *body, std::move(arguments));
  }
  return loop_over_entries(site);
}

/// The call of a batch, for which its partitioner has one of a batch; else what is left is its
/// plain body.
Batched batch_custom_partitioning(BatchSite& site) {
  if (site.op.called().empty())
    site.not_implemented("the text that it was read from lacks its body");
  std::vector<Instruction*> operands = site.packed_operands();
  const Dims dims = site.operand_dims();
  auto attrs = site.op.get<ir::CustomPartitioningAttrs>();
  // Code per device can't name the batch.
  const bool asks = attrs.partitioner != nullptr && !site.batcher.dependence().names_batch(site.op);
  const Dims results = asks ? Dims(flatten(site.op.shape).size(), 0) : Dims();
  attrs.partitioner = asks ? attrs.partitioner->on_batch({site.size(), dims, results}) : nullptr;
  if (attrs.partitioner != nullptr) {
    const BatchedComputation body = site.batcher.computation(*site.op.called(0), dims, results);
    const Shape shape = batched_shape(site.op.shape, results, site.size());
    return unpacked(
        site.b, site.emit_calling(shape, std::move(operands), attrs, {body.computation}), results);
  }
  const BatchedComputation body = site.batcher.computation(*site.op.called(0), dims);
  const Batched made =
      unpacked(site.b, site.b.call(body.computation, std::move(operands)), body.out_dims);
  // A body may give a tuple of one where the op has the array itself, or the other way round.
  return from_leaves(site.op.shape, leaves(made));
}

}  // namespace tessera::transforms::batching
