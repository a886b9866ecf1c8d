// SPDX-License-Identifier: Apache-2.0
// Array: host scalars, queries, shards, reading values back.
#include <tessera/array.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <sstream>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/widen.h"
#include "src/base/check.h"
#include "src/base/processes/processes.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/ops/internal.h"
#include "src/frontend/trace/trace.h"
#include "src/sharding/api/shard_layout.h"

namespace tessera {

using internal::ArrayImpl;
using internal::impl_of;

namespace internal {

ArrayImpl& impl_of(const Array& array, Location location) {
  if (!array.valid()) {
    throw ValueError("an empty Array (default constructed, never assigned) was used", location);
  }
  return *array.impl();
}

Array make_device_array(Shape shape, Sharding sharding, std::vector<DeviceBuffer> buffers,
                        bool committed, bool weak) {
  auto impl = std::make_shared<ArrayImpl>(std::move(buffers));
  impl->kind = ArrayImpl::Kind::device;
  impl->shape = std::move(shape);
  impl->sharding = std::move(sharding);
  impl->committed = committed;
  impl->weak = weak;
  return Array(std::move(impl));
}

}  // namespace internal

namespace {

Array host_scalar(Literal literal, bool weak, std::optional<Literal> precise = {}) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->kind = ArrayImpl::Kind::host_scalar;
  impl->shape = literal.shape();
  impl->literal = std::move(literal);
  impl->precise = std::move(precise);
  impl->weak = weak;
  return Array(std::move(impl));
}

}  // namespace

Array Array::weak_bool(bool v) { return host_scalar(Literal::scalar(DType::pred, v), false); }
Array Array::weak_int(std::int64_t v) {
  const bool fits = v >= std::numeric_limits<std::int32_t>::min() &&
                    v <= std::numeric_limits<std::int32_t>::max();
  return fits ? host_scalar(Literal::scalar(DType::s32, v), true)
              : host_scalar(Literal::scalar(DType::s64, v), false);
}
Array Array::weak_uint(std::uint64_t v) {
  if (v <= std::uint64_t(std::numeric_limits<std::int64_t>::max())) {
    return weak_int(std::int64_t(v));
  }
  return host_scalar(Literal::scalar(DType::u64, v), false);
}
Array Array::weak_float(double v) {
  return host_scalar(Literal::scalar(DType::f32, v), true, Literal::scalar(DType::f64, v));
}
Array Array::weak_complex(std::complex<double> v) {
  return host_scalar(Literal::scalar(DType::c64, v), true, Literal::scalar(DType::c128, v));
}

const Array::Dims& Array::shape(Location location) const {
  return impl_of(*this, location).shape.dims;
}
std::int64_t Array::shape(std::int64_t dim, Location location) const {
  const Dims& dims = impl_of(*this, location).shape.dims;
  const std::int64_t rank = std::int64_t(dims.size());
  if (dim < -rank || dim >= rank) {
    throw ValueError("shape(" + std::to_string(dim) + ") of " + type_string() +
                         ": valid dims are " + std::to_string(-rank) + " to " +
                         std::to_string(rank - 1),
                     location);
  }
  return dims[std::size_t(dim < 0 ? dim + rank : dim)];
}
std::int64_t Array::size(Location location) const {
  return impl_of(*this, location).shape.element_count();
}
DType Array::dtype(Location location) const { return impl_of(*this, location).shape.dtype; }
bool Array::weak_type() const { return impl_of(*this).weak; }
bool Array::is_tracer() const { return valid() && impl_->kind == ArrayImpl::Kind::tracer; }
std::string Array::type_string() const {
  return valid() ? impl_->shape.to_string() : std::string("(empty)");
}

Sharding Array::sharding(Location location) const {
  const ArrayImpl& impl = impl_of(*this, location);
  switch (impl.kind) {
    case ArrayImpl::Kind::host_scalar:
      return SingleDeviceSharding(default_device());
    case ArrayImpl::Kind::device:
      return impl.sharding;
    case ArrayImpl::Kind::abstract:
      return impl.spec ? impl_of(internal::on_mesh_in_scope(*this, location)).sharding
                       : impl.sharding;
    case ArrayImpl::Kind::tracer:
      break;
  }
  throw TracerError("the sharding of a traced array (" + type_string() +
                        ") is not known before the program is compiled; use "
                        "with_sharding_constraint to set it, or read it from the result",
                    location);
}

bool Array::committed() const { return impl_of(*this).committed; }

namespace {

const ArrayImpl& concrete(const Array& array, const char* what, Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  if (impl.kind == ArrayImpl::Kind::tracer) {
    throw TracerError(std::string(what) + " needs the value of a traced array (" +
                          array.type_string() + ", made at " +
                          (impl.created.known() ? impl.created.to_string() : "an unknown line") +
                          "): inside jit and other transformations arrays have no values; use "
                          "where, cond or while_loop, or pass the value as a static argument",
                      location);
  }
  if (impl.kind == ArrayImpl::Kind::abstract) {
    throw TypeError(std::string(what) + ": " + array.type_string() +
                        " is a shape_dtype_struct and has no value",
                    location);
  }
  internal::check_alive(impl, location);
  return impl;
}

}  // namespace

std::vector<Shard> Array::addressable_shards(Location location) const {
  const ArrayImpl& impl = concrete(*this, "addressable_shards", location);
  const Sharding sharding = this->sharding(location);
  if (impl.kind == ArrayImpl::Kind::host_scalar) {
    return {Shard{default_device(), {}, 0, *this}};
  }
  const auto layout = layout_of_parts(sharding, impl.shape.dims, location);
  const Shape local(impl.shape.dtype, layout->shard_shape);
  const internal::ArrayMemory::Buffers buffers = internal::shared_buffers(impl, location);
  TESSERA_CHECK(buffers.size() == layout->devices.size(), "a buffer per device");
  std::vector<Shard> out;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Device& device = layout->devices[i];
    if (!is_local(device)) continue;
    out.push_back(Shard{device, layout->indices[i], layout->replica_ids[i],
                        internal::make_device_array(local, SingleDeviceSharding(device),
                                                    {buffers[i]}, impl.committed, impl.weak)});
  }
  return out;
}

Array Array::addressable_data(std::size_t i, Location location) const {
  std::vector<Shard> shards = addressable_shards(location);
  if (i >= shards.size()) {
    throw ValueError("addressable_data(" + std::to_string(i) + ") of an array with " +
                         std::to_string(shards.size()) + " shards",
                     location);
  }
  return shards[i].data;
}

std::int64_t Array::on_device_size_in_bytes() const {
  const ArrayImpl& impl = concrete(*this, "on_device_size_in_bytes", {});
  if (impl.kind == ArrayImpl::Kind::host_scalar) return std::int64_t(impl.literal->byte_count());
  std::int64_t total = 0;
  for (const DeviceBuffer& b : internal::shared_buffers(impl, {})) total += std::int64_t(b.bytes());
  return total;
}

void Array::read(DType dtype, void* out, Location location) const {
  (void)concrete(*this, "to_vector", location);
  const Literal literal = frontend::to_literal(*this, location);
  const DType have = literal.dtype();
  if (have == dtype) {
    if (literal.byte_count() > 0) std::memcpy(out, literal.bytes(), literal.byte_count());
    return;
  }
  const std::size_t n = std::size_t(literal.element_count());
  if (dtype == DType::f32 && (have == DType::bf16 || have == DType::f16)) {
    float* to = static_cast<float*>(out);
    if (have == DType::bf16) {
      const auto from = literal.data<BFloat16>();
      for (std::size_t i = 0; i < n; ++i) to[i] = float(from[i]);
    } else {
      const auto from = literal.data<Half>();
      for (std::size_t i = 0; i < n; ++i) to[i] = float(from[i]);
    }
    return;
  }
  throw TypeError("to_vector: the array is " + type_string() +
                      ", and its elements were requested as " + std::string(name(dtype)) +
                      "; convert with astype first, or ask for the C++ "
                      "type of " +
                      std::string(name(have)),
                  location);
}

void Array::read_item(DType dtype, void* out, Location location) const {
  if (concrete(*this, "item", location).shape.element_count() != 1) {
    throw ValueError("item() of " + type_string() + ": only arrays with one element have an item",
                     location);
  }
  const Literal literal = widened(frontend::to_literal(*this, location));
  if (!is_complex(dtype) && is_complex(literal.dtype())) {
    throw TypeError("item(): a complex value can't be read as " + std::string(name(dtype)),
                    location);
  }
  dispatch_dtype(literal.dtype(), [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    const From from = literal.data<From>()[0];
    dispatch_dtype(dtype, [&](auto to_tag) {
      using To = typename decltype(to_tag)::type;
      To to = convert_element<To>(from);
      std::memcpy(out, &to, sizeof to);
    });
  });
}

void Array::delete_(Location location) {
  ArrayImpl& impl = impl_of(*this, location);
  if (impl.kind == ArrayImpl::Kind::tracer) return;
  impl.memory.give_up("");
}
namespace {

/// The buffers of this process's devices.
std::vector<DeviceBuffer> buffers_to_wait_for(const ArrayImpl& impl, const char* what,
                                              Location location) {
  if (impl.kind == ArrayImpl::Kind::tracer) {
    throw TracerError(std::string(what) + " of a traced array (" + impl.shape.to_string() +
                          "): inside jit and other transformations arrays have no values",
                      location);
  }
  if (impl.kind != ArrayImpl::Kind::device) return {};
  return internal::shared_buffers(impl, location);
}

}  // namespace

bool Array::is_ready(Location location) const {
  for (const DeviceBuffer& b :
       buffers_to_wait_for(impl_of(*this, location), "is_ready", location)) {
    if (!b.is_ready()) return false;
  }
  return true;
}
const Array& Array::block_until_ready(Location location) const {
  const ArrayImpl& impl = impl_of(*this, location);
  for (const DeviceBuffer& b : buffers_to_wait_for(impl, "block_until_ready", location)) b.wait();
  return *this;
}
bool Array::is_deleted(Location location) const {
  return impl_of(*this, location).memory.given_up();
}

Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype, const Sharding& sharding,
                         Location location) {
  if (sharding.valid()) (void)sharding.shard_shape(shape, location);
  auto impl = std::make_shared<ArrayImpl>();
  impl->kind = ArrayImpl::Kind::abstract;
  impl->shape = Shape(dtype, std::move(shape));
  frontend::check_size("shape_dtype_struct", impl->shape, location);
  impl->sharding = sharding;
  impl->committed = sharding.valid();
  return Array(std::move(impl));
}

namespace {

PrintOptions& options_of_thread() {
  thread_local PrintOptions options;
  return options;
}

/// At most so many digits behind the point, as numpy writes floats.
void print_with_precision(std::ostream& out, double v, int digits, bool suppress_small) {
  const double size = std::abs(v);
  const bool fixed = suppress_small || size == 0 || (size >= 1e-4 && size < 1e8);
  std::string shown = fixed ? fmt::format("{:.{}f}", v, digits) : fmt::format("{:.{}e}", v, digits);
  if (fixed && shown.find('.') != std::string::npos) {
    shown.erase(shown.find_last_not_of('0') + 1);
    if (shown.back() == '.') shown.pop_back();
  }
  out << (shown == "-0" && v != 0 ? "0" : shown);
}

/// The sign of a NaN has no meaning and differs between machines: it isn't printed.
template <class T>
void print_float(std::ostream& out, T v) {
  const PrintOptions& options = options_of_thread();
  if (std::isnan(v)) {
    out << "nan";
  } else if ((options.precision || options.suppress_small) && std::isfinite(v)) {
    constexpr int kDigits = 8;  // numpy's
    print_with_precision(out, double(v), options.precision.value_or(kDigits),
                         options.suppress_small);
  } else {
    out << v;
  }
}

template <class T>
void print_element(std::ostream& out, const T& v) {
  if constexpr (std::is_same_v<T, Pred>) {
    out << (bool(v) ? "true" : "false");
  } else if constexpr (std::is_same_v<T, std::complex<float>> ||
                       std::is_same_v<T, std::complex<double>>) {
    print_float(out, v.real());
    out << (std::signbit(v.imag()) && !std::isnan(v.imag()) ? "-" : "+");
    print_float(out, std::abs(v.imag()));
    out << "j";
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    print_float(out, float(v));
  } else if constexpr (std::is_floating_point_v<T>) {
    print_float(out, v);
  } else {
    out << +v;
  }
}

template <class T>
void print_nested(std::ostream& out, std::span<const T> data, const Array::Dims& dims,
                  std::size_t dim, std::size_t offset, std::size_t indent) {
  if (dim == dims.size()) {
    print_element(out, data[offset]);
    return;
  }
  std::size_t inner = 1;
  for (std::size_t d = dim + 1; d < dims.size(); ++d) inner *= std::size_t(dims[d]);
  out << "[";
  const std::int64_t n = dims[dim];
  const PrintOptions& options = options_of_thread();
  const std::int64_t edge = options.edgeitems;
  const bool abridged =
      options.threshold ? std::int64_t(data.size()) > *options.threshold : n > 2 * edge + 2;
  for (std::int64_t i = 0; i < n; ++i) {
    if (abridged && n > 2 * edge && i == edge) {
      const std::string between =
          dim + 1 == dims.size() ? ", " : ",\n" + std::string(indent + 1, ' ');
      out << (edge > 0 ? between : "") << "...";
      i = n - edge - 1;
      continue;
    }
    if (i > 0) out << (dim + 1 == dims.size() ? ", " : ",\n" + std::string(indent + 1, ' '));
    print_nested(out, data, dims, dim + 1, offset + std::size_t(i) * inner, indent + 1);
  }
  out << "]";
}

}  // namespace

Device Array::device(Location location) const {
  const std::vector<Device> all = sharding(location).device_list(location);
  if (all.size() == 1) return all.front();
  throw ValueError("device of " + type_string() + ", which is on " + std::to_string(all.size()) +
                       " devices; valid: sharding(), or devices()",
                   location);
}

Format Array::format(Location location) const {
  const Sharding where = sharding(location);
  const std::optional<Layout>& layout = impl_of(*this, location).layout;
  return Format(layout ? *layout : Layout::row_major(ndim(location)), where, location);
}

PrintOptions print_options() { return options_of_thread(); }

PrintScope::PrintScope(const PrintOptions& options, Location location)
    : before_(options_of_thread()) {
  constexpr int kMostDigits = 100;
  if (options.precision && (*options.precision < 0 || *options.precision > kMostDigits)) {
    throw ValueError("PrintScope: precision is " + std::to_string(*options.precision) +
                         "; valid: 0 to " + std::to_string(kMostDigits),
                     location);
  }
  if (options.edgeitems < 0 || options.threshold.value_or(0) < 0) {
    throw ValueError("PrintScope: edgeitems and threshold can't be negative", location);
  }
  options_of_thread() = options;
}
PrintScope::~PrintScope() { options_of_thread() = before_; }

std::ostream& operator<<(std::ostream& out, const Array& array) {
  if (!array.valid()) return out << "Array(empty)";
  const ArrayImpl& impl = *array.impl();
  switch (impl.kind) {
    case ArrayImpl::Kind::tracer:
      return out << "Tracer(" << array.type_string() << ")";
    case ArrayImpl::Kind::abstract:
      out << "ShapeDtypeStruct(" << array.type_string();
      if (impl.sharding.valid()) out << ", sharding=" << impl.sharding.to_string();
      return out << ")";
    default:
      break;
  }
  if (impl.kind == ArrayImpl::Kind::device && !impl.sharding.is_fully_addressable()) {
    return out << "Array(" << array.type_string() << ", on devices of several processes)";
  }
  const std::optional<Literal> value = frontend::literal_if_alive(array, {});
  if (!value) return out << "Array(" << array.type_string() << ", deleted)";
  const Literal literal = widened(*value);
  dispatch_dtype(literal.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (literal.element_count() == 0) {
      out << "[]";
    } else {
      print_nested(out, literal.data<T>(), literal.dims(), 0, 0, 0);
    }
  });
  return out;
}

std::string to_string(const Array& array) {
  std::ostringstream out;
  out << array;
  return out.str();
}

}  // namespace tessera
