// SPDX-License-Identifier: Apache-2.0
// Which processes run this program, and which devices each of them has.
// Compiled alone: it has definitions of its own.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include <tessera/device.h>

#include "src/base/at_location.h"
#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/files/module_files.h"
#include "src/base/log.h"
#include "src/base/platforms.h"
#include "src/base/processes/plugin_threads.h"
#include "src/base/processes/processes.h"

namespace tessera {
namespace {

constexpr std::int64_t kDefaultDevices = 8, kDefaultTimeout = 300;

/// A process, as this thread sees it.
struct Context {
  std::unique_ptr<Processes> processes;  // null: there is one
  std::vector<Device> devices;           // of all processes
  std::size_t first = 0, own = 0;        // this process's
};

void fill_devices(Context* c, std::int64_t own) {
  std::vector<std::int64_t> counts{own};
  std::size_t me = 0;
  if (c->processes) {
    Processes& all = *c->processes;
    me = std::size_t(all.index());
    std::vector<int> members(static_cast<std::size_t>(all.count()));
    std::iota(members.begin(), members.end(), 0);
    const Activity activity{"the start of the processes", "", {}};
    const Processes::Turn turn(&all, activity);
    counts.clear();
    for (const std::string& n : all.gather(members, std::to_string(own), activity)) {
      counts.push_back(std::stoll(n));
    }
  }
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (p == me) c->first = c->devices.size();
    for (std::int64_t i = 0; i < counts[p]; ++i) {
      Device d;
      d.id = std::int64_t(c->devices.size());
      d.process_index = std::int64_t(p);
      c->devices.push_back(std::move(d));
    }
  }
  c->own = std::size_t(own);
  if (std::int64_t(c->devices.size()) > kMaxDevices) {
    throw ValueError(std::to_string(counts.size()) + " processes have " +
                     std::to_string(c->devices.size()) + " devices together; at most " +
                     std::to_string(kMaxDevices) + " are possible");
  }
}

std::chrono::milliseconds timeout() {
  return std::chrono::seconds(
      env_integer("TESSERA_EXCHANGE_TIMEOUT", 1, kMaxTimeout).value_or(kDefaultTimeout));
}

/// By what it shows that a launcher started this program as one of several processes.
std::optional<std::string> launched() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? 0L : std::strtol(text, nullptr, 10);
  };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (number(name) > 1) return std::string(name) + "=" + std::getenv(name);
  }
  // Batch scripts of Slurm have these as well; within them there is no step.
  if (std::getenv("SLURM_PROCID") != nullptr && std::getenv("SLURM_STEP_ID") != nullptr &&
      number("SLURM_STEP_NUM_TASKS") > 1) {
    return std::string("SLURM_STEP_NUM_TASKS=") + std::getenv("SLURM_STEP_NUM_TASKS");
  }
  return std::nullopt;
}

constexpr const char* kModule = "libtessera-mpi.so";

std::atomic<bool> plugins_expected = false;

/// The transport by MPI; null, and why there is none.
Transport* load_mpi(std::string* reasons) {
#if defined(TESSERA_MPI)
  const bool single_copy = env_flag("TESSERA_SINGLE_COPY", true);
  for (const std::string& file : module_files(kModule, TESSERA_MODULE_FOLDER)) {
    // MPI's own modules look its symbols up among the global ones.
    void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      *reasons += std::string("\n  ") + dlerror();
      continue;
    }
    std::string error = "it has no " + std::string(kMpiTransportFactory);
    auto* factory = reinterpret_cast<TransportFactory*>(dlsym(module, kMpiTransportFactory));
    if (factory != nullptr) {
      auto* several = reinterpret_cast<MpiOfSeveralThreads*>(dlsym(module, kMpiOfSeveralThreads));
      if (several != nullptr && plugins_expected) several();
      if (Transport* made = factory(single_copy, &error)) return made;
    }
    *reasons += "\n  " + file + ": " + error;
  }
#else
  (void)kModule;
  *reasons = "\n  Tessera was built without MPI (CMake: TESSERA_MPI)";
#endif
  return nullptr;
}

struct Table {
  std::mutex mutex;
  std::int64_t requested = 0;  // 0: set_num_devices wasn't called
  bool asked_for = false;      // by init_processes
  std::unique_ptr<Context> context;
  std::atomic<Context*> found{nullptr};
};
Table& table() {
  static Table& t = *new Table;
  return t;
}

void close_at_exit() {
  if (Processes* all = table().context->processes.get()) all->close();
}

std::unique_ptr<Context> find(std::int64_t requested, bool asked_for) {
  check_environment();
  auto c = std::make_unique<Context>();
  const auto engine = env_choice("TESSERA_ENGINE").value_or("auto");
  const auto started = launched();
  if (engine == "mpi" || (engine == "auto" && (started || asked_for))) {
    std::string reasons;
    Transport* transport = load_mpi(&reasons);
    if (transport == nullptr) {
      throw RuntimeError(
          "the processes of this program can't be connected" +
          (started ? ", of which there are several (" + *started + ")" : std::string()) + ":" +
          reasons + "\nTESSERA_ENGINE=in_process makes each process a program of its own");
    }
    if (transport->count() == 1 && started) {
      log_warning("this program was started as one of several processes (" + *started +
                  "), but MPI knows of no others, so it runs alone: the launcher may be of another "
                  "MPI than " +
                  kModule + ", or need a flag (srun --mpi=pmix)");
    }
    if (transport->count() > 1) {
      c->processes = std::make_unique<Processes>(
          std::shared_ptr<Transport>(transport, [](Transport*) {}), timeout());
    }
  }
  const std::int64_t own =
      requested > 0 ? requested
                    : env_integer("TESSERA_NUM_DEVICES", 1, kMaxDevices).value_or(kDefaultDevices);
  fill_devices(c.get(), own);
  return c;
}

thread_local Context* simulated = nullptr;

Context& context() {
  if (simulated != nullptr) return *simulated;
  Table& t = table();
  if (Context* found = t.found.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(t.mutex);
  if (!t.context) {
    t.context = find(t.requested, t.asked_for);
    if (t.context->processes) std::atexit(close_at_exit);
    t.found.store(t.context.get(), std::memory_order_release);
  }
  return *t.context;  // never changes afterwards
}

}  // namespace

const std::vector<Device>& virtual_devices() { return context().devices; }

const std::vector<Device>& devices() { return default_platform().devices(); }

const std::vector<Device>& devices(const std::string& platform, Location location) {
  const Platform* found = at_location(location, [&] { return find_platform(platform); });
  if (found != nullptr) return found->devices();
  throw ValueError("devices(\"" + platform + "\"): there is no such platform; there are " +
                       list_of_platforms() +
                       " (load_pjrt_plugin and TESSERA_PJRT_PLUGINS add those of plugins)",
                   location);
}

std::vector<Device> local_devices() {
  if (&default_platform() != find_platform(virtual_platform())) {
    std::vector<Device> out;
    for (const Device& d : devices()) {
      if (is_local(d)) out.push_back(d);
    }
    return out;
  }
  const Context& c = context();
  const auto begin = c.devices.begin() + std::ptrdiff_t(c.first);
  return {begin, begin + std::ptrdiff_t(c.own)};
}

std::int64_t device_count() { return std::int64_t(devices().size()); }

std::int64_t process_index() {
  const Processes* all = processes();
  return all == nullptr ? 0 : all->index();
}

std::int64_t process_count() {
  const Processes* all = processes();
  return all == nullptr ? 1 : all->count();
}

Processes* processes() { return context().processes.get(); }

bool is_local(const Device& device) { return device.process_index == process_index(); }

const Device& default_device() {
  const std::vector<Device>& all = devices();
  const Context& c = context();
  if (&all == &c.devices) return all[c.first];
  for (const Device& d : all) {
    if (is_local(d)) return d;
  }
  throw RuntimeError("platform '" + default_platform().name + "' has no device in process " +
                     std::to_string(process_index()));
}

void set_num_devices(std::int64_t n, Location location) {
  if (n < 1 || n > kMaxDevices) {
    throw ValueError("set_num_devices(" + std::to_string(n) +
                         "): the number of devices must be from 1 to " +
                         std::to_string(kMaxDevices),
                     location);
  }
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (t.context && std::int64_t(t.context->own) != n) {
    throw ValueError("set_num_devices(" + std::to_string(n) + ") comes too late: the " +
                         std::to_string(t.context->own) +
                         " devices are in use already; call it before anything that needs devices",
                     location);
  }
  t.requested = n;
}

void expect_plugins() { plugins_expected = true; }

void init_processes(Location location) {
  Table& t = table();
  {
    const std::lock_guard lock(t.mutex);
    if (!t.context) t.asked_for = true;
  }
  try {
    (void)context();
  } catch (const RuntimeError& e) {
    throw RuntimeError("init_processes: " + e.message(), location);
  }
}

SimulatedProcess::SimulatedProcess(std::shared_ptr<Transport> transport,
                                   std::int64_t devices_per_process,
                                   std::chrono::milliseconds timeout) {
  TESSERA_CHECK(simulated == nullptr, "a thread is one process");
  auto c = std::make_unique<Context>();
  if (transport->count() > 1) {
    c->processes = std::make_unique<Processes>(std::move(transport), timeout);
  }
  fill_devices(c.get(), devices_per_process);
  simulated = c.release();
}

SimulatedProcess::~SimulatedProcess() {
  if (simulated->processes) simulated->processes->close();
  delete simulated;
  simulated = nullptr;
}

ProcessOfThread::ProcessOfThread() : context_(simulated) {}
ProcessOfThread::Use::Use(const ProcessOfThread& process) : before_(simulated) {
  simulated = static_cast<Context*>(process.context_);
}
ProcessOfThread::Use::~Use() { simulated = static_cast<Context*>(before_); }

}  // namespace tessera
