// SPDX-License-Identifier: Apache-2.0
// Attributes and types of StableHLO's own encoding, and those of chlo.
#include <algorithm>
#include <limits>

#include "src/text/bytecode/entries.h"
#include "src/text/bytecode/enumerations.h"

namespace tessera::text {
namespace {

/// The codes of StableHLO's StablehloBytecode.cpp.
struct StablehloAttribute {
  enum Code : std::uint64_t {
    kChannelHandle = 1,
    kComparisonDirection,
    kComparisonType,
    kConvolution,
    kDot,
    kFftType,
    kGather,
    kPrecision,
    kRngAlgorithm,
    kRngDistribution,
    kScatter,
    kTranspose,
    kTypeExtensions,
    kOutputOperandAlias,
    kDotAlgorithm,
    kResultAccuracyMode,
    kResultAccuracy,
    kReplicaGroupMeshAxes,
    kSubAxisInfo,
    kAxisRef,
    kMeshAxis,
    kMesh,
  };
};

constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::min();

}  // namespace

void EntryTexts::add_dims(ByteReader& in, std::string_view open,
                          std::span<const char* const> names) {
  add(open);
  for (const char* name : names) {
    // A number where the name says so.
    if (name[0] == '#') {
      add_integer_field(in, name + 1);
    } else {
      add_integers_field(in, name);
    }
  }
  add(">");
}

void EntryTexts::stablehlo_attribute(ByteReader& in) {
  using A = StablehloAttribute;
  static constexpr const char* kConvolutionFields[] = {
      "#input_batch_dimension",           "#input_feature_dimension",
      "input_spatial_dimensions",         "#kernel_input_feature_dimension",
      "#kernel_output_feature_dimension", "kernel_spatial_dimensions",
      "#output_batch_dimension",          "#output_feature_dimension",
      "output_spatial_dimensions"};
  static constexpr const char* kDotFields[] = {"lhs_batching_dimensions", "rhs_batching_dimensions",
                                               "lhs_contracting_dimensions",
                                               "rhs_contracting_dimensions"};
  static constexpr const char* kGatherFields[] = {
      "offset_dims",           "collapsed_slice_dims",
      "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map",       "#index_vector_dim"};
  static constexpr const char* kScatterFields[] = {
      "update_window_dims",           "inserted_window_dims",
      "input_batching_dims",          "scatter_indices_batching_dims",
      "scatter_dims_to_operand_dims", "#index_vector_dim"};
  static constexpr const char* kChannelFields[] = {"#handle", "#type"};
  const std::uint64_t code = in.varint();
  switch (code) {
    case A::kChannelHandle:
      return add_dims(in, "#stablehlo.channel_handle<", kChannelFields);
    case A::kConvolution:
      return add_dims(in, "#stablehlo.conv_raw<", kConvolutionFields);
    case A::kDot:
      return add_dims(in, "#stablehlo.dot<", kDotFields);
    case A::kGather:
      return add_dims(in, "#stablehlo.gather<", kGatherFields);
    case A::kScatter:
      return add_dims(in, "#stablehlo.scatter<", kScatterFields);
    case A::kDotAlgorithm:
      return dot_algorithm(in);
    default:
      if (stablehlo_enumeration(code, in) || stablehlo_compound(code, in)) return;
      add_unknown("stablehlo", code, false, in);
  }
}

bool EntryTexts::stablehlo_enumeration(std::uint64_t code, ByteReader& in) {
  using A = StablehloAttribute;
  switch (code) {
    case A::kComparisonDirection:
      add_word(in, kComparisonDirections, "comparison direction");
      return true;
    case A::kComparisonType:
      add_word(in, kComparisonTypes, "type of comparisons");
      return true;
    case A::kFftType:
      add_word(in, kFftTypes, "Fourier transform");
      return true;
    case A::kPrecision:
      add_word(in, kPrecisions, "precision");
      return true;
    case A::kRngAlgorithm:
      add_word(in, kRngAlgorithms, "algorithm for random bits");
      return true;
    case A::kRngDistribution:
      add_word(in, kRngDistributions, "distribution");
      return true;
    case A::kTranspose:
      add_word(in, kTransposes, "transposition");
      return true;
    case A::kResultAccuracyMode:
      add_word(in, kAccuracyModes, "mode of accuracy");
      return true;
    default:
      return false;
  }
}

bool EntryTexts::stablehlo_compound(std::uint64_t code, ByteReader& in) {
  using A = StablehloAttribute;
  switch (code) {
    case A::kTypeExtensions:
      bounds(in);
      return true;
    case A::kOutputOperandAlias:
      output_operand_alias(in);
      return true;
    case A::kResultAccuracy:
      result_accuracy(in);
      return true;
    case A::kReplicaGroupMeshAxes:
      add("#stablehlo.replica_group_mesh_axes<mesh = ");
      add_attribute(in);
      add(", axes = [");
      add_attributes(in);
      add("]>");
      return true;
    case A::kSubAxisInfo:
      sub_axis(in);
      return true;
    case A::kAxisRef: {
      add("#stablehlo.axis_ref<name = ");
      add_quoted(string_of(in));
      if (in.byte() != 0) {
        add_field("sub_axis_info");
        add_attribute(in);
      }
      add(">");
      return true;
    }
    case A::kMeshAxis:
      add("#stablehlo.mesh_axis<name = ");
      add_quoted(string_of(in));
      add_integer_field(in, "size");
      add(">");
      return true;
    case A::kMesh:
      add("#stablehlo.mesh<axes = ");
      add_attribute(in);
      if (in.byte() != 0) {
        add_field("device_ids");
        add_attribute(in);
      }
      add(">");
      return true;
    default:
      return false;
  }
}

void EntryTexts::dot_algorithm(ByteReader& in) {
  add("#stablehlo.dot_algorithm<");
  for (const char* name : {"lhs_precision_type", "rhs_precision_type", "accumulation_type"}) {
    add_field(name);
    add_type(in);
  }
  for (const char* name :
       {"lhs_component_count", "rhs_component_count", "num_primitive_operations"}) {
    add_integer_field(in, name);
  }
  add_field("allow_imprecise_accumulation");
  add(in.byte() != 0 ? "true>" : "false>");
}

void EntryTexts::output_operand_alias(ByteReader& in) {
  static constexpr const char* kFields[] = {"output_tuple_indices", "#operand_index",
                                            "operand_tuple_indices"};
  add_dims(in, "#stablehlo.output_operand_alias<", kFields);
}

void EntryTexts::bounds(ByteReader& in) {
  add("#stablehlo.bounds<");
  add_list(in, "bounds", [&] {
    const std::int64_t size = in.signed_varint();
    if (size == kNoBound) {
      add("?");
    } else {
      add_integer(size);
    }
  });
  add(">");
}

void EntryTexts::result_accuracy(ByteReader& in) {
  add("#stablehlo.result_accuracy<");
  for (const char* name : {"atol", "rtol"}) {
    add_field(name);
    add_double(in);
  }
  add_integer_field(in, "ulps");
  add_field("mode");
  add_attribute(in);
  add(">");
}

void EntryTexts::sub_axis(ByteReader& in) {
  add("(");
  add_integer(in.signed_varint());
  add(")");
  add_integer(in.signed_varint());
}

void EntryTexts::stablehlo_type(ByteReader& in) {
  const std::uint64_t code = in.varint();
  if (code == 0) return add("!stablehlo.token");
  if (code != 1) return add_unknown("stablehlo", code, true, in);
  add("!stablehlo.future<");
  add_types(in);
  add(">");
}

void EntryTexts::chlo_attribute(ByteReader& in) {
  const std::uint64_t code = in.varint();
  if (code == 0) return add_word(in, kComparisonDirections, "comparison direction");
  if (code == 1) return add_word(in, kComparisonTypes, "type of comparisons");
  add_unknown("chlo", code, false, in);
}

}  // namespace tessera::text
