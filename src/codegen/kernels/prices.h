// SPDX-License-Identifier: Apache-2.0
// What kernels take: all prices by which plans are compared, in one place.
// Also called: the cost model; TargetTransformInfo, as LLVM has it.
#pragma once

/// Nanoseconds of one thread. They choose among ways to run one program, so that it is their ratios
/// that have to be right, to a factor of two or so. Set on the machine of docs/performance.md, with
/// AVX-512; `bench_kernels` shows what kernels take on another one.
namespace tessera::codegen::prices {

/// A call, before its first element.
namespace call {
inline constexpr double kLoop = 20, kCopy = 20, kGather = 20;
inline constexpr double kReduce = 50, kScatter = 50, kFft = 50, kTopK = 50, kRandomBits = 50;
inline constexpr double kDot = 100, kSort = 100, kWindows = 100, kSums = 100;
inline constexpr double kConvolution = 200, kGeneralReduce = 200;
inline constexpr double kEvaluator = 2000, kLapack = 2000;
}  // namespace call

/// A product and the sum that it is added to.
namespace product {
inline constexpr double kF32 = 0.025;  ///< and of bytes, in sums of 32 bits
inline constexpr double kF64 = 0.05;
inline constexpr double kBf16 = 0.006;                       ///< by the instructions made for them
inline constexpr double kF16 = 0.03;                         ///< made f32 by instructions
inline constexpr double kBlas = 0.15;                        ///< other floats
inline constexpr double kLoop = 0.5;                         ///< integers
inline constexpr double kShortF32 = 0.03, kShortF64 = 0.06;  ///< of groups of few features
inline constexpr double kDepthF32 = 0.1, kDepthF64 = 0.2;    ///< of one feature
inline constexpr double kPatchNumber = 0.5, kOfPatches = 0.05;  ///< to lay one out; by BLAS
}  // namespace product

/// A byte.
namespace byte {
inline constexpr double kFromMemory = 0.06, kFromCache = 0.01;  ///< of any kernel's arrays
inline constexpr double kCopied = 0.15;
inline constexpr double kWritten = 0.03, kReduced = 0.025, kMultiplied = 0.03;  ///< by vectors
inline constexpr double kReducedByBlocks = 0.1;
inline constexpr double kScattered = 0.3;
inline constexpr double kEvaluated = 5;
}  // namespace byte

/// An element of a loop that is interpreted, for each operation.
namespace element {
inline constexpr double kSimple = 0.3, kModerate = 1, kDivision = 1.5, kIntegerDivision = 4;
inline constexpr double kFunction = 8, kComplexFunction = 40;
inline constexpr double kTaken = 3;                   ///< of an array, by an index
inline constexpr double kInput = 0.1, kStored = 0.3;  ///< an array that is read; a result
inline constexpr double kComposed = 0.3;              ///< a view that is walked
/// Compiled, of what it takes interpreted.
inline constexpr double kCompiled = 0.125;
}  // namespace element

/// An index vector, or what it finds.
namespace index {
inline constexpr double kRow = 8, kWindow = 60, kRowInLoop = 30;  ///< gathered
inline constexpr double kScatteredRow = 1, kScatteredWindow = 5, kCombinedWindow = 40;
inline constexpr double kTableUpdate = 1.5;
}  // namespace index

/// What else kernels do once for each element.
namespace other {
inline constexpr double kPartAdded = 0.1;  ///< of sums in parts
inline constexpr double kScanned = 2;
inline constexpr double kSelectedTap = 2, kSelectedTapOfLanes = 0.3;
inline constexpr double kKeyCompared = 3, kCompared = 30;  ///< by sorts, besides the comparator
inline constexpr double kTopK = 2, kTopKLevel = 0.3;
inline constexpr double kRandomBlock = 20;
inline constexpr double kFft = 0.5, kFftLevel = 0.1;      ///< 4 bytes; lengths of small factors
inline constexpr double kLongFft = 1, kLongFftLevel = 1;  ///< other lengths
inline constexpr double kSparseRow = 10, kSparse = 2, kSparseColumn = 0.5;
inline constexpr double kLapackOperation = 0.25;
}  // namespace other

}  // namespace tessera::codegen::prices
