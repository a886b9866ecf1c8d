// SPDX-License-Identifier: Apache-2.0
// The numbers by which vhlo and builtin encode attributes and types.
#pragma once

#include <cstdint>

namespace tessera::text {

/// The codes of StableHLO's VhloBytecode.cpp.
struct VhloAttribute {
  enum Code : std::uint64_t {
    kArray = 1,
    kBoolean,
    kComparisonDirection,
    kComparisonType,
    kCallVersion,
    kDictionary,
    kFftType,
    kFloat,
    kInteger,
    kOutputOperandAlias,
    kPrecision,
    kRngAlgorithm,
    kRngDistribution,
    kString,
    kTensor,
    kTranspose,
    kType,
    kTypeExtensions,
    kResultAccuracyMode,
    kResultAccuracy,
    kSubAxisInfo,
    kAxisRef,
    kReplicaGroupMeshAxes,
    kMeshAxis,
    kMesh,
  };
};

/// Types without parts, by their codes; empty: others.
inline constexpr const char* kSimpleTypes[] = {"i1",
                                               "",
                                               "bf16",
                                               "f16",
                                               "f32",
                                               "f64",
                                               "f8E4M3FN",
                                               "f8E5M2",
                                               "",
                                               "index",
                                               "i4",
                                               "i8",
                                               "i16",
                                               "i32",
                                               "i64",
                                               "ui4",
                                               "ui8",
                                               "ui16",
                                               "ui32",
                                               "ui64",
                                               "",
                                               "",
                                               "!stablehlo.token",
                                               "",
                                               "",
                                               "",
                                               "!shape.witness",
                                               "f8E4M3FNUZ",
                                               "f8E5M2FNUZ",
                                               "f8E4M3B11FNUZ",
                                               "",
                                               "i2",
                                               "ui2",
                                               "none",
                                               "tf32",
                                               "f8E4M3",
                                               "f8E3M4",
                                               "f4E2M1FN",
                                               "f6E2M3FN",
                                               "f6E3M2FN",
                                               "f8E8M0FNU"};

struct VhloType {
  enum Code : std::uint64_t {
    kComplex = 1,
    kFunction = 8,
    kRankedTensor = 20,
    kEncodedTensor = 21,
    kTuple = 23,
    kUniformQuantized = 24,
    kUnrankedTensor = 25,
    kUniformQuantizedPerAxis = 30,
    kRankedBuffer = 41,
    kFuture = 42,
  };
};

/// The codes of MLIR's BuiltinDialectBytecode.td.
struct BuiltinAttribute {
  enum Code : std::uint64_t {
    kArray,
    kDictionary,
    kString,
    kTypedString,
    kFlatSymbol,
    kSymbol,
    kType,
    kUnit,
    kInteger,
    kFloat,
    kCallSite,
    kFileLineColumn,
    kFused,
    kFusedWithMetadata,
    kNameLocation,
    kUnknownLocation,
    kDenseResource,
    kDenseArray,
    kDense,
    kFileRange = 22,
  };
};

}  // namespace tessera::text
