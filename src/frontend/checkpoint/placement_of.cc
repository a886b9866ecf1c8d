// SPDX-License-Identifier: Apache-2.0
// Checks of what is requested of arrays in files.
#include "src/frontend/checkpoint/placement_of.h"

#include "src/frontend/run/execute.h"
#include "src/frontend/run/sharding_prefix.h"

namespace tessera::frontend {

using internal::ArrayImpl;

std::optional<Sharding> placement_of(const Array& like, const std::string& who, Location location) {
  const ArrayImpl& impl = internal::impl_of(like, location);
  switch (impl.kind) {
    case ArrayImpl::Kind::host_scalar:
      return std::nullopt;
    case ArrayImpl::Kind::tracer:
      throw TracerError(who + " is traced: restore outside of the traced function", location);
    case ArrayImpl::Kind::device:
      return impl.committed ? std::optional(impl.sharding) : std::nullopt;
    case ArrayImpl::Kind::abstract:
      break;
  }
  const Array placed = internal::on_mesh_in_scope(like, location, who);
  const Sharding& sharding = placed.impl()->sharding;
  return sharding.valid() ? std::optional(sharding) : std::nullopt;
}

void check_placement(const Sharding& sharding, const Shape& shape, const std::string& who,
                     Location location) {
  check_devices_exist(sharding, who, location);
  check_fits(sharding, shape, who, false, location);
}

void check_like(const Shape& saved, const Array& like, const std::string& who, Location location) {
  const Shape& impl = internal::impl_of(like, location).shape;
  const Shape wanted(impl.dtype, impl.dims);
  if (saved.dims != wanted.dims) {
    throw ShapeError(who + " was saved as " + saved.to_string() + ", and " + wanted.to_string() +
                         " is requested",
                     location);
  }
  if (saved.dtype != wanted.dtype) {
    throw DTypeError(who + " was saved as " + saved.to_string() + ", and " + wanted.to_string() +
                         " is requested; restore it as it is, and convert it by astype",
                     location);
  }
}

}  // namespace tessera::frontend
