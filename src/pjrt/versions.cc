// SPDX-License-Identifier: Apache-2.0
// Extensions that tell of devices and stored programs: kinds of memory, and what fits together.
#include <cstring>
#include <string>

#include "src/base/platforms.h"
#include "src/pjrt/entry.h"
#include "src/pjrt/extensions.h"
#include "src/pjrt/program.h"
#include "src/pjrt/proto.h"
#include "src/pjrt/stored_program.h"

namespace {

/// PJRT_RuntimeAbiVersion and PJRT_ExecutableAbiVersion: which platform, and which format of
/// stored programs.
struct AbiVersion {
  std::int64_t platform = 0;
  std::string format;
};

/// PJRT_MemoryDescription
struct MemoryDescription {
  std::int32_t id = 0;
  std::string kind;
};

}  // namespace

namespace tessera::pjrt {
namespace {

PJRT_Error* memory_descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args* args) {
  return guarded([&] {
    static const std::vector<MemoryDescription> all = [] {
      std::vector<MemoryDescription> out;
      for (const MemoryKind kind : memory_kinds_of(virtual_platform())) {
        out.push_back({std::int32_t(out.size()), tessera::name(kind)});
      }
      return out;
    }();
    static const std::vector<const MemoryDescription*> pointers = [] {
      std::vector<const MemoryDescription*> out;
      for (const MemoryDescription& m : all) out.push_back(&m);
      return out;
    }();
    checked(args->device_description, "device description");
    args->memory_descriptions = const_cast<const MemoryDescription**>(pointers.data());
    args->num_memory_descriptions = pointers.size();
    args->default_memory_index = 0;
  });
}

PJRT_Error* memory_description_kind(PJRT_MemoryDescription_Kind_Args* args) {
  return guarded([&] {
    const auto& m = checked(static_cast<const MemoryDescription*>(args->memory_description),
                            "memory description");
    args->kind = m.kind.data();
    args->kind_size = m.kind.size();
    args->kind_id = m.id;
  });
}

// Fields 1 and 2 of XLA's messages, too.
constexpr std::uint32_t kPlatform = 1, kFormat = 2;

AbiVersion current() {
  std::int64_t platform = 0;
  std::memcpy(&platform, "tessera", sizeof platform);
  return {platform, std::string(program_format())};
}

PJRT_Error* of_client(PJRT_Client_RuntimeAbiVersion_Args* args) {
  return guarded([&] {
    checked(args->client, "client");
    args->abi_version = new AbiVersion(current());
  });
}

PJRT_Error* of_executable(PJRT_Executable_GetAbiVersion_Args* args) {
  return guarded([&] {
    checked(args->executable, "executable");
    args->abi_version = new AbiVersion(current());
  });
}

/// Of both kinds of version: they have the same members.
PJRT_Error* destroy(PJRT_RuntimeAbiVersion_Destroy_Args* args) {
  delete static_cast<AbiVersion*>(args->abi_version);
  return nullptr;
}

void check(const AbiVersion& here, const AbiVersion& other, const char* what) {
  if (here.platform != other.platform) {
    throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                  std::string(what) + " is of another platform than Tessera");
  }
  if (here.format != other.format) {
    throw Failure(
        PJRT_Error_Code_FAILED_PRECONDITION,
        std::string(what) + " is of format '" + other.format + "'; valid: '" + here.format + "'");
  }
}

const AbiVersion& version(void* given) {
  return checked(static_cast<const AbiVersion*>(given), "version");
}

PJRT_Error* fits_runtime(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args* args) {
  return guarded([&] {
    check(version(args->abi_version), version(args->other_abi_version), "the other client");
  });
}

PJRT_Error* fits_executable(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args* args) {
  return guarded([&] {
    check(version(args->abi_version), version(args->executable_abi_version), "the program");
  });
}

PJRT_Error* to_proto(PJRT_RuntimeAbiVersion_ToProto_Args* args) {
  return guarded([&] {
    const AbiVersion& v = version(args->abi_version);
    ProtoWriter out;
    out.number(kPlatform, v.platform);
    out.text(kFormat, v.format);
    auto* const bytes = new std::string(out.bytes());
    args->serialized_proto = bytes->data();
    args->serialized_proto_size = bytes->size();
    args->serialized_proto_holder = bytes;
    args->serialized_proto_deleter =
        reinterpret_cast<void*>(+[](void* held) { delete static_cast<std::string*>(held); });
  });
}

PJRT_Error* from_proto(PJRT_RuntimeAbiVersion_FromProto_Args* args) {
  return guarded([&] {
    ProtoReader in(text_of(args->serialized_proto, args->serialized_proto_size, "a version"),
                   "AbiVersionProto");
    auto out = std::make_unique<AbiVersion>();
    while (const std::uint32_t field = in.next()) {
      if (field == kPlatform) out->platform = in.number();
      if (field == kFormat) out->format = std::string(in.text());
    }
    args->abi_version = out.release();
  });
}

PJRT_Error* platform_id(PJRT_RuntimeAbiVersion_PlatformId_Args* args) {
  return guarded([&] { args->platform_id = std::uint64_t(version(args->abi_version).platform); });
}

}  // namespace

PJRT_Extension_Base* memory_descriptions_extension() {
  static PJRT_MemoryDescriptions_Extension table{
      {sizeof(PJRT_MemoryDescriptions_Extension), PJRT_Extension_Type_MemoryDescriptions, nullptr},
      reinterpret_cast<void*>(entry<memory_descriptions>),
      reinterpret_cast<void*>(entry<memory_description_kind>)};
  return &table.base;
}

PJRT_Extension_Base* abi_version_extension() {
  static PJRT_AbiVersion_Extension table{
      {sizeof(PJRT_AbiVersion_Extension), PJRT_Extension_Type_AbiVersion, nullptr},
      entry<of_client>,
      entry<of_executable>,
      entry<destroy>,
      entry<fits_runtime>,
      entry<fits_executable>,
      entry<to_proto>,
      entry<platform_id>,
      entry<destroy>,
      entry<to_proto>,
      entry<platform_id>,
      entry<from_proto>,
      entry<from_proto>};
  return &table.base;
}

}  // namespace tessera::pjrt
