# SPDX-License-Identifier: Apache-2.0
# Debian packages by CPack: a package for each component that is installed. scripts/package makes what
# the command needs (pages of the manual, completions), and calls it.

set(minor "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_PACKAGE_NAME tessera)
# Each package has its own: this one is what CPack takes for none.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_NAME} built using CMake")
set(CPACK_PACKAGE_VENDOR "Tessera developers")
set(CPACK_PACKAGE_CONTACT "${TESSERA_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/packaging/debian/prepare.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/packaging/debian/compression.cmake")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What the packages' own programs link with is stated below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# tessera_package(COMPONENT NAME SECTION DEPENDS DESCRIPTION): `DESCRIPTION` has a first line, and
# what follows it. Packages of one version go together.
function(tessera_package component name section depends description)
  string(TOUPPER "${component}" upper)
  set(here "CPACK_DEBIAN_${upper}")
  set("${here}_PACKAGE_NAME" "${name}" PARENT_SCOPE)
  set("${here}_PACKAGE_SECTION" "${section}" PARENT_SCOPE)
  list(TRANSFORM depends APPEND " (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})"
       REGEX "tessera[0-9a-z.-]*$")
  list(JOIN depends ", " depends)
  set("${here}_PACKAGE_DEPENDS" "${depends}" PARENT_SCOPE)
  set("CPACK_COMPONENT_${upper}_DESCRIPTION" "${description}" PARENT_SCOPE)
  set("${here}_DESCRIPTION" "${description}" PARENT_SCOPE)
  list(APPEND CPACK_COMPONENTS_ALL "${component}")
  set(CPACK_COMPONENTS_ALL "${CPACK_COMPONENTS_ALL}" PARENT_SCOPE)
  install(FILES "${PROJECT_BINARY_DIR}/package/changelog.Debian.gz"
                "${PROJECT_SOURCE_DIR}/packaging/debian/copyright"
          DESTINATION "share/doc/${name}" COMPONENT "${component}" OPTIONAL EXCLUDE_FROM_ALL)
endfunction()

tessera_package(runtime "libtessera${minor}" libs ""
"sharded array programs in C++20
A program is written with arrays as if for one device, states how a few
of them are distributed over a mesh of devices, and is traced,
differentiated, batched, partitioned and run on all of them.
.
This package has the library that such programs are linked with.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
    "${PROJECT_SOURCE_DIR}/packaging/debian/triggers")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libtessera-llvm")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libtessera-mpi, libtessera-accelerators")
set(dev_depends "libtessera${minor}" libstdc++-12-dev)
tessera_package(development libtessera-dev libdevel "${dev_depends}"
"sharded array programs in C++20, files for development
The headers of Tessera, its CMake package (find_package(tessera)) and
tessera.pc for pkg-config.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libtessera-llvm")
if(TARGET tool_tessera)
  tessera_package(tools tessera-tools science "libtessera${minor}"
"sharded array programs, the command
The command tessera runs, partitions, explains, converts and compares
programs in StableHLO and HLO, as text or bytecode, and looks into
checkpoints. It comes with pages of the manual and completions for bash,
zsh and fish.")
  set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "libtessera-llvm")
endif()
tessera_package(accelerators libtessera-accelerators libs "libtessera${minor}"
"sharded array programs, accelerators
The module by which a program of Tessera's runs on GPUs and other
accelerators: a client of PJRT plugins.")
if(TESSERA_JIT)
  tessera_package(llvm libtessera-llvm libs "libtessera${minor}"
"sharded array programs, compiled kernels
The module by which Tessera compiles kernels with LLVM. Without it kernels are
interpreted, and programs are much slower.")
endif()
if(TESSERA_HAVE_MPI)
  tessera_package(mpi libtessera-mpi libs "libtessera${minor}"
"sharded array programs, several processes
The module by which a program of Tessera's runs in several processes, on one or
more hosts, over MPI.")
endif()
if(TARGET tessera_pjrt)
  tessera_package(pjrt libtessera-pjrt libs ""
"sharded array programs, plugin of PJRT
A plugin with the C interface of PJRT: JAX, and whatever else speaks PJRT, runs
its programs on Tessera with it.")
  set(CPACK_DEBIAN_PJRT_PACKAGE_RECOMMENDS "libtessera-llvm")
endif()
install(FILES "${PROJECT_BINARY_DIR}/package/changelog.gz" DESTINATION "share/doc/libtessera-dev"
        COMPONENT development OPTIONAL EXCLUDE_FROM_ALL)
include(CPack)
