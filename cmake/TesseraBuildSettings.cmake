# SPDX-License-Identifier: Apache-2.0
# Flags that all of our own targets share. None of them reaches a consumer.

if(PROJECT_IS_TOP_LEVEL)
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
  endif()
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(TESSERA_CCACHE ccache)
    mark_as_advanced(TESSERA_CCACHE)
    if(TESSERA_CCACHE)
      set(CMAKE_CXX_COMPILER_LAUNCHER "${TESSERA_CCACHE}")
    endif()
  endif()
  # -O3 adds compile time and little speed here: the hot loops are written to vectorise at -O2.
  foreach(config RELEASE RELWITHDEBINFO)
    string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_${config} "${CMAKE_CXX_FLAGS_${config}}")
  endforeach()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

include(CheckLinkerFlag)
if(PROJECT_IS_TOP_LEVEL AND NOT TESSERA_SANITIZE)
  # Linking the test binaries is a good part of an incremental build.
  find_program(TESSERA_MOLD mold)
  mark_as_advanced(TESSERA_MOLD)
  if(TESSERA_MOLD)
    check_linker_flag(CXX "-fuse-ld=mold" TESSERA_HAVE_MOLD)
    if(TESSERA_HAVE_MOLD)
      add_link_options("-fuse-ld=mold")
    endif()
  endif()
endif()

if(TESSERA_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TESSERA_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(TESSERA_SANITIZE)
  message(FATAL_ERROR "TESSERA_SANITIZE is '${TESSERA_SANITIZE}'; say address or thread")
endif()

# The warnings and include paths of everything built inside this repository.
add_library(tessera_build_flags INTERFACE)
target_compile_features(tessera_build_flags INTERFACE cxx_std_20)
target_include_directories(tessera_build_flags INTERFACE
                           "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
target_compile_options(tessera_build_flags INTERFACE
                       -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
