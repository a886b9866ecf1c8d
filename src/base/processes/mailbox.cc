// SPDX-License-Identifier: Apache-2.0
// Mail goes as notes, in pieces; whichever thread has the turn sends and receives that of all.
#include "src/base/processes/mailbox.h"

#include <algorithm>

namespace tessera {
namespace {

using namespace std::chrono_literals;

/// Short enough that a transport can send it whatever the receiver does.
constexpr std::size_t kPiece = 2048;
/// What arrives late for a closed box is dropped.
constexpr std::size_t kRemembered = 64;
constexpr auto kPause = 200us;

}  // namespace

Mailbox::Mailbox(Processes* processes, std::string who)
    : processes_(processes), who_(std::move(who)) {
  Processes::Mail& m = *processes_->mail_;
  const std::lock_guard lock(m.mutex);
  number_ = m.boxes++;
  ++m.open;
}

Mailbox::~Mailbox() {
  Processes::Mail& m = *processes_->mail_;
  {
    const std::lock_guard lock(m.mutex);
    m.letters.erase(number_);
    m.begun.erase(m.begun.lower_bound({number_, 0}), m.begun.lower_bound({number_ + 1, 0}));
    m.closed.push_back(number_);
    if (m.closed.size() > kRemembered) m.closed.pop_front();
  }
  processes_->move_mail();
  --m.open;
}

void Mailbox::send(int to, const std::string& text) {
  Processes::Mail& m = *processes_->mail_;
  {
    const std::lock_guard lock(m.mutex);
    for (std::size_t at = 0; at == 0 || at < text.size(); at += kPiece) {
      const bool last = at + kPiece >= text.size();
      m.outgoing.emplace_back(
          to, kMailNote + std::to_string(number_) + (last ? '.' : '+') + text.substr(at, kPiece));
    }
    m.unsent = true;
  }
  processes_->move_mail();
}

std::optional<Mailbox::Letter> Mailbox::next(std::chrono::milliseconds time) {
  Processes::Mail& m = *processes_->mail_;
  const auto begin = Processes::Clock::now();
  const auto taken = [&]() -> std::optional<Letter> {
    const std::lock_guard lock(m.mutex);
    auto& mine = m.letters[number_];
    if (mine.empty()) {
      if (!who_.empty()) m.waits = "waits in " + who_;
      return std::nullopt;
    }
    if (!who_.empty()) m.waits.clear();
    Letter out = std::move(mine.front());
    mine.pop_front();
    return out;
  };
  while (true) {
    processes_->move_mail();
    if (auto letter = taken()) return letter;
    if (Processes::Clock::now() - begin >= time) break;
    std::this_thread::sleep_for(kPause);
  }
  const std::lock_guard lock(m.mutex);
  if (!who_.empty()) m.waits.clear();
  return std::nullopt;
}

bool Mailbox::has_left(int process) const {
  Processes::Mail& m = *processes_->mail_;
  const std::lock_guard lock(m.mutex);
  if (m.left.count(process) == 0 && !processes_->closed_) return false;
  const auto mine = m.letters.find(number_);
  return mine == m.letters.end() ||
         std::none_of(mine->second.begin(), mine->second.end(),
                      [&](const Letter& l) { return l.from == process; });
}

void Processes::move_mail() {
  if (owner_ == std::this_thread::get_id()) return take_notes();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) take_notes();
}

void Processes::post_mail() {
  std::deque<std::pair<int, std::string>> notes;
  {
    const std::lock_guard lock(mail_->mutex);
    notes.swap(mail_->outgoing);
    mail_->unsent = false;
  }
  for (const auto& [to, note] : notes) transport_->post(to, note);
}

void Processes::take_mail(int from, const std::string& note) {
  std::size_t digits = 0;
  while (digits < note.size() && note[digits] >= '0' && note[digits] <= '9') ++digits;
  if (digits == 0 || digits == note.size()) return;
  const std::int64_t box = std::stoll(note.substr(0, digits));
  const std::lock_guard lock(mail_->mutex);
  const auto& closed = mail_->closed;
  if (std::find(closed.begin(), closed.end(), box) != closed.end()) return;
  std::string& text = mail_->begun[{box, from}];
  text.append(note, digits + 1);
  if (note[digits] != '.') return;
  mail_->letters[box].push_back({from, std::move(text)});
  mail_->begun.erase({box, from});
}

}  // namespace tessera
