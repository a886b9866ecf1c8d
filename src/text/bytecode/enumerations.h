// SPDX-License-Identifier: Apache-2.0
// The words of StableHLO's enumerations by their numbers, which vhlo shares; empty: none.
#pragma once

namespace tessera::text {

inline constexpr const char* kTruthValues[] = {"false", "true"};
inline constexpr const char* kComparisonDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
inline constexpr const char* kComparisonTypes[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED",
                                                   "UNSIGNED"};
/// Of custom calls; the text has numbers.
inline constexpr const char* kCallVersions[] = {"0 : i32", "1 : i32", "2 : i32", "3 : i32",
                                                "4 : i32"};
inline constexpr const char* kFftTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
inline constexpr const char* kPrecisions[] = {"DEFAULT", "HIGH", "HIGHEST"};
inline constexpr const char* kRngAlgorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
inline constexpr const char* kRngDistributions[] = {"", "UNIFORM", "NORMAL"};
inline constexpr const char* kTransposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE",
                                              "ADJOINT"};
inline constexpr const char* kAccuracyModes[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};

}  // namespace tessera::text
