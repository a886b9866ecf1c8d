// SPDX-License-Identifier: Apache-2.0
// Keys and values by mail: one process decides, and each has a copy of what it decided.
#include "src/compiler/accelerators/shared_values.h"

#include <cstdlib>
#include <utility>

namespace tessera::compiler::accelerators {
namespace {

using namespace std::chrono_literals;

/// So often mail is looked for while something is waited for, or has been said a moment ago.
constexpr auto kBusyPause = 500us;
constexpr auto kIdlePause = 20ms;
constexpr auto kMoment = 2s;
/// So often a thread that waits for a decision looks whether there is still who decides.
constexpr auto kLook = 100ms;

/// The first letter of what is written: a value that somebody wants to put, one that counts, and
/// that nothing is decided any more.
constexpr char kWanted = 'w', kDecided = 'd', kClosed = 'c';

std::string letter_of(char kind, const std::string& key, const std::string& value) {
  return kind + std::to_string(key.size()) + ':' + key + value;
}

}  // namespace

SharedKeyValues::SharedKeyValues(Processes* all)
    : all_(all),
      index_(all->index()),
      mail_(std::make_unique<Mailbox>(all, "")),
      reader_([this] { read(); }) {}

std::optional<std::string> SharedKeyValues::get(const std::string& key,
                                                std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait_for(lock, time, [&] { return ends_ || is_closed_ || known_.count(key) > 0; });
  --waiting_;
  changed_.notify_all();
  return find(key);
}

std::optional<std::string> SharedKeyValues::try_get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return find(key);
}

KeyValues::Put SharedKeyValues::put(const std::string& key, const std::string& value) {
  std::unique_lock lock(mutex_);
  const auto verdict = [&] {
    const auto at = known_.find(key);
    if (at == known_.end()) return Put::undecided;
    return at->second == value ? Put::done : Put::taken;
  };
  if (ends_ || known_.count(key) > 0) return verdict();
  ++waiting_;
  busy_until_ = Clock::now() + kMoment;
  if (decides()) known_.emplace(key, value);
  changed_.notify_all();
  lock.unlock();
  if (decides()) {
    tell_all(letter_of(kDecided, key, value));
  } else {
    mail_->send(0, letter_of(kWanted, key, value));
  }
  lock.lock();
  const auto deadline = Clock::now() + all_->timeout();
  while (!ends_ && !is_closed_ && known_.count(key) == 0 && Clock::now() < deadline) {
    changed_.wait_for(lock, kLook);
    is_closed_ = is_closed_ || mail_->has_left(0);
  }
  --waiting_;
  changed_.notify_all();
  return verdict();
}

void SharedKeyValues::end() {
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return;
    ends_ = true;
    changed_.notify_all();
  }
  reader_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ == 0; });
  lock.unlock();
  if (decides()) tell_all(std::string(1, kClosed));
  mail_.reset();
}

std::optional<std::string> SharedKeyValues::find(const std::string& key) const {
  const auto at = known_.find(key);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

void SharedKeyValues::tell_all(const std::string& letter) {
  for (int p = 0; p < all_->count(); ++p) {
    if (p != index_) mail_->send(p, letter);
  }
}

/// Also sends what could not be sent at once.
void SharedKeyValues::read() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    lock.unlock();
    const auto letter = mail_->next(0ms);
    lock.lock();
    if (letter) {
      note(letter->text);
      const std::vector<std::string> decided = std::exchange(to_tell_, {});
      lock.unlock();
      for (const std::string& d : decided) tell_all(d);
      lock.lock();
      continue;
    }
    const bool busy = waiting_ > 0 || Clock::now() < busy_until_;
    if (busy) {
      // Those that wait are woken by what comes, not by each other.
      lock.unlock();
      std::this_thread::sleep_for(kBusyPause);
      lock.lock();
    } else {
      changed_.wait_for(lock, kIdlePause);
    }
  }
}

void SharedKeyValues::note(const std::string& letter) {
  if (!letter.empty() && letter[0] == kClosed) {
    is_closed_ = true;
    changed_.notify_all();
    return;
  }
  const std::size_t colon = letter.find(':');
  if (colon == std::string::npos) return;
  const std::size_t size = std::strtoull(letter.c_str() + 1, nullptr, 10);
  if (colon + 1 + size > letter.size()) return;
  const std::string key = letter.substr(colon + 1, size), value = letter.substr(colon + 1 + size);
  const bool added = known_.try_emplace(key, value).second;
  // Of a second value nobody is told: who wanted it has been told of the first, or will be.
  if (added && letter[0] == kWanted) to_tell_.push_back(letter_of(kDecided, key, value));
  busy_until_ = Clock::now() + kMoment;
  changed_.notify_all();
}

}  // namespace tessera::compiler::accelerators
