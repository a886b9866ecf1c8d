# SPDX-License-Identifier: Apache-2.0
# The PJRT plugin: one file that JAX and other clients of PJRT load, with the library inside.

set(tessera_pjrt_layers ${TESSERA_LAYERS})
list(REMOVE_ITEM tessera_pjrt_layers frontend)

file(GLOB_RECURSE tessera_pjrt_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/pjrt/*.cc")
add_library(tessera_pjrt MODULE ${tessera_pjrt_sources})
foreach(layer IN LISTS tessera_pjrt_layers)
  target_sources(tessera_pjrt PRIVATE $<TARGET_OBJECTS:tessera_${layer}>)
endforeach()
target_link_libraries(tessera_pjrt PRIVATE tessera_build_flags ${tessera_private_deps}
  nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(tessera_pjrt PROPERTIES
  OUTPUT_NAME tessera-pjrt PREFIX lib CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
# A process may have other copies of the library: nothing but GetPjrtApi is to be seen.
target_link_options(tessera_pjrt PRIVATE
  "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/pjrt.map" -Wl,-Bsymbolic)
# It is never unloaded, as its threads aren't.
target_link_options(tessera_pjrt PRIVATE -Wl,-z,nodelete)
if(NOT TESSERA_SANITIZE)
  target_link_options(tessera_pjrt PRIVATE -Wl,--no-undefined)
endif()
if(TESSERA_JIT)
  add_dependencies(tessera_pjrt tessera_llvm)
endif()
if(TESSERA_HAVE_MPI)
  add_dependencies(tessera_pjrt tessera_mpi)
endif()
