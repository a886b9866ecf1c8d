// SPDX-License-Identifier: Apache-2.0
// The numbers of the sections of a bytecode file, and what of an operation is there.
#pragma once

#include <cstdint>

namespace tessera::text {

struct BytecodeSection {
  enum Id : std::uint8_t {
    kStrings,
    kDialects,
    kEntries,
    kEntryOffsets,
    kIr,
    kResources,
    kResourceOffsets,
    kDialectVersion,
    kPropertyTable,
    kSections
  };
};

inline constexpr const char* kSectionNames[] = {
    "strings",    "dialects",  "attributes and types", "offsets of attributes and types",
    "operations", "resources", "offsets of resources", "version of a dialect",
    "properties"};

/// Which parts of an operation follow its name.
enum OperationPart : std::uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseListOrders = 32,
  kHasProperties = 64,
};

}  // namespace tessera::text
