# SPDX-License-Identifier: Apache-2.0
# The compiler of kernels: a module that the library loads when it first compiles one, so that
# programs which don't need it never load LLVM.

find_package(TesseraLLVM)
if(NOT TesseraLLVM_FOUND)
  message(FATAL_ERROR "LLVM 19 was not found. Install it (Debian: llvm-19-dev, libzstd-dev "
                      "and zlib1g-dev), or configure with "
                      "-DTESSERA_JIT=OFF: kernels are interpreted then, and slower.")
endif()

file(GLOB tessera_llvm_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/codegen/llvm/*.cc")
# What the layers below have of symbols that it needs: it may not depend on theirs, as a program may
# hide them.
add_library(tessera_llvm MODULE ${tessera_llvm_sources}
  "${PROJECT_SOURCE_DIR}/src/base/arrays/dtype.cc")
target_link_libraries(tessera_llvm PRIVATE tessera_build_flags TesseraDeps::LLVM)
# The headers of LLVM take most of the time.
set_target_properties(tessera_llvm PROPERTIES
  OUTPUT_NAME tessera-llvm PREFIX lib CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
if(NOT TESSERA_SANITIZE)
  target_link_options(tessera_llvm PRIVATE -Wl,--no-undefined)
endif()
# LLVM's symbols are nobody else's, and what isn't used of them is left out. The build id tells kept
# code of other builds.
target_link_options(tessera_llvm PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--build-id=sha1)
# Whatever runs kernels needs it beside it.
add_dependencies(tessera tessera_llvm)
