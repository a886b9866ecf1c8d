// SPDX-License-Identifier: Apache-2.0
// Sealed memory, and the thread that fills it.
#include "tests/frontend/opaque_engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "src/base/check.h"

namespace tessera::testing {
namespace {

using compiler::DeviceArrays;
using Bytes = std::vector<std::byte>;

constexpr std::byte kSeal{0x5a};

/// Bytes as no host would read them, there when the event says so.
class SealedMemory final : public DeviceMemory {
 public:
  explicit SealedMemory(std::size_t bytes)
      : DeviceMemory(bytes), event_(std::make_shared<Event>()) {}
  std::shared_ptr<Event> ready() const override { return event_; }

  /// Once.
  void fill(Bytes plain) {
    TESSERA_CHECK(plain.size() == bytes(), "as many bytes as were promised");
    sealed_ = std::move(plain);
    for (std::byte& b : sealed_) b ^= kSeal;
    event_->complete();
  }
  void fail(std::exception_ptr error) { event_->fail(std::move(error)); }
  /// Waits.
  Bytes plain() const {
    event_->wait();
    Bytes out = sealed_;
    for (std::byte& b : out) b ^= kSeal;
    return out;
  }

 private:
  std::shared_ptr<Event> event_;
  Bytes sealed_;
};
using MemoryRef = std::shared_ptr<SealedMemory>;

const SealedMemory& memory_of(const DeviceBuffer& buffer) {
  TESSERA_CHECK(bool(buffer), "an empty buffer");
  return dynamic_cast<const SealedMemory&>(*buffer.memory);
}

/// Does work when what it needs is there: at once, or by a thread of its own.
class Worker {
 public:
  Worker(bool late, unsigned seed) : random_(seed) {
    if (late) thread_ = std::thread([this] { loop(); });
  }
  ~Worker() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return apart_ == 0; });
  }

  /// `apart`: by a thread of its own, since it may wait for what others make, as callbacks do.
  void add(std::vector<DeviceBuffer> needs, std::function<void()> work, bool apart = false) {
    if (!thread_.joinable()) return work();
    for (const DeviceBuffer& b : needs) {
      if (b.is_ready()) continue;
      // Whatever becomes ready may let some work begin.
      memory_of(b).ready()->when_complete([this](const std::exception_ptr&) {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      });
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(needs), std::move(work), apart});
    changed_.notify_all();
  }

  void hold(bool on) {
    const std::lock_guard lock(mutex_);
    held_ = on;
    changed_.notify_all();
  }

 private:
  struct Item {
    std::vector<DeviceBuffer> needs;
    std::function<void()> work;
    bool apart = false;
    bool can_begin() const {
      return std::all_of(needs.begin(), needs.end(),
                         [](const DeviceBuffer& b) { return b.is_ready(); });
    }
  };

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::vector<std::size_t> ready;
      for (std::size_t k = 0; k < waiting_.size() && !held_; ++k) {
        if (waiting_[k].can_begin()) ready.push_back(k);
      }
      if (ready.empty()) {
        if (stopped_) return;
        changed_.wait(lock);
        continue;
      }
      const std::size_t chosen = ready[random_() % ready.size()];
      const auto pause = std::chrono::microseconds(random_() % 3 == 0 ? random_() % 200 : 0);
      Item item = std::move(waiting_[chosen]);
      waiting_.erase(waiting_.begin() + std::ptrdiff_t(chosen));
      if (item.apart) ++apart_;
      lock.unlock();
      std::this_thread::sleep_for(pause);
      if (item.apart) {
        std::thread([this, item = std::move(item)]() mutable {
          item.work();
          item = {};
          const std::lock_guard done(mutex_);
          --apart_;
          changed_.notify_all();
        }).detach();
      } else {
        item.work();
        item = {};  // handles are dropped without the lock
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> waiting_;
  std::mt19937 random_;
  bool held_ = false, stopped_ = false;
  int apart_ = 0;  ///< threads
  std::thread thread_;
};

/// Memory that `work` will fill.
MemoryRef promise(Worker* worker, std::vector<DeviceBuffer> needs, std::size_t bytes,
                  std::function<Bytes()> work) {
  auto memory = std::make_shared<SealedMemory>(bytes);
  worker->add(std::move(needs), [memory, work = std::move(work)] {
    try {
      memory->fill(work());
    } catch (...) {
      memory->fail(std::current_exception());
    }
  });
  return memory;
}

/// Runs where the host's engine does, on copies.
class OpaqueExecutable final : public compiler::Executable {
 public:
  OpaqueExecutable(std::shared_ptr<const Executable> inner, std::shared_ptr<Worker> worker)
      : Executable(inner->program()), inner_(std::move(inner)), worker_(std::move(worker)) {}

  MemoryAnalysis memory_analysis() const override { return inner_->memory_analysis(); }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> last_run_collectives()
      const override {
    return inner_->last_run_collectives();
  }
  std::vector<std::string> evaluator_ops() const override { return inner_->evaluator_ops(); }

  DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const override {
    DeviceArrays promised(result_shapes().size());
    std::vector<DeviceBuffer> needs;
    for (const auto& argument : args) needs.insert(needs.end(), argument.begin(), argument.end());
    for (std::size_t r = 0; r < promised.size(); ++r) {
      const Shape& global = result_shapes()[r];
      const Shape part(global.dtype, result_shardings()[r].shard_dims(global.dims));
      for (std::int64_t d = 0; d < num_devices(); ++d) {
        promised[r].push_back({std::make_shared<SealedMemory>(std::size_t(part.byte_count()))});
      }
    }
    worker_->add(
        std::move(needs),
        [inner = inner_, promised, args = std::move(args), donated] {
          std::vector<SealedMemory*> all;
          for (const auto& result : promised) {
            for (const DeviceBuffer& b : result)
              all.push_back(static_cast<SealedMemory*>(b.memory.get()));
          }
          try {
            std::vector<Bytes> made = results_of(*inner, args, donated);
            for (std::size_t k = 0; k < all.size(); ++k) all[k]->fill(std::move(made[k]));
          } catch (...) {
            for (SealedMemory* m : all) m->fail(std::current_exception());
          }
        },
        /*apart=*/true);
    return promised;
  }

 private:
  static std::vector<Bytes> results_of(const Executable& inner, DeviceArrays args,
                                       const std::vector<bool>& donated) {
    const compiler::Engine& host = *compiler::find_engine("cpu");
    const Device device = host.devices()[0];
    for (auto& argument : args) {
      for (DeviceBuffer& b : argument) {
        const Bytes bytes = memory_of(b).plain();
        const Box box = Box::entire({std::int64_t(bytes.size())});
        b = host.copy_in(bytes.data(), {DType::u8, box}, box, {&device, 1}, MemoryKind::device)[0];
      }
    }
    std::vector<Bytes> out;
    for (const auto& result : inner.run(std::move(args), donated)) {
      for (const DeviceBuffer& b : result) {
        Bytes& bytes = out.emplace_back(b.bytes());
        const Box box = Box::entire({std::int64_t(bytes.size())});
        host.copy_out(b, box, bytes.data(), {DType::u8, box});
      }
    }
    return out;
  }

  std::shared_ptr<const Executable> inner_;
  std::shared_ptr<Worker> worker_;
};

class OpaqueEngine final : public compiler::Engine {
 public:
  explicit OpaqueEngine(const OpaqueOptions& options)
      : platform_(options.platform), worker_(std::make_shared<Worker>(options.late, options.seed)) {
    for (std::int64_t id = 0; id < options.devices; ++id) {
      devices_.push_back(Device{id, 0, options.platform});
    }
  }
  const std::shared_ptr<Worker>& worker() const { return worker_; }

  std::string platform() const override { return platform_; }
  const std::vector<Device>& devices() const override { return devices_; }
  std::shared_ptr<const compiler::Executable> compile(
      std::unique_ptr<ir::Module> module, const compiler::Options& options) const override {
    return std::make_shared<OpaqueExecutable>(
        compiler::find_engine("cpu")->compile(std::move(module), options), worker_);
  }
  std::vector<DeviceBuffer> copy_in(const std::byte* host, const HostLayout& held, const Box& part,
                                    std::span<const Device> devices, MemoryKind) const override {
    Bytes bytes(std::size_t(part.element_count()) * byte_size(held.dtype));
    copy_from_host(host, held, bytes.data(), part);
    std::vector<DeviceBuffer> out;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      out.push_back({promise(worker_.get(), {}, bytes.size(), [bytes] { return bytes; })});
    }
    return out;
  }
  void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host,
                const HostLayout& requested) const override {
    copy_to_host(memory_of(buffer).plain().data(), part, host, requested);
  }
  std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, DType dtype, const Box& part,
                                     std::span<const Device> devices, MemoryKind) const override {
    const std::size_t element = byte_size(dtype);
    const std::size_t size = std::size_t(part.element_count()) * element;
    const std::vector<Piece> from(pieces.begin(), pieces.end());
    std::vector<DeviceBuffer> needs;
    for (const Piece& p : from) needs.push_back(p.buffer);
    std::vector<DeviceBuffer> out;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      out.push_back({promise(worker_.get(), needs, size, [=] {
        Bytes bytes(size);
        for (const Piece& p : from) {
          copy_common(memory_of(p.buffer).plain().data(), p.box, bytes.data(), part, element);
        }
        return bytes;
      })});
    }
    return out;
  }
  DeviceBuffer on_device(const DeviceBuffer& buffer, const Device&) const override {
    return {promise(worker_.get(), {buffer}, buffer.bytes(),
                    [buffer] { return memory_of(buffer).plain(); })};
  }
  std::vector<DeviceBuffer> copy(std::span<const DeviceBuffer> buffers, MemoryKind) const override {
    std::vector<DeviceBuffer> out;
    for (const DeviceBuffer& b : buffers) out.push_back(on_device(b, {}));
    return out;
  }

 private:
  std::string platform_;
  std::shared_ptr<Worker> worker_;
  std::vector<Device> devices_;
};

const OpaqueEngine& registered(const OpaqueOptions& options) {
  auto engine = std::make_shared<OpaqueEngine>(options);
  compiler::register_engine(engine);
  return *engine;
}
const OpaqueEngine& sealed() {
  static const OpaqueEngine& engine = registered({"sealed"});
  return engine;
}
const OpaqueEngine& late() {
  static const OpaqueEngine& engine = registered({"late", 8, true});
  return engine;
}

/// Where TESSERA_PLATFORM names it, all tests are on its devices; before values of tests are made,
/// which may ask for devices.
__attribute__((constructor(200))) void register_default() {
  const char* platform = std::getenv("TESSERA_PLATFORM");
  if (platform != nullptr && std::string(platform) == "late") (void)late();
}

}  // namespace

std::shared_ptr<const compiler::Engine> opaque_engine(const OpaqueOptions& options) {
  return std::make_shared<OpaqueEngine>(options);
}
const std::vector<Device>& sealed_devices() { return sealed().devices(); }
const std::vector<Device>& late_devices() { return late().devices(); }
HoldLateWork::HoldLateWork() { late().worker()->hold(true); }
HoldLateWork::~HoldLateWork() { late().worker()->hold(false); }

}  // namespace tessera::testing
