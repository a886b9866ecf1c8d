// SPDX-License-Identifier: Apache-2.0
// Dots in parts ("collective matmul", Wang et al. 2023): what would be gathered for one travels
// around the ring of devices while each multiplies the part that it has, and a sum that would be
// scattered grows as it travels. No device ever has the full array, and a part's move doesn't wait
// for its dot.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/ir/analysis/loop_invariance.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/groups.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Adding parts up in the element type rounds about as one dot would.
bool sums_well(DType t) { return !is_floating(t) || byte_size(t) >= 4; }

std::int64_t position(const Dims& dims, std::int64_t d) {
  const auto at = std::find(dims.begin(), dims.end(), d);
  return at == dims.end() ? -1 : at - dims.begin();
}

/// What becomes of a dim of an operand of a dot.
struct Role {
  enum class Kind : std::uint8_t { batch, contracting, free } kind = Kind::free;
  std::int64_t in_other = -1;   ///< dim of the other operand; not of a free one
  std::int64_t in_result = -1;  ///< dim of the result; not of a contracting one
};

Role role_of(const Instruction& dot, std::size_t side, std::int64_t d) {
  const auto& a = dot.get<ir::DotAttrs>();
  const Dims& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
  const Dims& contracting = side == 0 ? a.lhs_contracting : a.rhs_contracting;
  const Dims& other_batch = side == 0 ? a.rhs_batch : a.lhs_batch;
  const Dims& other_contracting = side == 0 ? a.rhs_contracting : a.lhs_contracting;
  if (const std::int64_t k = position(batch, d); k >= 0) {
    return {Role::Kind::batch, other_batch[std::size_t(k)], k};
  }
  if (const std::int64_t k = position(contracting, d); k >= 0) {
    return {Role::Kind::contracting, other_contracting[std::size_t(k)], -1};
  }
  std::int64_t at = std::int64_t(batch.size());
  if (side == 1) {
    at += dot.operand(0)->shape.rank() - std::int64_t(batch.size() + contracting.size());
  }
  for (std::int64_t e = 0; e < d; ++e) {
    if (position(batch, e) < 0 && position(contracting, e) < 0) ++at;
  }
  return {Role::Kind::free, -1, at};
}

/// The members of a ring, each device in one, all of a size.
struct Ring {
  std::int64_t size = 0;
  std::vector<std::int64_t> member;  ///< by device
  DevicePairs pairs;                 ///< from each member to the one before
};

std::optional<Ring> ring_of(const DeviceLists& lists, std::int64_t devices) {
  Ring ring;
  std::vector<std::int64_t> before(std::size_t(devices), 0);
  ring.member.assign(std::size_t(devices), -1);
  for (const auto& list : lists) {
    const auto n = std::int64_t(list.size());
    if (ring.size == 0) ring.size = n;
    if (n != ring.size || n < 2) return std::nullopt;
    for (std::size_t j = 0; j < list.size(); ++j) {
      ring.member[std::size_t(list[j])] = std::int64_t(j);
      before[std::size_t(list[(j + 1) % list.size()])] = list[j];
    }
  }
  const bool all =
      std::none_of(ring.member.begin(), ring.member.end(), [](std::int64_t m) { return m < 0; });
  if (!all || ring.size == 0) return std::nullopt;
  std::vector<DevicePairs::Pair> pairs;
  pairs.reserve(before.size());
  for (std::size_t d = 0; d < before.size(); ++d) pairs.emplace_back(std::int64_t(d), before[d]);
  ring.pairs = std::move(pairs);
  return ring;
}

class CollectiveMatmuls {
 public:
  CollectiveMatmuls(ir::Computation* c, GroupTable* groups, std::int64_t from_bytes)
      : r_(c), groups_(*groups), from_bytes_(from_bytes) {}

  std::size_t run() {
    for (std::size_t n = 0; n < r_.size(); ++n) {
      Instruction* i = r_.at(n);
      if (!r_.untouched(i)) continue;
      if (i->is(Opcode::dot)) gathered(i);
      if (i->is(Opcode::reduce_scatter)) scattered(i);
    }
    return r_.finish();
  }

 private:
  bool is_large(const Instruction& i) const { return i.shape.byte_count() >= from_bytes_; }

  const std::optional<Ring>& ring(const Instruction& collective) {
    const DeviceLists& lists = groups_.lists(collective.get<ir::CollectiveAttrs>().groups);
    const auto [known, fresh] = rings_.try_emplace(&lists);
    if (fresh) known->second = ring_of(lists, groups_.devices());
    return known->second;
  }

  /// dot(all-gather(x), y), or the other way round.
  void gathered(Instruction* dot) {
    std::optional<std::size_t> side;
    for (std::size_t k = 0; k < 2; ++k) {
      const Instruction* x = dot->operand(k);
      if (!x->is(Opcode::all_gather) || !ir::is_plain_collective(*x) || !r_.has_one_use(x))
        continue;
      if (!is_large(*x)) continue;
      if (!side || x->shape.byte_count() > dot->operand(*side)->shape.byte_count()) side = k;
    }
    if (!side) return;
    Instruction* gather = dot->operand(*side);
    const std::int64_t d = gather->get<ir::CollectiveAttrs>().dims.at(0);
    const Role role = role_of(*dot, *side, d);
    const bool sums = role.kind == Role::Kind::contracting;
    if (sums && !sums_well(dot->shape.dtype)) return;
    const auto& ring = this->ring(*gather);
    if (!ring) return;
    Instruction* part = gather->operand(0);
    const std::int64_t size = part->shape.dim(d);

    const auto multiply = [&](ir::Builder& b, const Carried& in, Instruction* sum) {
      Instruction* start =
          b.binary(Opcode::multiply, chunk(b, in, 0, ring->size), index_constant(b, size));
      Instruction* other = in.other;
      if (role.in_other >= 0) other = cut(b, other, role.in_other, start, size);
      Instruction* x = *side == 0 ? in.travels : other;
      Instruction* y = *side == 0 ? other : in.travels;
      Shape shape = dot->shape;
      if (!sums) shape.dims[std::size_t(role.in_result)] = size;
      Instruction* product = b.emit_shaped(Opcode::dot, shape, {x, y}, dot->attrs);
      if (sums) return b.binary(Opcode::add, sum, product);
      std::vector<Instruction*> starts(dot->shape.dims.size(), index_constant(b, 0));
      starts[std::size_t(role.in_result)] = start;
      return b.dynamic_update_slice(sum, product, starts);
    };
    ir::Builder& b = r_.builder(dot);
    Instruction* nothing = b.splat(b.zero(dot->shape.dtype), dot->shape.dims);
    const Carried first{index_constant(b, 0), member(b, *ring), part, dot->operand(1 - *side),
                        nothing};
    const Carried last =
        loop(b, first, 0, *ring, gather->metadata, [&](ir::Builder& in_loop, const Carried& in) {
          Carried next = in;
          next.sum = multiply(in_loop, in, in.sum);
          next.travels = send(in_loop, in.travels, *ring, gather);
          return next;
        });
    r_.touch(gather);
    r_.replace(dot, multiply(b, last, last.sum));
  }

  /// reduce-scatter(dot(x, y)).
  void scattered(Instruction* scatter) {
    if (!ir::is_plain_collective(*scatter) || !sums_well(scatter->shape.dtype)) return;
    Instruction* dot = scatter->operand(0);
    if (!dot->is(Opcode::dot) || !r_.has_one_use(dot) || !is_large(*dot)) return;
    if (ir::as_binary_reducer(*scatter->called().at(0)) != Opcode::add) return;
    const auto& ring = this->ring(*scatter);
    if (!ring) return;
    const std::int64_t d = scatter->get<ir::CollectiveAttrs>().dims.at(0);
    const std::int64_t size = scatter->shape.dim(d);
    // The dims of the operands that the scattered one comes from.
    std::int64_t from[2] = {-1, -1};
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::int64_t e = 0; e < dot->operand(side)->shape.rank(); ++e) {
        if (role_of(*dot, side, e).in_result == d) from[side] = e;
      }
    }
    // The chunk that is the receiver's in the end has then been with everyone.
    const auto multiply = [&](ir::Builder& b, const Carried& in) {
      Instruction* start =
          b.binary(Opcode::multiply, chunk(b, in, 1, ring->size), index_constant(b, size));
      Instruction* x[2] = {in.travels, in.other};
      for (std::size_t side = 0; side < 2; ++side) {
        if (from[side] >= 0) x[side] = cut(b, x[side], from[side], start, size);
      }
      return b.emit_shaped(Opcode::dot, scatter->shape, {x[0], x[1]}, dot->attrs);
    };
    ir::Builder& b = r_.builder(scatter);
    Carried first{index_constant(b, 0), member(b, *ring), dot->operand(0), dot->operand(1),
                  nullptr};
    first.sum = multiply(b, first);
    first.step = index_constant(b, 1);
    const Carried last =
        loop(b, first, 1, *ring, scatter->metadata, [&](ir::Builder& in_loop, const Carried& in) {
          Carried next = in;
          next.sum = in_loop.binary(Opcode::add, send(in_loop, in.sum, *ring, scatter),
                                    multiply(in_loop, in));
          return next;
        });
    r_.touch(dot);
    r_.replace(scatter, last.sum);
  }

  /// What goes from trip to trip.
  struct Carried {
    Instruction* step;     ///< s32[]
    Instruction* member;   ///< s32[]: the place of the device in its ring
    Instruction* travels;  ///< the part of the gathered operand; when scattered: the left operand
    Instruction* other;
    Instruction* sum;
  };

  static Instruction* index_constant(ir::Builder& b, std::int64_t n) {
    return b.scalar(DType::s32, double(n));
  }

  /// (member + step + ahead) modulo the ring: whose part it is.
  static Instruction* chunk(ir::Builder& b, const Carried& in, std::int64_t ahead,
                            std::int64_t size) {
    Instruction* sum = b.binary(Opcode::add, in.member, in.step);
    if (ahead != 0) sum = b.binary(Opcode::add, sum, index_constant(b, ahead));
    return b.binary(Opcode::remainder, sum, index_constant(b, size));
  }

  static Instruction* cut(ir::Builder& b, Instruction* x, std::int64_t d, Instruction* start,
                          std::int64_t size) {
    std::vector<Instruction*> starts(x->shape.dims.size(), index_constant(b, 0));
    starts[std::size_t(d)] = start;
    Dims sizes = x->shape.dims;
    sizes[std::size_t(d)] = size;
    return b.dynamic_slice(x, std::move(starts), std::move(sizes));
  }

  static Instruction* send(ir::Builder& b, Instruction* x, const Ring& ring,
                           const Instruction* instead_of) {
    const Cow<ir::Metadata> keep = b.metadata;
    b.metadata = instead_of->metadata;
    Instruction* out = b.collective_permute(x, ring.pairs);
    b.metadata = keep;
    return out;
  }

  /// The place of the device in its ring.
  Instruction* member(ir::Builder& b, const Ring& ring) {
    Instruction* id = b.convert(b.partition_id(), DType::s32);
    // Mostly a digit of the device's number.
    for (std::int64_t stride = 1; stride * ring.size <= groups_.devices(); ++stride) {
      bool digit = true;
      for (std::size_t p = 0; p < ring.member.size() && digit; ++p) {
        digit = ring.member[p] == std::int64_t(p) / stride % ring.size;
      }
      if (!digit) continue;
      if (stride > 1) id = b.binary(Opcode::divide, id, index_constant(b, stride));
      if (stride * ring.size == groups_.devices()) return id;
      return b.binary(Opcode::remainder, id, index_constant(b, ring.size));
    }
    Literal table(Shape(DType::s32, {std::int64_t(ring.member.size())}));
    auto data = table.mutable_data<std::int32_t>();
    for (std::size_t p = 0; p < ring.member.size(); ++p) data[p] = std::int32_t(ring.member[p]);
    return b.reshape(b.dynamic_slice(b.constant(table), {id}, {1}), {});
  }

  /// One trip fewer than there are members. `begin`: the first step.
  template <class Body>
  static Carried loop(ir::Builder& b, const Carried& first, std::int64_t begin, const Ring& ring,
                      const Cow<ir::Metadata>& metadata, Body&& body) {
    const auto unpack = [](ir::Builder& in, Instruction* t) {
      return Carried{in.get_tuple_element(t, 0), in.get_tuple_element(t, 1),
                     in.get_tuple_element(t, 2), in.get_tuple_element(t, 3),
                     in.get_tuple_element(t, 4)};
    };
    const auto pack = [](ir::Builder& in, const Carried& c) {
      return in.tuple({c.step, c.member, c.travels, c.other, c.sum});
    };
    Instruction* init = pack(b, first);
    ir::Builder test(b.module()->add_computation("windowed_dot_condition"));
    Instruction* seen = test.parameter(0, init->shape);
    test.computation()->set_root(test.compare(ir::Direction::lt, test.get_tuple_element(seen, 0),
                                              index_constant(test, begin + ring.size - 1)));
    ir::Builder trip(b.module()->add_computation("windowed_dot_body"));
    trip.metadata = metadata;
    const Carried in = unpack(trip, trip.parameter(0, init->shape));
    Carried next = body(trip, in);
    next.step = trip.binary(Opcode::add, in.step, index_constant(trip, 1));
    trip.computation()->set_root(pack(trip, next));
    Instruction* out = b.while_loop(test.computation(), trip.computation(), init, ring.size - 1);
    return unpack(b, out);
  }

  ir::Rewriter r_;
  GroupTable& groups_;
  std::map<const DeviceLists*, std::optional<Ring>> rings_;  ///< those of the table
  std::int64_t from_bytes_;
};

}  // namespace

std::size_t expand_collective_matmuls(ir::Module* module, std::int64_t from_bytes) {
  GroupTable groups(module->num_partitions);
  std::vector<ir::Computation*> all;
  for (const auto& c : module->computations()) all.push_back(c.get());
  std::size_t changed = 0;
  for (ir::Computation* c : all) changed += CollectiveMatmuls(c, &groups, from_bytes).run();
  if (changed > 0) module->remove_dead_computations();
  return changed;
}

}  // namespace tessera::spmd
