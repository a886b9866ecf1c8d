// SPDX-License-Identifier: Apache-2.0
// Messages between processes by MPI: point to point and non-blocking, on communicators of our own;
// within a machine through memory that its processes share, or by reading from each other's.
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/processes/transport.h"
#include "src/engines/mpi/shared_rings.h"

extern "C" {
__attribute__((visibility("default"))) int tessera_users_of_mpi = 0;
}

namespace tessera {
namespace {

/// Counts of MPI are ints: longer messages go in pieces.
constexpr std::size_t kPiece = std::size_t(1) << 30;
constexpr int kNoteTag = 1;
/// So often, while there is nothing to receive, it is asked whether something else has come.
constexpr int kLooks = 4096;

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, std::size_t(length));
}

struct Piece {
  int peer = 0;
  int bytes = 0;
  bool incoming = false;
  std::uint64_t number = 0;  ///< of an incoming message
};

/// A message by a ring, which hasn't been sent or received yet.
struct Local {
  int peer = 0;
  SharedRings::Head head;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t at = 0;         ///< so much of it is there
  std::ptrdiff_t stays = -1;  ///< not -1: it does, and has this number
};
/// What stays in another process.
struct Borrowed {
  int peer = 0;
  const std::byte* at = nullptr;
};
/// The process that reads a message here hasn't said yet that it has.
struct Lent {
  int peer = 0;
  std::uint64_t count = 0;  ///< of what was sent to it, with this message
};

/// Used again and again: most are short, and finding memory would take as long as they do.
class MpiTransfer final : public Transport::Transfer {
 public:
  using Spares = std::vector<std::unique_ptr<MpiTransfer>>;
  MpiTransfer(Spares* spares, SharedRings* rings) : spares_(spares), rings_(rings) {}

  void end() override {
    // Only after a failure: the memory is about to be reused, so nothing may arrive in it any more.
    for (std::size_t i = 0; left > 0 && i < requests.size(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL) continue;
      if (pieces[i].incoming) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      } else {
        MPI_Request_free(&requests[i]);
      }
    }
    for (const Lent& l : lent) rings_->withdraw(l.peer);
    requests.clear();
    pieces.clear();
    left = 0;
    local_out.clear();
    local_in.clear();
    lent.clear();
    borrowed.clear();
    unreadable = -1;
    read_error = 0;
    tries = 0;
    error.clear();
    spares_->emplace_back(this);
  }

  std::uint32_t tag = 0;
  std::vector<MPI_Request> requests;
  std::vector<Piece> pieces;
  std::size_t left = 0;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  std::vector<Local> local_out, local_in;
  std::vector<Lent> lent;
  std::vector<Borrowed> borrowed;  ///< by number of the incoming message, if any stays
  /// A process of which something couldn't be read, and why; 0: it has ended.
  std::atomic<int> unreadable = -1, read_error = 0;
  int tries = 0;  ///< how often there was nothing to do
  std::string error;

 private:
  Spares* spares_;
  SharedRings* rings_;
};

/// Whether the processes of this machine may use fewer cores together than there are of them.
bool fewer_cores_than_processes() {
  MPI_Comm machine = MPI_COMM_NULL;
  int count = 1;
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, &count);
  MPI_Allreduce(&mine, &all, int(sizeof all), MPI_BYTE, MPI_BOR, machine);
  MPI_Comm_free(&machine);
  return CPU_COUNT(&all) < count;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(bool finalizes, bool single_copy) : finalizes_(finalizes) {
    // Tests of several requests are no communicator's own.
    if (finalizes_) {
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &notes_);
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(notes_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(data_, &index_);
    MPI_Comm_size(data_, &count_);
    shares_cores_ = fewer_cores_than_processes();
    rings_ = std::make_unique<SharedRings>(data_, single_copy);
    sent_.resize(std::size_t(count_));
    expected_.resize(std::size_t(count_));
  }

  int index() const override { return index_; }
  int count() const override { return count_; }
  bool shares_cores() const override { return shares_cores_; }

  TransferPtr start(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                    std::uint32_t tag) override {
    if (spares_.empty()) {
      spares_.push_back(std::make_unique<MpiTransfer>(&spares_, rings_.get()));
    }
    MpiTransfer* const t = spares_.back().release();
    spares_.pop_back();
    TransferPtr transfer(t);
    t->tag = tag;
    for (const Outgoing& m : outgoing) {
      if (m.bytes == 0) continue;
      const std::uint64_t number = ++sent_[std::size_t(m.to)];
      if (!rings_->takes(m.to, m.bytes)) continue;
      const Local message{m.to, {number, m.bytes, tag}, m.data, nullptr};
      // Behind what waits for room no other is sent.
      if (!t->local_out.empty() || !send_local(t, message)) t->local_out.push_back(message);
    }
    // What arrives may have another tag than is expected: then that is said, instead of waiting.
    for (const Incoming& m : incoming) {
      if (m.bytes == 0) continue;
      const std::uint64_t number = ++expected_[std::size_t(m.from)];
      if (rings_->takes(m.from, m.bytes)) {
        t->local_in.push_back({m.from, {number, m.bytes, tag}, nullptr, m.data});
        if (m.stays) {
          t->borrowed.resize(incoming.size());
          t->local_in.back().stays = &m - incoming.data();
        }
        continue;
      }
      in_pieces(m.bytes, [&](std::size_t at, int bytes) {
        add(t, {m.from, bytes, true, number}, [&](MPI_Request* r) {
          return MPI_Irecv(m.data + at, bytes, MPI_BYTE, m.from, MPI_ANY_TAG, data_, r);
        });
      });
    }
    // Long messages are sent when it is known where those from the others go.
    for (const Outgoing& m : outgoing) {
      if (m.bytes == 0 || rings_->takes(m.to, m.bytes)) continue;
      in_pieces(m.bytes, [&](std::size_t at, int bytes) {
        add(t, {m.to, bytes, false}, [&](MPI_Request* r) {
          return MPI_Isend(m.data + at, bytes, MPI_BYTE, m.to, int(tag), data_, r);
        });
      });
    }
    t->left = t->requests.size();
    t->indices.resize(t->left);
    t->statuses.resize(t->left);
    return transfer;
  }

  bool can_read(int process, std::size_t bytes) const override {
    return rings_->takes(process, bytes) && rings_->lends(bytes);
  }

  bool arrived(Transfer* transfer, std::string* error) override {
    auto& t = static_cast<MpiTransfer&>(*transfer);
    const bool all = go_on(&t);
    *error = t.error;
    return all;
  }

  void read(Transfer* transfer, std::size_t incoming, std::size_t offset, std::byte* to,
            std::size_t bytes) override {
    auto& t = static_cast<MpiTransfer&>(*transfer);
    const Borrowed& from = t.borrowed[incoming];
    for (std::size_t at = 0; at < bytes && t.unreadable.load(std::memory_order_relaxed) < 0;) {
      const ssize_t got = rings_->read(from.peer, from.at + offset + at, to + at, bytes - at);
      if (got < 0) t.read_error = errno;
      if (got <= 0) t.unreadable = from.peer;
      at += std::size_t(std::max<ssize_t>(got, 0));
    }
  }

  bool finished(Transfer* transfer, std::string* error) override {
    auto& t = static_cast<MpiTransfer&>(*transfer);
    const bool all = go_on(&t) && give_back(&t);
    if (!t.lent.empty()) {
      std::erase_if(t.lent, [&](const Lent& l) { return rings_->taken(l.peer, l.count); });
    }
    *error = t.error;
    return all && t.lent.empty();
  }

  bool has_died(int process) const override { return rings_->has_died(process); }

  int waits_for(const Transfer& transfer) const override {
    const auto& t = static_cast<const MpiTransfer&>(transfer);
    if (t.unreadable >= 0) return t.unreadable;
    if (!t.local_in.empty()) return t.local_in[0].peer;
    int sends_to = -1;
    if (!t.lent.empty()) sends_to = t.lent[0].peer;
    if (!t.local_out.empty()) sends_to = t.local_out[0].peer;
    for (std::size_t i = 0; i < t.requests.size(); ++i) {
      if (t.requests[i] == MPI_REQUEST_NULL) continue;
      if (t.pieces[i].incoming) return t.pieces[i].peer;
      sends_to = t.pieces[i].peer;
    }
    return sends_to;
  }

  void post(int to, const std::string& note) override {
    if (is_over()) return;
    clear_posted();
    posted_.push_back({note, MPI_REQUEST_NULL});
    Posted& p = posted_.back();
    MPI_Isend(p.text.data(), int(p.text.size()), MPI_BYTE, to, kNoteTag, notes_, &p.request);
  }

  bool take_note(int* from, std::string* note) override {
    if (is_over()) return false;
    clear_posted();
    int there = 0, bytes = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, notes_, &there, &status) != MPI_SUCCESS) return false;
    if (there == 0) return false;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    note->resize(std::size_t(bytes));
    *from = status.MPI_SOURCE;
    return MPI_Recv(note->data(), bytes, MPI_BYTE, *from, kNoteTag, notes_, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS;
  }

  void close(bool orderly) override {
    if (is_over()) return;
    if (!orderly) {
      // Others learn of it by notes, and end by themselves; what they haven't received or sent
      // would make them wait for ever in MPI_Finalize.
      const double begin = MPI_Wtime();
      while (!posted_.empty() && MPI_Wtime() - begin < 2) clear_posted();
      for (const double since = MPI_Wtime(); MPI_Wtime() - since < 2;) {
        int from = 0;
        std::string note;
        take_note(&from, &note);
      }
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!finalizes_) return;
    take_last_notes();
    rings_->close();
    MPI_Finalize();
  }

 private:
  struct Posted {
    std::string text;
    MPI_Request request;
  };

  /// Whether somebody else has ended MPI, as mpi4py does when Python ends.
  static bool is_over() {
    int over = 0;
    MPI_Finalized(&over);
    return over != 0;
  }

  /// All end: what they tell each other of it is taken, or some MPIs complain of messages that
  /// nobody received.
  void take_last_notes() {
    MPI_Request all_are_here = MPI_REQUEST_NULL;
    int done = MPI_Ibarrier(notes_, &all_are_here) != MPI_SUCCESS;
    int from = 0;
    std::string note;
    while (done == 0 || take_note(&from, &note) || !posted_.empty()) {
      clear_posted();
      take_note(&from, &note);
      if (done == 0 && MPI_Test(&all_are_here, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
      if (shares_cores_) sched_yield();
    }
  }

  template <class F>
  static void in_pieces(std::size_t bytes, const F& f) {
    for (std::size_t at = 0; at < bytes; at += kPiece) f(at, int(std::min(kPiece, bytes - at)));
  }

  template <class F>
  static void add(MpiTransfer* t, const Piece& piece, const F& post) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = post(&request);
    if (code != MPI_SUCCESS && t->error.empty()) t->error = "MPI: " + text_of(code);
    t->requests.push_back(request);
    t->pieces.push_back(piece);
  }

  /// Sends and receives what it can; true if all of that is done.
  bool go_on(MpiTransfer* t) {
    if (t->error.empty() && !t->local_out.empty()) send_waiting(t);
    if (t->error.empty() && !t->local_in.empty()) receive_local(t);
    if (t->error.empty() && t->left > 0) {
      int done = 0;
      const int code = MPI_Testsome(int(t->requests.size()), t->requests.data(), &done,
                                    t->indices.data(), t->statuses.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        t->error = "MPI: " + text_of(code);
      } else if (done != MPI_UNDEFINED) {
        for (int k = 0; k < done; ++k) check(t, k, code == MPI_ERR_IN_STATUS);
        t->left -= std::size_t(done);
      }
    }
    if (!t->error.empty()) return false;
    if (t->left + t->local_in.size() + t->local_out.size() == 0) return true;
    if (++t->tries % kLooks == 0) look_for_others(t);
    return false;
  }

  /// What was read in others. If one of them has ended or failed, that will be heard of.
  bool give_back(MpiTransfer* t) {
    if (t->unreadable >= 0) {
      if (t->read_error != 0 && !rings_->withdrawn(t->unreadable)) {
        t->error = cannot_read(t->unreadable, t->read_error);
      }
      return false;
    }
    for (Borrowed& b : t->borrowed) {
      if (b.at == nullptr) continue;
      if (!rings_->give_back(b.peer)) {
        t->unreadable = b.peer;
        return false;
      }
      b.at = nullptr;
    }
    return true;
  }

  bool send_local(MpiTransfer* t, const Local& m) {
    if (!rings_->send(m.peer, m.head, m.from)) return false;
    if (rings_->lends(m.head.bytes)) t->lent.push_back({m.peer, rings_->sent(m.peer)});
    return true;
  }

  void send_waiting(MpiTransfer* t) {
    std::size_t sent = 0;
    while (sent < t->local_out.size() && send_local(t, t->local_out[sent])) ++sent;
    t->local_out.erase(t->local_out.begin(), t->local_out.begin() + std::ptrdiff_t(sent));
  }

  void receive_local(MpiTransfer* t) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < t->local_in.size(); ++i) {
      Local& m = t->local_in[i];
      const SharedRings::Head* head = rings_->first(m.peer);
      // One with a lower number is waited for before this one in the list, and has come just now.
      if (head == nullptr || head->number < m.head.number) {
        t->local_in[kept++] = m;
        continue;
      }
      if (head->number != m.head.number || head->tag != m.head.tag || head->bytes != m.head.bytes) {
        t->error = something_else(m.peer, head->bytes, m.head.bytes);
        return;
      }
      if (m.stays >= 0) {
        t->borrowed[std::size_t(m.stays)] = {m.peer, rings_->borrow(m.peer)};
        continue;
      }
      const SharedRings::Got got = rings_->receive(m.peer, m.to, &m.at);
      if (got == SharedRings::Got::all) continue;
      if (got == SharedRings::Got::failed) {
        t->error = cannot_read(m.peer, errno);
        return;
      }
      t->local_in[kept++] = m;
    }
    t->local_in.resize(kept);
  }

  /// Whether what is waited for went the other way, as it is another one than is expected.
  void look_for_others(MpiTransfer* t) {
    for (std::size_t i = 0; i < t->requests.size(); ++i) {
      const Piece& piece = t->pieces[i];
      if (t->requests[i] == MPI_REQUEST_NULL || !piece.incoming) continue;
      const SharedRings::Head* head = rings_->first(piece.peer);
      if (head != nullptr && head->number == piece.number) {
        t->error = something_else(piece.peer, head->bytes, std::size_t(piece.bytes));
      }
    }
    for (const Local& m : t->local_in) {
      int there = 0, bytes = 0;
      MPI_Status status;
      const int code = MPI_Iprobe(m.peer, MPI_ANY_TAG, data_, &there, &status);
      // What is sent later comes later, whichever way it goes.
      if (code != MPI_SUCCESS || there == 0 || rings_->first(m.peer) != nullptr) continue;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      t->error = something_else(m.peer, std::size_t(bytes), m.head.bytes);
    }
  }

  static std::string cannot_read(int peer, int error) {
    return "what process " + std::to_string(peer) +
           " sends can't be read from its memory: " + std::strerror(error) +
           " (TESSERA_SINGLE_COPY=0 does without)";
  }

  static std::string something_else(int peer, std::size_t sent, std::size_t expected) {
    return "process " + std::to_string(peer) + " exchanges something else: it sent " +
           std::to_string(sent) + " bytes, where " + std::to_string(expected) + " are expected" +
           (sent == expected ? " of another exchange" : "");
  }

  static void check(MpiTransfer* t, int k, bool with_errors) {
    const auto i = std::size_t(t->indices[std::size_t(k)]);
    const MPI_Status& status = t->statuses[std::size_t(k)];
    const Piece& piece = t->pieces[i];
    const auto peer = [&] { return "process " + std::to_string(piece.peer); };
    if (with_errors && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
      t->error = piece.incoming && status.MPI_ERROR == MPI_ERR_TRUNCATE
                     ? peer() + " sent more than is expected: it exchanges something else"
                     : "MPI, with " + peer() + ": " + text_of(status.MPI_ERROR);
      return;
    }
    if (!piece.incoming) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (status.MPI_TAG != int(t->tag) || bytes != piece.bytes) {
      t->error = something_else(piece.peer, std::size_t(bytes), std::size_t(piece.bytes));
    }
  }

  void clear_posted() {
    posted_.remove_if([](Posted& p) {
      int done = 0;
      return MPI_Test(&p.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    });
  }

  bool finalizes_, shares_cores_ = true;
  int index_ = 0, count_ = 1;
  MPI_Comm data_ = MPI_COMM_NULL, notes_ = MPI_COMM_NULL;
  std::unique_ptr<SharedRings> rings_;
  std::vector<std::uint64_t> sent_, expected_;  ///< messages to and from each process
  std::list<Posted> posted_;
  MpiTransfer::Spares spares_;
};

bool of_several_threads = false;

/// Of its threads. A plugin that programs run on may use MPI as well.
int wanted_level() {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string platform = text("TESSERA_PLATFORM");
  const bool plugin = of_several_threads || (!platform.empty() && platform != "cpu") ||
                      !text("TESSERA_PJRT_PLUGINS").empty();
  return plugin ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
}

std::string name_of_level(int level) {
  return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
         : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                          : "MPI_THREAD_MULTIPLE";
}

/// How many copies of the library use MPI in this process, of which a plugin may be one: each takes
/// turns with its own threads only. Modules are loaded with global symbols, so all find the first.
int* users_of_mpi() {
  void* first = dlsym(RTLD_DEFAULT, "tessera_users_of_mpi");
  return first != nullptr ? static_cast<int*>(first) : &tessera_users_of_mpi;
}

Transport* connect(bool single_copy, std::string* error) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, wanted_level(), &level);
    if (code != MPI_SUCCESS) {
      *error = "MPI_Init_thread: " + text_of(code);
      return nullptr;
    }
  } else {
    MPI_Query_thread(&level);
  }
  if (level < MPI_THREAD_SERIALIZED) {
    *error =
        "MPI was initialised without the support of threads that is needed, "
        "MPI_THREAD_SERIALIZED";
    return nullptr;
  }
  int* const users = users_of_mpi();
  if (*users > 0 && level < MPI_THREAD_MULTIPLE) {
    *error = "a plugin that uses MPI beside the program needs MPI_THREAD_MULTIPLE, and MPI has " +
             name_of_level(level) +
             "; valid: load_pjrt_plugin before anything that asks for devices or processes, "
             "TESSERA_PJRT_PLUGINS or TESSERA_PLATFORM in the environment, which name the plugin, "
             "or, where the program initialises MPI, MPI_Init_thread with MPI_THREAD_MULTIPLE";
    return nullptr;
  }
  ++*users;
  return new MpiTransport(initialized == 0, single_copy);
}

}  // namespace
}  // namespace tessera

extern "C" __attribute__((visibility("default"))) tessera::Transport* tessera_mpi_transport(
    bool single_copy, std::string* error) {
  return tessera::connect(single_copy, error);
}

extern "C" __attribute__((visibility("default"))) void tessera_mpi_of_several_threads() {
  tessera::of_several_threads = true;
}
