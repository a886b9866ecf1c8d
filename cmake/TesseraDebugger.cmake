# SPDX-License-Identifier: Apache-2.0
# gdb's printers: beside the library in the build, in share/gdb/auto-load of an installation.

include(GNUInstallDirs)
if(BUILD_SHARED_LIBS)
  set(printers "${PROJECT_SOURCE_DIR}/packaging/gdb/tessera_printers.py")
  set(library "libtessera.so.${PROJECT_VERSION}")
  configure_file("${printers}" "${PROJECT_BINARY_DIR}/${library}-gdb.py" COPYONLY)
  if(TESSERA_INSTALL)
    install(FILES "${printers}" RENAME "${library}-gdb.py" COMPONENT development
      DESTINATION "${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR}")
  endif()

  if(TESSERA_BUILD_TESTS AND NOT TESSERA_SANITIZE)
    add_executable(gdb_arrays "${PROJECT_SOURCE_DIR}/tests/gdb/arrays.cc")
    target_link_libraries(gdb_arrays PRIVATE tessera::tessera)
    add_executable(gdb_modules "${PROJECT_SOURCE_DIR}/tests/gdb/modules.cc")
    foreach(layer IN LISTS TESSERA_LAYERS)
      target_sources(gdb_modules PRIVATE $<TARGET_OBJECTS:tessera_${layer}>)
    endforeach()
    target_link_libraries(gdb_modules PRIVATE tessera_build_flags ${tessera_private_deps}
                                              Threads::Threads)
    target_compile_options(gdb_arrays PRIVATE -g -O0)
    target_compile_options(gdb_modules PRIVATE -g -O0)
    add_test(NAME gdb COMMAND sh "${PROJECT_SOURCE_DIR}/tests/gdb/run.sh" "${PROJECT_SOURCE_DIR}"
                              "${PROJECT_BINARY_DIR}")
    set_tests_properties(gdb PROPERTIES LABELS tools TIMEOUT 300)
  endif()
endif()
