# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/<target>.cc: one libFuzzer binary for each reader of text or files. Clang only; the
# rooms themselves are instrumented, so this is a build tree of its own (preset `fuzz`).

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs clang; configure with --preset fuzz")
endif()

set(tessera_fuzz_rooms base sharding ir text)
foreach(room IN LISTS tessera_fuzz_rooms)
  target_compile_options(tessera_${room} PRIVATE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
endforeach()

# The rules' reader is one file of a room whose other files nothing here needs.
add_library(tessera_fuzz_rule OBJECT "${PROJECT_SOURCE_DIR}/src/frontend/sharding_rule.cc")
target_link_libraries(tessera_fuzz_rule PRIVATE tessera_build_flags)
target_compile_options(tessera_fuzz_rule PRIVATE
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)

add_custom_target(tessera_fuzzers)
foreach(target hlo stablehlo sharding_text sharding_rule npy)
  add_executable(tessera_fuzz_${target} "${PROJECT_SOURCE_DIR}/tests/fuzz/${target}.cc"
    $<TARGET_OBJECTS:tessera_fuzz_rule>)
  foreach(room IN LISTS tessera_fuzz_rooms)
    target_sources(tessera_fuzz_${target} PRIVATE $<TARGET_OBJECTS:tessera_${room}>)
  endforeach()
  target_compile_options(tessera_fuzz_${target} PRIVATE
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(tessera_fuzz_${target} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(tessera_fuzz_${target} PRIVATE tessera_build_flags ${tessera_private_deps}
    Threads::Threads)
  add_dependencies(tessera_fuzzers tessera_fuzz_${target})
endforeach()
