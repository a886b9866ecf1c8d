// SPDX-License-Identifier: Apache-2.0
// Arrays of the fuzz target `layouts`, and what it calls of the PJRT C API.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "src/pjrt/abi/api.h"

extern "C" const PJRT_Api* GetPjrtApi();

namespace tessera::fuzz {

using Dims = std::vector<std::int64_t>;
using Bytes = std::vector<std::uint8_t>;

/// Choices, of the bytes of an input; 0 behind their end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  std::uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  std::int64_t below(std::int64_t n) { return byte() % n; }
  bool one_in(std::int64_t n) { return below(n) == n - 1; }
  bool over() const { return at_ == end_; }
  Dims order(std::size_t rank) {
    Dims out(rank);
    std::iota(out.begin(), out.end(), std::int64_t(0));
    for (std::size_t k = rank; k > 1; --k) std::swap(out[k - 1], out[std::size_t(below(k))]);
    return out;
  }

 private:
  const std::uint8_t *at_, *end_;
};

[[noreturn]] inline void wrong(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}
inline void expect(bool holds, const char* what) {
  if (!holds) wrong(what);
}

/// What programs and buffers call a type.
struct Type {
  PJRT_Buffer_Type number;
  std::size_t bytes;
  const char* text;
  /// Whether sums wrap around.
  bool integer;
};
inline constexpr Type kTypes[] = {
    {PJRT_Buffer_Type_S32, 4, "i32", true},    {PJRT_Buffer_Type_U8, 1, "ui8", true},
    {PJRT_Buffer_Type_S64, 8, "i64", true},    {PJRT_Buffer_Type_S16, 2, "i16", true},
    {PJRT_Buffer_Type_F32, 4, "f32", false},   {PJRT_Buffer_Type_PRED, 1, "i1", false},
    {PJRT_Buffer_Type_S4, 1, "i4", false},     {PJRT_Buffer_Type_U2, 1, "ui2", false},
    {PJRT_Buffer_Type_BF16, 2, "bf16", false}, {PJRT_Buffer_Type_C128, 16, "complex<f64>", false},
};

/// An array as it is meant: dense and row-major.
struct Reference {
  const Type* type = nullptr;
  Dims dims;
  Bytes bytes;
  std::int64_t count() const {
    return std::accumulate(dims.begin(), dims.end(), std::int64_t(1), std::multiplies<>());
  }
};

inline std::string text_of(const Dims& dims) {
  std::string out;
  for (const std::int64_t d : dims) out += (out.empty() ? "" : ",") + std::to_string(d);
  return out;
}

/// f(the number of an element in row-major order, its place along each dim).
template <class F>
void each_element(const Dims& dims, F f) {
  for (const std::int64_t d : dims) {
    if (d == 0) return;
  }
  Dims at(dims.size(), 0);
  for (std::int64_t n = 0;; ++n) {
    f(n, at);
    std::size_t d = dims.size();
    while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

inline std::int64_t dot(const Dims& a, const Dims& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t(0));
}

/// Byte strides of a dense array in that order, minor to major.
inline Dims dense_strides(const Dims& dims, const Dims& order, std::size_t bytes) {
  Dims out(dims.size());
  auto stride = std::int64_t(bytes);
  for (const std::int64_t d : order) {
    out[std::size_t(d)] = stride;
    stride *= std::max<std::int64_t>(1, dims[std::size_t(d)]);
  }
  return out;
}
inline Dims row_major(std::size_t rank) {
  Dims out(rank);
  std::iota(out.rbegin(), out.rend(), std::int64_t(0));
  return out;
}

/// Memory with strides: just the bytes that they reach.
struct Placed {
  Dims strides;
  std::int64_t first = 0;  ///< where the element 0 is
  std::unique_ptr<std::uint8_t[]> memory;
  std::size_t size = 0;
  std::uint8_t* data() const { return memory.get() + first; }
};
inline Placed place(const Dims& dims, Dims strides, std::size_t bytes) {
  Placed out;
  std::int64_t low = 0, high = 0;
  bool empty = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t reach = (dims[d] - 1) * strides[d];
    empty = empty || dims[d] == 0;
    (reach < 0 ? low : high) += dims[d] == 0 ? 0 : reach;
  }
  out.strides = std::move(strides);
  out.first = empty ? 0 : -low;
  out.size = empty ? 0 : std::size_t(high - low) + bytes;
  out.memory = std::make_unique<std::uint8_t[]>(out.size);
  return out;
}

/// As it stands there.
inline Bytes in_order(const Reference& r, const Dims& order) {
  const Dims strides = dense_strides(r.dims, order, r.type->bytes);
  Bytes out(r.bytes.size());
  each_element(r.dims, [&](std::int64_t n, const Dims& at) {
    std::memcpy(out.data() + dot(at, strides), r.bytes.data() + n * std::int64_t(r.type->bytes),
                r.type->bytes);
  });
  return out;
}

template <class Args>
Args make() {
  Args out{};
  out.struct_size = sizeof(Args);
  return out;
}

inline const PJRT_Api& api() { return *GetPjrtApi(); }

/// Whether there was no error. What a client does is never an internal error.
inline bool ok(PJRT_Error* error) {
  if (error == nullptr) return true;
  auto code = make<PJRT_Error_GetCode_Args>();
  code.error = error;
  api().PJRT_Error_GetCode(&code);
  auto message = make<PJRT_Error_Message_Args>();
  message.error = error;
  api().PJRT_Error_Message(&message);
  const std::string text(message.message, message.message_size);
  if (code.code == PJRT_Error_Code_INTERNAL) wrong("internal error: " + text);
  if (std::getenv("FUZZ_SHOW_ERRORS") != nullptr) std::fprintf(stderr, "error: %s\n", text.c_str());
  auto gone = make<PJRT_Error_Destroy_Args>();
  gone.error = error;
  api().PJRT_Error_Destroy(&gone);
  return false;
}
inline void must_be_ok(PJRT_Error* error, const char* what) {
  if (error == nullptr) return;
  auto message = make<PJRT_Error_Message_Args>();
  message.error = error;
  api().PJRT_Error_Message(&message);
  wrong(std::string(what) + ": " + std::string(message.message, message.message_size));
}

inline void wait_for(void* handle) {
  if (handle == nullptr) return;
  auto* const event = static_cast<PJRT_Event*>(handle);
  auto wait = make<PJRT_Event_Await_Args>();
  wait.event = event;
  must_be_ok(api().PJRT_Event_Await(&wait), "an event");
  auto gone = make<PJRT_Event_Destroy_Args>();
  gone.event = event;
  api().PJRT_Event_Destroy(&gone);
}

struct DropBuffer {
  void operator()(PJRT_Buffer* b) const {
    auto args = make<PJRT_Buffer_Destroy_Args>();
    args.buffer = b;
    api().PJRT_Buffer_Destroy(&args);
  }
};
using Buffer = std::unique_ptr<PJRT_Buffer, DropBuffer>;
struct DropLoaded {
  void operator()(PJRT_LoadedExecutable* e) const {
    auto args = make<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = e;
    api().PJRT_LoadedExecutable_Destroy(&args);
  }
};
using Loaded = std::unique_ptr<PJRT_LoadedExecutable, DropLoaded>;

/// A layout as the API has it; `numbers` stay with the caller.
inline PJRT_Buffer_MemoryLayout by_order(const Dims& numbers) {
  auto out = make<PJRT_Buffer_MemoryLayout>();
  out.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  out.tiled.struct_size = sizeof out.tiled;
  out.tiled.minor_to_major = numbers.data();
  out.tiled.minor_to_major_size = numbers.size();
  return out;
}
inline PJRT_Buffer_MemoryLayout by_strides(const Dims& numbers) {
  auto out = make<PJRT_Buffer_MemoryLayout>();
  out.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  out.strides.struct_size = sizeof out.strides;
  out.strides.byte_strides = numbers.data();
  out.strides.num_byte_strides = numbers.size();
  return out;
}

/// Minor to major.
inline Dims order_of(PJRT_Buffer* b) {
  auto args = make<PJRT_Buffer_GetMemoryLayout_Args>();
  args.buffer = b;
  must_be_ok(api().PJRT_Buffer_GetMemoryLayout(&args), "the layout of a buffer");
  const auto& t = args.layout.tiled;
  return Dims(t.minor_to_major, t.minor_to_major + t.minor_to_major_size);
}

/// Two devices; each run within its call, or after it.
class Client {
 public:
  explicit Client(bool asynchronous) {
    static constexpr std::string_view kCount = "cpu_device_count", kLate = "asynchronous";
    PJRT_NamedValue options[2] = {make<PJRT_NamedValue>(), make<PJRT_NamedValue>()};
    options[0].name = kCount.data();
    options[0].name_size = kCount.size();
    options[0].type = PJRT_NamedValue_kInt64;
    options[0].int64_value = 2;
    options[1].name = kLate.data();
    options[1].name_size = kLate.size();
    options[1].type = PJRT_NamedValue_kBool;
    options[1].bool_value = asynchronous;
    auto args = make<PJRT_Client_Create_Args>();
    args.create_options = options;
    args.num_options = 2;
    must_be_ok(api().PJRT_Client_Create(&args), "a client");
    client_ = args.client;
    auto all = make<PJRT_Client_Devices_Args>();
    all.client = client_;
    must_be_ok(api().PJRT_Client_Devices(&all), "devices");
    devices_.assign(all.devices, all.devices + all.num_devices);
  }
  PJRT_Client* get() const { return client_; }
  PJRT_Device* device(std::size_t k) const { return devices_[k]; }
  PJRT_Memory* memory(std::size_t device, std::size_t kind) const {
    auto args = make<PJRT_Device_AddressableMemories_Args>();
    args.device = devices_[device];
    must_be_ok(api().PJRT_Device_AddressableMemories(&args), "memories");
    return args.memories[kind % args.num_memories];
  }

 private:
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace tessera::fuzz
