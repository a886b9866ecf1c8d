# SPDX-License-Identifier: Apache-2.0
# The layers of src/: one object library each, so that a layer and its tests can be built although
# another one does not compile, and one library `tessera` that contains them all.

# Bottom up. tessera_below_<layer> lists the lower layers that a layer is linked with;
# scripts/check_includes checks that sources keep to these edges.
set(TESSERA_LAYERS
    base sharding ir cost evaluator text transforms spmd passes runtime codegen compiler frontend)
set(tessera_below_base)
set(tessera_below_sharding base)
set(tessera_below_ir base sharding)
set(tessera_below_evaluator base sharding ir)
set(tessera_below_text base sharding ir evaluator)
set(tessera_below_transforms base sharding ir)
set(tessera_below_cost base sharding ir)
set(tessera_below_spmd base sharding ir cost)
set(tessera_below_passes base sharding ir cost evaluator)
set(tessera_below_runtime base)
set(tessera_below_codegen base sharding ir cost evaluator passes runtime)
set(tessera_below_compiler
    base sharding ir cost evaluator text transforms spmd passes runtime codegen)
set(tessera_below_frontend
    base sharding ir cost evaluator text transforms spmd passes runtime codegen compiler)

# The precompiled header of a layer, cmake/precompiled/<name>.h; it must not include higher layers.
foreach(layer IN LISTS TESSERA_LAYERS)
  set(tessera_precompiled_${layer} ir)
endforeach()
foreach(layer IN ITEMS base sharding runtime)
  set(tessera_precompiled_${layer} standard)
endforeach()
# Its flags differ from the others'.
set(tessera_precompiled_codegen codegen)
set(tessera_precompiled_frontend frontend)

# A library must have a source; a layer without one gets an empty file.
set(tessera_empty_source "${PROJECT_BINARY_DIR}/generated/empty.cc")
file(CONFIGURE OUTPUT "${tessera_empty_source}" CONTENT "// No source yet.\n")

function(tessera_add_layers)
  foreach(layer IN LISTS TESSERA_LAYERS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.cc")
    list(FILTER sources EXCLUDE REGEX "/src/codegen/llvm/")
    if(NOT sources)
      set(sources "${tessera_empty_source}")
    endif()
    add_library(tessera_${layer} OBJECT ${sources})
    target_link_libraries(tessera_${layer}
      PRIVATE tessera_build_flags ${tessera_private_deps}
      PUBLIC Threads::Threads)
    if(layer MATCHES "^(base|compiler|frontend)$")
      target_link_libraries(tessera_${layer} PRIVATE nlohmann_json::nlohmann_json)
    endif()
    if(layer STREQUAL "codegen")
      # Kernels are loops over arrays: vectorised, also where a comparison or a libm call might
      # set flags that nobody reads.
      target_compile_options(tessera_${layer} PRIVATE
        $<$<CONFIG:Release,RelWithDebInfo>:-O3;-fno-math-errno;-fno-trapping-math>
        # Vectors are passed to functions that are always inlined: no calling convention is involved.
        -Wno-psabi)
    endif()
    if(layer STREQUAL "base" AND TESSERA_HAVE_MPI)
      # Of this source alone: layers share a precompiled header, and so their definitions.
      set_source_files_properties("${PROJECT_SOURCE_DIR}/src/base/processes/find_processes.cc" PROPERTIES
        SKIP_PRECOMPILE_HEADERS ON
        COMPILE_DEFINITIONS
          "TESSERA_MPI=1;TESSERA_MODULE_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}\"")
    endif()
    if(layer STREQUAL "compiler")
      set_source_files_properties("${PROJECT_SOURCE_DIR}/src/compiler/accelerators/plugins.cc"
        PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
        COMPILE_DEFINITIONS "TESSERA_MODULE_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}\"")
    endif()
    if(layer STREQUAL "base")
      target_link_libraries(tessera_${layer} PUBLIC ${CMAKE_DL_LIBS})
    endif()
    if(layer STREQUAL "codegen" AND TESSERA_JIT)
      target_compile_definitions(tessera_${layer} PRIVATE TESSERA_JIT=1
        TESSERA_JIT_FOLDER="${CMAKE_INSTALL_FULL_LIBDIR}")
    endif()
    if(TESSERA_TASK_POOL STREQUAL "TBB")
      target_compile_definitions(tessera_${layer} PRIVATE TESSERA_TASK_POOL_TBB=1)
    else()
      target_compile_definitions(tessera_${layer} PRIVATE TESSERA_TASK_POOL_JTHREAD=1)
    endif()
    tessera_join(tessera_${layer} ${sources})
    tessera_precompile(tessera_${layer} ${tessera_precompiled_${layer}})
  endforeach()
endfunction()

# What the public headers declare is exported, what the command needs beyond that is private to
# programs of this build, and nothing else is seen: scripts/exports makes the linker's version script
# from the headers and the objects right before the library is linked.
function(tessera_export_public_symbols)
  set(version "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  set(map "${PROJECT_BINARY_DIR}/generated/tessera.map")
  set(objects)
  foreach(layer IN LISTS TESSERA_LAYERS)
    list(APPEND objects $<TARGET_OBJECTS:tessera_${layer}>)
  endforeach()
  set(programs)
  if(TESSERA_BUILD_TOOLS)
    set(programs --for $<TARGET_OBJECTS:tool_tessera_objects>)
    set_property(TARGET tessera APPEND PROPERTY LINK_DEPENDS
      $<TARGET_OBJECTS:tool_tessera_objects>)
    add_dependencies(tessera tool_tessera_objects)
  endif()
  add_custom_command(TARGET tessera PRE_LINK
    COMMAND "${PROJECT_SOURCE_DIR}/scripts/exports" "${version}" "${PROJECT_SOURCE_DIR}/include"
            "${CMAKE_NM}" ${objects} ${programs} > "${map}"
    COMMAND_EXPAND_LISTS VERBATIM)
  get_target_property(headers tessera HEADER_SET)
  set_property(TARGET tessera APPEND PROPERTY LINK_DEPENDS
    ${headers} "${PROJECT_SOURCE_DIR}/scripts/exports")
  target_link_options(tessera PRIVATE "-Wl,--version-script=${map}")
endfunction()

function(tessera_add_library)
  add_library(tessera "${tessera_empty_source}")
  add_library(tessera::tessera ALIAS tessera)
  foreach(layer IN LISTS TESSERA_LAYERS)
    target_sources(tessera PRIVATE $<TARGET_OBJECTS:tessera_${layer}>)
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
    # Calls within the library are direct: else each function is looked up when it is called first.
    target_link_options(tessera PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic-functions)
    # A program that must not ask for memory while it runs has its own (src/base/threads/run_memory.cc).
    foreach(operator IN ITEMS _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnwmSt11align_val_t
            _ZnwmSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm
            _ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t)
      target_link_options(tessera PRIVATE "LINKER:--wrap=${operator}")
    endforeach()
    tessera_export_public_symbols()
  endif()
endfunction()

# What a program of this repository is linked with if it needs symbols that aren't public: the whole
# library as objects.
add_library(tessera_internals INTERFACE)

function(tessera_add_internals)
  foreach(layer IN LISTS TESSERA_LAYERS)
    target_sources(tessera_internals INTERFACE $<TARGET_OBJECTS:tessera_${layer}>)
  endforeach()
  target_link_libraries(tessera_internals INTERFACE
    ${tessera_private_deps} Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
