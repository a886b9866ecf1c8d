# SPDX-License-Identifier: Apache-2.0
# Tests of the plugin by JAX programs: skipped where there is no Python with JAX.

set(TESSERA_JAX_PYTHON "$ENV{TESSERA_JAX_PYTHON}" CACHE STRING
    "A Python with jax, jaxlib and pypjrt, for tests of the plugin; empty: python3, if it has them")
set(tessera_jax_python "${TESSERA_JAX_PYTHON}")
if(NOT tessera_jax_python)
  set(tessera_jax_python python3)
endif()
foreach(name IN ITEMS conform package programs callbacks partitioning process training)
  add_test(NAME pjrt_${name}
           COMMAND sh "${PROJECT_SOURCE_DIR}/tests/pjrt/python/run.sh" "${tessera_jax_python}"
                   "$<TARGET_FILE:tessera_pjrt>" ${name}
           WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_tests_properties(pjrt_${name} PROPERTIES LABELS pjrt TIMEOUT 1200 SKIP_RETURN_CODE 77)
endforeach()
