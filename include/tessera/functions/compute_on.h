// SPDX-License-Identifier: Apache-2.0
// Parts of a program that compute in the memory of the host.
#pragma once

#include <string>
#include <utility>

#include <tessera/placement.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {
/// A region of one compute type on this thread while it lives.
class ComputeRegion {
 public:
  ComputeRegion(const std::string& type, Location location);
  ~ComputeRegion();
  ComputeRegion(const ComputeRegion&) = delete;
  ComputeRegion& operator=(const ComputeRegion&) = delete;
  /// The kind of memory that it computes in.
  const std::string& memory() const { return memory_; }

 private:
  std::string outer_, memory_;
};
}  // namespace internal

/// Options of `compute_on`.
struct ComputeOnOptions {
  /// The kind of memory that the results are moved to: "device", "pinned_host" or "unpinned_host".
  std::string out_memory = "device";
};

/// A function wrapped by `compute_on`.
template <class F>
class ComputeOnFunction {
 public:
  /// For internal use; see `compute_on`.
  ComputeOnFunction(std::string type, F f, ComputeOnOptions options, Location location)
      : type_(std::move(type)),
        f_(std::move(f)),
        options_(std::move(options)),
        location_(location) {}

  /// Calls the function on arguments that are moved to where it computes.
  template <TreeLike... Args>
  auto operator()(const Args&... args) const {
    const internal::ComputeRegion region(type_, location_);
    const TransferToMemoryKind there{region.memory()};
    return device_put(f_(device_put(args, there, {}, location_)...),
                      TransferToMemoryKind{options_.out_memory}, {}, location_);
  }

 private:
  std::string type_;
  F f_;
  ComputeOnOptions options_;
  Location location_;
};

/// Wraps a function of trees of Array so that it computes on the host of its devices
/// (jax.experimental.compute_on): its arguments are moved to memory of kind `pinned_host`, all that
/// it makes is there, and its results are moved to `options.out_memory`. Virtual CPU devices run
/// it on the same processor as all else; what differs is the memory.
///
/// It can be called within traced functions, loops, remat and custom rules, and be differentiated;
/// what it captures must be in host memory already.
/// @code
/// auto update = compute_on("device_host", [](Array w, Array m) { return w - 0.1f * m; });
/// auto step = jit([=](Array w, Array m) { return update(w, m); });
/// @endcode
/// @param type  "device_host", or "device" for device memory.
/// @param f  The function.
/// @param options  Where the results go.
/// @param location  The line named in messages.
/// Calls throw ValueError for another type, and within a region of another type.
template <class F>
auto compute_on(std::string type, F f, ComputeOnOptions options = {},
                Location location = Location::current()) {
  return ComputeOnFunction<std::decay_t<F>>(std::move(type), std::move(f), std::move(options),
                                            location);
}

}  // namespace tessera
