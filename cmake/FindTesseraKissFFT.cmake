# SPDX-License-Identifier: Apache-2.0
# TesseraDeps::KissFFT: the header-only C++ template kissfft/kissfft.hh. No library is linked.
find_path(TESSERA_KISSFFT_INCLUDE_DIR kissfft/kissfft.hh)
mark_as_advanced(TESSERA_KISSFFT_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TesseraKissFFT REQUIRED_VARS TESSERA_KISSFFT_INCLUDE_DIR)
if(TesseraKissFFT_FOUND AND NOT TARGET TesseraDeps::KissFFT)
  add_library(TesseraDeps::KissFFT INTERFACE IMPORTED)
  set_target_properties(TesseraDeps::KissFFT PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_KISSFFT_INCLUDE_DIR}")
endif()
