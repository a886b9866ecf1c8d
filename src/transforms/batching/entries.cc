// SPDX-License-Identifier: Apache-2.0
// Collectives between the entries of the batch: plain ops along its dim.
#include "src/transforms/batching/entries.h"

#include <algorithm>

#include "src/transforms/utils/indexing.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::transforms::batching {

using ir::Instruction;
using ir::Opcode;

namespace {

Batched on_dim(Instruction* array, std::int64_t dim) {
  Batched out;
  out.array = array;
  out.dim = dim;
  return out;
}

ir::Computation* reducer(BatchSite& site) { return site.op.called(0); }

/// The reduction of all entries; the batch dim is gone.
Instruction* over_all_entries(BatchSite& site) {
  if (site.operand_count() != 1) site.not_implemented("it takes several arrays");
  ir::Builder& b = site.b;
  const std::optional<Opcode> op = ir::as_binary_reducer(*reducer(site));
  const DType dtype = site.op.operand(0)->shape.dtype;
  const std::optional<Literal> start = op ? ir::identity_of(*op, dtype) : std::nullopt;
  if (!start) site.not_implemented("it combines by " + reducer(site)->name());
  Instruction* x = site.array(0);
  if (site.batched(0)) return b.reduce(x, b.constant(*start), {site.dim(0)}, reducer(site));
  if (*op == Opcode::add) {
    return b.binary(Opcode::multiply, x, full(b, x->shape, double(site.size())));
  }
  // The others of a value with itself are that value, but for products and exclusive or.
  if (*op == Opcode::multiply || *op == Opcode::xor_) {
    return b.reduce(site.at(0, 0), b.constant(*start), {0}, reducer(site));
  }
  return x;
}

/// Dim `dim` is split into [parts, rest].
Instruction* split_dim(ir::Builder& b, Instruction* x, std::int64_t dim, std::int64_t parts) {
  Dims dims = x->shape.dims;
  dims[std::size_t(dim)] /= parts;
  return b.reshape(x, inserted(std::move(dims), dim, parts));
}

/// Dims `dim` and the next one are joined.
Instruction* join_dims(ir::Builder& b, Instruction* x, std::int64_t dim) {
  Dims dims = x->shape.dims;
  dims[std::size_t(dim) + 1] *= dims[std::size_t(dim)];
  dims.erase(dims.begin() + dim);
  return b.reshape(x, std::move(dims));
}

std::int64_t along(const BatchSite& site) { return site.op.get<ir::CollectiveAttrs>().dims.at(0); }

/// Entries [first, first + count) of the result are those of the operand from `source` on, or zeros
/// if that is negative.
struct Run {
  std::int64_t source = -1, count = 0;
};

std::vector<Run> runs_of(const Dims& sources) {
  std::vector<Run> out;
  for (const std::int64_t s : sources) {
    const bool goes_on = !out.empty() && (s < 0 ? out.back().source < 0
                                                : out.back().source >= 0 &&
                                                      out.back().source + out.back().count == s);
    if (goes_on) {
      ++out.back().count;
    } else {
      out.push_back({s, 1});
    }
  }
  return out;
}

}  // namespace

bool of_batch(const BatchSite& site) {
  const ir::BatchAxis* axis = batch_axis_of(site.op);
  return axis != nullptr && axis->name == site.batcher.options().axis_name;
}

Batched reduced_over_batch(BatchSite& site) { return on_dim(over_all_entries(site), kNotBatched); }

Batched gathered_from_batch(BatchSite& site) {
  const std::int64_t dim = along(site);
  return on_dim(join_dims(site.b, site.at(0, dim), dim), kNotBatched);
}

Batched scattered_over_batch(BatchSite& site) {
  const std::int64_t dim = along(site);
  return on_dim(split_dim(site.b, over_all_entries(site), dim, site.size()), dim);
}

Batched exchanged_in_batch(BatchSite& site) {
  const std::int64_t dim = along(site);
  // [entry, part, rest]; the part goes to the entry of its number.
  Instruction* x = split_dim(site.b, site.at(0, dim), dim + 1, site.size());
  Dims order;
  for (std::int64_t d = 0; d < x->shape.rank(); ++d) order.push_back(d);
  std::swap(order[std::size_t(dim)], order[std::size_t(dim) + 1]);
  return on_dim(join_dims(site.b, site.b.transpose(x, order), dim + 1), dim);
}

Batched permuted_in_batch(BatchSite& site) {
  // More pieces than these are looked up.
  constexpr std::size_t kFewPieces = 8;
  ir::Builder& b = site.b;
  Dims sources(std::size_t(site.size()), -1);
  for (const auto& [from, to] : site.op.get<ir::PermuteAttrs>().source_target_pairs) {
    sources.at(std::size_t(to)) = from;
  }
  const bool all = std::find(sources.begin(), sources.end(), -1) == sources.end();
  if (!site.batched(0) && all) return site.operand(0);
  const std::int64_t dim = site.batched(0) ? site.dim(0) : 0;
  Instruction* x = site.at(0, dim);
  const std::vector<Run> runs = runs_of(sources);
  if (runs.size() > kFewPieces) {
    if (!all) {
      // One entry of zeros behind the others.
      Shape one = x->shape;
      one.dims[std::size_t(dim)] = 1;
      x = b.concatenate({x, zeros(b, one)}, dim);
      std::replace(sources.begin(), sources.end(), std::int64_t(-1), site.size());
    }
    Literal table(Shape(DType::s32, {site.size()}));
    std::copy(sources.begin(), sources.end(), table.mutable_data<std::int32_t>().begin());
    ir::GatherAttrs a;
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (d != dim) a.offset_dims.push_back(d);
      a.slice_sizes.push_back(d == dim ? 1 : x->shape.dim(d));
    }
    a.collapsed_slice_dims = {dim};
    a.start_index_map = {dim};
    a.index_vector_dim = 1;
    return on_dim(b.emit(Opcode::gather, {x, b.constant(table)}, a), dim);
  }
  std::vector<Instruction*> pieces;
  for (const Run& run : runs) {
    Shape shape = x->shape;
    shape.dims[std::size_t(dim)] = run.count;
    if (run.source < 0) {
      pieces.push_back(zeros(b, shape));
      continue;
    }
    Dims starts(shape.dims.size(), 0), limits = shape.dims;
    starts[std::size_t(dim)] = run.source;
    limits[std::size_t(dim)] = run.source + run.count;
    pieces.push_back(b.slice(x, starts, limits));
  }
  if (pieces.empty()) return on_dim(x, dim);
  return on_dim(pieces.size() == 1 ? pieces[0] : b.concatenate(pieces, dim), dim);
}

}  // namespace tessera::transforms::batching
