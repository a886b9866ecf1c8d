// SPDX-License-Identifier: Apache-2.0
// One handler for all calls, which finds the function by the number that the call has.
#include "src/engines/pjrt/host_calls.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "src/pjrt/abi/extensions.h"
#include "src/pjrt/ffi/xla_ffi.h"

namespace tessera::engines::pjrt {
namespace {

constexpr std::uint32_t kInternal = 13;   ///< of absl's codes
constexpr std::uint32_t kTokenType = 17;  ///< of XLA's PrimitiveType
constexpr std::uint32_t kTraits = 0;      ///< commands can't be recorded, as buffers of calls vary

/// Never destroyed: programs may run when static objects are.
struct Calls {
  std::mutex mutex;
  std::int64_t next = 1;
  std::map<std::int64_t, std::shared_ptr<const HostCall>> by_number;
};
Calls& calls() {
  static Calls& c = *new Calls;
  return c;
}

std::shared_ptr<const HostCall> find_call(std::int64_t number) {
  Calls& c = calls();
  const std::lock_guard lock(c.mutex);
  const auto found = c.by_number.find(number);
  return found == c.by_number.end() ? nullptr : found->second;
}

XLA_FFI_Error* error(const XLA_FFI_CallFrame& frame, const char* message) {
  XLA_FFI_Error_Create_Args args{sizeof(args), nullptr, message, kInternal};
  return frame.api->error_create(&args);
}

/// 0 if the call has none.
std::int64_t number_of(const XLA_FFI_Attrs& attrs) {
  for (std::int64_t k = 0; k < attrs.size; ++k) {
    const XLA_FFI_ByteSpan& name = *attrs.names[k];
    if (std::string_view(name.ptr, name.len) != compiler::accelerators::kHostCallNumber ||
        attrs.types[k] != XLA_FFI_AttrType_SCALAR) {
      continue;
    }
    std::int64_t number = 0;
    std::memcpy(&number, static_cast<const XLA_FFI_Scalar*>(attrs.attrs[k])->value, sizeof(number));
    return number;
  }
  return 0;
}

std::vector<void*> addresses(const XLA_FFI_Args& buffers) {
  std::vector<void*> out;
  for (std::int64_t k = 0; k < buffers.size; ++k) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers.args[k]);
    if (buffer.dtype != kTokenType) out.push_back(buffer.data);
  }
  return out;
}

XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  if (const auto* extension = frame->extension_start;
      extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* const metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = 0;
    // Plugins take handlers of their own version: what is used here is in all of them.
    metadata->api_version.minor_version =
        frame->api == nullptr ? 3 : frame->api->api_version.minor_version;
    metadata->traits = kTraits;
    return nullptr;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return nullptr;
  try {
    const std::shared_ptr<const HostCall> call = find_call(number_of(frame->attrs));
    if (call == nullptr) return error(*frame, "the function that the program calls is gone");
    (*call)(addresses(frame->args), addresses(frame->rets));
  } catch (const std::exception& e) {
    return error(*frame, e.what());
  } catch (...) {
    return error(*frame, "a function of the host threw what isn't an exception");
  }
  return nullptr;
}

const PJRT_FFI_Extension* ffi_of(const Api& api) {
  for (const PJRT_Extension_Base* e = api.extensions(); e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_FFI && e->struct_size >= sizeof(PJRT_FFI_Extension)) {
      return reinterpret_cast<const PJRT_FFI_Extension*>(e);
    }
  }
  return nullptr;
}

}  // namespace

bool take_host_calls(const Api& api, const std::string& platform) {
  // What devices of other platforms hold has no address here.
  if (platform != "cpu") return false;
  const PJRT_FFI_Extension* ffi = ffi_of(api);
  if (ffi == nullptr || ffi->register_handler == nullptr) return false;
  static std::mutex mutex;
  static std::set<const PJRT_FFI_Extension*>& known = *new std::set<const PJRT_FFI_Extension*>;
  const std::lock_guard lock(mutex);
  if (known.count(ffi) > 0) return true;
  PJRT_FFI_Register_Handler_Args args{};
  args.struct_size = sizeof(args);
  std::string name = compiler::accelerators::kHostCallTarget;
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = reinterpret_cast<void*>(&handle);
  args.platform_name = "Host";
  args.platform_name_size = std::strlen(args.platform_name);
  args.traits = kTraits;
  auto* const enter =
      reinterpret_cast<PJRT_Error* (*)(PJRT_FFI_Register_Handler_Args*)>(ffi->register_handler);
  if (PJRT_Error* failed = enter(&args)) {
    (void)api.failure(failed, "PJRT_FFI_Register_Handler");
    return false;
  }
  known.insert(ffi);
  return true;
}

HostCallNumber add_host_call(HostCall call) {
  Calls& c = calls();
  const std::lock_guard lock(c.mutex);
  const std::int64_t number = c.next++;
  c.by_number[number] = std::make_shared<const HostCall>(std::move(call));
  return {new std::int64_t(number), [](const std::int64_t* n) {
            Calls& all = calls();
            std::shared_ptr<const HostCall> last;
            {
              const std::lock_guard inner(all.mutex);
              const auto found = all.by_number.find(*n);
              last = std::move(found->second);
              all.by_number.erase(found);
            }
            delete n;
          }};
}

}  // namespace tessera::engines::pjrt
