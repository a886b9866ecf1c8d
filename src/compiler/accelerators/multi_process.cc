// SPDX-License-Identifier: Apache-2.0
// How plugins' clients in several processes find each other, and what they start together.
#include "src/compiler/accelerators/multi_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/processes/processes.h"
#include "src/compiler/accelerators/shared_values.h"

namespace tessera::compiler::accelerators {
namespace {

/// What plugins that were loaded use. They stay, as the plugins do; a plugin that failed may still
/// hold the callbacks, too.
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
      std::vector<SharedKeyValues*> list;
      {
        const std::lock_guard inner(stores().mutex);
        list = stores().all;
      }
      for (SharedKeyValues* store : list) store->end();
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

/// What this process's options say of the processes; nothing if that is what is so.
std::string other_wishes(const Processes& all, const Values& options) {
  std::string out;
  for (const auto& [name, found] :
       {std::pair<const char*, std::int64_t>("node_id", all.index()), {"num_nodes", all.count()}}) {
    const auto given = options.find(name);
    if (given == options.end()) continue;
    const auto* const number = std::get_if<std::int64_t>(&given->second);
    if (number != nullptr && *number == found) continue;
    out += (out.empty() ? "" : ", ") + std::string(name) + "=" +
           (number == nullptr ? "something that is no integer" : std::to_string(*number));
  }
  return out;
}

/// How many processes of lower number are on this machine. Throws, in all processes, if they don't
/// load the same plugin, or the options of one contradict the launcher.
std::int64_t number_on_machine(Processes* all, const std::string& platform, const Values& options) {
  const Activity activity{"load_pjrt_plugin", "", {}};
  const Processes::Turn turn(all, activity);
  const std::string wishes = other_wishes(*all, options);
  const std::vector<std::string> said =
      all->gather(everybody(*all), platform + '\n' + wishes + '\n' + host_name(), activity);
  const auto line = [&](std::size_t p, int number) {
    std::size_t begin = 0;
    for (int k = 0; k < number; ++k) begin = said[p].find('\n', begin) + 1;
    return said[p].substr(begin, said[p].find('\n', begin) - begin);
  };
  for (std::size_t p = 0; p < said.size(); ++p) {
    if (line(p, 0) != platform) {
      throw RuntimeError("process " + std::to_string(all->index()) + " loads the plugin of '" +
                         platform + "', and process " + std::to_string(p) + " that of '" +
                         line(p, 0) +
                         "'; processes that run together must load the same plugins in the same "
                         "order");
    }
    if (const std::string wished = line(p, 1); !wished.empty()) {
      throw ValueError("the options of process " + std::to_string(p) + " for the plugin of '" +
                       platform + "' have " + wished + ", and its launcher says node_id=" +
                       std::to_string(p) + ", num_nodes=" + std::to_string(all->count()) +
                       "; valid: neither of these options, or num_nodes=1, by which each process "
                       "has devices of its own that no array spans");
    }
  }
  const std::string mine = line(std::size_t(all->index()), 2);
  std::int64_t before = 0;
  for (std::size_t p = 0; p < std::size_t(all->index()); ++p) before += line(p, 2) == mine;
  return before;
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

JoinedProcesses::JoinedProcesses(const std::string& platform, Values* options) {
  Processes* const all = processes();
  if (all == nullptr) return;
  if (const auto given = options->find("num_nodes"); given != options->end()) {
    const auto* const number = std::get_if<std::int64_t>(&given->second);
    if (number != nullptr && *number == 1) {
      options->erase(given);
      return;
    }
  }
  // Processes of a machine have a GPU each, as those of JAX.
  const std::int64_t here = number_on_machine(all, platform, *options);
  if (!sees_one()) joining_.device = here;
  (*options)["num_nodes"] = std::int64_t(all->count());
  (*options)["node_id"] = std::int64_t(all->index());
  joining_.values = store_ = new_store(all);
}

JoinedProcesses::~JoinedProcesses() {
  if (store_ != nullptr && !kept_) store_->end();
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

MultiProcessProgram::MultiProcessProgram(std::vector<int> processes, std::string name,
                                         const std::string& text)
    : processes_(std::move(processes)), name_(std::move(name)), hash_(14695981039346656037ULL) {
  for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
}

std::unique_lock<std::mutex> MultiProcessProgram::begin(Location location) const {
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
