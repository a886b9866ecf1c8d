# SPDX-License-Identifier: Apache-2.0
# tests/<layer>/*_test.cc make one binary tessera_<layer>_tests, linked from the objects of its layer
# and those below, so that tests reach internal symbols and don't wait for the layers above.

find_package(GTest REQUIRED)

set(TESSERA_TEST_TIMEOUT 900 CACHE STRING "Seconds that one test binary may run")

# tests/support: helpers that several layers' tests share. An archive, so that a test binary
# contains only the helpers that it calls and isn't linked with the layers that others need.
file(GLOB_RECURSE support_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cc")
if(NOT support_sources)
  set(support_sources "${tessera_empty_source}")
endif()
add_library(tessera_test_support STATIC EXCLUDE_FROM_ALL ${support_sources})
target_link_libraries(tessera_test_support PRIVATE tessera_build_flags ${tessera_private_deps}
  GTest::gtest nlohmann_json::nlohmann_json)
target_compile_definitions(tessera_test_support PRIVATE
  TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_options(tessera_test_support PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
# What fills large arrays.
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/random_literal.cc" PROPERTIES
  COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O2>")

# Layers that don't include the evaluator but whose tests compare with it.
set(tessera_test_also_spmd evaluator)
set(tessera_test_also_transforms evaluator)
# Sources of the tools that a layer's tests test.
set(tessera_test_tools_sharding "${PROJECT_SOURCE_DIR}/tools/tessera/sharding_facts.cc")

# The precompiled headers of the layers' tests.
foreach(layer IN LISTS TESSERA_LAYERS)
  set(tessera_test_precompiled_${layer} ir_tests)
endforeach()
foreach(layer IN ITEMS base sharding runtime)
  set(tessera_test_precompiled_${layer} tests)
endforeach()
set(tessera_test_precompiled_frontend frontend_tests)

# tessera_test_options(TARGET HEADER): the flags of test sources. They run too briefly to be worth
# optimising, and at -O0 g++ 12 has no false warnings.
function(tessera_test_options target header)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  tessera_precompile(${target} ${header})
endfunction()

# Compiled kernels of the tests stay in the build.
set(tessera_test_cache "TESSERA_CACHE_DIR=${PROJECT_BINARY_DIR}/test_cache")

function(tessera_add_layer_tests layer)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${layer}/*.cc")
  file(GLOB_RECURSE cases CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${layer}/*_test.cc")
  if(NOT cases)
    return()
  endif()
  set(name tessera_${layer}_tests)
  # The layers come before the tests: the linker takes the first definition of an inline function,
  # and the layers' are optimised.
  add_executable(${name})
  foreach(part IN LISTS tessera_below_${layer} tessera_test_also_${layer} ITEMS ${layer})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:tessera_${part}>)
  endforeach()
  target_sources(${name} PRIVATE ${sources} ${tessera_test_tools_${layer}})
  if(TESSERA_JIT)
    add_dependencies(${name} tessera_llvm)
    if(layer STREQUAL "codegen")
      target_compile_definitions(${name} PRIVATE TESSERA_JIT=1)
    endif()
  endif()
  tessera_test_options(${name} ${tessera_test_precompiled_${layer}})
  tessera_join(${name} ${sources})
  target_link_libraries(${name} PRIVATE tessera_build_flags tessera_test_support
    ${tessera_private_deps} Threads::Threads GTest::gtest GTest::gtest_main nlohmann_json::nlohmann_json)
  target_compile_definitions(${name} PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${layer}
           COMMAND ${name} "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/${layer}.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${layer} PROPERTIES LABELS ${layer} TIMEOUT ${TESSERA_TEST_TIMEOUT}
                                          ENVIRONMENT "TESSERA_VERIFY=1;${tessera_test_cache}")
endfunction()

foreach(layer IN LISTS TESSERA_LAYERS)
  tessera_add_layer_tests(${layer})
endforeach()

# What takes a minute in all: `ctest -L quick`, for each change.
foreach(layer IN ITEMS base sharding ir text evaluator passes transforms cost runtime)
  if(TEST ${layer})
    set_property(TEST ${layer} APPEND PROPERTY LABELS quick)
  endif()
endforeach()

if(TESSERA_JIT)
  # All kernels compiled, however small: their tests would be interpreted otherwise. Without tests of
  # kernels that have no such code, or that compile it themselves.
  add_test(NAME codegen_compiled
           COMMAND tessera_codegen_tests
                   "--gtest_filter=-BatchGemmTest*:NarrowGemmTest*:PackedGemmTest*:CodeCacheTest*:CompiledLoop.ComputesWhatTheInterpreterDoes:RandomKernels.Convolution*:RandomKernels.Dot*:RandomKernels.Fft*"
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/codegen_compiled.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(codegen_compiled PROPERTIES LABELS codegen TIMEOUT ${TESSERA_TEST_TIMEOUT}
    ENVIRONMENT "TESSERA_VERIFY=1;TESSERA_JIT=always;${tessera_test_cache}")
endif()

# The front end on devices whose memory it can't read, and whose engine is always late. Of programs by
# chance, which `frontend` runs in full, some.
add_test(NAME frontend_late
         COMMAND tessera_frontend_tests "--gtest_filter=Engine.*:Jit.*:JitTrees.*:Array.*:Arrays.*:Grad*:Placement*:ShardMap*:Unreduced*:ExplicitExtrema.*:Collectives*:Threads*:Vmap*-Engine.TheHostsDevicesShareEqualParts:*.Behaviour_086_*:*.Behaviour_108_*:*.Behaviour_318_*"
                 "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/frontend_late.xml"
         WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
set_tests_properties(frontend_late PROPERTIES LABELS frontend TIMEOUT ${TESSERA_TEST_TIMEOUT}
  ENVIRONMENT "TESSERA_VERIFY=1;TESSERA_PLATFORM=late;SOAK_PROGRAMS=40;${tessera_test_cache}")

# The checks below are about the package and the headers, so one plain build runs them.
if(NOT TESSERA_SANITIZE)
  add_test(NAME compile_fail
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/compile_fail/run.sh"
                   "${CMAKE_CXX_COMPILER}" "${PROJECT_SOURCE_DIR}"
                   "${PROJECT_BINARY_DIR}/reports/compile_fail.xml")
  set_tests_properties(compile_fail PROPERTIES LABELS compile_fail TIMEOUT 600)
  add_test(NAME ops_docs
           COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/check_ops_docs" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(ops_docs PROPERTIES LABELS docs TIMEOUT 60)
  add_test(NAME parity
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/parity/run.sh"
                   "${CMAKE_CXX_COMPILER}" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(parity PROPERTIES LABELS docs TIMEOUT 600)
  add_test(NAME errors_docs
           COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/errors" --check "${PROJECT_SOURCE_DIR}")
  set_tests_properties(errors_docs PROPERTIES LABELS docs TIMEOUT 60)
  if(BUILD_SHARED_LIBS)
    # What libtessera.so exports, against what it did at its last release.
    add_test(NAME abi
             COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/abi" --check "$<TARGET_FILE:tessera>"
                     "${PROJECT_SOURCE_DIR}")
    set_tests_properties(abi PROPERTIES LABELS "install;quick" TIMEOUT 120
      ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};NM=${CMAKE_NM}")
    # Errors and objects across the borders of libraries whose symbols are hidden.
    add_library(tessera_abi_module MODULE "${PROJECT_SOURCE_DIR}/tests/abi/module.cc")
    add_executable(tessera_abi_tests "${PROJECT_SOURCE_DIR}/tests/abi/boundaries_test.cc")
    add_dependencies(tessera_abi_tests tessera_abi_module)
    target_compile_definitions(tessera_abi_tests PRIVATE
      TESSERA_ABI_MODULE="$<TARGET_FILE:tessera_abi_module>")
    foreach(name IN ITEMS tessera_abi_module tessera_abi_tests)
      target_link_libraries(${name} PRIVATE tessera::tessera tessera_build_flags)
      set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                               VISIBILITY_INLINES_HIDDEN ON)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
    endforeach()
    target_link_libraries(tessera_abi_tests PRIVATE GTest::gtest GTest::gtest_main ${CMAKE_DL_LIBS})
    add_test(NAME abi_boundaries
             COMMAND tessera_abi_tests
                     "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/abi_boundaries.xml"
             WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(abi_boundaries PROPERTIES LABELS "install;quick" TIMEOUT 120
      ENVIRONMENT "TESSERA_VERIFY=1;${tessera_test_cache}")
  endif()
  if(TESSERA_INSTALL AND BUILD_SHARED_LIBS)
    add_test(NAME install
             COMMAND sh "${PROJECT_SOURCE_DIR}/tests/install/run.sh"
                     "${CMAKE_COMMAND}" "${CMAKE_GENERATOR}" "${CMAKE_CXX_COMPILER}"
                     "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
    set_tests_properties(install PROPERTIES LABELS install TIMEOUT 600)
  endif()
endif()

if(TESSERA_SANITIZE STREQUAL "thread")
  # What processes exchange, by threads that are processes: the front end's own tests take long to
  # build under this sanitizer.
  add_executable(tessera_simulated_processes_tests EXCLUDE_FROM_ALL
    "${PROJECT_SOURCE_DIR}/tests/frontend/several_processes_test.cc"
    "${PROJECT_SOURCE_DIR}/tests/compiler/several_processes_test.cc")
  target_link_libraries(tessera_simulated_processes_tests PRIVATE tessera_internals
    tessera_build_flags tessera_test_support GTest::gtest GTest::gtest_main)
  add_test(NAME simulated_processes
           COMMAND tessera_simulated_processes_tests
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/simulated_processes.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(simulated_processes PROPERTIES LABELS simulated_processes
    TIMEOUT ${TESSERA_TEST_TIMEOUT} ENVIRONMENT "SOAK_PROGRAMS=100;${tessera_test_cache}")
endif()

if(TESSERA_PJRT)
  # The plugin as clients load it: its tests link nothing of the library.
  file(GLOB pjrt_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/pjrt/*_test.cc")
  add_executable(tessera_pjrt_tests ${pjrt_tests})
  add_dependencies(tessera_pjrt_tests tessera_pjrt)
  target_compile_definitions(tessera_pjrt_tests PRIVATE
    TESSERA_PJRT_LIBRARY="$<TARGET_FILE:tessera_pjrt>"
    TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Without a precompiled header: the targets that have one would be built first.
  target_compile_options(tessera_pjrt_tests PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  target_link_libraries(tessera_pjrt_tests PRIVATE tessera_build_flags Threads::Threads
    ${CMAKE_DL_LIBS} GTest::gtest GTest::gtest_main)
  add_test(NAME pjrt
           COMMAND tessera_pjrt_tests
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/pjrt.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(pjrt PROPERTIES LABELS pjrt TIMEOUT ${TESSERA_TEST_TIMEOUT}
    ENVIRONMENT "TESSERA_VERIFY=1;${tessera_test_cache}")
endif()

if(TESSERA_PJRT)
  # Our own plugin as the engine of our own programs, with the library twice in one process; and one
  # that fails on purpose. Linked as users' programs are.
  add_library(tessera_failing_plugin MODULE
    "${PROJECT_SOURCE_DIR}/tests/accelerators/failing_plugin.cc")
  target_link_libraries(tessera_failing_plugin PRIVATE tessera_build_flags ${CMAKE_DL_LIBS})
  set_target_properties(tessera_failing_plugin PROPERTIES CXX_VISIBILITY_PRESET hidden)
  file(GLOB accelerators_tests CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/accelerators/*_test.cc")
  add_executable(tessera_accelerators_tests ${accelerators_tests})
  add_dependencies(tessera_accelerators_tests tessera_pjrt tessera_failing_plugin
    tessera_accelerators)
  target_compile_definitions(tessera_accelerators_tests PRIVATE
    TESSERA_PJRT_LIBRARY="$<TARGET_FILE:tessera_pjrt>"
    TESSERA_ACCELERATORS_LIBRARY="$<TARGET_FILE:tessera_accelerators>"
    TESSERA_FAILING_PLUGIN="$<TARGET_FILE:tessera_failing_plugin>")
  tessera_test_options(tessera_accelerators_tests accelerators_tests)
  target_link_libraries(tessera_accelerators_tests PRIVATE tessera::tessera tessera_build_flags
    Threads::Threads GTest::gtest GTest::gtest_main)
  add_test(NAME accelerators
           COMMAND tessera_accelerators_tests
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/accelerators.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(accelerators PROPERTIES LABELS accelerators TIMEOUT ${TESSERA_TEST_TIMEOUT}
    ENVIRONMENT "TESSERA_VERIFY=1;${tessera_test_cache}")
  # The front end's own tests there: those that say nothing of virtual devices.
  add_dependencies(tessera_frontend_tests tessera_pjrt tessera_accelerators)
  add_test(NAME accelerators_frontend
           COMMAND tessera_frontend_tests
                   "--gtest_filter=ArgumentTypes.*:Array.*:Attention.*:ComputeOn.*:ControlFlow.*:CustomPartitioning*:DerivativesPerDevice.*:Donation.*:Explicit*:Grad.*:HostCallbacks.*:Jit.*:Layers.*:Layouts.*:Nesting.*:Optimizers.*:RuleCaptures.*:SafetensorsFiles.*:ShardMap.*:Stages.*:Threads.*:TransformBehaviours.*:Trees.*"
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/accelerators_frontend.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(accelerators_frontend PROPERTIES LABELS accelerators
    TIMEOUT ${TESSERA_TEST_TIMEOUT}
    ENVIRONMENT "TESSERA_PLATFORM=xpu;TESSERA_PJRT_PLUGINS=xpu=$<TARGET_FILE:tessera_pjrt>?cpu_device_count=8;${tessera_test_cache}")
  if(TESSERA_BUILD_TOOLS)
    # All programs of the corpus, plain and sharded.
    add_test(NAME accelerators_corpus
             COMMAND tool_tessera check "${PROJECT_SOURCE_DIR}/tests/corpus"
             WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(accelerators_corpus PROPERTIES LABELS accelerators
      TIMEOUT ${TESSERA_TEST_TIMEOUT}
      ENVIRONMENT "TESSERA_PLATFORM=self;TESSERA_PJRT_PLUGINS=self=$<TARGET_FILE:tessera_pjrt>?cpu_device_count=8;${tessera_test_cache}")
  endif()
endif()
