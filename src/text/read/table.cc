// SPDX-License-Identifier: Apache-2.0
// The table of operations: the short form and what each becomes. Elementwise ops that go by their
// HLO name come from the op table.
#include <algorithm>
#include <deque>
#include <string>
#include <unordered_map>

#include "src/text/read/conversions.h"

namespace tessera::text {
namespace {

using O = ir::Opcode;
using R = Conversions;

constexpr const char* kUnary = "o{:S";
constexpr const char* kBinary = "o,o{:S";
constexpr const char* kChlo = "o{:M";
constexpr const char* kChlo2 = "o,o{:M";
constexpr const char* kChloBroadcast = "o,o{:F";
constexpr const char* kNone = "";

const OpInfo kOperations[] = {
    {"stablehlo.convert", kUnary, &R::convert},
    {"stablehlo.is_finite", "O{:F", &R::elementwise, O::is_finite},
    {"stablehlo.complex", "O{:C", &R::elementwise, O::complex},
    {"stablehlo.bitcast_convert", "O{:F", &R::bitcast_convert, O::bitcast_convert},
    {"stablehlo.compare", "*c{:F", &R::compare},
    {"stablehlo.select", "O{:T", &R::select},
    {"stablehlo.clamp", "o,o,o{:S", &R::clamp},
    {"stablehlo.reduce_precision", "o,<format=format>{:S", &R::reduce_precision},
    {"stablehlo.constant", "*k", &R::constant},
    {"arith.constant", "*k", &R::constant},
    {"sdy.constant", "*k", &R::constant},

    {"stablehlo.iota", "<dim=iota_dimension>{:R", &R::iota},
    {"stablehlo.dynamic_iota", "o,<dim=iota_dimension>{:F", &R::iota},
    {"stablehlo.broadcast", "o,<sizes=broadcast_sizes>{:F", &R::broadcast},
    {"stablehlo.broadcast_in_dim", "o,<dims=broadcast_dimensions>{:F", &R::broadcast_in_dim},
    {"stablehlo.dynamic_broadcast_in_dim", "o,o,<dims=broadcast_dimensions>{:F",
     &R::broadcast_in_dim},
    {"stablehlo.transpose", "o,<dims=permutation>{:F", &R::transpose},
    {"stablehlo.reverse", "o,<dims=dimensions>{:S", &R::reverse},
    {"stablehlo.reshape", "O{:F", &R::reshape},
    {"stablehlo.dynamic_reshape", "O{:F", &R::reshape},
    {"stablehlo.slice", "*s{:F", &R::slice},
    {"stablehlo.real_dynamic_slice", "O{:F", &R::real_dynamic_slice},
    {"stablehlo.dynamic_slice", "O<sizes=slice_sizes>{:F", &R::dynamic_slice},
    {"stablehlo.dynamic_update_slice", "O{:F", &R::dynamic_update_slice},
    {"stablehlo.concatenate", "O<dim=dimension>{:F", &R::concatenate},
    {"stablehlo.pad",
     "o,o,<low=edge_padding_low>,<high=edge_padding_high>,<interior=interior_padding>{:F", &R::pad},
    {"stablehlo.dynamic_pad", "O{:F", &R::dynamic_pad},
    {"stablehlo.gather", kNone, &R::gather},
    {"stablehlo.dynamic_gather", kNone, &R::gather},
    {"stablehlo.scatter", kNone, &R::scatter, O::scatter, Regions::scalar},
    {"stablehlo.get_dimension_size", "o,<dim=dimension>{:F", &R::dimension_size,
     O::get_dimension_size},
    {"stablehlo.set_dimension_size", "o,o,<dim=dimension>{:F", &R::dimension_size,
     O::set_dimension_size},
    {"stablehlo.torch_index_select", kNone, &R::torch_index_select},

    {"stablehlo.dot", "o,o?<precision=precision_config>{:F", &R::dot},
    {"stablehlo.dot_general", "*d{:F", &R::dot_general},
    {"stablehlo.einsum", "o,o,<config=einsum_config>{:F", &R::einsum},
    {"stablehlo.unary_einsum", "o,<config=einsum_config>{:F", &R::einsum},
    {"stablehlo.convolution", "*v{:F", &R::convolution},
    {"stablehlo.dynamic_conv", kNone, &R::convolution},
    {"stablehlo.fft", "o,<type=fft_type>,<length=fft_length>{:F", &R::fft},
    {"stablehlo.cholesky", "o?<lower=lower>{:S", &R::cholesky},
    {"stablehlo.triangular_solve", kNone, &R::triangular_solve},
    {"stablehlo.batch_norm_training", kNone, &R::batch_norm, O::batch_norm_training},
    {"stablehlo.batch_norm_inference", kNone, &R::batch_norm, O::batch_norm_inference},
    {"stablehlo.batch_norm_grad", kNone, &R::batch_norm, O::batch_norm_grad},
    {"stablehlo.rng", "o,o,o,<distribution=rng_distribution>{:F", &R::rng},
    {"stablehlo.rng_bit_generator", "o,<algorithm=rng_algorithm>{:F", &R::rng_bit_generator},
    {"stablehlo.sort", kNone, &R::sort, O::sort, Regions::scalar},
    {"stablehlo.map", kNone, &R::map, O::map, Regions::scalar},
    {"stablehlo.reduce", "*r", &R::reduce, O::reduce, Regions::scalar},
    {"stablehlo.reduce_window", kNone, &R::reduce_window, O::reduce_window, Regions::scalar},
    {"stablehlo.select_and_scatter", kNone, &R::select_and_scatter, O::select_and_scatter,
     Regions::scalar},

    {"stablehlo.tuple", "O{:U", &R::tuple},
    {"stablehlo.get_tuple_element", "o#<place>{:F", &R::get_tuple_element},
    {"stablehlo.while", "*w", &R::while_loop, O::while_, Regions::loop},
    {"stablehlo.case", kNone, &R::conditional, O::conditional, Regions::branches},
    {"stablehlo.if", kNone, &R::conditional, O::conditional, Regions::branches},
    {"stablehlo.composite", "#<name>O{:F", &R::composite},
    {"stablehlo.optimization_barrier", "{O:P", &R::optimization_barrier},
    {"stablehlo.create_token", "{:R", &R::token},
    {"stablehlo.after_all", "O{:S", &R::token},
    {"stablehlo.infeed", kNone, &R::infeed},
    {"stablehlo.outfeed", kNone, &R::outfeed},
    {"stablehlo.send", kNone, &R::send},
    {"stablehlo.recv", kNone, &R::recv},
    {"builtin.unrealized_conversion_cast", kNone, &R::cast},
    {"stablehlo.return", "{O{:Z", &R::terminator},
    {"sdy.return", "{O{:Z", &R::terminator},
    {"func.return", "{O{:Z", &R::terminator},
    {"return", "{O{:Z", &R::terminator},
    {"func.call", "@(O){:F", &R::call},
    {"call", "@(O){:F", &R::call},

    {"stablehlo.replica_id", "{:R", &R::device_id, O::replica_id},
    {"stablehlo.partition_id", "{:R", &R::device_id, O::partition_id},
    {"stablehlo.all_gather", kNone, &R::all_gather},
    {"stablehlo.all_reduce", kNone, &R::all_reduce, O::all_reduce, Regions::scalar},
    {"stablehlo.reduce_scatter", kNone, &R::reduce_scatter, O::reduce_scatter, Regions::scalar},
    {"stablehlo.all_to_all", kNone, &R::all_to_all},
    {"stablehlo.collective_permute", kNone, &R::collective_permute},
    {"stablehlo.collective_broadcast", kNone, &R::collective_broadcast},
    {"stablehlo.collective_reduce", kNone, &R::collective_reduce, O::all_reduce, Regions::scalar},
    {"stablehlo.cross-replica-sum", kNone, &R::cross_replica_sum},
    {"stablehlo.custom_call", "@(O){:F", &R::custom_call},
    {"stablehlo.uniform_quantize", kUnary, &R::uniform_quantize},
    {"stablehlo.uniform_dequantize", kUnary, &R::uniform_dequantize},
    {"stablehlo.async_start", kNone, &R::async_start, O::async_start, Regions::inlined},
    {"stablehlo.async_done", kNone, &R::async_done},

    {"sdy.sharding_constraint", "o#<sharding>{:S", &R::sharding_constraint},
    {"sdy.reshard", "o#<sharding>{:S", &R::sharding_constraint},
    {"sdy.sharding_group", "o<group_id=group_id>{:Z", &R::sharding_group},
    {"sdy.propagation_barrier", "o<allowed_direction=allowed_direction>{:S",
     &R::propagation_barrier},
    {"sdy.data_flow_edge", "*e", &R::data_flow_edge},
    {"sdy.func_data_flow_edge", "*e", &R::data_flow_edge},
    {"sdy.manual_computation", "*m", &R::manual_computation, O::custom_call, Regions::isolated},
    {"sdy.named_computation", "#<name>(O)*n", &R::named_computation, O::call, Regions::isolated},
    {"sdy.all_gather", "*g", &R::sdy_collective},
    {"sdy.all_slice", "*g", &R::sdy_collective},
    {"sdy.all_to_all", "*g", &R::sdy_collective},
    {"sdy.all_reduce", "*g", &R::sdy_collective},
    {"sdy.reduce_scatter", "*g", &R::sdy_collective},
    {"sdy.collective_permute", "*g", &R::sdy_collective},
    {"sdy.sharded_to_unreduced", "*g", &R::sdy_collective},
    {"sdy.replicated_to_unreduced", "*g", &R::sdy_collective},

    {"mhlo.topk", kNone, &R::top_k},
    {"mhlo.add_dependency", "O{:F", &R::elementwise, O::add_dependency},
    {"mhlo.stochastic_convert", kNone, &R::elementwise, O::stochastic_convert},
    {"mhlo.copy", kUnary, &R::elementwise, O::copy},
    {"mhlo.xla.rng_get_and_update_state", kNone, &R::rng_state},

    {"chlo.acos", kChlo, &R::chlo_trigonometric},
    {"chlo.acosh", kChlo, &R::chlo_trigonometric},
    {"chlo.asin", kChlo, &R::chlo_trigonometric},
    {"chlo.asinh", kChlo, &R::chlo_trigonometric},
    {"chlo.atanh", kChlo, &R::chlo_trigonometric},
    {"chlo.cosh", kChlo, &R::chlo_trigonometric},
    {"chlo.sinh", kChlo, &R::chlo_trigonometric},
    {"chlo.tan", kChlo, &R::elementwise, O::tan},
    {"chlo.atan", kChlo, &R::chlo_trigonometric},
    {"chlo.square", kChlo, &R::chlo_unary},
    {"chlo.conj", kChlo, &R::chlo_unary},
    {"chlo.is_inf", kChlo, &R::chlo_unary},
    {"chlo.is_pos_inf", kChlo, &R::chlo_unary},
    {"chlo.is_neg_inf", kChlo, &R::chlo_unary},
    {"chlo.erfc", kChlo, &R::chlo_unary},
    {"chlo.erf_inv", kChlo, &R::chlo_unary},
    {"chlo.lgamma", kChlo, &R::chlo_unary},
    {"chlo.digamma", kChlo, &R::chlo_unary},
    {"chlo.bessel_i1e", kChlo, &R::chlo_unary},
    {"chlo.zeta", kChlo2, &R::chlo_binary},
    {"chlo.polygamma", kChlo2, &R::chlo_binary},
    {"chlo.next_after", kChlo2, &R::chlo_binary},
    {"chlo.constant", "*k", &R::constant},
    {"chlo.constant_like", kNone, &R::chlo_constant_like},
    {"chlo.top_k", "(o,<k=k>?<is_stable=is_stable>){:M", &R::top_k},
    {"chlo.ragged_dot", kNone, &R::ragged_dot},
    {"chlo.scan", "*a", &R::scan, O::while_, Regions::isolated},
    {"chlo.broadcast_add", kChloBroadcast, &R::chlo_broadcast, O::add},
    {"chlo.broadcast_and", kChloBroadcast, &R::chlo_broadcast, O::and_},
    {"chlo.broadcast_atan2", kChloBroadcast, &R::chlo_broadcast, O::atan2},
    {"chlo.broadcast_compare", kChloBroadcast, &R::chlo_broadcast, O::compare},
    {"chlo.broadcast_complex", kChloBroadcast, &R::chlo_broadcast, O::complex},
    {"chlo.broadcast_divide", kChloBroadcast, &R::chlo_broadcast, O::divide},
    {"chlo.broadcast_maximum", kChloBroadcast, &R::chlo_broadcast, O::maximum},
    {"chlo.broadcast_minimum", kChloBroadcast, &R::chlo_broadcast, O::minimum},
    {"chlo.broadcast_multiply", kChloBroadcast, &R::chlo_broadcast, O::multiply},
    {"chlo.broadcast_next_after", kChloBroadcast, &R::chlo_broadcast},
    {"chlo.broadcast_or", kChloBroadcast, &R::chlo_broadcast, O::or_},
    {"chlo.broadcast_polygamma", kChloBroadcast, &R::chlo_broadcast},
    {"chlo.broadcast_power", kChloBroadcast, &R::chlo_broadcast, O::power},
    {"chlo.broadcast_remainder", kChloBroadcast, &R::chlo_broadcast, O::remainder},
    {"chlo.broadcast_select", "o,o,o{:F", &R::chlo_broadcast_select},
    {"chlo.broadcast_shift_left", kChloBroadcast, &R::chlo_broadcast, O::shift_left},
    {"chlo.broadcast_shift_right_arithmetic", kChloBroadcast, &R::chlo_broadcast,
     O::shift_right_arithmetic},
    {"chlo.broadcast_shift_right_logical", kChloBroadcast, &R::chlo_broadcast,
     O::shift_right_logical},
    {"chlo.broadcast_subtract", kChloBroadcast, &R::chlo_broadcast, O::subtract},
    {"chlo.broadcast_xor", kChloBroadcast, &R::chlo_broadcast, O::xor_},
    {"chlo.broadcast_zeta", kChloBroadcast, &R::chlo_broadcast},
};

}  // namespace

namespace {

/// The rows that the op table gives: of elementwise ops.
struct TableRows {
  std::deque<std::string> names;
  std::vector<OpInfo> rows;

  TableRows() {
    for (int n = 0; n < ir::opcode_count(); ++n) {
      const auto op = ir::Opcode(n);
      const ir::OpcodeInfo& info = ir::info(op);
      if (info.dialect == ir::Dialect::own || info.dialect == ir::Dialect::none) continue;
      const bool chlo = info.dialect == ir::Dialect::chlo;
      const char* form = info.operands == 1   ? (chlo ? kChlo : kUnary)
                         : info.operands == 2 ? (chlo ? kChlo2 : kBinary)
                                              : kNone;
      std::string& name = names.emplace_back(dialect_prefix(info.dialect));
      name += info.text;
      std::replace(name.begin(), name.end(), '-', '_');
      rows.push_back({name, form, &R::elementwise, op});
    }
  }
};

/// Those of chlo's functions of one operand, under mhlo's names.
struct MhloRows {
  std::deque<std::string> names;
  std::vector<OpInfo> rows;

  explicit MhloRows(const std::unordered_map<std::string_view, const OpInfo*>& table) {
    constexpr std::string_view kFrom = "chlo.";
    for (const auto& [name, info] : table) {
      if (!name.starts_with(kFrom) || std::string_view(info->form) != kChlo) continue;
      names.push_back("mhlo." + std::string(name.substr(kFrom.size())));
      rows.push_back(*info);
      rows.back().name = names.back();
      rows.back().form = kUnary;
    }
  }
};

}  // namespace

std::string_view dialect_prefix(ir::Dialect dialect) {
  return dialect == ir::Dialect::chlo ? "chlo." : "stablehlo.";
}

const OpInfo* find_operation(std::string_view name) {
  static const auto* table = [] {
    auto* out = new std::unordered_map<std::string_view, const OpInfo*>;
    for (const OpInfo& info : kOperations) out->emplace(info.name, &info);
    // Where the list above has an op, that goes.
    static const TableRows more;
    for (const OpInfo& info : more.rows) out->emplace(info.name, &info);
    // mhlo has some of chlo's functions, which it writes as its other ones.
    static const MhloRows old(*out);
    for (const OpInfo& info : old.rows) out->emplace(info.name, &info);
    return out;
  }();
  auto it = table->find(name);
  if (it != table->end()) return it->second;
  // What StableHLO took over from mhlo kept its name.
  constexpr std::string_view kOld = "mhlo.";
  if (name.substr(0, kOld.size()) != kOld) return nullptr;
  std::string rest(name.substr(kOld.size()));
  for (const char* dialect : {"stablehlo.", "chlo."}) {
    it = table->find(dialect + rest);
    if (it != table->end()) return it->second;
  }
  return nullptr;
}

}  // namespace tessera::text
