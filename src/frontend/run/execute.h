// SPDX-License-Identifier: Apache-2.0
// From a traced module and concrete arguments to results: devices, shardings, compilation,
// execution.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/sharding/layouts.h>

#include "src/compiler/compile.h"
#include "src/compiler/one_device.h"
#include "src/frontend/trace/trace.h"

namespace tessera::frontend {

/// The requested sharding of one argument or result.
struct RequestedSharding {
  std::optional<Sharding> sharding;  ///< empty: not specified
  std::string who;                   ///< for messages: "argument x[0] of f"
  /// Of a result: the parameter by which it is the gradient. It is sharded as that.
  std::optional<std::size_t> gradient_by{};
  /// The compiler chooses: of a parameter on the mesh of `sharding`, which a result has not.
  bool automatic = false;
  /// The layout that was stated, if any.
  std::optional<Layout> layout{};
};

/// A traced program and the requested shardings of its parameters and results.
struct Program {
  std::string name;  ///< for messages
  Location location;
  std::unique_ptr<ir::Module> module;
  std::vector<RequestedSharding> parameters;
  std::vector<RequestedSharding> results;
  std::vector<bool> result_weak;
  std::vector<Trace::MeshUse> mesh_uses;
  std::vector<bool> donated;  ///< per parameter
  bool is_jit = false;        ///< the context mesh must agree with the arguments
  bool keep_unused = true;    ///< false: parameters without a use are left out
  compiler::Requests requests;
};

/// A parameter or a result of a program that is bound to devices.
struct BoundValue {
  Sharding sharding;  ///< of a result: once it has been compiled
  Shape shape;
  std::optional<Layout> layout;  ///< that was stated
};
struct BoundParameter : BoundValue {
  std::string name;              ///< for messages, if there are layouts
  bool donated = false;          ///< requested
  bool donation_usable = false;  ///< a result can take the memory
};
struct BoundResult : BoundValue {
  bool weak = false;
};

/// A program bound to devices.
struct BoundProgram {
  std::string name;
  std::shared_ptr<const compiler::Executable> executable;
  /// The executable, if it runs on one device, and nothing is donated to it; else null.
  const compiler::OneDeviceProgram* on_one = nullptr;
  bool calls_out = false;  ///< a run calls functions that aren't ours
  std::vector<Device> devices;
  std::vector<BoundParameter> parameters;
  std::vector<BoundResult> results;
  bool states_layouts = false;    ///< of some parameter
  std::vector<std::size_t> kept;  ///< parameters that the executable takes
  compiler::Requests requests;    ///< as the program's
  bool committed = false;         ///< results are committed
  std::string
      lacks_devices;  ///< why it can't run: which devices are missing, and what requires them
};

/// Decides devices (all committed arguments, requested shardings and meshes used inside must agree
/// on them: ValueError naming the first two that don't; abstract meshes adopt the devices of the
/// others), turns shardings into the compiler's form and compiles, or takes the executable from the
/// cache. ValueError if there are only abstract meshes, as the program is to run.
BoundProgram bind_program(Program program, std::span<const Array> args);

/// Interface of objects that must know the devices on which a program is placed: users'
/// partitioning callbacks.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void bind(const Mesh& mesh, std::vector<Device> devices) = 0;
  /// The program has been compiled.
  virtual void compiled() {}
};

/// The two halves of bind_program: first devices and shardings (as annotations in the module), then
/// compilation. With abstract meshes only it is compiled as far as possible without devices.
struct PlacedProgram {
  Program program;
  BoundProgram bound;  ///< without executable and results' shardings
  Mesh mesh;
  std::vector<bool> parameter_committed;
  std::vector<MemoryKind> result_memory;
  std::vector<std::shared_ptr<DeviceListener>> listeners;  ///< told when it has been compiled
};
PlacedProgram place_program(Program program, std::span<const Array> args);
BoundProgram compile_program(PlacedProgram placed);

/// Places uncommitted arguments and runs the program. Donated arguments whose memory can be used
/// are deleted first; RuntimeError if another thread has deleted one already.
std::vector<Array> run_program(const BoundProgram& program, std::span<const Array> args,
                               Location location);

/// The buffers of an array with the sharding `sharding`; resharded or copied if it has another one.
std::vector<DeviceBuffer> buffers_as(const Array& array, const Sharding& sharding,
                                     Location location);

/// Whether both are all of an array on one device and in one memory, as most programs have it: that
/// is seen without their tilings.
bool are_same_device(const Sharding& a, const Sharding& b);

/// The array; if its devices hold the terms of sums, with these added up.
Array without_partial_sums(const Array& array, Location location);

/// Splits a host value into shards, one storage per distinct part.
std::vector<DeviceBuffer> place_literal(const Literal& literal, const Sharding& sharding,
                                        Location location);

/// Drops the executables that no function uses.
void clear_compile_cache();
/// ValueError if this process lacks one of these devices, or there are none: data can't be placed
/// there. `who` begins the message.
void check_devices_exist(const Sharding& sharding, const std::string& who, Location location);
/// Before a value is placed: where the target has devices of other processes, it must be the same
/// in all of these (RuntimeError, on all), and not committed to devices of this one (ValueError).
void check_across_processes(const Array& array, const Sharding& target, const std::string& who,
                            Location location);
/// Number of programs compiled so far (tests of caching).
std::int64_t compilation_count();

}  // namespace tessera::frontend
