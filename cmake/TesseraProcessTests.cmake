# SPDX-License-Identifier: Apache-2.0
# Tests of programs in several processes, which mpirun starts.

add_executable(tessera_processes_tests "${PROJECT_SOURCE_DIR}/tests/processes/processes_test.cc")
add_executable(tessera_processes_failures "${PROJECT_SOURCE_DIR}/tests/processes/failures.cc")
add_executable(tessera_processes_checkpoints "${PROJECT_SOURCE_DIR}/tests/processes/checkpoints.cc")
add_executable(tessera_processes_random "${PROJECT_SOURCE_DIR}/tests/processes/random_programs.cc")
foreach(name IN ITEMS tessera_processes_tests tessera_processes_failures
                      tessera_processes_checkpoints tessera_processes_random)
  target_link_libraries(${name} PRIVATE tessera_internals tessera_build_flags GTest::gtest)
  add_dependencies(${name} tessera_mpi)
  # Without a precompiled header: the targets that have one would be built first.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
endforeach()
foreach(name IN ITEMS tessera_processes_tests tessera_processes_random)
  target_link_libraries(${name} PRIVATE tessera_test_support)
endforeach()

set(tessera_mpirun "${MPIEXEC_EXECUTABLE}")
if(NOT tessera_mpirun)
  set(tessera_mpirun mpirun)
endif()
function(tessera_add_process_test name)
  add_test(NAME ${name}
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/processes/run.sh" "${tessera_mpirun}" ${ARGN}
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS processes TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "TESSERA_VERIFY=1;${tessera_test_cache}")
endfunction()
tessera_add_process_test(processes_2 cases 2 2 "$<TARGET_FILE:tessera_processes_tests>")
tessera_add_process_test(processes_4 cases 4 1 "$<TARGET_FILE:tessera_processes_tests>")
# Where processes may not read each other's memory.
tessera_add_process_test(processes_copies cases 4 1 "$<TARGET_FILE:tessera_processes_tests>")
set_property(TEST processes_copies APPEND PROPERTY ENVIRONMENT "TESSERA_SINGLE_COPY=0")
tessera_add_process_test(processes_failures failures
  "$<TARGET_FILE:tessera_processes_failures>")
tessera_add_process_test(processes_moments moments 10
  "$<TARGET_FILE:tessera_processes_failures>")
tessera_add_process_test(processes_checkpoints checkpoints
  "$<TARGET_FILE:tessera_processes_checkpoints>")
tessera_add_process_test(processes_random_2 random 2 30 "$<TARGET_FILE:tessera_processes_random>")
tessera_add_process_test(processes_random_4 random 4 30 "$<TARGET_FILE:tessera_processes_random>")
if(TESSERA_BUILD_TOOLS)
  tessera_add_process_test(processes_corpus corpus 2 "$<TARGET_FILE:tool_tessera>"
    "${PROJECT_SOURCE_DIR}/tests/corpus")
endif()
if(TESSERA_PJRT)
  # Devices of a plugin: our own connects those of several processes. The one in front of it first
  # checks what the processes tell each other by the callbacks of the C API.
  tessera_add_process_test(processes_accelerators cases 2 2
    "$<TARGET_FILE:tessera_processes_tests>")
  add_dependencies(tessera_processes_tests tessera_pjrt tessera_accelerators tessera_failing_plugin)
  set_property(TEST processes_accelerators APPEND PROPERTY ENVIRONMENT
    "TESSERA_PLATFORM=xpu"
    "TESSERA_PJRT_PLUGINS=xpu=$<TARGET_FILE:tessera_failing_plugin>?cpu_device_count=2"
    "PJRT_TEST_PLUGIN=$<TARGET_FILE:tessera_pjrt>" "PJRT_TEST_FAULT=key values"
    # Of our own executor: what exchanges take, errors on return, functions of the host.
    "GTEST_FILTER=-*.MemoryOfExchanges:*.APartOfAGroupIsAnErrorEverywhere:*.FunctionsOfTheHostAreCalledOnce")
  tessera_add_process_test(processes_plugins plugins "$<TARGET_FILE:tessera_processes_failures>"
    "$<TARGET_FILE:tessera_failing_plugin>" "$<TARGET_FILE:tessera_pjrt>")
  add_dependencies(tessera_processes_failures tessera_pjrt tessera_accelerators
    tessera_failing_plugin)
endif()
if(TESSERA_BUILD_TOOLS AND TESSERA_BUILD_EXAMPLES AND NOT TESSERA_SANITIZE)
  # Hosts that are namespaces: links that go down, a host that is killed, a slow link.
  add_test(NAME hosts
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/hosts/run.sh" "${tessera_mpirun}"
                   "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(hosts PROPERTIES LABELS "processes;hosts" TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "${tessera_test_cache}")
endif()
