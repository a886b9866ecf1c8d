# SPDX-License-Identifier: Apache-2.0
# TesseraDeps::XxHash: xxhash.h and its library.
find_path(TESSERA_XXHASH_INCLUDE_DIR xxhash.h)
find_library(TESSERA_XXHASH_LIBRARY xxhash)
mark_as_advanced(TESSERA_XXHASH_INCLUDE_DIR TESSERA_XXHASH_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TesseraXxHash
  REQUIRED_VARS TESSERA_XXHASH_LIBRARY TESSERA_XXHASH_INCLUDE_DIR)
if(TesseraXxHash_FOUND AND NOT TARGET TesseraDeps::XxHash)
  add_library(TesseraDeps::XxHash UNKNOWN IMPORTED)
  set_target_properties(TesseraDeps::XxHash PROPERTIES
    IMPORTED_LOCATION "${TESSERA_XXHASH_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_XXHASH_INCLUDE_DIR}")
endif()
