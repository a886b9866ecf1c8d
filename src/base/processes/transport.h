// SPDX-License-Identifier: Apache-2.0
// Messages between the processes that run a program. Each kind of connection is an implementation;
// they may be in modules that are loaded on demand, so nothing here throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

struct Outgoing {
  int to = 0;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};
struct Incoming {
  int from = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  /// It isn't moved, and `data` not used: parts of it are read where it is (Transport::can_read).
  bool stays = false;
};

/// One process's connections with the others. One thread at a time may use it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int index() const = 0;
  virtual int count() const = 0;
  /// Whether there are fewer cores than processes: then whoever waits must let others run.
  virtual bool shares_cores() const { return true; }

  /// Messages on their way.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Called once, at its end, which may be before it is finished.
    virtual void end() { delete this; }
  };
  struct EndTransfer {
    void operator()(Transfer* transfer) const { transfer->end(); }
  };
  using TransferPtr = std::unique_ptr<Transfer, EndTransfer>;
  /// Starts to send and receive; the memory must stay until the transfer is finished. Messages from
  /// one process to another are received in the order in which they are sent. Both sides must give
  /// a message the same tag, of 15 bits, and size.
  virtual TransferPtr start(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                            std::uint32_t tag) = 0;
  /// Goes on with it, without waiting. True if all is received, and what is sent may be changed.
  /// Otherwise `error` may be set: a message was another one than is expected, or could not be
  /// moved.
  virtual bool finished(Transfer* transfer, std::string* error) = 0;

  /// Whether messages of so many bytes from that process may stay there.
  virtual bool can_read(int /*process*/, std::size_t /*bytes*/) const { return false; }
  /// As `finished`, but true as soon as all is received, or can be read. What is sent must not be
  /// changed yet. The transfer is to be finished all the same, which ends the reading.
  virtual bool arrived(Transfer* transfer, std::string* error) { return finished(transfer, error); }
  /// Reads a part of an incoming message that stays, by its number among those of the transfer. Any
  /// thread may. What can't be read is noticed when the transfer is to be finished.
  virtual void read(Transfer* /*transfer*/, std::size_t /*incoming*/, std::size_t /*offset*/,
                    std::byte* /*to*/, std::size_t /*bytes*/) {}
  /// A process from which something is still expected, or that hasn't taken what was sent; -1 if
  /// there is none.
  virtual int waits_for(const Transfer& transfer) const = 0;

  /// Whether it is known that a process isn't there any more, though it may not have said so.
  virtual bool has_died(int /*process*/) const { return false; }

  /// Short texts apart from the transfers: in no order with them, and received when asked for.
  virtual void post(int to, const std::string& note) = 0;
  virtual bool take_note(int* from, std::string* note) = 0;

  /// Ends the connections: with all others, or, if this process fails, without waiting for them.
  virtual void close(bool orderly) = 0;
};

/// The only symbol of a module with a transport: a transport that is never deleted, or null and why
/// there is none. With `single_copy`, processes of one machine may read each other's memory.
extern "C" using TransportFactory = Transport * (bool single_copy, std::string* error);
inline constexpr const char* kMpiTransportFactory = "tessera_mpi_transport";

}  // namespace tessera
