// SPDX-License-Identifier: Apache-2.0
// The properties are those of the operations' definitions in StableHLO's and Shardy's .td files,
// and MLIR's of func and builtin.
#include "src/text/bytecode/properties.h"

#include <algorithm>
#include <unordered_map>

namespace tessera::text {
namespace {

/// Names of one dialect that have the same properties, and these: `key`, `key?` if it may be left
/// out, `key+` if older versions don't have it, or `key=2` for two numbers.
struct PropertyRow {
  std::string_view dialect, names, keys;
};

#define TESSERA_CONVOLUTION_KEYS                                                              \
  "input_batch_dimension input_feature_dimension input_spatial_dimensions "                   \
  "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions " \
  "output_batch_dimension output_feature_dimension output_spatial_dimensions "                \
  "feature_group_count batch_group_count precision_config"
#define TESSERA_CALL_KEYS                                                            \
  "call_target_name has_side_effect backend_config api_version called_computations " \
  "operand_layouts result_layouts output_operand_aliases"

constexpr PropertyRow kPropertyRows[] = {
    {"vhlo.", "all_gather_v1 all_gather_v2",
     "all_gather_dim replica_groups channel_id use_global_device_ids"},
    {"vhlo.", "all_reduce_v1 all_reduce_v2", "replica_groups channel_id use_global_device_ids"},
    {"vhlo.", "all_to_all_v1 all_to_all_v2",
     "split_dimension concat_dimension split_count replica_groups channel_id"},
    {"vhlo.", "batch_norm_grad_v1 batch_norm_inference_v1 batch_norm_training_v1",
     "epsilon feature_index"},
    {"vhlo.", "broadcast_in_dim_v1", "broadcast_dimensions"},
    {"vhlo.", "broadcast_v1", "broadcast_sizes"},
    {"vhlo.", "call_v1", "callee"},
    {"vhlo.",
     "cbrt_v2 cosine_v2 exponential_v2 exponential_minus_one_v2 log_v2 log_plus_one_v2 logistic_v2 "
     "rsqrt_v2 sine_v2 sqrt_v2 tan_v2 tanh_v2",
     "result_accuracy"},
    {"vhlo.", "cholesky_v1", "lower"},
    {"vhlo.", "collective_broadcast_v1", "replica_groups channel_id"},
    {"vhlo.", "collective_broadcast_v2", "replica_groups channel_id has_dynamic_root"},
    {"vhlo.", "collective_reduce_v1",
     "replica_groups channel_id use_global_device_ids has_dynamic_root"},
    {"vhlo.", "collective_permute_v1", "source_target_pairs channel_id"},
    {"vhlo.", "compare_v1", "comparison_direction compare_type"},
    {"vhlo.", "composite_v1 composite_v2", "name composite_attributes decomposition version"},
    {"vhlo.", "concatenate_v1 get_dimension_size_v1 set_dimension_size_v1", "dimension"},
    {"vhlo.", "constant_v1", "value"},
    {"vhlo.", "convolution_v1 dynamic_conv_v1",
     "window_strides padding lhs_dilation rhs_dilation window_reversal " TESSERA_CONVOLUTION_KEYS},
    {"vhlo.", "dynamic_conv_v2",
     "window_strides lhs_dilation rhs_dilation window_reversal " TESSERA_CONVOLUTION_KEYS},
    {"vhlo.", "cross-replica-sum_v1", "replica_groups"},
    {"vhlo.", "custom_call_v1", TESSERA_CALL_KEYS},
    {"vhlo.", "custom_call_v2", TESSERA_CALL_KEYS " result_tilings"},
    {"vhlo.", "dot_v1", "precision_config"},
    {"vhlo.", "dot_general_v1",
     "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
     "rhs_contracting_dimensions precision_config"},
    {"vhlo.", "dot_general_v2",
     "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions "
     "rhs_contracting_dimensions precision_config lhs_precision_type rhs_precision_type "
     "accumulation_type lhs_component_count rhs_component_count num_primitive_operations "
     "allow_imprecise_accumulation"},
    {"vhlo.", "dynamic_broadcast_in_dim_v1",
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"vhlo.", "dynamic_gather_v1",
     "offset_dims collapsed_slice_dims start_index_map index_vector_dim indices_are_sorted"},
    {"vhlo.", "dynamic_gather_v2",
     "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
     "start_index_map index_vector_dim indices_are_sorted"},
    {"vhlo.", "iota_v1 dynamic_iota_v1", "iota_dimension"},
    {"vhlo.", "dynamic_slice_v1", "slice_sizes"},
    {"vhlo.", "einsum_v1 unary_einsum_v1", "einsum_config"},
    {"vhlo.", "fft_v1", "fft_type fft_length"},
    {"vhlo.", "func_v1", "sym_name function_type sym_visibility arg_attrs res_attrs"},
    {"vhlo.", "gather_v1",
     "offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes "
     "indices_are_sorted"},
    {"vhlo.", "gather_v2",
     "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
     "start_index_map index_vector_dim slice_sizes indices_are_sorted"},
    {"vhlo.", "get_tuple_element_v1", "index"},
    {"vhlo.", "infeed_v1", "infeed_config layout"},
    {"vhlo.", "map_v1 reduce_v1 reverse_v1", "dimensions"},
    {"vhlo.", "outfeed_v1", "outfeed_config"},
    {"vhlo.", "pad_v1", "edge_padding_low edge_padding_high interior_padding"},
    {"vhlo.", "recv_v1 send_v1", "channel_id channel_type is_host_transfer"},
    {"vhlo.", "recv_v2 send_v2", "channel_id channel_type is_host_transfer source_target_pairs"},
    {"vhlo.", "reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"vhlo.", "reduce_scatter_v1",
     "scatter_dimension replica_groups channel_id use_global_device_ids"},
    {"vhlo.", "reduce_window_v1",
     "window_dimensions window_strides base_dilations window_dilations padding"},
    {"vhlo.", "rng_bit_generator_v1", "rng_algorithm"},
    {"vhlo.", "rng_v1", "rng_distribution"},
    {"vhlo.", "scatter_v1",
     "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim "
     "indices_are_sorted unique_indices"},
    {"vhlo.", "scatter_v2",
     "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
     "scatter_dims_to_operand_dims index_vector_dim indices_are_sorted unique_indices"},
    {"vhlo.", "select_and_scatter_v1", "window_dimensions window_strides padding"},
    {"vhlo.", "slice_v1", "start_indices limit_indices strides"},
    {"vhlo.", "sort_v1", "dimension is_stable"},
    {"vhlo.", "torch_index_select_v1", "dim batch_dims"},
    {"vhlo.", "transpose_v1", "permutation"},
    {"vhlo.", "triangular_solve_v1", "left_side lower unit_diagonal transpose_a"},

    {"stablehlo.", "all_gather",
     "all_gather_dim replica_groups channel_handle? use_global_device_ids?"},
    {"stablehlo.", "all_reduce", "replica_groups channel_handle? use_global_device_ids?"},
    {"stablehlo.", "all_to_all",
     "split_dimension concat_dimension split_count replica_groups channel_handle?"},
    {"stablehlo.", "batch_norm_grad batch_norm_inference batch_norm_training",
     "epsilon feature_index"},
    {"stablehlo.", "broadcast_in_dim", "broadcast_dimensions"},
    {"stablehlo.", "broadcast", "broadcast_sizes"},
    {"stablehlo.",
     "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
     "tanh",
     "result_accuracy?"},
    {"stablehlo.", "cholesky", "lower?"},
    {"stablehlo.", "collective_broadcast", "replica_groups channel_handle? has_dynamic_root+"},
    {"stablehlo.", "collective_reduce",
     "replica_groups channel_handle? use_global_device_ids? has_dynamic_root?"},
    {"stablehlo.", "collective_permute", "source_target_pairs channel_handle?"},
    {"stablehlo.", "compare", "comparison_direction compare_type?"},
    {"stablehlo.", "composite", "name composite_attributes? decomposition version?"},
    {"stablehlo.", "concatenate get_dimension_size set_dimension_size", "dimension"},
    {"stablehlo.", "constant", "value"},
    {"stablehlo.", "convolution",
     "window_strides? padding? lhs_dilation? rhs_dilation? window_reversal? dimension_numbers "
     "feature_group_count batch_group_count precision_config?"},
    {"stablehlo.", "dynamic_conv",
     "window_strides? lhs_dilation? rhs_dilation? window_reversal? dimension_numbers "
     "feature_group_count batch_group_count precision_config?"},
    {"stablehlo.", "cross-replica-sum", "replica_groups"},
    {"stablehlo.", "custom_call",
     "call_target_name has_side_effect? backend_config? api_version? called_computations? "
     "operand_layouts? result_layouts? output_operand_aliases? result_tilings+"},
    {"stablehlo.", "dot", "precision_config?"},
    {"stablehlo.", "dot_general", "dot_dimension_numbers precision_config? algorithm?"},
    {"stablehlo.", "dynamic_broadcast_in_dim",
     "broadcast_dimensions known_expanding_dimensions? known_nonexpanding_dimensions?"},
    {"stablehlo.", "dynamic_gather", "dimension_numbers indices_are_sorted?"},
    {"stablehlo.", "iota dynamic_iota", "iota_dimension"},
    {"stablehlo.", "dynamic_slice", "slice_sizes"},
    {"stablehlo.", "einsum unary_einsum", "einsum_config"},
    {"stablehlo.", "fft", "fft_type fft_length"},
    {"stablehlo.", "gather", "dimension_numbers slice_sizes indices_are_sorted?"},
    {"stablehlo.", "get_tuple_element", "index"},
    {"stablehlo.", "infeed", "infeed_config? layout?"},
    {"stablehlo.", "map reduce reverse", "dimensions"},
    {"stablehlo.", "outfeed", "outfeed_config?"},
    {"stablehlo.", "pad", "edge_padding_low edge_padding_high interior_padding"},
    {"stablehlo.", "recv send", "channel_handle is_host_transfer? source_target_pairs+"},
    {"stablehlo.", "reduce_precision", "exponent_bits mantissa_bits"},
    {"stablehlo.", "reduce_scatter",
     "scatter_dimension replica_groups channel_handle? use_global_device_ids?"},
    {"stablehlo.", "reduce_window",
     "window_dimensions window_strides? base_dilations? window_dilations? padding?"},
    {"stablehlo.", "rng_bit_generator", "rng_algorithm"},
    {"stablehlo.", "rng", "rng_distribution"},
    {"stablehlo.", "scatter", "scatter_dimension_numbers indices_are_sorted? unique_indices?"},
    {"stablehlo.", "select_and_scatter", "window_dimensions? window_strides? padding?"},
    {"stablehlo.", "slice", "start_indices limit_indices strides"},
    {"stablehlo.", "sort", "dimension? is_stable?"},
    {"stablehlo.", "torch_index_select", "dim batch_dims"},
    {"stablehlo.", "transpose", "permutation"},
    {"stablehlo.", "triangular_solve", "left_side lower unit_diagonal transpose_a"},

    {"chlo.",
     "broadcast_add broadcast_and broadcast_atan2 broadcast_complex broadcast_divide "
     "broadcast_maximum broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or "
     "broadcast_polygamma broadcast_power broadcast_remainder broadcast_shift_left "
     "broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract "
     "broadcast_xor broadcast_zeta",
     "broadcast_dimensions?"},
    {"chlo.", "broadcast_compare", "broadcast_dimensions? comparison_direction compare_type?"},
    {"chlo.", "constant constant_like", "value"},
    {"chlo.", "ragged_dot", "ragged_dot_dimension_numbers precision_config?"},
    {"chlo.", "top_k", "k is_stable+"},
    {"chlo.", "scan", "dimension scan_dim_size? is_reverse? is_associative? operandSegmentSizes=2"},

    {"sdy.", "mesh", "sym_name mesh"},
    {"sdy.", "sharding_constraint reshard", "sharding"},
    {"sdy.", "manual_computation", "in_shardings out_shardings manual_axes"},
    {"sdy.", "sharding_group", "group_id"},
    {"sdy.", "constant", "value"},
    {"sdy.", "data_flow_edge", "sharding?"},
    {"sdy.", "propagation_barrier", "allowed_direction"},
    {"sdy.", "named_computation", "name in_shardings? out_shardings?"},
    {"sdy.", "all_gather", "gathering_axes out_sharding"},
    {"sdy.", "all_slice", "slicing_axes out_sharding"},
    {"sdy.", "all_to_all", "params out_sharding"},
    {"sdy.", "collective_permute", "out_sharding"},
    {"sdy.", "all_reduce", "reduction_axes reduction_op? out_sharding"},
    {"sdy.", "reduce_scatter", "reduce_scatter_axes reduction_op? out_sharding"},
    {"sdy.", "sharded_to_unreduced replicated_to_unreduced", "axes out_sharding"},

    {"func.", "func", "sym_name function_type sym_visibility? arg_attrs? res_attrs? no_inline?"},
    {"func.", "call", "callee arg_attrs? res_attrs? no_inline?"},
    {"builtin.", "module", "sym_name? sym_visibility?"},
    {"mhlo.", "copy", "cross_program_prefetch_index?"},
    {"mhlo.", "xla.rng_get_and_update_state", "delta"},
    {"arith.", "constant", "value"},
};
#undef TESSERA_CONVOLUTION_KEYS
#undef TESSERA_CALL_KEYS

template <class F>
void each_property_word(std::string_view words, F&& f) {
  while (!words.empty()) {
    const std::size_t blank = std::min(words.find(' '), words.size());
    f(words.substr(0, blank));
    words.remove_prefix(std::min(blank + 1, words.size()));
  }
}

}  // namespace

const std::vector<Property>* find_properties(std::string_view name) {
  static const auto* table = [] {
    auto* out = new std::unordered_map<std::string, std::vector<Property>>;
    for (const PropertyRow& row : kPropertyRows) {
      std::vector<Property> properties;
      each_property_word(row.keys, [&](std::string_view word) {
        Property p;
        if (word.ends_with("=2")) {
          p.segments = 2;
          word.remove_suffix(2);
        } else if (word.ends_with('?') || word.ends_with('+')) {
          p.optional = true;
          p.newer = word.back() == '+';
          word.remove_suffix(1);
        }
        p.key = word;
        properties.push_back(p);
      });
      // Whatever the order of the definition, they are encoded by name.
      std::sort(properties.begin(), properties.end(),
                [](const Property& a, const Property& b) { return a.key < b.key; });
      each_property_word(row.names, [&](std::string_view word) {
        out->emplace(std::string(row.dialect) + std::string(word), properties);
      });
    }
    return out;
  }();
  const auto it = table->find(std::string(name));
  return it == table->end() ? nullptr : &it->second;
}

namespace {

/// In what StableHLO version the second of an operation came, of those that are written.
constexpr std::string_view kSecondVersions[] = {
    "all_gather", "all_reduce",  "all_to_all",   "cbrt",
    "cosine",     "dot_general", "exponential",  "exponential_minus_one",
    "gather",     "log",         "log_plus_one", "logistic",
    "rsqrt",      "scatter",     "sine",         "sqrt",
    "tan",        "tanh"};

}  // namespace

std::string written_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return "vhlo.return_v1";  // of a function
  const std::string_view dialect = name.substr(0, dot), own = name.substr(dot + 1);
  if (dialect != "stablehlo" && dialect != "func") return std::string(name);
  const bool second = std::find(std::begin(kSecondVersions), std::end(kSecondVersions), own) !=
                      std::end(kSecondVersions);
  return "vhlo." + std::string(own) + (second ? "_v2" : "_v1");
}

std::string stable_name(std::string_view name) {
  constexpr std::string_view kVersioned = "vhlo.";
  if (!name.starts_with(kVersioned)) return std::string(name);
  name.remove_prefix(kVersioned.size());
  const std::size_t version = name.rfind("_v");
  if (version != std::string_view::npos) name = name.substr(0, version);
  if (name == "func" || name == "call") return "func." + std::string(name);
  return "stablehlo." + std::string(name);
}

}  // namespace tessera::text
