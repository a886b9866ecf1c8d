// SPDX-License-Identifier: Apache-2.0
// What plugins' clients in several processes tell each other, by mail of these processes.
#include "src/compiler/accelerators/together.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <thread>

#include "src/base/processes/mailbox.h"
#include "src/base/processes/processes.h"

namespace tessera::compiler::accelerators {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// So often mail is looked for while something is waited for, or has been said a moment ago.
constexpr auto kBusyPause = 500us;
constexpr auto kIdlePause = 20ms;
constexpr auto kMoment = 2s;

/// Each process knows all that was said: who says something tells all others.
class SharedKeyValues final : public KeyValues {
 public:
  explicit SharedKeyValues(Processes* all) : mail_(all, ""), reader_([this] { read(); }) {}

  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds time) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, time, [&] { return ends_ || known_.count(key) > 0; });
    --waiting_;
    return find(key);
  }

  std::optional<std::string> try_get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return find(key);
  }

  bool put(const std::string& key, const std::string& value) override {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return true;
      const auto [at, added] = known_.try_emplace(key, value);
      if (!added) return at->second == value;
      busy_until_ = Clock::now() + kMoment;
      changed_.notify_all();
    }
    const Processes& all = mail_.processes();
    for (int p = 0; p < all.count(); ++p) {
      if (p != all.index()) mail_.send(p, std::to_string(key.size()) + ':' + key + value);
    }
    return true;
  }

  /// Before the connections end.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    if (reader_.joinable()) reader_.join();
  }

 private:
  std::optional<std::string> find(const std::string& key) const {
    const auto at = known_.find(key);
    return at == known_.end() ? std::nullopt : std::optional(at->second);
  }

  /// Also sends what could not be sent at once.
  void read() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      const auto letter = mail_.next(0ms);
      lock.lock();
      if (letter) {
        note(letter->text);
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

  void note(const std::string& text) {
    const std::size_t colon = text.find(':');
    const std::size_t size = std::strtoull(text.c_str(), nullptr, 10);
    if (colon == std::string::npos || colon + 1 + size > text.size()) return;
    known_.try_emplace(text.substr(colon + 1, size), text.substr(colon + 1 + size));
    changed_.notify_all();
  }

  Mailbox mail_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> known_;
  int waiting_ = 0;
  bool ends_ = false;
  Clock::time_point busy_until_;
  std::thread reader_;  // last: it uses all others
};

struct Stores {
  std::mutex mutex;
  std::vector<SharedKeyValues*> all;
};
Stores& stores() {
  static Stores& s = *new Stores;
  return s;
}

SharedKeyValues* new_store(Processes* all) {
  auto* const made = new SharedKeyValues(all);
  Stores& s = stores();
  const std::lock_guard lock(s.mutex);
  // Registered after the end of the connections was, so that it comes first.
  if (s.all.empty()) {
    (void)std::atexit([] {
      for (SharedKeyValues* store : stores().all) store->end();
    });
  }
  s.all.push_back(made);
  return made;
}

std::vector<int> everybody(const Processes& all) {
  std::vector<int> out(static_cast<std::size_t>(all.count()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// How many processes of lower number are on this machine.
std::int64_t number_on_machine(Processes* all, const std::string& platform) {
  const Activity activity{"load_pjrt_plugin", "", {}};
  const Processes::Turn turn(all, activity);
  const std::vector<std::string> said =
      all->gather(everybody(*all), platform + '\n' + host_name(), activity);
  const std::string& mine = said[std::size_t(all->index())];
  for (std::size_t p = 0; p < said.size(); ++p) {
    const std::string theirs = said[p].substr(0, said[p].find('\n'));
    if (theirs == platform) continue;
    throw RuntimeError("process " + std::to_string(all->index()) + " loads the plugin of '" +
                       platform + "', and process " + std::to_string(p) + " that of '" + theirs +
                       "'; processes that run together must load the same plugins in the same "
                       "order");
  }
  return std::count(said.begin(), said.begin() + all->index(), mine);
}

/// Whether a launcher has left this process one GPU to see.
bool sees_one() {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && *text != 0 && std::string_view(text).find(',') == std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

KeyValues* join_processes(const std::string& platform, Values* options) {
  Processes* const all = processes();
  if (all == nullptr) return nullptr;
  if (const auto given = options->find("num_nodes"); given != options->end()) {
    const auto* const number = std::get_if<std::int64_t>(&given->second);
    if (number != nullptr && *number == 1) {
      options->erase(given);
      return nullptr;
    }
  }
  const std::int64_t here = number_on_machine(all, platform);
  (*options)["num_nodes"] = std::int64_t(all->count());
  (*options)["node_id"] = std::int64_t(all->index());
  // Processes of a machine have a GPU each, as those of JAX.
  if ((platform == "cuda" || platform == "rocm") && !sees_one()) {
    options->try_emplace("visible_devices", std::vector<std::int64_t>{here});
  }
  return new_store(all);
}

std::string hint_of_processes() {
  return "; this is one of " + std::to_string(process_count()) +
         " processes that run a program together, whose devices it is to join (node_id, "
         "num_nodes); valid where it can't: one process, which has all devices of its machine, or "
         "the plugin's option num_nodes=1, by which each process has devices of its own that no "
         "array spans";
}

void check_joined(const Client& client, const std::string& file) {
  const Processes* const all = processes();
  std::set<std::int64_t> found;
  bool here = true;
  for (const DeviceInfo& d : client.devices()) {
    found.insert(d.process);
    here = here && d.is_local == (d.process == all->index());
  }
  const bool joined =
      here && std::int64_t(found.size()) == all->count() && *found.rbegin() == all->count() - 1;
  if (joined) return;
  throw RuntimeError("PJRT plugin " + file + ": PJRT_Client_Create: this is process " +
                     std::to_string(all->index()) + " of " + std::to_string(all->count()) +
                     " that run a program together, and the plugin has devices of " +
                     std::to_string(found.size()) +
                     (found.size() == 1 ? " process" : " processes") +
                     (here ? "" : ", which it numbers otherwise") +
                     ": it doesn't join those of others" + hint_of_processes());
}

std::vector<int> processes_of(const Client& client, const std::vector<std::size_t>& devices) {
  std::set<int> out;
  for (const std::size_t d : devices) out.insert(int(client.devices()[d].process));
  return {out.begin(), out.end()};
}

TogetherProgram::TogetherProgram(std::vector<int> processes, std::string name,
                                 const std::string& text)
    : processes_(std::move(processes)), name_(std::move(name)), hash_(14695981039346656037ULL) {
  for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
}

std::unique_lock<std::mutex> TogetherProgram::begin(Location location) const {
  static std::mutex& turns = *new std::mutex;
  std::unique_lock lock(turns);
  if (checked_.load(std::memory_order_relaxed)) return lock;
  Processes* const all = processes();
  Processes::Group* const group = all->group(processes_);
  if (!group->agreed_on(hash_)) {
    const Activity activity{"the comparison of what the processes run", name_, location};
    const Processes::Turn turn(all, activity, group);
    const auto said = all->gather(processes_, std::to_string(hash_) + " '" + name_ + "'", activity);
    std::string list;
    for (std::size_t p = 0; p < said.size(); ++p) {
      list += "\n  [process " + std::to_string(processes_[p]) + "] program " +
              said[p].substr(said[p].find(' ') + 1) + " (#" + said[p].substr(0, 6) + ")";
    }
    if (std::any_of(said.begin(), said.end(), [&](const auto& s) { return s != said[0]; })) {
      throw RuntimeError("the processes run different programs:" + list, location);
    }
    group->agree_on(hash_);
  }
  checked_ = true;
  return lock;
}

}  // namespace tessera::compiler::accelerators
