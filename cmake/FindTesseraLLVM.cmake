# SPDX-License-Identifier: Apache-2.0
# LLVM 19's static libraries, as Debian's llvm-19-dev installs them: target TesseraDeps::LLVM. The
# shared one has all targets, and takes far longer to load.

find_program(TesseraLLVM_CONFIG NAMES llvm-config-19 HINTS /usr/lib/llvm-19/bin)
find_library(TesseraLLVM_ZSTD NAMES zstd)
find_library(TesseraLLVM_ZLIB NAMES z)
mark_as_advanced(TesseraLLVM_CONFIG TesseraLLVM_ZSTD TesseraLLVM_ZLIB)

function(tessera_ask_llvm out)
  set(answer "")
  if(TesseraLLVM_CONFIG)
    execute_process(COMMAND "${TesseraLLVM_CONFIG}" --link-static ${ARGN}
      OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${out} "${answer}" PARENT_SCOPE)
endfunction()
tessera_ask_llvm(TesseraLLVM_VERSION --version)
tessera_ask_llvm(TesseraLLVM_INCLUDE_DIR --includedir)
tessera_ask_llvm(TesseraLLVM_LIBRARIES --libfiles native scalaropts instcombine)
separate_arguments(TesseraLLVM_LIBRARIES)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TesseraLLVM VERSION_VAR TesseraLLVM_VERSION
  REQUIRED_VARS TesseraLLVM_CONFIG TesseraLLVM_LIBRARIES TesseraLLVM_INCLUDE_DIR TesseraLLVM_ZSTD
    TesseraLLVM_ZLIB)

if(TesseraLLVM_FOUND AND NOT TARGET TesseraDeps::LLVM)
  add_library(TesseraDeps::LLVM INTERFACE IMPORTED)
  set_target_properties(TesseraDeps::LLVM PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${TesseraLLVM_INCLUDE_DIR}"
    INTERFACE_INCLUDE_DIRECTORIES "${TesseraLLVM_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES
      "${TesseraLLVM_LIBRARIES};${TesseraLLVM_ZSTD};${TesseraLLVM_ZLIB};${CMAKE_DL_LIBS}")
endif()
