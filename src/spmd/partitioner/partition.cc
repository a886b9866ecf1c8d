// SPDX-License-Identifier: Apache-2.0
// The partitioner's driver: computations, shardings of values, records for the report.
#include "src/spmd/partitioner/partition.h"
#include "src/ir/analysis/device_computations.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "src/base/check.h"
#include "src/ir/constraint.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/spmd/dedupe_collectives.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/partitioner/context.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/reshard/device_orders.h"

namespace tessera::spmd {
namespace {

/// An item of metadata, which is not printed: passes keep it with what takes a collective's place.
constexpr const char* kRecordId = "tessera_record";

}  // namespace

ModulePartitioner::ModulePartitioner(const ir::Module& source, const PartitionOptions& options,
                                     PartitionReport* report)
    : source_(source), options_(options), report_(report), mesh_(source.mesh) {
  if (!mesh_) {
    // Nothing is sharded: the devices, if there are several, all do the same.
    mesh_ = make_logical_mesh({{"devices", source.num_partitions}});
  }
  // Pieces of axes may go different ways within an op, also where all shardings take axes whole.
  MeshRef pieces = refine_to_primes(mesh_);
  if (pieces->axes != mesh_->axes) mesh_ = pieces;
  devices_ = mesh_->num_devices();
  find_manual_axes();
  find_trip_counts();
  target_ = std::make_unique<ir::Module>(source.name);
  target_->num_partitions = devices_;
  target_->replica_count = source.replica_count;
  target_->mesh = source.mesh;
  target_->input_output_alias = source.input_output_alias;
  target_->buffer_donor = source.buffer_donor;
  target_->frontend_attributes = source.frontend_attributes;
  for (const auto& item : source.other) {
    // The layout names whole shapes, which the device program doesn't have.
    if (item.first != "entry_computation_layout") target_->other.push_back(item);
  }
}

const ModulePartitioner::MeshView& ModulePartitioner::view_of(const MeshRef& mesh) const {
  for (const MeshView& view : views_) {
    if (view.mesh == mesh) return view;
  }
  MeshView view;
  view.mesh = mesh;
  TensorSharding one = TensorSharding::replicated_on(mesh, 1);
  view.representable = representable_on(one, mesh_);
  for (std::size_t a = 0; view.representable && a < mesh->axes.size(); ++a) {
    one.dims[0].axes = {int(a)};
    view.pieces.push_back(one.on(mesh_).dims[0].axes);
  }
  views_.push_back(std::move(view));
  return views_.back();
}

TensorSharding ModulePartitioner::normal(const TensorSharding& sharding, std::int64_t rank) const {
  if (sharding.kind != TensorSharding::Kind::axes || !sharding.mesh) {
    return TensorSharding::replicated_on(mesh_, rank);
  }
  TESSERA_CHECK(sharding.rank() == rank, "sharding " + sharding.to_spec_string() +
                                             " is on a value of rank " + std::to_string(rank));
  const MeshView& view = view_of(sharding.mesh);
  if (!view.representable) {
    TensorSharding s = equivalent_on(sharding.closed(), mesh_).on(mesh_);
    s.replicated.clear();
    s.manual.clear();
    return s;
  }
  TensorSharding s = TensorSharding::replicated_on(mesh_, rank);
  s.shard_group = sharding.shard_group;
  s.shard_like = sharding.shard_like;
  auto translate = [&](const IndexList& axes, IndexList* to) {
    for (int a : axes) {
      const IndexList& pieces = view.pieces[std::size_t(a)];
      to->insert(to->end(), pieces.begin(), pieces.end());
    }
  };
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    translate(sharding.dims[d].axes, &s.dims[d].axes);
  }
  translate(sharding.unreduced, &s.unreduced);
  return s;
}

const std::vector<TensorSharding>& ModulePartitioner::shardings_of(
    const ir::Instruction& instruction) const {
  std::vector<std::vector<TensorSharding>>& all = shardings_[instruction.parent];
  if (all.empty()) all.resize(instruction.parent->instructions().size());
  std::vector<TensorSharding>& out = all[std::size_t(instruction.index)];
  if (!out.empty()) return out;
  const IndexList& around = manual_axes(*instruction.parent);
  auto add = [&](const Shape& leaf, std::size_t i, std::size_t count) {
    if (instruction.sharding.empty()) {
      out.push_back(TensorSharding::replicated_on(mesh_, leaf.rank()));
    } else {
      std::size_t at = instruction.sharding.size() == count ? i : 0;
      out.push_back(normal(instruction.sharding[at], leaf.rank()));
    }
    out.back().manual = around;
  };
  if (!instruction.shape.is_tuple) {
    add(instruction.shape, 0, 1);
    return out;
  }
  const std::vector<Shape> leaves = flatten(instruction.shape);
  out.reserve(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) add(leaves[i], i, leaves.size());
  return out;
}

void ModulePartitioner::find_manual_axes() {
  const std::vector<ir::Computation*> all = ir::device_computations(source_);
  // Callers first.
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    const IndexList around = manual_axes(**c);
    for (const auto& i : (*c)->instructions()) {
      const bool runs =
          i->is(ir::Opcode::call) || i->is(ir::Opcode::while_) || i->is(ir::Opcode::conditional);
      if (ir::is_partly_manual(*i)) {
        manual_[i->called()[0]] = manual::axes_of(*i, mesh_);
      } else if (runs && !around.empty()) {
        for (const ir::Computation* callee : i->called()) manual_[callee] = around;
      }
    }
  }
}

const IndexList& ModulePartitioner::manual_axes(const ir::Computation& source) const {
  static const IndexList none;
  auto it = manual_.find(&source);
  return it == manual_.end() ? none : it->second;
}

ir::Computation* ModulePartitioner::imported(const ir::Computation& source) {
  ir::Computation*& c = imported_[&source];
  if (!c) c = target_->import(source);
  return c;
}

ir::Computation* ModulePartitioner::partitioned(const ir::Computation& source) {
  if (auto it = partitioned_.find(&source); it != partitioned_.end()) return it->second;
  ir::Computation* target = target_->add_computation(source.name());
  ComputationPartitioner(*this, source, target).run(false);
  return partitioned_[&source] = target;
}

void ModulePartitioner::record(CommunicationRecord record, ir::Instruction* instruction) {
  if (!report_) return;
  record.id = std::int64_t(records_.size());
  instruction->metadata.edit().other.emplace_back(kRecordId, std::to_string(record.id));
  records_.push_back(std::move(record));
}

void ModulePartitioner::replicated_op(const std::string& line) {
  if (report_) report_->replicated_ops.push_back(line);
}

std::unique_ptr<ir::Module> ModulePartitioner::run() {
  const ir::Computation& entry = *source_.entry();
  ir::Computation* target = target_->add_computation(entry.name());
  ComputationPartitioner(*this, entry, target).run(true);
  target_->set_entry(target);
  target_->remove_dead_computations();
  for (const auto& c : target_->computations()) c->remove_dead();
  if (dedupe_collectives(target_.get())) {
    for (const auto& c : target_->computations()) c->remove_dead();
  }
  target_->remove_dead_computations();
  finish_report();
  return std::move(target_);
}

void ModulePartitioner::finish_report() {
  if (!report_) return;
  std::vector<char> alive(records_.size(), char(options_.all_records));
  for (const auto& c : target_->computations()) {
    for (const auto& i : c->instructions()) {
      const auto record = std::size_t(record_id(*i));
      if (record < alive.size()) alive[record] = 1;
    }
  }
  for (std::size_t k = 0; k < records_.size(); ++k) {
    if (alive[k]) report_->records.push_back(std::move(records_[k]));
  }
}

std::int64_t record_id(const ir::Instruction& collective) {
  for (const auto& [key, text] : collective.metadata->other) {
    if (key == kRecordId) return std::strtoll(text.c_str(), nullptr, 10);
  }
  return -1;
}

void drop_record_ids(ir::Module* module) {
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (record_id(*i) < 0) continue;
      std::erase_if(i->metadata.edit().other,
                    [](const auto& item) { return item.first == kRecordId; });
    }
  }
}

const CommunicationRecord* PartitionReport::record_of(const ir::Instruction& collective) const {
  const std::int64_t id = record_id(collective);
  const auto at = std::lower_bound(
      records.begin(), records.end(), id,
      [](const CommunicationRecord& r, std::int64_t value) { return r.id < value; });
  return at != records.end() && at->id == id ? &*at : nullptr;
}

// ----- one computation

ComputationPartitioner::ComputationPartitioner(ModulePartitioner& module,
                                               const ir::Computation& source,
                                               ir::Computation* target)
    : module_(module), source_(source), builder_(target) {
  users_.reserve(source.instructions().size());
  for (const auto& i : source.instructions()) users_.push_back(i->users());
  values_.resize(source.instructions().size());
  declared_.resize(source.instructions().size());
  const ir::Instruction& root = *source.root();
  auto has_one_user = [&](const ir::Instruction& used) {
    return users(used).size() == 1 && &used != &root && !used.is(ir::Opcode::parameter);
  };
  for (const auto& used : source.instructions()) {
    if (!has_one_user(*used)) continue;
    const ir::Instruction* user = users(*used).front();
    if (ir::is_constraint(*user)) constraint_of_[used.get()] = user;
  }
  // What only becomes a result is wanted as the result lies.
  auto returned = [&](const ir::Instruction& x, std::size_t leaf) {
    if (x.shape.is_array() && has_one_user(x)) result_of_.try_emplace(&x, leaf);
  };
  if (root.is(ir::Opcode::tuple)) {
    std::size_t leaf = 0;
    for (const ir::Instruction* x : root.operands()) {
      returned(*x, leaf);
      leaf += flatten(x->shape).size();
    }
  } else if (root.is(ir::Opcode::copy)) {
    returned(*root.operand(0), 0);
  } else if (root.is(ir::Opcode::get_tuple_element) && root.shape.is_array() &&
             root.operand(0)->is(ir::Opcode::tuple) && has_one_user(*root.operand(0))) {
    const std::int64_t index = root.get<ir::GetTupleElementAttrs>().index;
    returned(*root.operand(0)->operand(std::size_t(index)), 0);
  }
}

const std::vector<TensorSharding>& ComputationPartitioner::declared(
    const ir::Instruction& source) const {
  if (source.parent != &source_) return module_.shardings_of(source);
  const std::vector<TensorSharding>*& known = declared_[std::size_t(source.index)];
  if (known) return *known;
  if (auto it = constraint_of_.find(&source); it != constraint_of_.end()) {
    known = &module_.shardings_of(*it->second);
  } else if (auto result = result_of_.find(&source); result != result_of_.end()) {
    known = &result_layouts_.emplace_back(1, module_.shardings_of(*source_.root())[result->second]);
  } else {
    known = &module_.shardings_of(source);
  }
  return *known;
}

std::vector<TensorSharding> ComputationPartitioner::wanted(const ir::Instruction& source) const {
  std::vector<TensorSharding> out = declared(source);
  const std::vector<Shape>& leaves = source.shape.elements;
  if (leaves.size() != out.size() || source_.root() == &source) return out;
  std::vector<char> used(out.size(), 0);
  for (const ir::Instruction* user : users(source)) {
    if (!user->is(ir::Opcode::get_tuple_element)) return out;
    used[std::size_t(user->get<ir::GetTupleElementAttrs>().index)] = 1;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t j = 0; j < out.size() && !used[i]; ++j) {
      if (!used[j] || leaves[j].dims != leaves[i].dims) continue;
      out[i] = out[j];
      break;
    }
  }
  return out;
}

void ComputationPartitioner::run(bool is_entry) {
  for (const ir::Instruction* parameter : source_.parameters()) {
    current_ = parameter;
    b().metadata = parameter->metadata;
    std::vector<TensorSharding> shardings = declared(*parameter);
    ir::Instruction* local =
        b().parameter(parameter->get<ir::ParameterAttrs>().number,
                      local_tuple(parameter->shape, shardings), parameter->name);
    if (is_entry) local->sharding = parameter->sharding;
    local->frontend_attributes = parameter->frontend_attributes;
    std::vector<ir::Instruction*> parts = unpack(local);
    std::vector<Shape> shapes = flatten(parameter->shape);
    std::vector<Value*> values;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ir::Instruction* x = parts[i];
      const TensorSharding* given =
          parameter->sharding.empty()
              ? nullptr
              : &parameter->sharding[parameter->sharding.size() == parts.size() ? i : 0];
      if (is_entry && given && given->kind == TensorSharding::Kind::maximal &&
          module_.devices() > 1) {
        // Only one device holds it: the others add nothing to a sum of bits.
        ir::Instruction* bits = as_bits(b(), x);
        ir::Instruction* mine = b().compare(ir::Direction::eq, b().convert(b().partition_id(), s32),
                                            index(given->device));
        bits = b().select(b().splat(mine, bits->shape.dims), bits,
                          b().splat(constant_scalar(bits->shape.dtype, 0), bits->shape.dims));
        IndexList all;
        for (std::size_t a = 0; a < mesh()->axes.size(); ++a) all.push_back(int(a));
        transfer = {given->to_spec_string(), "replicated", "parameter on one device", true};
        bits = b().all_reduce(
            bits, ir::scalar_computation(module_.target(), ir::Opcode::add, bits->shape.dtype),
            ir::DeviceGroups::over(mesh(), all));
        note(bits);
        x = from_bits(b(), bits, x->shape.dtype);
      }
      if (is_entry && given) x = reordered(x, *given, shardings[i], "parameter on another order");
      values.push_back(make(x, shardings[i], shapes[i]));
    }
    define(*parameter, std::move(values));
  }
  for (const auto& instruction : source_.instructions()) {
    if (instruction->is(ir::Opcode::parameter)) continue;
    current_ = instruction.get();
    b().metadata = instruction->metadata;
    partition_instruction(*this, *instruction);
  }
  const ir::Instruction& root = *source_.root();
  current_ = &root;
  b().metadata = root.metadata;
  std::vector<ir::Instruction*> results;
  for (Value* v : leaves(root)) {
    const std::size_t at = root.sharding.size() == 1 ? 0 : results.size();
    results.push_back(v->local);
    if (!is_entry || at >= root.sharding.size()) continue;
    results.back() = reordered(v->local, v->sharding, root.sharding[at], "result on another order");
  }
  ir::Instruction* local = pack(root.shape, results);
  b().computation()->set_root(local);
  if (is_entry && !local->is(ir::Opcode::parameter)) local->sharding = root.sharding;
}

void ComputationPartitioner::define(const ir::Instruction& source, std::vector<Value*> leaves) {
  TESSERA_CHECK(leaves.size() == (source.shape.is_tuple ? flatten(source.shape).size() : 1),
                "a wrong number of leaves for " + source.describe());
  TESSERA_CHECK(source.parent == &source_, source.describe() + " is of another computation");
  values_[std::size_t(source.index)] = {true, std::move(leaves)};
}

std::size_t ComputationPartitioner::user_count(const ir::Instruction& source) const {
  return users(source).size() + (source_.root() == &source ? 1 : 0);
}

Value* ComputationPartitioner::as_declared(Value* v, const TensorSharding& layout) {
  if (!v->shape.is_array()) return v;
  if (Value* form = materialized_in(v, layout)) return form;
  // The op that made the partial sum is the one that pays.
  const ir::Instruction* keep = current_;
  Cow<ir::Metadata> metadata = std::move(b().metadata);
  current_ = v->origin;
  b().metadata = current_->metadata;
  v = reshard(v, layout, "result of " + op_label(*current_));
  current_ = keep;
  b().metadata = std::move(metadata);
  return v;
}

std::vector<Value*> ComputationPartitioner::leaves(const ir::Instruction& source) {
  std::vector<Value*> out = raw_leaves(source);
  const std::vector<TensorSharding>& wanted = declared(source);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = as_declared(out[i], wanted[i]);
  return out;
}

Value* ComputationPartitioner::value(const ir::Instruction& source) {
  const std::vector<Value*>& all = raw_leaves(source);
  TESSERA_CHECK(all.size() == 1, source.describe() + " is a tuple where an array is needed");
  return as_declared(all.front(), declared(source).front());
}

const std::vector<Value*>& ComputationPartitioner::raw_leaves(const ir::Instruction& source) const {
  const std::vector<Value*>* all = defined(source);
  TESSERA_CHECK(all, source.describe() + " is used before it is defined");
  return *all;
}

Value* ComputationPartitioner::raw(const ir::Instruction& source) {
  const std::vector<Value*>& all = raw_leaves(source);
  TESSERA_CHECK(all.size() == 1, source.describe() + " has no single value");
  return all.front();
}

std::string ComputationPartitioner::operand_reason(const ir::Instruction& source,
                                                   std::size_t i) const {
  return "operand " + std::to_string(i) + " of " + op_label(source);
}

std::vector<ir::Computation*> ComputationPartitioner::import_called(const ir::Instruction& source) {
  std::vector<ir::Computation*> out;
  for (const ir::Computation* c : source.called()) out.push_back(module_.imported(*c));
  return out;
}

ir::Instruction* ComputationPartitioner::emit_local(const ir::Instruction& source,
                                                    std::vector<ir::Instruction*> operands,
                                                    const Shape& shape, ir::Attributes attrs) {
  ir::Instruction* x = b().emit_shaped(source.opcode, shape, std::move(operands), std::move(attrs),
                                       import_called(source));
  x->backend_config = source.backend_config;
  for (const auto& [key, text] : *source.frontend_attributes) {
    if (key.rfind("xla.sdy", 0) != 0) x->frontend_attributes.edit()[key] = text;
  }
  if (x->attrs.call_attrs()) ir::keep_call_layouts(source, x);
  return x;
}

Value* ComputationPartitioner::operand_value(const ir::Instruction& operand) {
  if (user_count(operand) == 1) return raw(operand);
  Value* v = raw(operand);
  return v->original->recompute ? v : value(operand);
}

Value* ComputationPartitioner::operand_in(const ir::Instruction& source, std::size_t i,
                                          const TensorSharding& layout) {
  Value* v = operand_value(*source.operand(i));
  Value* form = materialized_in(v, layout);
  return form ? form : reshard(v, layout, operand_reason(source, i));
}

std::vector<Value*> ComputationPartitioner::operands_in(const ir::Instruction& source,
                                                        const std::vector<TensorSharding>& layout) {
  std::vector<Value*> out;
  out.reserve(source.operands().size());
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    out.push_back(operand_in(source, i, layout[i]));
  }
  return out;
}

double ComputationPartitioner::gathered(const ir::Instruction& source, std::size_t i, Value* v,
                                        const std::string& reason, ir::Instruction** local) {
  const TensorSharding all = whole(v->shape.rank());
  double bytes = 0;
  if (!is_whole(v->sharding)) {
    bytes = plan_reshard(v->sharding, all, v->shape.dims, std::int64_t(byte_size(v->shape.dtype)),
                         cost().transfer)
                .bytes_received;
  }
  transfer.full_gather = true;
  *local = reshard(v, all, operand_reason(source, i) + ": " + reason)->local;
  transfer.full_gather = false;
  return bytes;
}

void ComputationPartitioner::replicate(const ir::Instruction& source, const std::string& reason) {
  std::vector<ir::Instruction*> operands;
  double bytes = 0;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    std::vector<ir::Instruction*> parts;
    for (Value* v : leaves(o)) {
      parts.push_back(v->local);
      if (v->shape.is_array()) bytes += gathered(source, i, v, reason, &parts.back());
    }
    operands.push_back(pack(o.shape, parts));
  }
  if (bytes > 0) {
    std::string at = source.location().to_string();
    module_.replicated_op(op_label(source) + (at.empty() ? "" : " (" + at + ")") + ": " + reason +
                          "; each device receives " + std::to_string(std::int64_t(bytes)) +
                          " bytes");
  }
  Shape shape = source.shape;
  ir::Instruction* x = emit_local(source, operands, shape);
  std::vector<Shape> shapes = flatten(source.shape);
  std::vector<Value*> results;
  std::vector<ir::Instruction*> parts = unpack(x);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    results.push_back(make(parts[i], whole(shapes[i].rank()), shapes[i]));
  }
  define(source, results);
}

std::unique_ptr<ir::Module> partition(const ir::Module& module, const PartitionOptions& options,
                                      PartitionReport* report) {
  return ModulePartitioner(module, options, report).run();
}

}  // namespace tessera::spmd
