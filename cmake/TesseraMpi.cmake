# SPDX-License-Identifier: Apache-2.0
# Messages between processes by MPI: a module that the library loads where a program runs in several
# processes, so that nothing else depends on MPI.

# AUTO: with MPI if there is one. Only its C functions are used, so any C++ compiler will do.
if(NOT TESSERA_MPI STREQUAL "OFF")
  enable_language(C)
  find_package(MPI COMPONENTS C QUIET)
endif()
if(MPI_C_FOUND AND NOT TESSERA_MPI STREQUAL "OFF")
  set(TESSERA_HAVE_MPI ON)
elseif(TESSERA_MPI STREQUAL "ON")
  message(FATAL_ERROR "MPI was not found. Install it (Debian: libopenmpi-dev openmpi-bin), or "
                      "configure with -DTESSERA_MPI=OFF: programs run in one process then.")
else()
  set(TESSERA_HAVE_MPI OFF)
endif()

function(tessera_add_mpi)
  add_library(tessera_mpi MODULE "${PROJECT_SOURCE_DIR}/src/engines/mpi/mpi_transport.cc"
    "${PROJECT_SOURCE_DIR}/src/engines/mpi/peer_memory.cc"
    "${PROJECT_SOURCE_DIR}/src/engines/mpi/shared_rings.cc")
  target_link_libraries(tessera_mpi PRIVATE tessera_build_flags MPI::MPI_C)
  target_compile_definitions(tessera_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  set_target_properties(tessera_mpi PROPERTIES
    OUTPUT_NAME tessera-mpi PREFIX lib CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  add_dependencies(tessera tessera_mpi)
endfunction()
