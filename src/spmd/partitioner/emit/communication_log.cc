// SPDX-License-Identifier: Apache-2.0
// The partitioner's records of the collectives that it emits.
#include "src/spmd/partitioner/emit/communication_log.h"

#include <utility>

#include "src/cost/collectives.h"

namespace tessera::spmd {

const ir::Instruction* CommunicationLog::origin_of(const ir::Instruction* i) const {
  if (!origins_) return i;
  const auto it = origins_->find(i);
  return it == origins_->end() ? i : it->second;
}

void CommunicationLog::add(CommunicationRecord record, ir::Instruction* collective) {
  if (!report_) return;
  record.id = std::int64_t(records_.size());
  set_record_id(collective, record.id);
  records_.push_back(std::move(record));
}

void CommunicationLog::add_replicated_op(const std::string& line) {
  if (report_) report_->replicated_ops.push_back(line);
}

void CommunicationLog::finish(const ir::Module& program) {
  if (!report_) return;
  std::vector<char> alive(records_.size(), char(all_records_));
  for (const auto& c : program.computations()) {
    for (const auto& i : c->instructions()) {
      const auto record = std::size_t(record_id(*i));
      if (record < alive.size()) alive[record] = 1;
    }
  }
  for (std::size_t k = 0; k < records_.size(); ++k) {
    if (alive[k]) report_->records.push_back(std::move(records_[k]));
  }
}

void CommunicationReporter::note(ir::Instruction* collective, const ReshardReason& reason) {
  note(collective, reason, cost::received_bytes(*collective, emit_.devices()));
}

namespace {

/// A stencil has a dim more, of each device's rows: the user's op doesn't.
std::string spec_of_op(TensorSharding layout, std::int64_t rank) {
  for (std::size_t d = 0; d + 1 < layout.dims.size() && layout.rank() == rank + 1; ++d) {
    if (layout.dims[d].axes.empty() || !layout.dims[d + 1].axes.empty()) continue;
    layout.dims.erase(layout.dims.begin() + std::ptrdiff_t(d) + 1);
  }
  return layout.to_spec_string();
}

}  // namespace

void CommunicationReporter::note(ir::Instruction* collective, const ReshardReason& reason,
                                 double bytes) {
  CommunicationRecord r;
  r.kind = std::string(ir::name(collective->opcode));
  r.instruction = collective->name;
  const ir::Instruction* op = log_.origin_of(emit_.current());
  if (op) {
    r.for_op = op_label(*op);
    if (!op->metadata->op_name.empty()) r.for_op += " " + op->metadata->op_name;
    r.location = op->location();
  }
  r.from = reason.from;
  r.to = reason.to;
  if (op && op->shape.is_array() && reason.layout) {
    r.from = r.to = spec_of_op(*reason.layout, op->shape.rank());
  }
  r.reason = reason.text;
  r.full_gather = reason.full_gather;
  r.bytes_received = bytes;
  if (log_.all_records()) r.op = op;
  if (reason.array) {
    r.value = log_.origin_of(reason.array->value);
    r.leaf = reason.array->leaf;
    r.shape = reason.array->shape;
    r.from_sharding = reason.array->from;
    r.to_sharding = reason.array->to;
  }
  log_.add(std::move(r), collective);
}

}  // namespace tessera::spmd
