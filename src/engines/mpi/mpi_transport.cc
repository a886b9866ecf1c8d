// SPDX-License-Identifier: Apache-2.0
// Messages between processes by MPI: point to point and non-blocking, on communicators of our own.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/transport.h"

namespace tessera {
namespace {

/// Counts of MPI are ints: longer messages go in pieces.
constexpr std::size_t kPiece = std::size_t(1) << 30;
constexpr int kNoteTag = 1;

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
};

/// What belongs to messages on their way. Used again and again: most are short, and finding memory
/// would take as long as they do.
struct Requests {
  std::uint32_t tag = 0;
  std::vector<MPI_Request> requests;
  std::vector<Piece> pieces;
  std::size_t left = 0;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  std::string error;
};
using Spares = std::vector<std::unique_ptr<Requests>>;

class MpiTransfer final : public Transport::Transfer {
 public:
  explicit MpiTransfer(Spares* spares) : spares_(spares) {
    if (spares->empty()) {
      mine = std::make_unique<Requests>();
    } else {
      mine = std::move(spares->back());
      spares->pop_back();
    }
  }
  ~MpiTransfer() override {
    // Only after a failure: the memory is about to be reused, so nothing may arrive in it any more.
    for (std::size_t i = 0; mine->left > 0 && i < mine->requests.size(); ++i) {
      if (mine->requests[i] == MPI_REQUEST_NULL) continue;
      if (mine->pieces[i].incoming) {
        MPI_Cancel(&mine->requests[i]);
        MPI_Wait(&mine->requests[i], MPI_STATUS_IGNORE);
      } else {
        MPI_Request_free(&mine->requests[i]);
      }
    }
    mine->requests.clear();
    mine->pieces.clear();
    mine->left = 0;
    mine->error.clear();
    spares_->push_back(std::move(mine));
  }

  std::unique_ptr<Requests> mine;

 private:
  Spares* spares_;
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
  explicit MpiTransport(bool finalizes) : finalizes_(finalizes) {
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
  }

  int index() const override { return index_; }
  int count() const override { return count_; }
  bool shares_cores() const override { return shares_cores_; }

  std::unique_ptr<Transfer> start(std::span<const Outgoing> outgoing,
                                  std::span<const Incoming> incoming, std::uint32_t tag) override {
    auto transfer = std::make_unique<MpiTransfer>(&spares_);
    Requests* const t = transfer->mine.get();
    t->tag = tag;
    // What arrives may have another tag than is expected: then that is said, instead of waiting.
    for (const Incoming& m : incoming) {
      in_pieces(m.bytes, [&](std::size_t at, int bytes) {
        add(t, {m.from, bytes, true}, [&](MPI_Request* r) {
          return MPI_Irecv(m.data + at, bytes, MPI_BYTE, m.from, MPI_ANY_TAG, data_, r);
        });
      });
    }
    for (const Outgoing& m : outgoing) {
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

  bool finished(Transfer* transfer, std::string* error) override {
    Requests& t = *static_cast<MpiTransfer&>(*transfer).mine;
    if (t.error.empty() && t.left > 0) {
      int done = 0;
      const int code = MPI_Testsome(int(t.requests.size()), t.requests.data(), &done,
                                    t.indices.data(), t.statuses.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        t.error = "MPI: " + text_of(code);
      } else if (done != MPI_UNDEFINED) {
        for (int k = 0; k < done; ++k) check(&t, k, code == MPI_ERR_IN_STATUS);
        t.left -= std::size_t(done);
      }
    }
    if (t.error.empty()) return t.left == 0;
    *error = t.error;
    return false;
  }

  int waits_for(const Transfer& transfer) const override {
    const Requests& t = *static_cast<const MpiTransfer&>(transfer).mine;
    int sends_to = -1;
    for (std::size_t i = 0; i < t.requests.size(); ++i) {
      if (t.requests[i] == MPI_REQUEST_NULL) continue;
      if (t.pieces[i].incoming) return t.pieces[i].peer;
      sends_to = t.pieces[i].peer;
    }
    return sends_to;
  }

  void post(int to, const std::string& note) override {
    clear_posted();
    posted_.push_back({note, MPI_REQUEST_NULL});
    Posted& p = posted_.back();
    MPI_Isend(p.text.data(), int(p.text.size()), MPI_BYTE, to, kNoteTag, notes_, &p.request);
  }

  bool take_note(int* from, std::string* note) override {
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
    int over = 0;
    MPI_Finalized(&over);
    if (over != 0) return;
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
    if (finalizes_) MPI_Finalize();
  }

 private:
  struct Posted {
    std::string text;
    MPI_Request request;
  };

  template <class F>
  static void in_pieces(std::size_t bytes, const F& f) {
    for (std::size_t at = 0; at < bytes; at += kPiece) f(at, int(std::min(kPiece, bytes - at)));
  }

  template <class F>
  static void add(Requests* t, const Piece& piece, const F& post) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = post(&request);
    if (code != MPI_SUCCESS && t->error.empty()) t->error = "MPI: " + text_of(code);
    t->requests.push_back(request);
    t->pieces.push_back(piece);
  }

  static void check(Requests* t, int k, bool with_errors) {
    const auto i = std::size_t(t->indices[std::size_t(k)]);
    const MPI_Status& status = t->statuses[std::size_t(k)];
    const Piece& piece = t->pieces[i];
    const std::string peer = "process " + std::to_string(piece.peer);
    if (with_errors && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
      t->error = piece.incoming && status.MPI_ERROR == MPI_ERR_TRUNCATE
                     ? peer + " sent more than is expected: it exchanges something else"
                     : "MPI, with " + peer + ": " + text_of(status.MPI_ERROR);
      return;
    }
    if (!piece.incoming) return;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (status.MPI_TAG != int(t->tag) || bytes != piece.bytes) {
      t->error = peer + " exchanges something else: it sent " + std::to_string(bytes) +
                 " bytes, where " + std::to_string(piece.bytes) + " are expected" +
                 (bytes == piece.bytes ? " of another exchange" : "");
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
  std::list<Posted> posted_;
  Spares spares_;
};

Transport* connect(std::string* error) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
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
  return new MpiTransport(initialized == 0);
}

}  // namespace
}  // namespace tessera

extern "C" __attribute__((visibility("default"))) tessera::Transport* tessera_mpi_transport(
    std::string* error) {
  return tessera::connect(error);
}
