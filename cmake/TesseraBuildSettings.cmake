# SPDX-License-Identifier: Apache-2.0
# Flags of all targets of this repository. None of them is passed on to consumers.

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
      if(TESSERA_PCH)
        # Without this sloppiness ccache doesn't cache sources that use a precompiled header. Comments
        # count, as g++ compares the size of a header with that of the one that was precompiled.
        list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_COMMENTS=1
          "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime")
      endif()
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
  # Linking the test binaries is a large part of an incremental build.
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

# tessera_precompile(TARGET HEADER): cmake/precompiled/<HEADER>.h is precompiled for TARGET. Targets
# that name one header and compile with the same flags share it: the first one makes it.
function(tessera_precompile target header)
  if(NOT TESSERA_PCH)
    return()
  endif()
  get_property(maker GLOBAL PROPERTY tessera_precompiled_${header})
  if(maker)
    target_precompile_headers(${target} REUSE_FROM ${maker})
  else()
    set_property(GLOBAL PROPERTY tessera_precompiled_${header} ${target})
    target_precompile_headers(${target} PRIVATE
      "${PROJECT_SOURCE_DIR}/cmake/precompiled/${header}.h")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# tessera_join(TARGET SOURCE...): a unity build of the sources, neighbours together, in batches of
# about this many bytes: most of the time goes into headers, templates and inline functions that they
# share, and eight small batches take twice as long as one large one. Sources whose helpers have the
# same names as another's stand in batches of their own; a line "// Compiled apart" says why, as
# "// Compiled alone" does for a source that is a unit of its own.
set(tessera_batch_bytes 160000)
function(tessera_join target)
  if(NOT TESSERA_UNITY)
    return()
  endif()
  set(together)
  set(apart)
  list(SORT ARGN)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" says_apart REGEX "^// Compiled apart" LIMIT_COUNT 1)
    file(STRINGS "${source}" says_alone REGEX "^// Compiled alone" LIMIT_COUNT 1)
    if(says_alone)
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    elseif(says_apart)
      list(APPEND apart "${source}")
    else()
      list(APPEND together "${source}")
    endif()
  endforeach()
  foreach(kind IN ITEMS together apart)
    set(total 0)
    foreach(source IN LISTS ${kind})
      file(SIZE "${source}" bytes)
      math(EXPR total "${total} + ${bytes}")
    endforeach()
    math(EXPR batches "(${total} + ${tessera_batch_bytes} - 1) / ${tessera_batch_bytes}")
    set(before 0)
    foreach(source IN LISTS ${kind})
      math(EXPR batch "${before} * ${batches} / ${total}")
      file(SIZE "${source}" bytes)
      math(EXPR before "${before} + ${bytes}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${kind}_${batch}")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
