// SPDX-License-Identifier: Apache-2.0
// A transport through queues in memory.
#include "tests/support/memory_transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "src/base/processes/processes.h"

namespace tessera::testing {
namespace {

struct Message {
  std::string bytes;  ///< none if it is lent
  std::uint32_t tag;
  std::size_t size;
  const std::byte* lent = nullptr;
  std::shared_ptr<bool> taken;
};
struct Note {
  int from;
  std::string text;
};

struct Network {
  explicit Network(int count) : queues(std::size_t(count * count)), notes(std::size_t(count)) {}
  std::mutex mutex;
  std::vector<std::deque<Message>> queues;  // from * count + to
  std::vector<std::deque<Note>> notes;
};

class MemoryTransfer final : public Transport::Transfer {
 public:
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::vector<bool> arrived;
  std::vector<std::shared_ptr<bool>> lent;
  std::vector<Message> borrowed;  ///< by number of the incoming message
  std::uint32_t tag = 0;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Network> network, int index, int count)
      : network_(std::move(network)), index_(index), count_(count) {}

  int index() const override { return index_; }
  int count() const override { return count_; }

  TransferPtr start(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                    std::uint32_t tag) override {
    std::unique_ptr<MemoryTransfer, EndTransfer> t(new MemoryTransfer);
    t->incoming.assign(incoming.begin(), incoming.end());
    t->arrived.resize(incoming.size());
    t->borrowed.resize(incoming.size());
    t->tag = tag;
    // As late as may be: until it is finished nobody may change what is sent.
    t->outgoing.assign(outgoing.begin(), outgoing.end());
    return t;
  }

  /// Between every other pair, so that some of an exchange's messages stay and others don't.
  bool can_read(int process, std::size_t bytes) const override {
    return bytes >= 16 && (process + index_) % 2 == 1;
  }

  bool arrived(Transfer* transfer, std::string* error) override {
    const std::lock_guard lock(network_->mutex);
    return go_on(static_cast<MemoryTransfer*>(transfer), error);
  }

  void read(Transfer* transfer, std::size_t incoming, std::size_t offset, std::byte* to,
            std::size_t bytes) override {
    const Message& m = static_cast<MemoryTransfer&>(*transfer).borrowed[incoming];
    std::memcpy(to, m.lent + offset, bytes);
  }

  bool finished(Transfer* transfer, std::string* error) override {
    auto& t = static_cast<MemoryTransfer&>(*transfer);
    const std::lock_guard lock(network_->mutex);
    if (!go_on(&t, error)) return false;
    for (const Message& m : t.borrowed) {
      if (m.lent != nullptr) *m.taken = true;
    }
    return std::all_of(t.lent.begin(), t.lent.end(), [](const auto& taken) { return *taken; });
  }

  int waits_for(const Transfer& transfer) const override {
    const auto& t = static_cast<const MemoryTransfer&>(transfer);
    for (std::size_t i = 0; i < t.incoming.size(); ++i) {
      if (!t.arrived[i] && t.incoming[i].bytes > 0) return t.incoming[i].from;
    }
    return -1;
  }

  void post(int to, const std::string& note) override {
    const std::lock_guard lock(network_->mutex);
    network_->notes[std::size_t(to)].push_back({index_, note});
  }
  bool take_note(int* from, std::string* note) override {
    const std::lock_guard lock(network_->mutex);
    auto& mine = network_->notes[std::size_t(index_)];
    if (mine.empty()) return false;
    *from = mine.front().from;
    *note = mine.front().text;
    mine.pop_front();
    return true;
  }
  void close(bool) override {}

 private:
  bool go_on(MemoryTransfer* transfer, std::string* error) {
    MemoryTransfer& t = *transfer;
    for (const Outgoing& m : t.outgoing) {
      if (m.bytes == 0) continue;
      Message message{{}, t.tag, m.bytes, nullptr, nullptr};
      if (can_read(m.to, m.bytes)) {
        message.lent = m.data;
        message.taken = std::make_shared<bool>(false);
        t.lent.push_back(message.taken);
      } else {
        message.bytes.assign(reinterpret_cast<const char*>(m.data), m.bytes);
      }
      network_->queues[std::size_t(index_ * count_ + m.to)].push_back(std::move(message));
    }
    t.outgoing.clear();
    bool all = true;
    for (std::size_t i = 0; i < t.incoming.size(); ++i) {
      const Incoming& m = t.incoming[i];
      if (t.arrived[i] || m.bytes == 0) continue;
      auto& queue = network_->queues[std::size_t(m.from * count_ + index_)];
      // In order: what an earlier one of this transfer waits for comes first.
      bool earlier = false;
      for (std::size_t k = 0; k < i; ++k) {
        earlier =
            earlier || (!t.arrived[k] && t.incoming[k].bytes > 0 && t.incoming[k].from == m.from);
      }
      if (earlier || queue.empty()) {
        all = false;
        continue;
      }
      Message& front = queue.front();
      if (front.tag != t.tag || front.size != m.bytes) {
        *error = "process " + std::to_string(m.from) + " exchanges something else: it sent " +
                 std::to_string(front.size) + " bytes, where " + std::to_string(m.bytes) +
                 " are expected";
        return false;
      }
      if (m.stays) {
        t.borrowed[i] = std::move(front);
      } else if (front.lent != nullptr) {
        std::memcpy(m.data, front.lent, m.bytes);
        *front.taken = true;
      } else {
        std::memcpy(m.data, front.bytes.data(), m.bytes);
      }
      queue.pop_front();
      t.arrived[i] = true;
    }
    return all;
  }

  std::shared_ptr<Network> network_;
  int index_, count_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> connect_in_memory(int count) {
  const auto network = std::make_shared<Network>(count);
  std::vector<std::shared_ptr<Transport>> out;
  for (int p = 0; p < count; ++p) {
    out.push_back(std::make_shared<MemoryTransport>(network, p, count));
  }
  return out;
}

std::vector<std::string> run_processes(int count, int devices,
                                       const std::function<void(int)>& program,
                                       std::chrono::milliseconds timeout) {
  const auto transports = connect_in_memory(count);
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      try {
        const SimulatedProcess process(transports[std::size_t(p)], devices, timeout);
        program(p);
      } catch (const std::exception& e) {
        errors[std::size_t(p)] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

}  // namespace tessera::testing
