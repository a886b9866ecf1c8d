// SPDX-License-Identifier: Apache-2.0
// What processes exchange and wait for, and how they fail together.
#include "src/base/processes/processes.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <numeric>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/processes/mailbox.h"
#include "src/base/termination_message.h"
#include "src/base/threads/core_quota.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

// Notes: a letter, then a text.
constexpr char kAsk = '?', kState = 's', kEnded = 'e', kFailed = 'f', kGaveUp = 'g';

/// How long others are given to say where they are.
constexpr auto kAnswers = 1500ms;
/// So long a process that waits takes what nobody else wants of a core.
constexpr auto kAwake = 1s;
/// What a process that has ended, or failed, sent before may still arrive.
constexpr auto kLate = 500ms;
/// Notes take another way than messages: one may still come that says why a message is wrong.
constexpr auto kNews = 50ms;

std::string seconds(std::chrono::steady_clock::duration d) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(d).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string process(int p) { return "process " + std::to_string(p); }

}  // namespace

std::string Activity::to_string() const {
  std::string out(what);
  if (!program.empty()) out += " of '" + std::string(program) + "'";
  if (location.known()) out += " (" + location.to_string() + ")";
  return out;
}

Processes::Processes(std::shared_ptr<Transport> transport, std::chrono::milliseconds timeout)
    : transport_(std::move(transport)),
      index_(transport_->index()),
      count_(transport_->count()),
      id_(next_id()),
      timeout_(timeout),
      yields_(transport_->shares_cores() || (core_quota() > 0 && core_quota() < count_)),
      turns_with_(std::size_t(count_), 0),
      mail_(std::make_unique<Mail>()) {
  std::vector<int> all(static_cast<std::size_t>(count_));
  std::iota(all.begin(), all.end(), 0);
  everybody_ = group(all);
}

Processes::~Processes() = default;

bool Processes::Group::contains(int process) const {
  return std::binary_search(members_.begin(), members_.end(), process);
}

bool Processes::Group::agreed_on(std::uint64_t what) const {
  const std::lock_guard lock(mutex_);
  return agreed_.count(what) > 0;
}

void Processes::Group::agree_on(std::uint64_t what) {
  const std::lock_guard lock(mutex_);
  agreed_.insert(what);
}

Processes::Group* Processes::group(const std::vector<int>& members) {
  const std::lock_guard lock(groups_mutex_);
  std::unique_ptr<Group>& found = groups_[members];
  if (!found) {
    found = std::make_unique<Group>();
    found->members_ = members;
    for (const int p : members) found->mark_ = found->mark_ * 31 + std::uint32_t(p) + 1;
  }
  return found.get();
}

Processes::Turn::Turn(Processes* processes, const Activity& activity, Group* group)
    : processes_(processes), uncaught_(std::uncaught_exceptions()), activity_(activity) {
  Processes& p = *processes_;
  // Only a thread that has set it itself finds its own number there.
  const std::thread::id me = std::this_thread::get_id();
  if (p.owner_.load(std::memory_order_relaxed) != me) {
    p.mutex_.lock();
    p.owner_.store(me, std::memory_order_relaxed);
  }
  if (p.depth_++ > 0) return;
  p.group_ = group != nullptr ? group : p.everybody_;
  ++p.group_->turns_;
  for (const int member : p.group_->members_) ++p.turns_with_[std::size_t(member)];
  if (p.failed_.empty()) return;
  const std::string text =
      activity.to_string() +
      " can't begin: this program's processes have failed before: " + p.failed_;
  p.tell_failure(process(p.index_) + " had failed before", false);
  p.depth_ = 0;
  p.owner_.store(std::thread::id(), std::memory_order_relaxed);
  p.mutex_.unlock();
  throw RuntimeError(text, activity.location);
}

Processes::Turn::~Turn() {
  Processes& p = *processes_;
  if (--p.depth_ > 0) return;
  if (std::uncaught_exceptions() > uncaught_ && p.failed_.empty()) {
    // Where all fail alike they go on together; whoever waits for this one fails by this note.
    p.tell_failure(process(p.index_) + " has failed in " + activity_.to_string() +
                       (error_.empty() ? "; its own error says why" : ": " + error_),
                   true);
  }
  // Between turns that follow each other closely no other thread may get one.
  if (p.mail_->open > 0 || p.mail_->unsent) p.take_notes();
  p.owner_.store(std::thread::id(), std::memory_order_relaxed);
  p.mutex_.unlock();
}

Processes::Ticket Processes::start(std::span<const Outgoing> outgoing,
                                   std::span<const Incoming> incoming, std::uint32_t tag) {
  TESSERA_CHECK(depth_ > 0, "processes exchange in turns");
  Ticket ticket;
  // What an earlier turn left behind isn't taken for this one's.
  const std::uint32_t turn = std::uint32_t(group_->turns_) * 977U + group_->mark_;
  ticket.transfer_ = transport_->start(outgoing, incoming, (tag + turn) & 0x7fffU);
  return ticket;
}

void Processes::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                         std::uint32_t tag, const Activity& activity) {
  Ticket ticket = start(outgoing, incoming, tag);
  finish(&ticket, activity);
}

void Processes::finish(Ticket* ticket, const Activity& activity) {
  wait_until(&Transport::finished, ticket, activity);
  ticket->transfer_.reset();
}

void Processes::arrive(Ticket* ticket, const Activity& activity) {
  wait_until(&Transport::arrived, ticket, activity);
}

void Processes::wait_until(Progress done, Ticket* ticket, const Activity& activity) {
  waiting_ = &activity;
  const TerminationMessage::Waits waits;
  std::string error;
  Clock::time_point looked_at;
  // To ask for the time takes as long as to ask for messages.
  const int often = yields_ ? 4 : 16;
  for (int tries = 0; !(*transport_.*done)(ticket->transfer_.get(), &error); ++tries) {
    if (tries % often != often - 1 && error.empty()) continue;
    if (TerminationMessage::wanted()) end_here(*ticket, activity);
    const auto now = Clock::now();
    if (looked_at == Clock::time_point()) since_ = looked_at = now;
    if (!error.empty()) fail(reason_of(error), activity);
    // Long messages move in pieces, and only while both ends look: sleeping would slow them down.
    if (now - since_ >= kAwake) {
      std::this_thread::sleep_for(500us);
    } else if (yields_) {
      std::this_thread::yield();
    }
    if (now - looked_at < 5ms) continue;
    looked_at = now;
    waits_for_ = transport_->waits_for(*ticket->transfer_);
    take_notes();
    const auto gone = [&](const std::map<int, std::string>& why) {
      const auto found = why.find(waits_for_);
      return found == why.end() ? nullptr : &found->second;
    };
    if (now - since_ >= kLate) {
      if (const Failure* f = failure_of_others()) fail(f->text, activity);
      if (const std::string* why = gone(ended_)) fail(*why, activity);
      if (waits_for_ >= 0 && transport_->has_died(waits_for_)) {
        ended_[waits_for_] = process(waits_for_) + " has been killed, or has crashed";
        fail(ended_[waits_for_], activity);
      }
    }
    if (now - since_ >= timeout_) {
      fail("nothing has arrived from " + process(waits_for_) + " for " + seconds(timeout_) +
               " (TESSERA_EXCHANGE_TIMEOUT)",
           activity);
    }
  }
  if (TerminationMessage::wanted()) end_here(*ticket, activity);
  waiting_ = nullptr;
  waits_for_ = -1;
}

const Processes::Failure* Processes::failure_of_others() const {
  for (const auto& [from, failure] : failures_) {
    // What failed in an earlier turn failed there on this process, too.
    const bool now_or_later = failure.turn >= turns_with_[std::size_t(from)];
    if (now_or_later && group_->contains(from)) return &failure;
  }
  return nullptr;
}

std::string Processes::reason_of(const std::string& error) {
  for (const auto begin = Clock::now(); Clock::now() - begin < kNews;) {
    take_notes();
    const Failure* const f = failure_of_others();
    if (f != nullptr && f->alone) return f->text;
    std::this_thread::sleep_for(1ms);
  }
  return error;
}

void Processes::end_here(const Ticket& ticket, const Activity& activity) {
  const int other = transport_->waits_for(*ticket.transfer_);
  std::string text = process(index_) + ", in " + activity.to_string() + ": ended by SIGTERM";
  if (other >= 0) {
    text += ", as it waited for " + process(other);
    if (transport_->has_died(other)) text += ", which has been killed, or has crashed";
  }
  TerminationMessage::say_and_end(text);
}

std::string Processes::state() const {
  if (waiting_ == nullptr) {
    const std::lock_guard lock(mail_->mutex);
    return mail_->waits.empty() ? "computes" : mail_->waits;
  }
  return "waits in " + waiting_->to_string() +
         (waits_for_ < 0 ? std::string() : " for " + process(waits_for_)) + ", for " +
         seconds(Clock::now() - since_);
}

void Processes::take_notes() {
  if (closed_) return;
  post_mail();
  int from = -1;
  std::string note;
  while (transport_->take_note(&from, &note)) {
    const char kind = note.empty() ? '\0' : note[0];
    const std::string text = note.empty() ? note : note.substr(1);
    if (kind == kAsk) {
      transport_->post(from, kState + state());
    } else if (kind == kState) {
      states_[from] = text;
    } else if (kind == kEnded) {
      ended_[from] = text;
      const std::lock_guard lock(mail_->mutex);
      mail_->left.insert(from);
    } else if (kind == kFailed || kind == kGaveUp) {
      const auto colon = text.find(':');
      if (colon != std::string::npos) {
        failures_[from] = {std::stoll(text.substr(0, colon)), text.substr(colon + 1),
                           kind == kFailed};
      }
    } else if (kind == kMailNote) {
      take_mail(from, text);
    }
  }
}

void Processes::tell_failure(const std::string& text, bool alone) {
  for (int p = 0; p < count_; ++p) {
    if (p == index_) continue;
    const std::string turn = std::to_string(turns_with_[std::size_t(p)]);
    transport_->post(p, (alone ? kFailed : kGaveUp) + (turn + ":" + text));
  }
}

std::string Processes::where_others_are(Clock::time_point since) {
  states_.clear();
  for (int p = 0; p < count_; ++p) {
    if (p != index_ && ended_.count(p) == 0) transport_->post(p, std::string(1, kAsk));
  }
  const auto known = [&](int p) { return p == index_ || states_.count(p) + ended_.count(p) > 0; };
  for (const auto begin = Clock::now(); Clock::now() - begin < kAnswers;) {
    take_notes();
    bool all = true;
    for (int p = 0; p < count_; ++p) all = all && known(p);
    if (all) break;
    std::this_thread::sleep_for(1ms);
  }
  std::string out;
  for (int p = 0; p < count_; ++p) {
    out += "\n  " + process(p) + ": ";
    if (p == index_) {
      out += waiting_ == nullptr ? "this one"
                                 : "waits in " + waiting_->to_string() + ", for " +
                                       seconds(Clock::now() - since) + " (this one)";
    } else if (states_.count(p) > 0) {
      out += states_[p];
    } else if (ended_.count(p) > 0) {
      out += "has ended";
    } else {
      out += "doesn't answer: it computes, has stopped, or was ended";
    }
  }
  return out;
}

void Processes::fail(const std::string& why, const Activity& activity) {
  const auto since = since_;
  const std::string mine = process(index_) + ", in " + activity.to_string() + ": " + why;
  const std::string text = mine + ". Where the processes are:" + where_others_are(since);
  failed_ = why;
  tell_failure(mine, false);
  if (TerminationMessage::wanted()) TerminationMessage::say_and_end(text);
  waiting_ = nullptr;
  waits_for_ = -1;
  throw RuntimeError(text, activity.location);
}

std::vector<std::string> Processes::gather(std::span<const int> members, const std::string& mine,
                                           const Activity& activity) {
  const auto n = members.size();
  std::vector<std::string> out(n);
  std::vector<std::uint64_t> sizes(n, mine.size());
  const std::uint64_t size = mine.size();
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t i = 0; i < n; ++i) {
    if (members[i] == index_) continue;
    outgoing.push_back({members[i], reinterpret_cast<const std::byte*>(&size), sizeof size});
    incoming.push_back({members[i], reinterpret_cast<std::byte*>(&sizes[i]), sizeof sizes[i]});
  }
  std::uint32_t tag = 1;  // of what is gathered, so that different things don't mix
  for (const char c : activity.what) tag = tag * 31 + static_cast<unsigned char>(c);
  exchange(outgoing, incoming, tag, activity);
  outgoing.clear();
  incoming.clear();
  for (std::size_t i = 0; i < n; ++i) {
    if (members[i] == index_) {
      out[i] = mine;
      continue;
    }
    out[i].resize(sizes[i]);
    if (!mine.empty()) {
      outgoing.push_back(
          {members[i], reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
    }
    if (!out[i].empty()) {
      incoming.push_back({members[i], reinterpret_cast<std::byte*>(out[i].data()), out[i].size()});
    }
  }
  exchange(outgoing, incoming, tag + 1, activity);
  return out;
}

void Processes::close() {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (owner_ != std::this_thread::get_id()) {
    // A thread that waits for others in a turn won't leave it any more.
    for (int tries = 0; !lock.try_lock() && tries < 100; ++tries) std::this_thread::sleep_for(1ms);
  }
  if (lock.owns_lock()) post_mail();
  closed_ = true;
  for (int p = 0; p < count_; ++p) {
    if (p != index_) transport_->post(p, kEnded + process(index_) + " has ended");
  }
  transport_->close(failed_.empty());
}

}  // namespace tessera
