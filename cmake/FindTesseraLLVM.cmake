# SPDX-License-Identifier: Apache-2.0
# LLVM 19's shared library, as Debian's llvm-19-dev installs it: target TesseraDeps::LLVM.

find_path(TesseraLLVM_INCLUDE_DIR llvm/ExecutionEngine/Orc/LLJIT.h
  HINTS /usr/lib/llvm-19/include /usr/include/llvm-19 NO_CMAKE_FIND_ROOT_PATH)
find_library(TesseraLLVM_LIBRARY NAMES LLVM-19 HINTS /usr/lib/llvm-19/lib)
mark_as_advanced(TesseraLLVM_INCLUDE_DIR TesseraLLVM_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TesseraLLVM
  REQUIRED_VARS TesseraLLVM_LIBRARY TesseraLLVM_INCLUDE_DIR)

if(TesseraLLVM_FOUND AND NOT TARGET TesseraDeps::LLVM)
  add_library(TesseraDeps::LLVM UNKNOWN IMPORTED)
  set_target_properties(TesseraDeps::LLVM PROPERTIES
    IMPORTED_LOCATION "${TesseraLLVM_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TesseraLLVM_INCLUDE_DIR}")
endif()
