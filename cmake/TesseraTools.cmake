# SPDX-License-Identifier: Apache-2.0
# tools/<name>/*.cc make the program <name>; a layer above the front end, so they may include all
# headers.

file(GLOB mains CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*/main.cc")
if(mains)
  find_package(CLI11 REQUIRED)
endif()
foreach(main IN LISTS mains)
  cmake_path(GET main PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc")
  # Objects first: what they need of the library that isn't public is exported to them alone.
  add_library(tool_${name}_objects OBJECT ${sources})
  target_compile_definitions(tool_${name}_objects PRIVATE TESSERA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(tool_${name}_objects PRIVATE
    tessera_build_flags CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt Threads::Threads)
  # Nearly all of its code is the parser of command lines.
  target_compile_options(tool_${name}_objects PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  tessera_join(tool_${name}_objects ${sources})
  tessera_precompile(tool_${name}_objects tool)
  add_executable(tool_${name} $<TARGET_OBJECTS:tool_${name}_objects>)
  set_target_properties(tool_${name} PROPERTIES OUTPUT_NAME ${name})
  target_link_libraries(tool_${name} PRIVATE tessera::tessera tessera_build_flags fmt::fmt)
  if(TESSERA_INSTALL)
    # Finds the library beside itself, wherever the tree is moved.
    include(GNUInstallDirs)
    file(RELATIVE_PATH to_library "/p/${CMAKE_INSTALL_BINDIR}" "/p/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(tool_${name} PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
    install(TARGETS tool_${name} RUNTIME COMPONENT tools)
    # scripts/package makes these.
    install(DIRECTORY "${PROJECT_BINARY_DIR}/package/share/" DESTINATION "${CMAKE_INSTALL_DATADIR}"
            COMPONENT tools OPTIONAL)
  endif()
endforeach()

# tests/tools runs the command as its users do; the library is only used to read its files.
if(TESSERA_BUILD_TESTS AND TARGET tool_tessera)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/tools/*.cc")
  add_executable(tessera_tools_tests ${sources})
  target_compile_options(tessera_tools_tests PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  target_link_libraries(tessera_tools_tests PRIVATE tessera_internals tessera_build_flags
    GTest::gtest GTest::gtest_main nlohmann_json::nlohmann_json)
  target_compile_definitions(tessera_tools_tests PRIVATE
    TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TESSERA_TOOL="$<TARGET_FILE:tool_tessera>")
  add_dependencies(tessera_tools_tests tool_tessera)
  add_test(NAME tools
           COMMAND tessera_tools_tests
                   "--gtest_output=xml:${PROJECT_BINARY_DIR}/reports/tools.xml"
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(tools PROPERTIES LABELS tools TIMEOUT ${TESSERA_TEST_TIMEOUT}
                                        ENVIRONMENT "TESSERA_VERIFY=1;TESSERA_CACHE_DIR=${PROJECT_BINARY_DIR}/test_cache")
endif()

# Counts of instructions are recorded for one kind of build.
find_program(TESSERA_VALGRIND valgrind)
if(TESSERA_BUILD_TESTS AND TARGET tool_tessera AND TESSERA_VALGRIND AND NOT TESSERA_SANITIZE
   AND CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_test(NAME instructions
           COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/check_instructions"
                   "$<TARGET_FILE:tool_tessera>")
  set_tests_properties(instructions PROPERTIES LABELS bench TIMEOUT 300)
endif()
