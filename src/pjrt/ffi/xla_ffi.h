// SPDX-License-Identifier: Apache-2.0
// XLA's foreign function interface (version 0.3), as handlers of custom calls see it. Names are
// those of the interface, whose layout everybody shares; structs begin with their own size.
#pragma once

#include <cstddef>
#include <cstdint>

struct XLA_FFI_Api;
struct XLA_FFI_Error;
struct XLA_FFI_ExecutionContext;
struct XLA_FFI_Future;

enum XLA_FFI_Extension_Type : std::uint32_t { XLA_FFI_Extension_Metadata = 1 };

struct XLA_FFI_Extension_Base {
  std::size_t struct_size;
  XLA_FFI_Extension_Type type;
  XLA_FFI_Extension_Base* next;
};

struct XLA_FFI_Api_Version {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int major_version;
  int minor_version;
};

struct XLA_FFI_Error_Create_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const char* message;
  std::uint32_t errc;
};
struct XLA_FFI_Error_GetMessage_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Error* error;
  const char* message;
};
struct XLA_FFI_Error_Destroy_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Error* error;
};

struct XLA_FFI_Buffer {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::uint32_t dtype;  ///< XLA's PrimitiveType
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

enum XLA_FFI_AttrType : std::uint32_t {
  XLA_FFI_AttrType_ARRAY = 1,
  XLA_FFI_AttrType_DICTIONARY = 2,
  XLA_FFI_AttrType_SCALAR = 3,
  XLA_FFI_AttrType_STRING = 4,
};

struct XLA_FFI_ByteSpan {
  const char* ptr;
  std::size_t len;
};
struct XLA_FFI_Scalar {
  std::uint32_t dtype;
  void* value;
};
struct XLA_FFI_Array {
  std::uint32_t dtype;
  std::size_t size;
  void* data;
};

struct XLA_FFI_TypeId {
  std::int64_t type_id;
};
struct XLA_FFI_TypeInfo {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  void (*deleter)(void* object);
};

struct XLA_FFI_Future_Create_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetAvailable_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetError_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Future* future;
  XLA_FFI_Error* error;
};

enum XLA_FFI_ExecutionStage : std::uint32_t {
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  XLA_FFI_ExecutionStage_PREPARE = 1,
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  XLA_FFI_ExecutionStage_EXECUTE = 3,
};

/// Operands, or results: the only type of either is a buffer, 1.
struct XLA_FFI_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::int64_t size;
  std::uint32_t* types;
  void** args;
};
using XLA_FFI_Rets = XLA_FFI_Args;

/// Sorted by name.
struct XLA_FFI_Attrs {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::int64_t size;
  std::uint32_t* types;
  XLA_FFI_ByteSpan** names;
  void** attrs;
};

struct XLA_FFI_CallFrame {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const XLA_FFI_Api* api;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_Args args;
  XLA_FFI_Rets rets;
  XLA_FFI_Attrs attrs;
  XLA_FFI_Future* future;
};

using XLA_FFI_Handler = XLA_FFI_Error*(XLA_FFI_CallFrame*);

struct XLA_FFI_Handler_Bundle {
  XLA_FFI_Handler* instantiate;
  XLA_FFI_Handler* prepare;
  XLA_FFI_Handler* initialize;
  XLA_FFI_Handler* execute;
};

struct XLA_FFI_Handler_Register_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ByteSpan name;
  XLA_FFI_ByteSpan platform;
  XLA_FFI_Handler_Bundle bundle;
  std::uint32_t traits;
};
struct XLA_FFI_Type_Register_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ByteSpan name;
  XLA_FFI_TypeId* type_id;
  const XLA_FFI_TypeInfo* type_info;
};
struct XLA_FFI_ExecutionContext_Get_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* data;
};
struct XLA_FFI_State_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_TypeId* type_id;
  void* state;
};
struct XLA_FFI_Stream_Get_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  void* stream;
};
struct XLA_FFI_DeviceMemory_Allocate_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  std::size_t size;
  std::size_t alignment;
  void* data;
};
struct XLA_FFI_DeviceMemory_Free_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  std::size_t size;
  void* data;
};
struct XLA_FFI_ThreadPool_Schedule_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  void (*task)(void* data);
  void* data;
};
struct XLA_FFI_ThreadPool_NumThreads_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  std::int64_t* num_threads;
};
struct XLA_FFI_RunId_Get_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  std::int64_t run_id;
};
struct XLA_FFI_DeviceOrdinal_Get_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  std::int32_t device_ordinal;
};

/// What a handler tells of itself, when it is called with this extension.
struct XLA_FFI_Metadata {
  std::size_t struct_size;
  XLA_FFI_Api_Version api_version;
  std::uint32_t traits;
  XLA_FFI_TypeId state_type_id;
};
struct XLA_FFI_Metadata_Extension {
  XLA_FFI_Extension_Base extension_base;
  XLA_FFI_Metadata* metadata;
};

struct XLA_FFI_Api {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Api_Version api_version;
  const void* internal_api;
  XLA_FFI_Error* (*error_create)(XLA_FFI_Error_Create_Args*);
  void (*error_get_message)(XLA_FFI_Error_GetMessage_Args*);
  void (*error_destroy)(XLA_FFI_Error_Destroy_Args*);
  XLA_FFI_Error* (*handler_register)(XLA_FFI_Handler_Register_Args*);
  XLA_FFI_Error* (*stream_get)(XLA_FFI_Stream_Get_Args*);
  XLA_FFI_Error* (*type_register)(XLA_FFI_Type_Register_Args*);
  XLA_FFI_Error* (*execution_context_get)(XLA_FFI_ExecutionContext_Get_Args*);
  XLA_FFI_Error* (*state_set)(XLA_FFI_State_Args*);
  XLA_FFI_Error* (*state_get)(XLA_FFI_State_Args*);
  XLA_FFI_Error* (*device_memory_allocate)(XLA_FFI_DeviceMemory_Allocate_Args*);
  XLA_FFI_Error* (*device_memory_free)(XLA_FFI_DeviceMemory_Free_Args*);
  XLA_FFI_Error* (*thread_pool_schedule)(XLA_FFI_ThreadPool_Schedule_Args*);
  XLA_FFI_Error* (*thread_pool_num_threads)(XLA_FFI_ThreadPool_NumThreads_Args*);
  XLA_FFI_Error* (*future_create)(XLA_FFI_Future_Create_Args*);
  XLA_FFI_Error* (*future_set_available)(XLA_FFI_Future_SetAvailable_Args*);
  XLA_FFI_Error* (*future_set_error)(XLA_FFI_Future_SetError_Args*);
  XLA_FFI_Error* (*run_id_get)(XLA_FFI_RunId_Get_Args*);
  XLA_FFI_Error* (*device_ordinal_get)(XLA_FFI_DeviceOrdinal_Get_Args*);
};

// Sizes by pypjrt's table of the interface.
static_assert(sizeof(XLA_FFI_Api_Version) == 24 && sizeof(XLA_FFI_Buffer) == 48);
static_assert(sizeof(XLA_FFI_Args) == 40 && sizeof(XLA_FFI_Attrs) == 48);
static_assert(offsetof(XLA_FFI_CallFrame, future) == 168 && sizeof(XLA_FFI_Api) == 192);
