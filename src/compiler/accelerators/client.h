// SPDX-License-Identifier: Apache-2.0
// What the library asks of an accelerator's client: devices, buffers, programs. Implemented by the
// module that loads PJRT plugins; this is the wall between the two: neither has the other's
// symbols.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/dtype.h>

namespace tessera::compiler::accelerators {

using Value = std::variant<bool, std::int64_t, float, std::string, std::vector<std::int64_t>>;
using Values = std::map<std::string, Value>;

/// A function of the plugin failed, or it isn't a plugin.
class PluginFailure : public std::runtime_error {
 public:
  /// The numbers are those of absl::StatusCode.
  enum Code : int {
    kUnknown = 2,
    kInvalidArgument = 3,
    kResourceExhausted = 8,
    kFailedPrecondition = 9,
    kUnimplemented = 12,
  };
  PluginFailure(std::string function, int code, const std::string& message)
      : std::runtime_error(message), function(std::move(function)), code(code) {}
  /// As the C API has it: "PJRT_Client_Create", or "dlopen".
  std::string function;
  int code;
};

/// Called once, by any thread; null: it went well.
using Done = std::function<void(const PluginFailure* failure)>;

/// One device's memory. All functions throw PluginFailure.
class ClientBuffer {
 public:
  virtual ~ClientBuffer() = default;
  ClientBuffer() = default;
  ClientBuffer(const ClientBuffer&) = delete;
  ClientBuffer& operator=(const ClientBuffer&) = delete;
  virtual void when_ready(Done done) const = 0;
  /// Waits for the contents, and writes them dense and row-major.
  virtual void read(std::byte* to, std::size_t bytes) const = 0;
  /// Which of its device's memories (DeviceInfo) it is in.
  virtual std::size_t memory() const = 0;
  /// To another device, or another memory. Not waited for.
  virtual std::unique_ptr<ClientBuffer> copy_to(std::size_t device, std::size_t memory) const = 0;
  /// In the same memory; waits for the contents.
  virtual std::unique_ptr<ClientBuffer> duplicate() const = 0;
};

/// A function of this process that a program calls, with what the operands' and results' addresses
/// hold: dense and row-major. What it throws makes the run fail.
using HostCall =
    std::function<void(std::span<void* const> operands, std::span<void* const> results)>;
/// A function's number, which holds it.
using HostCallNumber = std::shared_ptr<const std::int64_t>;
/// The target of calls of such functions, and the attribute that has the number.
inline constexpr const char* kHostCallTarget = "tessera_host_call";
inline constexpr const char* kHostCallNumber = "function";

/// A program that is loaded on some devices. All functions throw PluginFailure.
class ClientProgram {
 public:
  virtual ~ClientProgram() = default;
  ClientProgram() = default;
  ClientProgram(const ClientProgram&) = delete;
  ClientProgram& operator=(const ClientProgram&) = delete;
  /// Argument i and result r of the d-th of its devices that are this process's stand at
  /// d * count + i and d * count + r, of as many as each has. `kept`: arguments whose memory may
  /// not be taken, though the program says that it may. A program that calls the host has run on
  /// return, or what it throws is the run's failure.
  virtual void execute(std::span<const ClientBuffer* const> arguments, std::size_t devices,
                       std::span<const std::int64_t> kept,
                       std::span<std::unique_ptr<ClientBuffer>> results) const = 0;
  struct Memory {
    std::int64_t arguments = 0, results = 0, aliases = 0, temporary = 0, peak = 0;
    std::int64_t host_arguments = 0, host_results = 0, host_aliases = 0, host_temporary = 0;
  };
  /// Nothing if the plugin doesn't tell.
  virtual std::optional<Memory> memory() const = 0;
};

struct DeviceInfo {
  std::int64_t id = 0;
  /// Whose it is, as the plugin counts processes; what has memory there is the owner's alone.
  std::int64_t process = 0;
  bool is_local = true;
  std::string kind;  ///< "NVIDIA H100 80GB HBM3"
  /// Kinds of the memories that it can address, the default one first.
  std::vector<std::string> memories;
};

struct ProgramText {
  std::string code;
  std::string format = "mlir";
  /// Replica r runs on the r-th of these devices of the client, at least one of which is this
  /// process's.
  std::vector<std::size_t> devices;
  bool calls_host = false;
};

/// Safe to use from several threads. All functions throw PluginFailure.
class Client {
 public:
  virtual ~Client() = default;
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual const std::string& platform() const = 0;
  virtual const std::string& version() const = 0;
  /// Of the C API that the plugin implements.
  virtual std::pair<int, int> api_version() const = 0;
  /// What the plugin says of itself.
  virtual const Values& attributes() const = 0;
  /// Those of this process; where it has a KeyValues, those of all processes, in the same order
  /// in each.
  virtual const std::vector<DeviceInfo>& devices() const = 0;
  /// Whether programs may call functions of this process.
  virtual bool calls_host() const = 0;
  virtual HostCallNumber add_host_call(HostCall call) const = 0;
  virtual std::unique_ptr<ClientProgram> compile(const ProgramText& text) const = 0;
  /// From dense row-major elements, of a byte or more each, which have been read on return.
  virtual std::unique_ptr<ClientBuffer> copy_in(const std::byte* host, DType dtype,
                                                std::span<const std::int64_t> dims,
                                                std::size_t device, std::size_t memory) const = 0;
  struct MemoryInUse {
    std::int64_t bytes = 0;
    std::optional<std::int64_t> peak;
  };
  virtual std::optional<MemoryInUse> memory_in_use(std::size_t device) const = 0;
};

/// What the processes that run a program together tell each other, for plugins that connect their
/// devices by it. Safe to use from several threads; nothing here throws.
class KeyValues {
 public:
  virtual ~KeyValues() = default;
  /// Waits until a process has put it. Nothing if the time is over first.
  virtual std::optional<std::string> get(const std::string& key,
                                         std::chrono::milliseconds time) = 0;
  /// Nothing if it isn't known here yet.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  enum class Put {
    done,       ///< all processes have this value, or will: it was the first, or is equal to it
    taken,      ///< they have another one
    undecided,  ///< the processes don't answer, or are at their end
  };
  virtual Put put(const std::string& key, const std::string& value) = 0;
};

/// How a client joins its devices with those of other processes.
struct Joining {
  KeyValues* values = nullptr;  ///< lives as long as the process
  /// Which of its machine's devices this process is to have, where those are GPUs; nothing if its
  /// launcher has chosen.
  std::optional<std::int64_t> device;
};

/// What the module `libtessera-accelerators.so` has under this name: opens the plugin in that file
/// and makes its client. `joining`: null if this process is alone. Throws PluginFailure.
using ClientFactory = void(const std::string& file, const Values& options, const Joining* joining,
                           std::unique_ptr<Client>* made);
inline constexpr const char* kClientFactory = "tessera_make_pjrt_client";

}  // namespace tessera::compiler::accelerators
