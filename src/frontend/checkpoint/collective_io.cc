// SPDX-License-Identifier: Apache-2.0
// All tell the first process how their shares ended, and it tells all.
#include "src/frontend/checkpoint/collective_io.h"

#include <charconv>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

#include "src/base/check.h"

namespace tessera::frontend {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Letters: one of these, and a text.
constexpr char kAlive = '.', kDone = '+', kFailed = '!', kIoFailed = 'i', kBadValue = 'v';

/// So often those that wait hear that this process is still there.
constexpr auto kPulse = 1s;

std::string process(int p) { return "process " + std::to_string(p); }

/// While it exists, other processes hear of this one.
class Pulse {
 public:
  Pulse(Mailbox* mail, std::vector<int> to)
      : thread_([mail, to = std::move(to)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any stopped;
          std::unique_lock lock(mutex);
          while (!stopped.wait_for(lock, stop, kPulse, [&] { return stop.stop_requested(); })) {
            for (const int p : to) mail->send(p, std::string(1, kAlive));
          }
        }) {}

 private:
  std::jthread thread_;
};

/// Texts one after the other, each with its length.
std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) out += std::to_string(t.size()) + ":" + t;
  return out;
}
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    std::size_t size = 0;
    const char* end = std::from_chars(text.data(), text.data() + text.size(), size).ptr;
    text.remove_prefix(std::size_t(end - text.data()) + 1);
    out.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

CollectiveIo::CollectiveIo(std::string api, Location location)
    : api_(std::move(api)), location_(location) {
  Processes* all = processes();
  if (all == nullptr) return;
  index_ = all->index();
  count_ = all->count();
  mail_ = std::make_unique<Mailbox>(all, api_);
  early_.resize(std::size_t(count_));
  heard_.assign(std::size_t(count_), Clock::now());
}

std::string CollectiveIo::heard_from(int from) {
  auto& letters = early_[std::size_t(from)];
  const auto timeout = mail_->processes().timeout();
  while (letters.empty()) {
    const bool left = mail_->has_left(from);
    const auto letter = mail_->next(50ms);
    if (letter) {
      heard_[std::size_t(letter->from)] = Clock::now();
      if (letter->text.empty() || letter->text[0] == kAlive) continue;
      early_[std::size_t(letter->from)].push_back(letter->text);
      continue;
    }
    if (left) return kFailed + process(from) + " has ended";
    if (Clock::now() - heard_[std::size_t(from)] > timeout) {
      return kFailed + ("nothing has been heard of " + process(from) + " for " +
                        std::to_string(timeout.count() / 1000) + " s (TESSERA_EXCHANGE_TIMEOUT)");
    }
  }
  const std::string out = std::move(letters.front());
  letters.pop_front();
  if (out[0] == kDone || index_ != 0) return out;
  return out[0] + process(from) + ": " + out.substr(1);
}

std::string CollectiveIo::hear_all(const std::string& mine) {
  std::vector<std::string> texts;
  for (int p = 0; p < count_; ++p) {
    std::string said = p == 0 ? mine : heard_from(p);
    if (said[0] != kDone) return said;
    const std::size_t end = said.find('\n');
    if (said.compare(1, end - 1, api_) != 0) {
      return kFailed + process(p) + " calls " + said.substr(1, end - 1) +
             "; all processes must call the same";
    }
    texts.push_back(said.substr(end + 1));
  }
  return kDone + joined(texts);
}

std::vector<std::string> CollectiveIo::all(const std::function<std::string()>& mine) {
  if (!mail_) return {mine()};
  const auto now = Clock::now();
  for (auto& time : heard_) time = now;
  std::string said;
  std::exception_ptr error;
  std::vector<int> others;
  for (int p = 0; p < count_; ++p) {
    if (p != index_ && (index_ == 0 || p == 0)) others.push_back(p);
  }
  std::string answer;
  {
    // The first process waits for all, and the others for its answer meanwhile.
    const Pulse pulse(mail_.get(), others);
    try {
      said = kDone + api_ + '\n' + mine();
    } catch (const IoError& e) {
      said = kIoFailed + e.message();
      error = std::current_exception();
    } catch (const ValueError& e) {
      said = kBadValue + e.message();
      error = std::current_exception();
    } catch (const std::exception& e) {
      said = kFailed + std::string(e.what());
      error = std::current_exception();
    }
    if (index_ == 0)
      answer = error ? said[0] + (process(0) + ": ") + said.substr(1) : hear_all(said);
  }
  if (index_ == 0) {
    for (const int p : others) mail_->send(p, answer);
  } else {
    mail_->send(0, said);
    // An error of this process may come of one that the first process told of before: it removes
    // what is written then.
    while (const auto letter = error ? mail_->next(0ms) : std::nullopt) {
      if (letter->from == 0 && letter->text[0] != kAlive) early_[0].push_back(letter->text);
    }
    if (error && early_[0].empty()) std::rethrow_exception(error);
    answer = heard_from(0);
  }
  if (error && (index_ == 0 || answer[0] == kDone)) std::rethrow_exception(error);
  if (answer[0] != kDone) {
    const std::string text = process(index_) + ", in " + api_ + ": " + answer.substr(1);
    if (answer[0] == kIoFailed) throw IoError(text, location_);
    if (answer[0] == kBadValue) throw ValueError(text, location_);
    throw RuntimeError(text, location_);
  }
  std::vector<std::string> out = parts_of(std::string_view(answer).substr(1));
  TESSERA_CHECK(out.size() == std::size_t(count_), "a text of each process");
  return out;
}

}  // namespace tessera::frontend
