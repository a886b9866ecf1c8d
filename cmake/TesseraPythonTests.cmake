# SPDX-License-Identifier: Apache-2.0
# Tests of the plugin by JAX programs, where there is a Python with JAX.

set(TESSERA_JAX_PYTHON "$ENV{TESSERA_JAX_PYTHON}" CACHE STRING
    "A Python with jax, jaxlib and pypjrt, for tests of the plugin; empty: python3, if it has them; OFF: none")
if("${TESSERA_JAX_PYTHON}" STREQUAL "OFF")
  return()
endif()
set(tessera_jax_python "${TESSERA_JAX_PYTHON}")
if(NOT tessera_jax_python)
  set(tessera_jax_python python3)
endif()
execute_process(COMMAND "${tessera_jax_python}" -c "import jax, jaxlib"
  RESULT_VARIABLE tessera_no_jax OUTPUT_QUIET ERROR_QUIET)
if(tessera_no_jax)
  message(STATUS "No Python with JAX (TESSERA_JAX_PYTHON): the plugin is tested over its C API alone")
  return()
endif()
set(tessera_jax_tests conform garbage package programs callbacks asynchronous partitioning process
    training libraries lifetimes layouts wheel)
execute_process(COMMAND "${tessera_jax_python}" -c "
import importlib.util as u
raise SystemExit(not (u.find_spec('numpyro') or u.find_spec('diffrax')))"
  RESULT_VARIABLE tessera_no_solvers OUTPUT_QUIET ERROR_QUIET)
if(tessera_no_solvers)
  message(STATUS "No numpyro and no diffrax beside JAX: the plugin isn't tested with them")
else()
  list(APPEND tessera_jax_tests solvers)
endif()
if(TESSERA_HAVE_MPI)
  list(APPEND tessera_jax_tests processes_2 processes_4 processes_failures processes_document)
endif()
foreach(name IN LISTS tessera_jax_tests)
  add_test(NAME pjrt_${name}
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/pjrt/python/run.sh" "${tessera_jax_python}"
                   "$<TARGET_FILE:tessera_pjrt>" ${name}
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(pjrt_${name} PROPERTIES LABELS pjrt TIMEOUT 1200 SKIP_RETURN_CODE 77
    ENVIRONMENT "MPIRUN_OF_TESTS=${MPIEXEC_EXECUTABLE}")
endforeach()
