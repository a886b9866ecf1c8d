# SPDX-License-Identifier: Apache-2.0
# Each examples/<name>/ is one program that sees only the public headers and those of
# examples/common/; its run is a test.

# Makes the precompiled header, without a definition that only some of the programs have.
add_library(tessera_public_header OBJECT "${tessera_empty_source}")
target_link_libraries(tessera_public_header PRIVATE tessera::tessera)
target_compile_options(tessera_public_header PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
set_target_properties(tessera_public_header PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_compile_options(tessera_public_header PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
tessera_precompile(tessera_public_header public)

# tessera_quick_program(TARGET): compiled in the least time. The work of such a program is done by the
# library; half of its own time would go into reading the public headers.
function(tessera_quick_program target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  tessera_precompile(${target} public)
endfunction()

# What the server of examples/serving needs; its flags are part of the ABI of Debian's library.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(tessera_httplib QUIET IMPORTED_TARGET cpp-httplib)
endif()

file(GLOB mains CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/main.cc")
foreach(main IN LISTS mains)
  cmake_path(GET main PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  if(name STREQUAL "serving" AND NOT TARGET PkgConfig::tessera_httplib)
    message(STATUS "No cpp-httplib with pkg-config (libcpp-httplib-dev): examples/serving is left out")
    continue()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc")
  add_executable(example_${name} ${sources})
  target_link_libraries(example_${name} PRIVATE tessera::tessera)
  target_include_directories(example_${name} PRIVATE "${PROJECT_SOURCE_DIR}/examples")
  target_compile_options(example_${name} PRIVATE
    -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
  target_compile_definitions(example_${name} PRIVATE TESSERA_EXAMPLE_DIR="${folder}")
  tessera_quick_program(example_${name})
  if(TESSERA_BUILD_TESTS)
    add_test(NAME example_${name} COMMAND example_${name})
    set_tests_properties(example_${name} PROPERTIES LABELS examples TIMEOUT ${TESSERA_TEST_TIMEOUT})
  endif()
endforeach()

if(TARGET example_serving)
  target_link_libraries(example_serving PRIVATE PkgConfig::tessera_httplib)
  if(TESSERA_BUILD_TESTS)
    add_test(NAME serving_process COMMAND sh "${PROJECT_SOURCE_DIR}/examples/serving/try.sh"
                                          "$<TARGET_FILE:example_serving>")
    set_tests_properties(serving_process PROPERTIES LABELS examples TIMEOUT 120)
  endif()
endif()

if(TESSERA_BUILD_TESTS AND TESSERA_HAVE_MPI)
  # Two of them in several processes; tests/processes/run.sh takes any.
  foreach(name IN ITEMS mlp_training sharding_tour)
    tessera_add_process_test(processes_example_${name} examples 1,2,4
      "$<TARGET_FILE:example_${name}>")
  endforeach()
endif()

# Each C++ block of the README and of the documents is a program, compiled and run like the others.
file(GLOB documents CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md"
     "${PROJECT_SOURCE_DIR}/docs/*.md" "${PROJECT_SOURCE_DIR}/docs/*/*.md")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${documents})
foreach(document IN LISTS documents)
  get_filename_component(stem "${document}" NAME_WE)
  string(TOLOWER "${stem}" stem)
  file(READ "${document}" text)
  set(number 0)
  while(TRUE)
    string(FIND "${text}" "```cpp\n" begin)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + 7")
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "```" end)
    string(SUBSTRING "${text}" 0 ${end} program)
    math(EXPR end "${end} + 3")
    string(SUBSTRING "${text}" ${end} -1 text)
    set(name "example_${stem}")
    if(number GREATER 0)
      set(name "example_${stem}_${number}")
    endif()
    math(EXPR number "${number} + 1")
    # NDEBUG would switch the programs' asserts off.
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}.cc"
         CONTENT "#undef NDEBUG\n${program}" @ONLY)
    add_executable(${name} "${PROJECT_BINARY_DIR}/generated/${name}.cc")
    target_link_libraries(${name} PRIVATE tessera::tessera)
    tessera_quick_program(${name})
    if(TESSERA_BUILD_TESTS)
      # The directory with the files that the programs read.
      add_test(NAME ${name} COMMAND ${name}
               WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/examples/from_jax")
      set_tests_properties(${name} PROPERTIES LABELS examples TIMEOUT 60)
    endif()
  endwhile()
  if(number EQUAL 0 AND stem STREQUAL "readme")
    message(FATAL_ERROR "README.md has no program between ```cpp and ```")
  endif()
endforeach()

# The texts in the tour of docs/architecture.md are what the compiler makes of its program.
if(TESSERA_BUILD_TESTS AND NOT TESSERA_SANITIZE)
  add_test(NAME tour COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/tour" --check "${PROJECT_BINARY_DIR}"
                             "${PROJECT_SOURCE_DIR}")
  add_test(NAME links COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/check_links" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(tour links PROPERTIES LABELS docs TIMEOUT 60)
endif()

# The site, where a Python has what it takes: nothing is downloaded.
set(TESSERA_SITE_PYTHON "$ENV{TESSERA_SITE_PYTHON}" CACHE STRING
    "A Python with the packages of site/requirements.txt, and playwright, for the test of the site; empty: python3")
find_program(TESSERA_DOXYGEN doxygen)
if(TESSERA_BUILD_TESTS AND TESSERA_BUILD_TOOLS AND NOT TESSERA_SANITIZE)
  set(python "${TESSERA_SITE_PYTHON}")
  if(NOT python)
    set(python python3)
  endif()
  execute_process(COMMAND "${python}" -c "import sphinx, furo, myst_parser, sphinx_copybutton"
    RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
  if(missing OR NOT TESSERA_DOXYGEN)
    message(STATUS "No doxygen, or no Python with Sphinx (TESSERA_SITE_PYTHON): the site isn't tested")
  else()
    add_test(NAME site COMMAND sh "${PROJECT_SOURCE_DIR}/scripts/site" --check "${PROJECT_BINARY_DIR}"
                               "${PROJECT_BINARY_DIR}/site")
    set_tests_properties(site PROPERTIES LABELS docs TIMEOUT 900
                                         ENVIRONMENT "TESSERA_SITE_PYTHON=${python}")
  endif()
endif()
