# SPDX-License-Identifier: Apache-2.0
# TesseraDeps::OpenBLAS: cblas.h and the library. pkg-config's file differs between distributions,
# so both parts are looked for directly.
find_path(TESSERA_OPENBLAS_INCLUDE_DIR cblas.h
          PATH_SUFFIXES openblas openblas-pthread openblas-serial openblas-openmp
                        "${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread"
                        "${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial")
find_library(TESSERA_OPENBLAS_LIBRARY openblas
             PATH_SUFFIXES openblas-pthread openblas-serial)
mark_as_advanced(TESSERA_OPENBLAS_INCLUDE_DIR TESSERA_OPENBLAS_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TesseraOpenBLAS
  REQUIRED_VARS TESSERA_OPENBLAS_LIBRARY TESSERA_OPENBLAS_INCLUDE_DIR)
if(TesseraOpenBLAS_FOUND AND NOT TARGET TesseraDeps::OpenBLAS)
  add_library(TesseraDeps::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(TesseraDeps::OpenBLAS PROPERTIES
    IMPORTED_LOCATION "${TESSERA_OPENBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_OPENBLAS_INCLUDE_DIR}")
endif()
