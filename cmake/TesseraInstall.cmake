# SPDX-License-Identifier: Apache-2.0
# The relocatable CMake package (find_package(tessera), tessera::tessera) and tessera.pc.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tessera")

install(TARGETS tessera EXPORT tessera-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development
  FILE_SET HEADERS COMPONENT development)
if(TESSERA_JIT)
  install(TARGETS tessera_llvm LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tessera" COMPONENT llvm)
endif()
install(TARGETS tessera_accelerators
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tessera" COMPONENT accelerators)
if(TESSERA_HAVE_MPI)
  install(TARGETS tessera_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tessera" COMPONENT mpi)
endif()
if(TARGET tessera_pjrt)
  install(TARGETS tessera_pjrt LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tessera" COMPONENT pjrt)
endif()
install(EXPORT tessera-targets NAMESPACE tessera:: DESTINATION "${package_dir}"
  COMPONENT development)

# A shared tessera contains its private libraries; consumers of a static one must link them.
set(TESSERA_STATIC_DEPENDENCIES "")
set(TESSERA_PC_PRIVATE_LIBS "-lopenblas -lfmt -lxxhash -pthread")
if(TESSERA_TASK_POOL STREQUAL "TBB")
  string(PREPEND TESSERA_PC_PRIVATE_LIBS "-ltbb ")
endif()
if(NOT BUILD_SHARED_LIBS)
  set(TESSERA_STATIC_DEPENDENCIES
"list(PREPEND CMAKE_MODULE_PATH \"\${CMAKE_CURRENT_LIST_DIR}\")
find_dependency(fmt)
find_dependency(TesseraOpenBLAS)
find_dependency(TesseraXxHash)
")
  if(TESSERA_TASK_POOL STREQUAL "TBB")
    string(APPEND TESSERA_STATIC_DEPENDENCIES "find_dependency(TBB)\n")
  endif()
  string(APPEND TESSERA_STATIC_DEPENDENCIES "list(POP_FRONT CMAKE_MODULE_PATH)\n")
  install(FILES cmake/FindTesseraOpenBLAS.cmake
                cmake/FindTesseraXxHash.cmake
          DESTINATION "${package_dir}" COMPONENT development)
endif()

configure_package_config_file(cmake/tessera-config.cmake.in
  "${PROJECT_BINARY_DIR}/generated/tessera-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/tessera-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/tessera-config.cmake"
              "${PROJECT_BINARY_DIR}/generated/tessera-config-version.cmake"
        DESTINATION "${package_dir}" COMPONENT development)

# The prefix in tessera.pc is relative to the file, so that the tree can be moved.
file(RELATIVE_PATH TESSERA_PC_PREFIX
     "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/tessera.pc.in "${PROJECT_BINARY_DIR}/generated/tessera.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/tessera.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
install(FILES LICENSE NOTICE
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/tessera" COMPONENT runtime)

set(TESSERA_PACKAGE_CONTACT "Tessera developers <tessera@localhost.localdomain>" CACHE STRING
    "Who stands in packages as their maintainer")
include(TesseraPackage)

# Packages are made from a build for /usr.
if(TESSERA_BUILD_TESTS AND BUILD_SHARED_LIBS AND TARGET tool_tessera AND NOT TESSERA_SANITIZE
   AND CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  add_test(NAME packages
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/install/run_packages.sh"
                   "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  set_tests_properties(packages PROPERTIES LABELS install TIMEOUT 900)
endif()
