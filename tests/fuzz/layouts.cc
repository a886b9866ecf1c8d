// SPDX-License-Identifier: Apache-2.0
// Layouts: an input chooses an array, how a client gives it (byte strides, orders of dims, pieces,
// views), and a program that states, or leaves open, the layouts of its arguments and results.
// Everything that comes back, in whichever order it is asked for, is what dense arrays give.
// Layouts that no array has are errors. The library runs whole, its kernels interpreted.
#include "tests/fuzz/layouts_program.h"

namespace tessera::fuzz {
namespace {

const Client& client(bool asynchronous) {
  static const Client& now = *new Client(false);
  static const Client& later = *new Client(true);
  return asynchronous ? later : now;
}

// --- buffers --------------------------------------------------------------------------------

/// A number that the type has, as its bytes stand on the host.
void number_to(std::uint8_t v, const Type& t, std::uint8_t* to) {
  const std::string_view name = t.text;
  if (name == "f32") {
    const float f = v;
    std::memcpy(to, &f, sizeof f);
  } else if (name == "i1" || name == "ui2") {
    to[0] = v & (name == "i1" ? 1 : 3);
  } else if (name == "i4") {
    to[0] = std::uint8_t(std::int8_t(v % 16 - 8));
  } else {
    std::memset(to, 0, t.bytes);
    to[t.bytes - 1] = v & 0x3f;
    to[0] = v;
  }
}

/// Neighbours differ.
Reference array(Choices& c, const Type* type, Dims dims) {
  Reference out;
  out.type = type;
  out.dims = std::move(dims);
  out.bytes.resize(std::size_t(out.count()) * type->bytes);
  const std::uint8_t first = c.byte();
  for (std::int64_t n = 0; n < out.count(); ++n) {
    number_to(std::uint8_t(first + 37 * n), *type, out.bytes.data() + std::size_t(n) * type->bytes);
  }
  return out;
}

/// Strides that some host might have: dense in any order, with gaps, backwards, of one element.
Dims host_strides(Choices& c, const Reference& r, bool forwards) {
  Dims strides = dense_strides(r.dims, c.order(r.dims.size()), r.type->bytes);
  for (std::int64_t& s : strides) {
    switch (c.below(8)) {
      case 5:
        s *= 2;
        break;
      case 6:
        if (!forwards) s = -s;
        break;
      case 7:
        if (!forwards) s = 0;
        break;
      default:
        break;
    }
  }
  return strides;
}

/// Strides by which each element has a place of its own.
Dims strides_with_gaps(Choices& c, const Reference& r) {
  Dims out(r.dims.size());
  auto stride = std::int64_t(r.type->bytes);
  for (const std::int64_t d : c.order(r.dims.size())) {
    if (c.one_in(4)) stride *= 2;
    out[std::size_t(d)] = stride;
    stride *= std::max<std::int64_t>(1, r.dims[std::size_t(d)]);
  }
  return out;
}

/// Writes the array there. Where several elements stand in one place, all are the last one.
Placed written(Reference* r, Dims strides) {
  Placed out = place(r->dims, std::move(strides), r->type->bytes);
  const auto size = std::int64_t(r->type->bytes);
  each_element(r->dims, [&](std::int64_t n, const Dims& at) {
    std::memcpy(out.data() + dot(at, out.strides), r->bytes.data() + n * size, std::size_t(size));
  });
  each_element(r->dims, [&](std::int64_t n, const Dims& at) {
    std::memcpy(r->bytes.data() + n * size, out.data() + dot(at, out.strides), std::size_t(size));
  });
  return out;
}

/// What no dense array has.
void refused_layouts(Choices& c, const Client& on, const Reference& r) {
  const std::size_t rank = r.dims.size();
  Dims order = row_major(rank);
  PJRT_Buffer_MemoryLayout layout = by_order(order);
  switch (c.below(4)) {
    case 0:
      order.push_back(std::int64_t(rank));
      layout = by_order(order);
      break;
    case 1:
      if (rank == 0) return;
      order[std::size_t(c.below(std::int64_t(rank)))] =
          rank == 1 ? 1 : order.back() + 1 - c.below(9);
      layout = by_order(order);
      if (std::is_permutation(order.begin(), order.end(), row_major(rank).begin())) return;
      break;
    case 2:
      layout.tiled.num_tiles = 1;
      break;
    default:
      if (rank == 0) return;
      layout.tiled.minor_to_major = nullptr;
      break;
  }
  auto args = make<PJRT_Client_CreateUninitializedBuffer_Args>();
  args.client = on.get();
  args.shape_dims = r.dims.data();
  args.shape_num_dims = rank;
  args.shape_element_type = r.type->number;
  args.shape_layout = &layout;
  args.device = on.device(0);
  expect(!ok(api().PJRT_Client_CreateUninitializedBuffer(&args)),
         "a layout that no array has was taken");
}

/// Any shape and any layout: an error, or a buffer.
void strange_shapes(Choices& c, const Client& on) {
  constexpr std::int64_t kStrange[] = {-1,        0,        1, 2, 1 << 20, std::int64_t(1) << 40,
                                       INT64_MAX, INT64_MIN};
  Dims dims, numbers;
  for (std::int64_t n = c.below(5); n > 0; --n) dims.push_back(kStrange[c.below(8)]);
  double elements = 1;
  for (const std::int64_t d : dims) elements *= double(d);
  // So much memory might be there.
  if (elements > 1 << 16 && elements < 1e19) return;
  for (std::int64_t n = std::int64_t(dims.size()); n > 0; --n) {
    numbers.push_back(c.one_in(2) ? kStrange[c.below(8)] : c.below(3));
  }
  PJRT_Buffer_MemoryLayout layout = c.one_in(2) ? by_strides(numbers) : by_order(numbers);
  auto args = make<PJRT_Client_CreateUninitializedBuffer_Args>();
  args.client = on.get();
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = kTypes[c.below(std::size(kTypes))].number;
  args.shape_layout = c.one_in(4) ? nullptr : &layout;
  args.device = on.device(0);
  if (ok(api().PJRT_Client_CreateUninitializedBuffer(&args))) Buffer(args.buffer).reset();
}

Buffer from_host(Choices& c, const Client& on, std::size_t device, Reference* r,
                 const Dims& order) {
  const bool strided = !c.one_in(3);
  const Placed host =
      written(r, strided ? host_strides(c, *r, /*forwards=*/false)
                         : dense_strides(r->dims, row_major(r->dims.size()), r->type->bytes));
  const Dims dense = dense_strides(r->dims, order, r->type->bytes);
  PJRT_Buffer_MemoryLayout layout = c.one_in(4) ? by_strides(dense) : by_order(order);
  auto args = make<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = on.get();
  args.data = host.data();
  args.type = r->type->number;
  args.dims = r->dims.data();
  args.num_dims = r->dims.size();
  if (strided && !r->dims.empty()) {
    args.byte_strides = host.strides.data();
    args.num_byte_strides = host.strides.size();
  }
  // The memory is gone when this returns.
  args.host_buffer_semantics = std::uint32_t(c.below(2));
  args.device = on.device(device);
  args.device_layout = order == row_major(order.size()) && c.one_in(2) ? nullptr : &layout;
  must_be_ok(api().PJRT_Client_BufferFromHostBuffer(&args), "a buffer from the host");
  wait_for(args.done_with_host_buffer);
  return Buffer(args.buffer);
}

Buffer in_pieces(Choices& c, const Client& on, std::size_t device, const Reference& r,
                 const Dims& order) {
  PJRT_Buffer_MemoryLayout layout = by_order(order);
  PJRT_Buffer_MemoryLayout* layouts[] = {&layout};
  auto spec = make<PJRT_ShapeSpec>();
  spec.dims = r.dims.data();
  spec.num_dims = r.dims.size();
  spec.element_type = r.type->number;
  auto args = make<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
  args.client = on.get();
  args.shape_specs = &spec;
  args.num_shape_specs = 1;
  args.device_layouts = layouts;
  args.num_device_layouts = 1;
  args.memory = on.memory(device, 0);
  must_be_ok(api().PJRT_Client_CreateBuffersForAsyncHostToDevice(&args), "a transfer manager");
  auto take = make<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
  take.transfer_manager = args.transfer_manager;
  must_be_ok(api().PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&take),
             "a buffer of pieces");
  Buffer out(take.buffer_out);
  const Bytes all = in_order(r, order);
  if (c.one_in(3)) {
    auto put = make<PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args>();
    put.transfer_manager = args.transfer_manager;
    put.data = all.data();
    put.shape_dims = r.dims.data();
    put.shape_num_dims = r.dims.size();
    put.shape_element_type = r.type->number;
    put.shape_layout = &layout;
    must_be_ok(api().PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(&put), "a literal");
    wait_for(put.done_with_h2d_transfer);
  } else {
    std::size_t at = 0;
    do {
      const std::size_t size = std::min(all.size() - at, std::size_t(1 + c.byte()));
      auto put = make<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
      put.transfer_manager = args.transfer_manager;
      put.data = all.data() + at;
      put.offset = std::int64_t(at);
      put.transfer_size = std::int64_t(size);
      put.is_last_transfer = at + size == all.size();
      must_be_ok(api().PJRT_AsyncHostToDeviceTransferManager_TransferData(&put), "a piece");
      wait_for(put.done_with_h2d_transfer);
      at += size;
    } while (at < all.size());
  }
  auto gone = make<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
  gone.transfer_manager = args.transfer_manager;
  must_be_ok(api().PJRT_AsyncHostToDeviceTransferManager_Destroy(&gone),
             "the end of a transfer manager");
  return out;
}

/// A view of memory of the host's, which is let go of with the buffer.
Buffer view(Choices& c, const Client& on, std::size_t device, Reference* r) {
  auto* const host = new Placed(written(r, host_strides(c, *r, /*forwards=*/true)));
  PJRT_Buffer_MemoryLayout layout = by_strides(host->strides);
  auto args = make<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
  args.client = on.get();
  args.device_buffer_ptr = host->data();
  args.dims = r->dims.data();
  args.num_dims = r->dims.size();
  args.element_type = r->type->number;
  args.layout = &layout;
  args.device = on.device(device);
  args.on_delete_callback =
      reinterpret_cast<void*>(+[](void*, void* placed) { delete static_cast<Placed*>(placed); });
  args.on_delete_callback_arg = host;
  must_be_ok(api().PJRT_Client_CreateViewOfDeviceBuffer(&args), "a view");
  return Buffer(args.buffer);
}

/// A buffer in that order, by one of the ways that there are; `r` becomes what is in it.
Buffer put(Choices& c, const Client& on, std::size_t device, Reference* r, const Dims& order) {
  const std::int64_t way = c.below(4);
  if (way == 0) return in_pieces(c, on, device, *r, order);
  if (way == 1 && order == row_major(order.size())) return view(c, on, device, r);
  return from_host(c, on, device, r, order);
}

// --- what stands in a buffer ------------------------------------------------------------------

bool same_order(const Dims& dims, const Dims& a, const Dims& b) {
  const auto matters = [&](Dims order) {
    std::erase_if(order, [&](std::int64_t d) { return dims[std::size_t(d)] == 1; });
    return order;
  };
  return matters(a) == matters(b);
}

Bytes to_host(PJRT_Buffer* b, PJRT_Buffer_MemoryLayout* layout, std::size_t size) {
  auto args = make<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = b;
  args.host_layout = layout;
  must_be_ok(api().PJRT_Buffer_ToHostBuffer(&args), "the size of a buffer");
  expect(args.dst_size == size, "a buffer has another size");
  Bytes out(size);
  std::uint8_t none = 0;
  args.dst = size == 0 ? &none : out.data();
  must_be_ok(api().PJRT_Buffer_ToHostBuffer(&args), "a copy to the host");
  wait_for(args.event);
  return out;
}

/// With gaps, in memory that has just the bytes that the strides reach.
void strided_to_host(Choices& c, PJRT_Buffer* b, const Reference& r) {
  Placed host = place(r.dims, strides_with_gaps(c, r), r.type->bytes);
  std::memset(host.memory.get(), 0xee, host.size);
  PJRT_Buffer_MemoryLayout layout = by_strides(host.strides);
  auto args = make<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = b;
  args.host_layout = &layout;
  std::uint8_t none = 0;
  args.dst = host.size == 0 ? &none : host.data();
  args.dst_size = host.size;
  must_be_ok(api().PJRT_Buffer_ToHostBuffer(&args), "a copy with strides");
  wait_for(args.event);
  std::vector<bool> touched(host.size, false);
  const auto size = std::int64_t(r.type->bytes);
  each_element(r.dims, [&](std::int64_t n, const Dims& at) {
    const std::int64_t place = dot(at, host.strides);
    expect(std::memcmp(host.data() + place, r.bytes.data() + n * size, std::size_t(size)) == 0,
           "a copy with strides has another element");
    for (std::int64_t k = 0; k < size; ++k) touched[std::size_t(place + k)] = true;
  });
  for (std::size_t k = 0; k < host.size; ++k) {
    expect(touched[k] || host.memory[k] == 0xee, "a copy with strides wrote into a gap");
  }
  if (host.size < 2) return;
  args.dst_size = host.size - 1;
  expect(!ok(api().PJRT_Buffer_ToHostBuffer(&args)), "a copy behind the end of the host's memory");
  Dims backwards = host.strides;
  for (std::size_t d = 0; d < backwards.size(); ++d) {
    if (r.dims[d] < 2) continue;
    backwards[d] = -backwards[d];
    layout = by_strides(backwards);
    args.dst_size = host.size;
    expect(!ok(api().PJRT_Buffer_ToHostBuffer(&args)), "a copy before the host's memory");
    break;
  }
}

/// All ways of reading give what is meant.
void check(Choices& c, PJRT_Buffer* b, const Reference& r) {
  const std::size_t size = r.bytes.size();
  const Dims order = order_of(b);
  expect(order.size() == r.dims.size(), "a layout of another rank");
  expect(to_host(b, nullptr, size) == in_order(r, order), "a copy in the buffer's own layout");
  const Dims asked = c.order(r.dims.size());
  PJRT_Buffer_MemoryLayout layout = by_order(asked);
  expect(to_host(b, &layout, size) == in_order(r, asked), "a copy in another order");
  if (c.one_in(2)) strided_to_host(c, b, r);
  auto args = make<PJRT_Buffer_CopyRawToHost_Args>();
  Bytes raw(size);
  args.buffer = b;
  const auto from = std::size_t(c.below(std::int64_t(std::min<std::size_t>(size, 200)) + 1));
  args.dst = raw.data() + from;
  args.offset = std::int64_t(from);
  args.transfer_size = std::int64_t(size - from);
  if (size == 0) return;
  must_be_ok(api().PJRT_Buffer_CopyRawToHost(&args), "a raw copy");
  wait_for(args.event);
  const Bytes want = in_order(r, order);
  expect(std::equal(raw.begin() + std::ptrdiff_t(from), raw.end(),
                    want.begin() + std::ptrdiff_t(from)),
         "the memory of a buffer");
}

Buffer moved(Choices& c, const Client& on, Buffer b) {
  auto args = make<PJRT_Buffer_CopyToMemory_Args>();
  args.buffer = b.get();
  args.dst_memory = on.memory(std::size_t(c.below(2)), std::size_t(c.below(3)));
  must_be_ok(api().PJRT_Buffer_CopyToMemory(&args), "a copy to a memory");
  Buffer out(args.dst_buffer);
  expect(order_of(out.get()) == order_of(b.get()), "a copy has another layout");
  return out;
}

// --- programs ---------------------------------------------------------------------------------

/// CompileOptionsProto for so many partitions.
std::string options_for(std::size_t partitions) {
  const std::string inner = {4 << 3, 1, 5 << 3, char(partitions)};
  return std::string{3 << 3 | 2, char(inner.size())} + inner;
}

Loaded compile(const Client& on, const std::string& code, std::size_t partitions) {
  static constexpr std::string_view kFormat = "mlir";
  const std::string options = options_for(partitions);
  std::string text = code;
  auto program = make<PJRT_Program>();
  program.code = text.data();
  program.code_size = text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  auto args = make<PJRT_Client_Compile_Args>();
  args.client = on.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  must_be_ok(api().PJRT_Client_Compile(&args), code.c_str());
  return Loaded(args.executable);
}

/// The part of one of two devices.
Reference part(const Reference& r, std::optional<std::size_t> split, std::size_t device) {
  if (!split) return r;
  Dims dims = r.dims;
  dims[*split] /= 2;
  return gathered(r, dims, [&](Dims at) {
    at[*split] += std::int64_t(device) * dims[*split];
    return at;
  });
}

struct Run {
  std::vector<Buffer> arguments;             // by device
  std::vector<std::vector<Buffer>> results;  // by device and result
};

bool execute(const Loaded& program, std::size_t results, Run* run) {
  const std::size_t devices = run->arguments.size();
  std::vector<PJRT_Buffer*> each;
  for (const Buffer& b : run->arguments) each.push_back(b.get());
  std::vector<PJRT_Buffer* const*> lists;
  for (const auto& b : each) lists.push_back(&b);
  std::vector<std::vector<PJRT_Buffer*>> made(devices, std::vector<PJRT_Buffer*>(results, nullptr));
  std::vector<PJRT_Buffer**> outputs;
  for (auto& m : made) outputs.push_back(m.data());
  auto options = make<PJRT_ExecuteOptions>();
  auto args = make<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = program.get();
  args.options = &options;
  args.argument_lists = lists.data();
  args.num_devices = devices;
  args.num_args = 1;
  args.output_lists = outputs.data();
  if (!ok(api().PJRT_LoadedExecutable_Execute(&args))) return false;
  for (const auto& m : made) {
    run->results.emplace_back();
    for (PJRT_Buffer* b : m) run->results.back().emplace_back(b);
  }
  return true;
}

/// A program of one array, for one device or two.
struct Case {
  Built built;
  std::string code;
  std::size_t devices = 1;
  /// Which dim of the argument is split.
  std::optional<std::size_t> split;
  Mode given;
  /// Which values are results, and their layouts.
  std::vector<std::size_t> chosen;
  std::vector<Mode> wanted;
};

/// The sharding of an array of which one dim is split, or none.
std::string sharding(std::size_t rank, std::optional<std::size_t> split) {
  std::string out = ", sdy.sharding = #sdy.sharding<@mesh, [";
  for (std::size_t d = 0; d < rank; ++d) {
    out += d > 0 ? ", " : "";
    out += split == d ? "{\"x\"}" : "{}";
  }
  return out + "]>";
}

Case draw_case(Choices& c, const Reference& r) {
  Case out;
  out.devices = c.one_in(3) ? 2 : 1;
  const bool two = out.devices == 2;
  if (two && !r.dims.empty()) {
    const auto d = std::size_t(c.below(std::int64_t(r.dims.size())));
    if (r.dims[d] % 2 == 0) out.split = d;
  }
  out.built = build(c, r);
  out.given = mode(c, r);
  for (std::int64_t n = 1 + c.below(3); n > 0; --n) {
    out.chosen.push_back(std::size_t(c.below(std::int64_t(out.built.values.size()))));
  }
  std::string& code = out.code;
  code = two ? "module @m {\n  sdy.mesh @mesh = <[\"x\"=2]>\n" : "module @m {\n";
  code += "  func.func public @main(%a: " + tensor(r) + " {mhlo.layout_mode = \"" + out.given.text +
          "\"";
  if (two) code += sharding(r.dims.size(), out.split);
  const bool fits = !two && tensor(out.built.values[out.chosen[0]]) == tensor(r);
  const std::int64_t donate = c.below(4);
  if (donate == 1 && fits) code += ", tf.aliasing_output = 0 : i32";
  if (donate == 2) code += ", jax.buffer_donor = true";
  code += "}) -> (";
  std::string names, types, comma;
  for (const std::size_t k : out.chosen) {
    const Reference& v = out.built.values[k];
    out.wanted.push_back(mode(c, v));
    code += comma + tensor(v) + " {mhlo.layout_mode = \"" + out.wanted.back().text + "\"";
    if (two) code += sharding(v.dims.size(), std::nullopt);
    code += "}";
    names += comma + out.built.name(k);
    types += comma + tensor(v);
    comma = ", ";
  }
  code += ") {\n" + out.built.body + "    return " + names + " : " + types + "\n  }\n}\n";
  return out;
}

/// Compiles a program of this array and runs it.
void program(Choices& c, const Client& on, const Reference& r) {
  const Case it = draw_case(c, r);
  if (std::getenv("FUZZ_SHOW_PROGRAMS") != nullptr) std::fprintf(stderr, "%s", it.code.c_str());
  const Loaded compiled = compile(on, it.code, it.devices);
  const Dims order = it.given.order.value_or(row_major(r.dims.size()));
  const Dims used = c.one_in(8) ? c.order(r.dims.size()) : order;
  Run run;
  for (std::size_t d = 0; d < it.devices; ++d) {
    run.arguments.push_back(in_pieces(c, on, d, part(r, it.split, d), used));
  }
  const bool right = same_order(part(r, it.split, 0).dims, used, order);
  expect(execute(compiled, it.chosen.size(), &run) == right,
         right ? "a program refused its argument" : "a program took an argument of another layout");
  if (!right) return;
  for (const std::vector<Buffer>& results : run.results) {
    for (std::size_t k = 0; k < results.size(); ++k) {
      const std::optional<Dims>& stated = it.wanted[k].order;
      expect(!stated || order_of(results[k].get()) == *stated,
             "a result has another layout than stated");
      check(c, results[k].get(), it.built.values[it.chosen[k]]);
    }
  }
}

void run(Choices& c) {
  const Client& on = client(c.one_in(2));
  const Type* const type = &kTypes[c.below(std::size(kTypes))];
  Dims dims;
  for (std::int64_t n = c.below(5); n > 0; --n) {
    dims.push_back(c.one_in(12) ? 0 : 1 + c.below(5));
  }
  const std::int64_t what = c.below(6);
  Reference r = array(c, type, dims);
  if (what == 0) {
    refused_layouts(c, on, r);
    return strange_shapes(c, on);
  }
  if (what > 2) return program(c, on, r);
  const Dims order = c.order(dims.size());
  Buffer b = put(c, on, std::size_t(c.below(2)), &r, order);
  // Strides don't tell where dims of one element stand.
  expect(r.count() == 0 || same_order(dims, order_of(b.get()), order),
         "a buffer has another layout than was asked for");
  check(c, b.get(), r);
  if (c.one_in(2)) {
    b = moved(c, on, std::move(b));
    check(c, b.get(), r);
  }
}

}  // namespace
}  // namespace tessera::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("TESSERA_VERIFY", "1", 1);
  setenv("TESSERA_LOG", "error", 1);
  setenv("TESSERA_JIT", "off", 1);
  setenv("TESSERA_CACHE_DIR", "off", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::Choices choices(data, size);
  tessera::fuzz::run(choices);
  return 0;
}
