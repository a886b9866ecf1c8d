# SPDX-License-Identifier: Apache-2.0
# Everything comes from the system; nothing is downloaded. docs/dependencies.md states the purpose
# of each.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(TesseraOpenBLAS REQUIRED)
find_package(TesseraXxHash REQUIRED)

set(tessera_private_deps
    fmt::fmt TesseraDeps::OpenBLAS TesseraDeps::XxHash)

if(TESSERA_TASK_POOL STREQUAL "TBB")
  find_package(TBB REQUIRED)
  list(APPEND tessera_private_deps TBB::tbb)
elseif(NOT TESSERA_TASK_POOL STREQUAL "JTHREAD")
  message(FATAL_ERROR "TESSERA_TASK_POOL is '${TESSERA_TASK_POOL}'; say TBB or JTHREAD")
endif()
