// SPDX-License-Identifier: Apache-2.0
// Attributes and types of vhlo, StableHLO's versioned form, as what they stand for.
#include "src/text/bytecode/codes.h"
#include "src/text/bytecode/entries.h"
#include "src/text/bytecode/enumerations.h"

namespace tessera::text {

void EntryTexts::vhlo_attribute(std::size_t n, ByteReader& in, Elision elision) {
  using A = VhloAttribute;
  const std::uint64_t code = in.varint();
  switch (code) {
    case A::kArray:
      add("[");
      add_attributes(in, Elision::may);
      return add("]");
    case A::kBoolean:
      return add_word(in, kTruthValues, "truth value");
    case A::kComparisonDirection:
      return add_word(in, kComparisonDirections, "comparison direction");
    case A::kComparisonType:
      return add_word(in, kComparisonTypes, "type of comparisons");
    case A::kCallVersion:
      return add_word(in, kCallVersions, "version of custom calls");
    case A::kDictionary:
      return add_dictionary(in);
    case A::kFftType:
      return add_word(in, kFftTypes, "Fourier transform");
    case A::kFloat: {
      const std::string type = type_text(in);
      return add_float_of(in, type, elision);
    }
    case A::kInteger: {
      const std::string type = type_text(in);
      return add_integer_of(in, type, elision);
    }
    case A::kPrecision:
      return add_word(in, kPrecisions, "precision");
    case A::kRngAlgorithm:
      return add_word(in, kRngAlgorithms, "algorithm for random bits");
    case A::kRngDistribution:
      return add_word(in, kRngDistributions, "distribution");
    case A::kString:
      return add_quoted(string_of(in));
    case A::kTensor: {
      const std::string type = type_text(in);
      return add_dense(n, type, in.blob());
    }
    case A::kTranspose:
      return add_word(in, kTransposes, "transposition");
    case A::kType:
      return add_type(in);
    case A::kResultAccuracyMode:
      return add_word(in, kAccuracyModes, "mode of accuracy");
    default:
      if (!vhlo_compound(code, in)) add_unknown("vhlo", code, false, in);
  }
}

bool EntryTexts::vhlo_compound(std::uint64_t code, ByteReader& in) {
  using A = VhloAttribute;
  switch (code) {
    case A::kOutputOperandAlias:
      output_operand_alias(in);
      return true;
    case A::kTypeExtensions:
      bounds(in);
      return true;
    case A::kResultAccuracy:
      result_accuracy(in);
      return true;
    case A::kSubAxisInfo:
      sub_axis(in);
      return true;
    case A::kAxisRef: {
      add("#stablehlo.axis_ref<name = ");
      add_quoted(string_attribute(in));
      if (in.varint() != 0) {
        add_field("sub_axis_info");
        add_attribute(in);
      }
      add(">");
      return true;
    }
    case A::kReplicaGroupMeshAxes: {
      add("#stablehlo.replica_group_mesh_axes<mesh = ");
      const std::size_t before = out_.size();
      add_attribute(in);
      // The name of a mesh is a text here.
      if (out_[before] == '"') out_.insert(before, "@");
      add(", axes = ");
      add_attribute(in);
      add(">");
      return true;
    }
    case A::kMeshAxis:
      add("#stablehlo.mesh_axis<name = ");
      add_quoted(string_attribute(in));
      add_integer_field(in, "size");
      add(">");
      return true;
    case A::kMesh: {
      add("#stablehlo.mesh<axes = ");
      add_attribute(in);
      bool has = false;
      const char* at = in.position();
      const std::uint64_t ids = in.flagged(&has);
      if (has) {
        add_field("device_ids");
        add_attribute_number(in.checked_index(ids, file_.attributes.size(), at, "attribute"));
      }
      add(">");
      return true;
    }
    default:
      return false;
  }
}

void EntryTexts::vhlo_type(ByteReader& in) {
  using T = VhloType;
  const std::uint64_t code = in.varint();
  if (code < std::size(kSimpleTypes) && kSimpleTypes[code][0] != '\0') {
    return add(kSimpleTypes[code]);
  }
  switch (code) {
    case T::kComplex:
      return add_type_of("complex<", in);
    case T::kFunction:
      return add_function_type(in);
    case T::kRankedTensor:
      return add_tensor(in, {});
    case T::kEncodedTensor:
      return add_encoded_tensor(in);
    case T::kTuple:
      return add_type_of_all("tuple<", in);
    case T::kUniformQuantized:
      return uniform_quantized(in, false);
    case T::kUniformQuantizedPerAxis:
      return uniform_quantized(in, true);
    case T::kUnrankedTensor:
      return add_type_of("tensor<*x", in);
    case T::kFuture:
      return add_type_of_all("!stablehlo.future<", in);
    default:
      return add_unknown("vhlo", code, true, in);
  }
}

}  // namespace tessera::text
