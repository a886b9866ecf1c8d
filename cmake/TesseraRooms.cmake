# SPDX-License-Identifier: Apache-2.0
# The rooms of src/: one object library each, so that a room and its tests build while another one
# does not compile, and one library `tessera` that joins them.

# Bottom up. tessera_below_<room> names the rooms that a room needs below itself to be linked;
# scripts/check_includes holds the sources to the edges between them.
set(TESSERA_ROOMS
    base sharding ir evaluator text spmd passes runtime codegen compiler frontend)
set(tessera_below_base)
set(tessera_below_sharding base)
set(tessera_below_ir base sharding)
set(tessera_below_evaluator base sharding ir)
set(tessera_below_text base sharding ir)
set(tessera_below_spmd base sharding ir)
set(tessera_below_passes base sharding ir evaluator)
set(tessera_below_runtime base)
set(tessera_below_codegen base sharding ir evaluator passes runtime)
set(tessera_below_compiler base sharding ir evaluator text spmd passes runtime codegen)
set(tessera_below_frontend
    base sharding ir evaluator text spmd passes runtime codegen compiler)

# The precompiled header of a room, cmake/precompiled/<name>.h: it holds nothing of rooms above.
foreach(room IN LISTS TESSERA_ROOMS)
  set(tessera_precompiled_${room} ir)
endforeach()
foreach(room IN ITEMS base sharding runtime)
  set(tessera_precompiled_${room} standard)
endforeach()
# Its flags differ from the others'.
set(tessera_precompiled_codegen codegen)
set(tessera_precompiled_frontend frontend)

# A library must have a source; a room without one gets an empty file.
set(tessera_empty_source "${PROJECT_BINARY_DIR}/generated/empty.cc")
file(CONFIGURE OUTPUT "${tessera_empty_source}" CONTENT "// No source yet.\n")

function(tessera_add_rooms)
  foreach(room IN LISTS TESSERA_ROOMS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.cc")
    if(NOT sources)
      set(sources "${tessera_empty_source}")
    endif()
    add_library(tessera_${room} OBJECT ${sources})
    target_link_libraries(tessera_${room}
      PRIVATE tessera_build_flags ${tessera_private_deps}
      PUBLIC Threads::Threads)
    if(room STREQUAL "compiler")
      target_link_libraries(tessera_${room} PRIVATE nlohmann_json::nlohmann_json)
    endif()
    if(room STREQUAL "codegen")
      # Kernels are loops over arrays: vectorised, also where a comparison or a libm call might
      # set flags that nobody reads.
      target_compile_options(tessera_${room} PRIVATE
        $<$<CONFIG:Release,RelWithDebInfo>:-O3;-fno-math-errno;-fno-trapping-math>)
    endif()
    if(TESSERA_TASK_POOL STREQUAL "TBB")
      target_compile_definitions(tessera_${room} PRIVATE TESSERA_TASK_POOL_TBB=1)
    else()
      target_compile_definitions(tessera_${room} PRIVATE TESSERA_TASK_POOL_JTHREAD=1)
    endif()
    tessera_join(tessera_${room} ${sources})
    tessera_precompile(tessera_${room} ${tessera_precompiled_${room}})
  endforeach()
endfunction()

function(tessera_add_library)
  add_library(tessera "${tessera_empty_source}")
  add_library(tessera::tessera ALIAS tessera)
  foreach(room IN LISTS TESSERA_ROOMS)
    target_sources(tessera PRIVATE $<TARGET_OBJECTS:tessera_${room}>)
  endforeach()
  target_compile_features(tessera PUBLIC cxx_std_20)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/tessera/*.h")
  target_sources(tessera PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(tessera PUBLIC Threads::Threads PRIVATE ${tessera_private_deps})
  # Before 1.0 each minor version may change the ABI.
  set_target_properties(tessera PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS AND NOT TESSERA_SANITIZE)
    target_link_options(tessera PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
