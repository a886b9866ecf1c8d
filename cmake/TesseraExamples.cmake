# SPDX-License-Identifier: Apache-2.0
# Each examples/<name>/ is one program that sees only the public headers; its run is a test.

file(GLOB mains CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/main.cc")
foreach(main IN LISTS mains)
  cmake_path(GET main PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc")
  add_executable(example_${name} ${sources})
  target_link_libraries(example_${name} PRIVATE tessera::tessera)
  target_compile_options(example_${name} PRIVATE
    -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
  target_compile_definitions(example_${name} PRIVATE TESSERA_EXAMPLE_DIR="${folder}")
  if(TESSERA_BUILD_TESTS)
    add_test(NAME example_${name} COMMAND example_${name})
    set_tests_properties(example_${name} PROPERTIES LABELS examples TIMEOUT 300)
  endif()
endforeach()
