# SPDX-License-Identifier: Apache-2.0
# What a package of the system's must not have: paths in which libraries are looked for, since the
# system's own are looked through anyway.
file(GLOB_RECURSE files "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
foreach(file IN LISTS files)
  if(NOT IS_SYMLINK "${file}" AND file MATCHES "(/bin/[^/]+|\\.so[.0-9]*)$")
    execute_process(COMMAND chrpath -d "${file}" OUTPUT_QUIET ERROR_QUIET)
  endif()
endforeach()
