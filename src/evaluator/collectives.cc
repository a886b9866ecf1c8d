// SPDX-License-Identifier: Apache-2.0
// Collectives when all devices' programs are walked side by side.
#include <algorithm>

#include "src/evaluator/interpreter.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/ir/process_groups.h"

namespace tessera::evaluator {
namespace {

using ir::Opcode;

std::string list(const std::vector<std::int64_t>& devices) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < devices.size() && i < kShown; ++i) {
    out += (i ? "," : "") + std::to_string(devices[i]);
  }
  return devices.size() > kShown ? out + ",..." : out;
}

bool sorted_contains(const Active& devices, std::int64_t d) {
  return std::binary_search(devices.begin(), devices.end(), d);
}

/// The operands of one place of the operand list, of all members of a group.
std::vector<const Literal*> members(const Values& operand, const std::vector<std::size_t>& group) {
  std::vector<const Literal*> out;
  for (std::size_t place : group) out.push_back(&operand[place]);
  return out;
}

Literal joined(const std::vector<const Literal*>& parts, std::int64_t dim) {
  Dims dims = parts[0]->dims();
  dims[std::size_t(dim)] *= std::int64_t(parts.size());
  Literal out(Shape(parts[0]->dtype(), dims));
  Dims starts(dims.size(), 0);
  for (const Literal* p : parts) {
    write_box(out, *p, starts);
    starts[std::size_t(dim)] += p->dims()[std::size_t(dim)];
  }
  return out;
}

/// Part `index` of `count` equal parts along a dim.
Literal part_of(const ir::Instruction& in, const Literal& x, std::int64_t dim, std::size_t index,
                std::size_t count) {
  Dims starts(x.dims().size(), 0), sizes = x.dims();
  std::int64_t& size = sizes[std::size_t(dim)];
  if (size % std::int64_t(count) != 0) {
    throw RuntimeError(in.describe() + ": dim " + std::to_string(dim) + " of " +
                           x.shape().to_string() + " can't be split in " + std::to_string(count) +
                           " parts",
                       in.location());
  }
  size /= std::int64_t(count);
  starts[std::size_t(dim)] = std::int64_t(index) * size;
  return sliced(x, starts, sizes);
}

/// Whether -start and -done forms, whose results carry the operands along, are meant.
bool is_start(Opcode op) {
  return op == Opcode::all_gather_start || op == Opcode::collective_permute_start;
}

}  // namespace

std::vector<std::vector<std::size_t>> Interpreter::groups_of(
    const ir::Instruction& in, const Active& active,
    const std::vector<std::vector<std::int64_t>>& groups) const {
  std::vector<std::vector<std::size_t>> out;
  for (const auto& group : groups) {
    std::vector<std::size_t> places;
    std::vector<std::int64_t> here, missing;
    for (std::int64_t d : group) {
      const auto at = std::lower_bound(active.begin(), active.end(), d);
      if (at != active.end() && *at == d) {
        places.push_back(std::size_t(at - active.begin()));
        here.push_back(d);
      } else {
        missing.push_back(d);
      }
    }
    if (here.empty()) continue;
    if (!missing.empty()) {
      std::string why = "they don't take part in the program";
      for (const Divergence& d : divergences_) {
        if (!sorted_contains(d.away, missing[0])) continue;
        why = std::string(d.op->is(Opcode::while_) ? "they have left the loop "
                                                   : "they took another branch of ") +
              d.op->describe();
      }
      throw RuntimeError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                             ": of the group {" + list(group) + "} only the devices " + list(here) +
                             " take part, not " + list(missing) + ": " + why,
                         in.location());
    }
    out.push_back(std::move(places));
  }
  return out;
}

std::vector<std::vector<std::int64_t>> Interpreter::lists_of(const ir::Instruction& in) const {
  return ir::process_groups(in.get<ir::CollectiveAttrs>().groups,
                            ir::group_mode(in.opcode, in.attrs, grid_), grid_);
}

Values Interpreter::run_ragged_all_to_all(const ir::Instruction& in, const Active& active,
                                          const std::vector<const Values*>& operands) {
  // operands: input, output, where to read, how many rows, where to write, how many arrive.
  Values out = *operands[1];
  const auto groups = groups_of(in, active, lists_of(in));
  for (const auto& group : groups) {
    for (std::size_t place : group) {
      const Literal& input = (*operands[0])[place];
      const Literal *from = &(*operands[2])[place], *rows = &(*operands[3])[place],
                    *to = &(*operands[4])[place];
      const std::int64_t each = from->element_count() / std::int64_t(group.size());
      for (std::int64_t n = 0; n < each * std::int64_t(group.size()); ++n) {
        Literal& target = out[group[std::size_t(n / each)]];
        const std::int64_t count = index_at(*rows, n), start = index_at(*from, n),
                           end = index_at(*to, n);
        const auto fits = [&](std::int64_t at, const Literal& x) {
          return at >= 0 && count >= 0 && at <= x.dims()[0] && count <= x.dims()[0] - at;
        };
        if (!fits(start, input) || !fits(end, target)) {
          throw RuntimeError(in.describe() + ": " + std::to_string(count) + " rows from row " +
                                 std::to_string(start) + " of " + input.shape().to_string() +
                                 " to row " + std::to_string(end) + " of " +
                                 target.shape().to_string() + " don't fit",
                             in.location());
        }
        Dims starts(input.dims().size(), 0), sizes = input.dims(), at = starts;
        starts[0] = start;
        sizes[0] = count;
        at[0] = end;
        write_box(target, sliced(input, starts, sizes), at);
      }
    }
  }
  return out;
}

namespace {

/// The results of the devices of one group, into results[place][operand].
void run_in_group(const ir::Instruction& in, const std::vector<std::size_t>& group,
                  const std::vector<const Values*>& operands,
                  std::vector<std::vector<Literal>>* results) {
  const auto& attrs = in.get<ir::CollectiveAttrs>();
  const std::size_t count = operands.size(), size = group.size();
  if (in.is(Opcode::all_to_all) && attrs.dims.empty()) {
    // Tuple form: operand j goes to member j.
    if (count != size) {
      throw RuntimeError(in.describe() + ": " + std::to_string(count) +
                             " operands for a group of " + std::to_string(size),
                         in.location());
    }
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        (*results)[group[i]][j] = (*operands[i])[group[j]];
      }
    }
    return;
  }
  for (std::size_t o = 0; o < count; ++o) {
    const auto parts = members(*operands[o], group);
    switch (in.opcode) {
      case Opcode::all_reduce:
      case Opcode::all_reduce_start:
      case Opcode::reduce_scatter: {
        const Literal sum = reduce_together(*in.called().at(0), parts);
        for (std::size_t i = 0; i < size; ++i) {
          (*results)[group[i]][o] =
              in.is(Opcode::reduce_scatter) ? part_of(in, sum, attrs.dims.at(0), i, size) : sum;
        }
        break;
      }
      case Opcode::all_gather:
      case Opcode::all_gather_start: {
        const Literal all = joined(parts, attrs.dims.at(0));
        for (std::size_t place : group) (*results)[place][o] = all;
        break;
      }
      case Opcode::all_to_all:
        for (std::size_t i = 0; i < size; ++i) {
          std::vector<Literal> cut;
          std::vector<const Literal*> pieces;
          for (const Literal* p : parts) cut.push_back(part_of(in, *p, attrs.dims[0], i, size));
          for (const Literal& c : cut) pieces.push_back(&c);
          (*results)[group[i]][o] = joined(pieces, attrs.dims[0]);
        }
        break;
      case Opcode::collective_broadcast:
        for (std::size_t place : group) (*results)[place][o] = *parts[0];
        break;
      default:
        throw NotImplementedError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                                      " has no reference meaning in the evaluator yet",
                                  in.location());
    }
  }
}

}  // namespace

Values Interpreter::run_collective(const ir::Instruction& in, const Active& active,
                                   const std::vector<const Values*>& operands) {
  if (mode_ == Mode::no_collectives) {
    throw RuntimeError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                           " needs the other devices; run the module with evaluate_spmd",
                       in.location());
  }
  if (in.is(Opcode::ragged_all_to_all)) return run_ragged_all_to_all(in, active, operands);
  const std::size_t count = operands.size();
  // results[place][operand]
  std::vector<std::vector<Literal>> results(active.size(), std::vector<Literal>(count));
  std::vector<bool> done(active.size(), false);

  if (in.is(Opcode::collective_permute) || in.is(Opcode::collective_permute_start)) {
    for (std::size_t o = 0; o < count; ++o) {
      for (Values::size_type i = 0; i < active.size(); ++i) {
        results[i][o] = Literal((*operands[o])[i].shape());  // zeros
        done[i] = true;
      }
    }
    for (const auto& [source, target] :
         ir::process_pairs(in.get<ir::PermuteAttrs>().source_target_pairs.pairs(),
                           ir::group_mode(in.opcode, in.attrs, grid_), grid_)) {
      std::vector<std::int64_t> pair = {source};
      if (target != source) pair.push_back(target);
      for (const auto& places : groups_of(in, active, {pair})) {
        for (std::size_t o = 0; o < count; ++o) {
          results[places.back()][o] = (*operands[o])[places.front()];
        }
      }
    }
  } else {
    for (const auto& group : groups_of(in, active, lists_of(in))) {
      for (std::size_t place : group) done[place] = true;
      run_in_group(in, group, operands, &results);
    }
  }

  Values out;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (!done[i] && in.is(Opcode::collective_broadcast)) {
      for (std::size_t o = 0; o < count; ++o) results[i][o] = Literal((*operands[o])[i].shape());
    } else if (!done[i]) {
      throw RuntimeError(std::string(ir::name(in.opcode)) + " " + in.describe() + ": device " +
                             std::to_string(active[i]) + " is in no group",
                         in.location());
    }
    Literal value = count == 1 && !(in.shape.is_tuple && !is_start(in.opcode))
                        ? results[i][0]
                        : Literal::tuple(results[i]);
    if (is_start(in.opcode)) {
      std::vector<Literal> given;
      for (std::size_t o = 0; o < count; ++o) given.push_back((*operands[o])[i]);
      Literal before = count == 1 ? given[0] : Literal::tuple(given);
      std::vector<Literal> both = {std::move(before), std::move(value)};
      // Contexts, as of collective-permute-start, carry nothing.
      for (std::size_t e = 2; e < in.shape.elements.size(); ++e) {
        both.emplace_back(in.shape.elements[e]);
      }
      value = Literal::tuple(std::move(both));
    }
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace tessera::evaluator
