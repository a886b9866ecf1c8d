// SPDX-License-Identifier: Apache-2.0
// Extensions of the PJRT C API: structs in a chain that begins in the table of functions.
#pragma once

#include "src/pjrt/abi/types.h"

struct JAX_CustomCallPartitioner_string {
  const void* data;
  size_t size;
};

struct JAX_CustomCallPartitioner_version_and_error {
  int64_t api_version;
  const void* data;
  void* cleanup_fn;
  bool has_error;
  uint32_t code;
  JAX_CustomCallPartitioner_string error_msg;
};

struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  void* op_args;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string backend_config;
  bool has_result_sharding;
  JAX_CustomCallPartitioner_string result_sharding;
};

struct JAX_CustomCallPartitioner_aval {
  JAX_CustomCallPartitioner_string shape;
  bool has_sharding;
  JAX_CustomCallPartitioner_string sharding;
};

struct JAX_CustomCallPartitioner_Partition_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  void* op_args;
  JAX_CustomCallPartitioner_aval op_result;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string mlir_module;
  void* args_sharding;
  JAX_CustomCallPartitioner_string result_sharding;
};

struct JAX_CustomCallPartitioner_PropagateUserSharding_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string result_sharding;
};

struct PJRT_Custom_Partitioner_Extension {
  PJRT_Extension_Base base;
  void* register_custom_partitioner;
  void* register_batch_partitionable;
};

struct PJRT_DeviceDescription_MemoryDescriptions_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_DeviceDescription* device_description;
  void* memory_descriptions;
  size_t num_memory_descriptions;
  size_t default_memory_index;
};

struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  void* register_handler;
};

struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  void* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  uint32_t traits;
};

struct PJRT_FFI_Type_Info {
  void* deleter;
  void* serialize;
  void* deserialize;
};

struct PJRT_FFI_Type_Register_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  void* type_name;
  size_t type_name_size;
  int64_t type_id;
  void* type_info;
};

struct PJRT_FFI_UserData {
  int64_t type_id;
  const void* data;
};

struct PJRT_FFI_UserData_Add_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  PJRT_FFI_UserData user_data;
};

struct PJRT_Layouts_MemoryLayout;

struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Destroy)(struct PJRT_Layouts_MemoryLayout_Destroy_Args*);
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Serialize)(
      struct PJRT_Layouts_MemoryLayout_Serialize_Args*);
  PJRT_Error* (*PJRT_Layouts_PJRT_Client_GetDefaultLayout)(
      struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args*);
  PJRT_Error* (*PJRT_Layouts_PJRT_Buffer_MemoryLayout)(
      struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args*);
  PJRT_Error* (*PJRT_Layouts_PJRT_Topology_GetDefaultLayout)(
      struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args*);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetOutputLayouts)(
      struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args*);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetParameterLayouts)(
      struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args*);
};

struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;
};

struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_layout;
  void* serialized_layout_deleter;
};

struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;
};

struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  uint32_t type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};

struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  PJRT_Layouts_MemoryLayout* const* layouts;
};

struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_parameters;
  PJRT_Layouts_MemoryLayout* const* layouts;
};

struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_TopologyDescription* topology_description;
  uint32_t type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};

struct PJRT_MemoryDescription_Kind_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  void* memory_description;
  const char* kind;
  size_t kind_size;
  int32_t kind_id;
};

struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  void* PJRT_DeviceDescription_MemoryDescriptions;
  void* PJRT_MemoryDescription_Kind;
};

struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  void* profiler_api;
  int64_t traceme_context_id;
};

struct PJRT_Register_Batch_Partitionable_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
};

struct PJRT_Register_Custom_Partitioner_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
  void* callbacks;
};

struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_ParameterShardings)(
      struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args*);
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_OutputShardings)(
      struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args*);
};

struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* shardings;
  const size_t* sharding_sizes;
};

struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Executable* executable;
  size_t num_parameters;
  const char* const* shardings;
  const size_t* sharding_sizes;
};

struct PJRT_Client_RuntimeAbiVersion_Args {
  size_t struct_size;
  PJRT_Client* client;
  void* abi_version;
};

struct PJRT_Executable_GetAbiVersion_Args {
  size_t struct_size;
  PJRT_Executable* executable;
  void* abi_version;
};

struct PJRT_RuntimeAbiVersion_Destroy_Args {
  size_t struct_size;
  void* abi_version;
};

struct PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args {
  size_t struct_size;
  void* abi_version;
  void* other_abi_version;
};

struct PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args {
  size_t struct_size;
  void* abi_version;
  void* executable_abi_version;
};

struct PJRT_RuntimeAbiVersion_ToProto_Args {
  size_t struct_size;
  void* abi_version;
  const char* serialized_proto;
  size_t serialized_proto_size;
  void* serialized_proto_holder;
  void* serialized_proto_deleter;
};

struct PJRT_RuntimeAbiVersion_PlatformId_Args {
  size_t struct_size;
  void* abi_version;
  uint64_t platform_id;
};

struct PJRT_RuntimeAbiVersion_FromProto_Args {
  size_t struct_size;
  const char* serialized_proto;
  size_t serialized_proto_size;
  void* abi_version;
};

struct PJRT_AbiVersion_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*client_runtime_abi_version)(PJRT_Client_RuntimeAbiVersion_Args*);
  PJRT_Error* (*executable_get_abi_version)(PJRT_Executable_GetAbiVersion_Args*);
  PJRT_Error* (*runtime_abi_version_destroy)(PJRT_RuntimeAbiVersion_Destroy_Args*);
  PJRT_Error* (*runtime_abi_version_is_compatible_with_runtime)(
      PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args*);
  PJRT_Error* (*runtime_abi_version_is_compatible_with_executable)(
      PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args*);
  PJRT_Error* (*runtime_abi_version_to_proto)(PJRT_RuntimeAbiVersion_ToProto_Args*);
  PJRT_Error* (*runtime_abi_version_platform_id)(PJRT_RuntimeAbiVersion_PlatformId_Args*);
  PJRT_Error* (*executable_abi_version_destroy)(PJRT_RuntimeAbiVersion_Destroy_Args*);
  PJRT_Error* (*executable_abi_version_to_proto)(PJRT_RuntimeAbiVersion_ToProto_Args*);
  PJRT_Error* (*executable_abi_version_platform_id)(PJRT_RuntimeAbiVersion_PlatformId_Args*);
  PJRT_Error* (*runtime_abi_version_from_proto)(PJRT_RuntimeAbiVersion_FromProto_Args*);
  PJRT_Error* (*executable_abi_version_from_proto)(PJRT_RuntimeAbiVersion_FromProto_Args*);
};

struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void* priv;
  void* error_destroy;
  void* error_message;
  void* error_get_code;
  void* create;
  void* destroy;
  void* start;
  void* stop;
  void* collect_data;
  void* consume;
  void* consume_result_destroy;
  void* serialize;
};

struct PLUGIN_Profiler_CollectData_Args {
  size_t struct_size;
  void* profiler;
  void* buffer;
  size_t buffer_size_in_bytes;
};

struct PLUGIN_Profiler_Create_Args {
  size_t struct_size;
  void* options;
  size_t options_size;
  void* profiler;
};

struct PLUGIN_Profiler_Destroy_Args {
  size_t struct_size;
  void* profiler;
};

struct PLUGIN_Profiler_Start_Args {
  size_t struct_size;
  void* profiler;
};

struct PLUGIN_Profiler_Stop_Args {
  size_t struct_size;
  void* profiler;
};

struct PLUGIN_Profiler_Error_Destroy_Args {
  size_t struct_size;
  void* priv;
  void* error;
};

struct PLUGIN_Profiler_Error_Message_Args {
  size_t struct_size;
  void* priv;
  void* error;
  const char* message;
  size_t message_size;
};

struct PLUGIN_Profiler_Error_GetCode_Args {
  size_t struct_size;
  void* priv;
  void* error;
  int32_t code;
};
