# SPDX-License-Identifier: Apache-2.0
# Which tests begin first where no earlier run has told how long they take: those that mostly wait,
# beside which others compute, and the longest, so that none is left for one core at the end.

set(tessera_cost 100)
foreach(test IN ITEMS hosts codegen frontend codegen_compiled pjrt_processes_failures pjrt_libraries
                      packages processes_moments compiler compile_fail pjrt_lifetimes tools spmd
                      pjrt_processes_2 pjrt_processes_4 pjrt_training pjrt_solvers)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST ${tessera_cost})
    math(EXPR tessera_cost "${tessera_cost} - 1")
  endif()
endforeach()
