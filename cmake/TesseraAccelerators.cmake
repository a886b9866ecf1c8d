# SPDX-License-Identifier: Apache-2.0
# The client of PJRT plugins: a module that the library loads when a program asks for a platform that
# a plugin has. It needs nothing but the loader, and none of the library's symbols.

function(tessera_add_accelerators)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/engines/pjrt/*.cc")
  add_library(tessera_accelerators MODULE ${sources})
  target_link_libraries(tessera_accelerators PRIVATE tessera_build_flags ${CMAKE_DL_LIBS})
  set_target_properties(tessera_accelerators PROPERTIES
    OUTPUT_NAME tessera-accelerators PREFIX lib
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(NOT TESSERA_SANITIZE)
    target_link_options(tessera_accelerators PRIVATE -Wl,--no-undefined)
  endif()
  add_dependencies(tessera tessera_accelerators)
endfunction()
