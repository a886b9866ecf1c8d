// SPDX-License-Identifier: Apache-2.0
// Extensions of the API that tell more of programs.
#include "src/pjrt/extensions.h"

#include "src/pjrt/entry.h"
#include "src/pjrt/ffi/extension.h"
#include "src/pjrt/ffi/handlers.h"
#include "src/pjrt/partitioner/custom_partitioner.h"
#include "src/pjrt/program.h"

namespace tessera::pjrt {
namespace {

PJRT_Error* parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args* args) {
  return guarded([&] {
    const Program& p = *checked(args->executable, "executable").program;
    args->num_parameters = p.parameter_shardings.size();
    args->shardings = p.parameter_sharding_texts.data();
    args->sharding_sizes = p.parameter_sharding_sizes.data();
  });
}

PJRT_Error* output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args* args) {
  return guarded([&] {
    const Program& p = *checked(args->executable, "executable").program;
    args->num_outputs = p.result_shardings.size();
    args->shardings = p.result_sharding_texts.data();
    args->sharding_sizes = p.result_sharding_sizes.data();
  });
}

}  // namespace

PJRT_Extension_Base* extensions() {
  static PJRT_Shardings_Extension shardings{
      {sizeof(PJRT_Shardings_Extension), PJRT_Extension_Type_Shardings, nullptr},
      entry<parameter_shardings>,
      entry<output_shardings>};
  static const bool linked = [] {
    PJRT_Extension_Base* last = &shardings.base;
    for (PJRT_Extension_Base* e :
         {&ffi::extension()->base, &custom_partitioner_extension()->base, layouts_extension(),
          memory_descriptions_extension(), abi_version_extension(), profiler_extension()}) {
      last->next = e;
      last = e;
    }
    ffi::register_python_callbacks();
    return true;
  }();
  (void)linked;
  return &shardings.base;
}

}  // namespace tessera::pjrt
