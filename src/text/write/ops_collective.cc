// SPDX-License-Identifier: Apache-2.0
// Communication among devices.
#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/ir/process_groups.h"
#include "src/text/write/function.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;
using ir::Instruction;
using ir::Opcode;

namespace {

std::string channel(std::int64_t id) {
  return "channel_handle = #stablehlo.channel_handle<handle = " + std::to_string(id) +
         ", type = 1>";
}

/// As many as the sizes tell, where the module doesn't say how many devices there are.
std::int64_t devices_by_sizes(const Instruction& i) {
  const Shape& in = i.operand(0)->shape;
  const Shape& out = i.shape.is_tuple ? i.shape.elements.at(0) : i.shape;
  const auto d = std::size_t(i.get<ir::CollectiveAttrs>().dims.at(0));
  const auto [least, most] = std::minmax(in.dims.at(d), out.dims.at(d));
  return least > 0 ? most / least : 1;
}

}  // namespace

std::string Writer::groups(const Instruction& i, const ir::DeviceGroups& g,
                           std::int64_t* group_size) {
  const auto* a = i.attrs.get_if<ir::CollectiveAttrs>();
  const ir::ProcessGrid grid{partitions_, module_.replica_count};
  const ir::GroupMode mode =
      a != nullptr ? ir::group_mode(i.opcode, i.attrs, grid) : ir::GroupMode::cross_partition;
  std::int64_t devices = ir::numbers_of_all(mode, grid);
  if (devices <= 1 && g.lists.empty() && !g.symbolic() &&
      (i.is(Opcode::all_gather) || i.is(Opcode::reduce_scatter))) {
    devices = devices_by_sizes(i);
  }
  *group_size = ir::devices_of_group(mode, g.group_size(devices), grid);
  // No lists mean all, whatever devices there are. Where sizes depend on a group, and with ids
  // across replicas, the text must name its devices.
  const bool named = i.is(Opcode::all_gather) || i.is(Opcode::all_gather_start) ||
                     i.is(Opcode::reduce_scatter) || i.is(Opcode::all_to_all) ||
                     (a != nullptr && a->channel_id && a->use_global_device_ids);
  std::string* known = nullptr;  // symbolic groups are few, and their lists are long
  if (g.symbolic()) {
    known = &group_texts_[{g.mesh.get(), g.axes}];
    if (!known->empty()) return *known;
  }
  std::vector<Dims> rows;
  if (named && !g.symbolic() && g.lists.empty()) {
    rows.emplace_back();
    for (std::int64_t d = 0; d < devices; ++d) rows[0].push_back(d);
  }
  if (g.symbolic() || !g.lists.empty()) rows = g.expand(devices);
  const std::size_t columns = rows.empty() ? 0 : rows[0].size();  // all are of one size
  std::string out = "replica_groups = ";
  append_matrix(out, rows, std::int64_t(columns));
  if (known != nullptr) *known = out;
  return out;
}

// Each of n operands goes to another device: as one array with a dim of n more.
Values Writer::tuple_all_to_all(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::CollectiveAttrs>();
  const auto count = std::int64_t(xs.size());
  std::int64_t size = 0;
  const std::string group_text = groups(i, a.groups, &size);
  const Shape& one = *xs[0].type;
  Dims row = one.dims, all = one.dims;
  row.insert(row.begin(), 1);
  all.insert(all.begin(), count);
  Values rows;
  for (const Value& x : xs) rows.push_back(reshape(i, x, row)[0]);
  const Shape* stacked = own(Shape(one.dtype, all));
  Values joined =
      emit(i, {"stablehlo.concatenate", rows, "dimension = 0 : i64", {stacked}, nullptr, false});
  std::string p = a.channel_id ? channel(*a.channel_id) + ", " : "";
  p += "concat_dimension = 0 : i64, " + group_text + ", split_count = " + std::to_string(size) +
       " : i64, split_dimension = 0 : i64";
  Values exchanged = emit(i, {"stablehlo.all_to_all", joined, p, {stacked}, nullptr, false});
  Values out;
  for (std::int64_t n = 0; n < count; ++n) {
    Dims starts(all.size(), 0), limits = all;
    starts[0] = n;
    limits[0] = n + 1;
    const Values part = slice(i, exchanged[0], starts, limits, Dims(all.size(), 1), false);
    out.push_back(reshape(i, part[0], one.dims)[0]);
  }
  return constrained(i, out);
}

Values Writer::collective(const Instruction& i, const Values& xs, const Types& types) {
  if (const auto* permute = i.attrs.get_if<ir::PermuteAttrs>()) {
    std::string p = permute->channel_id ? channel(*permute->channel_id) + ", " : "";
    p += "source_target_pairs = ";
    std::string& pairs = pair_texts_[permute->source_target_pairs];
    if (pairs.empty()) append_pairs(pairs, permute->source_target_pairs);
    p += pairs;
    // A permute of several arrays is as many permutes.
    Values out;
    for (std::size_t n = 0; n < xs.size(); ++n) {
      out.push_back(emit(
          i,
          {"stablehlo.collective_permute", {xs[n]}, p, {types.at(n)}, nullptr, xs.size() == 1})[0]);
    }
    return out;
  }
  const auto& a = i.get<ir::CollectiveAttrs>();
  std::int64_t size = 0;
  const std::string group_text = groups(i, a.groups, &size);
  const std::string handle = a.channel_id ? channel(*a.channel_id) + ", " : "";
  const std::string global =
      a.channel_id && a.use_global_device_ids ? ", use_global_device_ids" : "";
  auto dim = [&](std::string_view key) {
    return std::string(key) + " = " + std::to_string(a.dims.at(0)) + " : i64";
  };
  switch (i.opcode) {
    case Opcode::all_gather:
    case Opcode::all_gather_start:
      return emit(i, {"stablehlo.all_gather", xs,
                      dim("all_gather_dim") + ", " + handle + group_text + global, types});
    case Opcode::all_to_all:
      if (a.dims.empty()) return tuple_all_to_all(i, xs);
      return emit(i, {"stablehlo.all_to_all", xs,
                      handle + dim("concat_dimension") + ", " + group_text + ", split_count = " +
                          std::to_string(size) + " : i64, " + dim("split_dimension"),
                      types});
    case Opcode::collective_broadcast:
      return emit(i, {"stablehlo.collective_broadcast", xs, handle + group_text, types});
    case Opcode::ragged_all_to_all: {
      Op op{"stablehlo.custom_call", xs, "call_target_name = \"ragged_all_to_all\"", types};
      op.form = Form::signature;
      op.lead = "@ragged_all_to_all(";
      op.tail = ")";
      std::string config = "{";
      if (a.channel_id) config += "channel_id = " + std::to_string(*a.channel_id) + " : i64, ";
      op.attributes.emplace_back("api_version", "4 : i32");
      op.attributes.emplace_back("backend_config", config + group_text + "}");
      return emit(i, std::move(op));
    }
    default:
      break;
  }
  const bool scatters = i.is(Opcode::reduce_scatter);
  const bool of_one_type = std::all_of(types.begin(), types.end(),
                                       [&](const Shape* t) { return t->dtype == types[0]->dtype; });
  if (!scatters && of_one_type) {
    return emit(i, {"stablehlo.all_reduce", xs, handle + group_text + global, types,
                    [&] { region(i, *i.called().at(0)); }});
  }
  // One op for each array.
  Values out;
  for (std::size_t n = 0; n < xs.size(); ++n) {
    std::string p = handle;
    if (a.channel_id && n > 0) p = channel(next_channel_++) + ", ";
    p += group_text;
    if (scatters) p += ", " + dim("scatter_dimension");
    out.push_back(emit(i, {scatters ? "stablehlo.reduce_scatter" : "stablehlo.all_reduce",
                           {xs[n]},
                           p + global,
                           {types.at(n)},
                           [&] { region(i, *i.called().at(0)); },
                           xs.size() == 1})[0]);
  }
  return xs.size() == 1 ? out : constrained(i, out);
}

}  // namespace tessera::text
