// SPDX-License-Identifier: Apache-2.0
// What kernels take: all prices by which plans are compared, in one place.
// Also called: the cost model; TargetTransformInfo, as LLVM has it.
#pragma once

#include <cstdint>

/// Nanoseconds of one thread. They choose among ways to run one program, so that it is their ratios
/// that have to be right, to a factor of two or so. Set on the machine of docs/performance.md, with
/// AVX-512. `scripts/bench --prices` measures the main ones on another machine, and prints them
/// beside these.
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
inline constexpr double kSelectedTap = 0.3, kSelected = 1.5;  ///< of a window; one by itself
inline constexpr double kKeyCompared = 3, kCompared = 30;     ///< by sorts, besides the comparator
inline constexpr double kTopK = 0.5, kTopKLevel = 0.3;
inline constexpr double kRandomBlock = 20;
inline constexpr double kFft = 0.5, kFftLevel = 0.1;      ///< 4 bytes; lengths of small factors
inline constexpr double kLongFft = 1, kLongFftLevel = 1;  ///< other lengths
inline constexpr double kSparseRow = 10, kSparse = 2, kSparseColumn = 0.5;
inline constexpr double kLapackOperation = 0.25;
}  // namespace other

// What decides beside the time of kernels. Sizes follow the caches of that machine: 48 KB and 2 MB
// of each core. Counts of pieces follow what 8 to 32 workers need; results never depend on how many
// there are.

/// Steps that become one and go through the same rows, a block at a time.
namespace chains {
/// Bytes of an array: smaller ones stay in the second cache from step to step anyway.
inline constexpr std::int64_t kLeastBytes = std::int64_t(1) << 19;
/// Bytes of scratch memory of a block: what the second cache holds next to all else.
inline constexpr std::int64_t kBlockBytes = std::int64_t(512) << 10;
/// Bytes of a row that pays for calls of its own.
inline constexpr std::int64_t kLongRow = std::int64_t(32) << 10;
/// Rows of a block: a product packs its right side once more for each.
inline constexpr std::int64_t kProductRows = 128;
/// Nanoseconds of a product for each byte of what it makes or takes: above that loading the byte is
/// little beside it, and short blocks cost more than they save.
inline constexpr double kProductOfByte = 1.7;
/// Rows, or matrices of a batch, of all devices: fewer would leave workers idle.
inline constexpr std::int64_t kFewestRows = 64, kFewestMatrices = 16;
/// Parts of the rows, of all devices, whose sums are made apart: one for each of as many workers.
inline constexpr std::int64_t kParts = 16, kFewestParts = 8;
/// Blocks of whole matrices of a batch: more than there are workers.
inline constexpr std::int64_t kBlocks = 32;
/// Bytes of scratch memory for a matrix of a batch and what goes with it: more gains nothing.
inline constexpr std::int64_t kMatrixBytes = std::int64_t(16) << 20;
/// Traffic that is saved by matrices, of that by rows, which takes less memory.
inline constexpr double kMatrixGain = 1.25;
/// Bytes of traffic that are saved for each one by which the peak of memory grows.
inline constexpr std::int64_t kSavedForPeak = 64;
}  // namespace chains

/// Loops that read rows around their own, joined.
namespace stencils {
/// Bytes of an array, of all devices together: smaller ones stay in a cache anyway.
inline constexpr std::int64_t kLeastBytes = std::int64_t(4) << 20;
/// Bytes of scratch memory of a block: what the second cache holds next to what comes and goes.
inline constexpr std::int64_t kBlockBytes = std::int64_t(1200) << 10;
/// Rows that are made twice, of those of a block: more takes as long as going through memory.
inline constexpr double kMostRepeated = 0.3;
/// Blocks, of all devices, that keep workers busy.
inline constexpr std::int64_t kFewestBlocks = 8;
}  // namespace stencils

/// Scatters whose updates are made as they are applied.
namespace made_updates {
/// Updates of a scatter that are made as they are needed: bytes of all, and of a row. What stays in
/// cache costs little, and short rows cost a call each.
inline constexpr std::int64_t kLeastBytes = std::int64_t(1) << 20;
inline constexpr std::int64_t kLeastRow = 256, kLongestRow = std::int64_t(64) << 10;
/// Times the scatter itself, for what makes them: workers share the result, and where most indices
/// are in one range, one of them does most of it.
inline constexpr double kMostTime = 2;
}  // namespace made_updates

/// Steps, and loops of them, that are too short to be worth starting.
namespace short_steps {
/// Nanoseconds of a step, and of a loop's iteration: longer ones may be shared out to workers, and
/// hide what it takes to start them.
inline constexpr double kStep = 5000, kTrip = 20000;
/// Nanoseconds of a start, which prices have in them and code in one function doesn't take.
inline constexpr double kStart = 15;
/// Bytes that are copied in an iteration: lockstep passes such values on instead.
inline constexpr std::int64_t kMostCopied = std::int64_t(4) << 10;
/// Bytes of scratch memory: more wouldn't stay in the nearest caches.
inline constexpr std::int64_t kMostScratch = std::int64_t(128) << 10;
}  // namespace short_steps

/// Arrays that are made again where they are read far behind.
namespace rematerialized {
/// Bytes of an array: smaller ones are held. So is what is so many times smaller than what is made
/// of it.
inline constexpr std::int64_t kHeldBytes = std::int64_t(1) << 20, kMuchSmaller = 8;
/// Nanoseconds for each byte: several times what it takes to write and read it.
inline constexpr double kOfByte = 1.7;
}  // namespace rematerialized

/// Values that are made where they are read. Of an element, in operations as element::kSimple.
namespace fusion {
/// A cheap value may be made again; a less cheap one, for less memory. And from how many arrays.
inline constexpr double kCheap = 1.3, kExpensive = 8;
inline constexpr int kCheapArrays = 1, kExpensiveArrays = 2;
/// What is made from no array, and so costs less than one would.
inline constexpr double kCheaperThanReading = 4;
/// Elements between those that are read one after the other, which a line of a cache still has.
inline constexpr std::int64_t kMostApart = 16;
/// Bytes of a source that is read in any order: of more, a transpose by itself and reads in order
/// take less, though a cache has it.
inline constexpr std::int64_t kSmall = 8 << 10;
}  // namespace fusion

/// Plans of one program, compared: what one has of another's time or memory.
namespace plans {
/// Time for less memory: what is made again must not take so much more.
inline constexpr double kMaxSlower = 1.5, kHardlySlower = 1.02;
/// Memory: what is less at all; what is worth cheap values that are made again, others, and
/// products; and what isn't more.
inline constexpr double kAnyLess = 0.99, kCheaplyLess = 0.95, kDearlyLess = 0.9;
inline constexpr double kRematerializedLess = 0.8, kHardlyMore = 1.001;
/// Time, what is worth it without less memory: estimates are not exact.
inline constexpr double kFaster = 0.97;
/// And how long a program must run for that, in nanoseconds.
inline constexpr double kShort = 100000;
/// Bytes of an array that a cache has after the kernel that makes it.
inline constexpr std::int64_t kCached = std::int64_t(512) << 10;
}  // namespace plans

}  // namespace tessera::codegen::prices
