# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/<target>.cc: one libFuzzer binary for each reader of text or files, and one for
# compilation. Clang only; the layers themselves are instrumented, so this is a build tree of its
# own (preset `fuzz`).

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs clang; configure with --preset fuzz")
endif()
find_package(CLI11 REQUIRED)

set(tessera_fuzz_options
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
# The layers that only one target needs, for what is behind the reading, are compiled as they are.
foreach(layer IN ITEMS base sharding ir cost text evaluator spmd runtime compiler)
  target_compile_options(tessera_${layer} PRIVATE ${tessera_fuzz_options})
endforeach()

# Single sources of layers that aren't needed otherwise.
add_library(tessera_part_rule OBJECT "${PROJECT_SOURCE_DIR}/src/frontend/custom/sharding_rule.cc")
add_library(tessera_part_flags OBJECT "${PROJECT_SOURCE_DIR}/tools/tessera/placement.cc"
  "${PROJECT_SOURCE_DIR}/src/runtime/small_blocks.cc" "${PROJECT_SOURCE_DIR}/src/runtime/storage.cc")
add_library(tessera_part_facts OBJECT "${PROJECT_SOURCE_DIR}/tools/tessera/sharding_facts.cc")
add_library(tessera_part_pjrt OBJECT "${PROJECT_SOURCE_DIR}/src/pjrt/compile_options.cc"
  "${PROJECT_SOURCE_DIR}/src/pjrt/dtypes.cc" "${PROJECT_SOURCE_DIR}/src/pjrt/op_sharding.cc"
  "${PROJECT_SOURCE_DIR}/src/pjrt/proto.cc" "${PROJECT_SOURCE_DIR}/src/pjrt/stored_program.cc"
  "${PROJECT_SOURCE_DIR}/src/pjrt/stored_topology.cc")
# The rest of the plugin, but for what puts off the destructors of its static objects.
file(GLOB_RECURSE tessera_plugin_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/pjrt/*.cc")
get_target_property(tessera_read_alone tessera_part_pjrt SOURCES)
list(REMOVE_ITEM tessera_plugin_sources ${tessera_read_alone}
  "${PROJECT_SOURCE_DIR}/src/pjrt/keep_statics.cc")
add_library(tessera_part_plugin OBJECT EXCLUDE_FROM_ALL ${tessera_plugin_sources})
foreach(part IN ITEMS rule flags facts pjrt plugin)
  target_link_libraries(tessera_part_${part} PRIVATE tessera_build_flags ${tessera_private_deps}
    CLI11::CLI11 nlohmann_json::nlohmann_json)
  target_compile_options(tessera_part_${part} PRIVATE ${tessera_fuzz_options})
endforeach()

add_custom_target(tessera_fuzzers)
# tessera_fuzzer(TARGET PART...): PART: a layer, or one of the parts above.
function(tessera_fuzzer target)
  set(name tessera_fuzz_${target})
  add_executable(${name} EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/fuzz/${target}.cc")
  foreach(part IN LISTS ARGN)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:tessera_${part}>)
  endforeach()
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined
    -fno-sanitize-recover=all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE tessera_build_flags ${tessera_private_deps}
    Threads::Threads CLI11::CLI11 nlohmann_json::nlohmann_json)
  add_dependencies(tessera_fuzzers ${name})
endfunction()

# Its sources see types of layers that aren't linked.
target_compile_options(tessera_part_flags PRIVATE -fno-sanitize=vptr)

tessera_fuzzer(npy base)
tessera_fuzzer(safetensors base)
tessera_fuzzer(sharding_text base sharding)
tessera_fuzzer(sharding_rule base sharding ir part_rule)
tessera_fuzzer(sharding_facts base sharding part_facts)
tessera_fuzzer(flags base sharding ir part_flags)
tessera_fuzzer(pjrt base sharding part_pjrt)
tessera_fuzzer(hlo base sharding ir evaluator text)
tessera_fuzzer(stablehlo base sharding ir evaluator text)
tessera_fuzzer(bytecode base sharding ir evaluator text)
tessera_fuzzer(partition base sharding ir cost text evaluator spmd)
tessera_fuzzer(stored base sharding ir cost text evaluator spmd transforms passes runtime codegen
  compiler frontend)
tessera_fuzzer(layouts base sharding ir cost text evaluator spmd transforms passes runtime codegen
  compiler part_pjrt part_plugin)
