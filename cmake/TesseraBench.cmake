# SPDX-License-Identifier: Apache-2.0
# Each bench/<name>.cc is one program bench_<name>. Google Benchmark is linked if found.

find_package(benchmark QUIET)
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cc")
if(NOT TESSERA_HAVE_MPI)
  list(FILTER sources EXCLUDE REGEX "/processes\\.cc$")
endif()
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  add_executable(bench_${name} ${source})
  # Those that look inside are linked with the library's objects.
  set(library tessera::tessera)
  file(STRINGS "${source}" inside REGEX "#include \"(src/|bench/(programs|sweep)\\.h)" LIMIT_COUNT 1)
  if(inside)
    set(library tessera_internals)
  endif()
  target_link_libraries(bench_${name} PRIVATE
    ${library} tessera_build_flags nlohmann_json::nlohmann_json fmt::fmt)
  target_compile_definitions(bench_${name} PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(benchmark_FOUND)
    target_link_libraries(bench_${name} PRIVATE benchmark::benchmark)
  endif()
endforeach()
if(TARGET bench_processes)
  target_link_libraries(bench_processes PRIVATE MPI::MPI_C)
  target_compile_definitions(bench_processes PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endif()

# Libraries that our kernels are measured beside, and that nothing else is linked with.
if(TESSERA_BENCH_LIBRARIES)
  foreach(name IN ITEMS dnnl hwy_contrib hwy fftw3f fftw3f_threads fftw3 fftw3_threads)
    find_library(TESSERA_LIBRARY_${name} ${name} REQUIRED)
    list(APPEND libraries "${TESSERA_LIBRARY_${name}}")
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/libraries/*.cc")
  add_executable(bench_libraries ${sources})
  target_include_directories(bench_libraries PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(bench_libraries PRIVATE tessera::tessera tessera_build_flags
    nlohmann_json::nlohmann_json TesseraDeps::OpenBLAS ${libraries})
endif()
