// SPDX-License-Identifier: Apache-2.0
// Finds what of a plan crosses processes, and which messages that takes.
#include "src/runtime/local_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "src/base/check.h"
#include "src/runtime/direct_exchange.h"
#include "src/runtime/plan_walk.h"
#include "src/runtime/scattered_sums.h"

namespace tessera::runtime {
namespace {

using Kind = Exchange::Kind;

std::uint64_t hash_of(const std::string& text, std::uint64_t h = 14695981039346656037ULL) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return h;
}

std::uint64_t hash_of(const DeviceLists& lists) {
  std::uint64_t h = 14695981039346656037ULL;
  for (const auto& list : lists.lists()) {
    for (const std::int32_t d : list) h = (h ^ std::uint64_t(d)) * 1099511628211ULL;
    h = (h ^ 0xffffffffULL) * 1099511628211ULL;
  }
  return h;
}

std::string describe(const Plan& plan, const Step& step, const Exchange& exchange) {
  std::int64_t bytes = 0;
  for (const Exchange::Part& p : exchange.parts) bytes += plan.slots[std::size_t(p.input)].bytes;
  std::string out =
      fmt::format("{}: {} bytes in {} groups (#{:x})", LocalPlan::title(step, exchange), bytes,
                  exchange.groups.size(), hash_of(exchange.groups) & 0xffffff);
  for (const auto& gather : exchange.before) {
    out += fmt::format(" of a gather in {} groups (#{:x})", gather.groups.size(),
                       hash_of(gather.groups) & 0xffffff);
  }
  return out;
}

}  // namespace

LocalPlan::LocalPlan(const Plan& plan, std::vector<std::int32_t> process_of, Processes* processes,
                     std::string name, const std::string& combiners)
    : plan_(plan),
      process_of_(std::move(process_of)),
      processes_(processes),
      processes_id_(processes->id()),
      name_(std::move(name)) {
  TESSERA_CHECK(std::int64_t(process_of_.size()) == plan.num_devices, "a process per device");
  const std::set<int> members(process_of_.begin(), process_of_.end());
  members_.assign(members.begin(), members.end());
  group_ = processes->group(members_);
  for (const std::int32_t p : process_of_) local_.push_back(p == processes->index() ? 1 : 0);
  takes_part_ = members.count(processes->index()) > 0;
  std::uint32_t next = 0;
  everything_.emplace(plan_, &local_);
  everything_->list_all();
  crosses_ = mark_all(plan.entry, &next);
  if (!combiners.empty()) list("combined by " + combiners);
  for (const SlotId s : plan.parameters) {
    hash_ = hash_of(std::to_string(plan.slots[std::size_t(s)].bytes) + ",", hash_);
  }
}

LocalPlan::~LocalPlan() = default;

bool LocalPlan::takes_turn() {
  if (members_.size() < 2) return false;
  // One thread of each process, so that all processes count the same turns.
  const bool first = !ran_.load(std::memory_order_relaxed) && !ran_.exchange(true);
  return crosses_ || (first && !group_->agreed_on(hash_));
}

std::string LocalPlan::title(const Step& step, const Exchange& exchange) {
  const std::string kind = runtime::name(exchange.kind);
  return step.name.rfind(kind, 0) == 0 ? step.name : kind + " " + step.name;
}

bool LocalPlan::crosses(const Exchange& exchange) const {
  const auto apart = [&](const DeviceLists& lists) {
    return std::any_of(lists.lists().begin(), lists.lists().end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(),
                         [&](std::int32_t d) { return process_of(d) != process_of(group[0]); });
    });
  };
  return apart(exchange.groups) ||
         std::any_of(exchange.before.begin(), exchange.before.end(),
                     [&](const Exchange::Gather& g) { return apart(g.groups); });
}

void LocalPlan::list(const std::string& line, const Location& location) {
  // Where it is from is no part of what it is: that may be another call of the same function.
  hash_ = hash_of(line, hash_);
  text_ += line + (location.known() ? " at " + location.to_string() : "") + '\n';
}

bool LocalPlan::mark_all(const Block& block, std::uint32_t* next) {
  bool any = false;
  for (const Step& step : block.steps) {
    if (const auto* task = std::get_if<KernelTask>(&step.what)) {
      if (!task->has_effects) continue;
      const auto have =
          holders(plan_.slots[std::size_t(task->outputs[0])].classes, ActiveSet(plan_));
      if (std::all_of(have.begin(), have.end(), [](const auto& list) { return list.size() < 2; })) {
        continue;
      }
      Mark& call = marks_[&step];
      call.tag = (*next)++ * 7 + 11;
      call.shares = any_shares_ = true;
      list("call " + step.name);
      any = true;
      continue;
    }
    Mark& entry = marks_[&step];
    entry.tag = (*next)++ * 7 + 11;
    if (const auto* exchange = std::get_if<Exchange>(&step.what)) {
      entry.title = title(step, *exchange);
      entry.crosses = crosses(*exchange);
      entry.chains = chains(*exchange);
      entry.fits = DirectExchange::fits(*exchange);
      entry.scatters = entry.fits && ScatteredSums::fits(plan_, *exchange, process_of_);
      any = entry.crosses || any;
      list(describe(plan_, step, *exchange), step.location);
      continue;
    }
    bool inside = false;
    if (const auto* loop = std::get_if<While>(&step.what)) {
      list("while " + step.name);
      inside = mark_all(loop->condition, next);
      inside = mark_all(loop->body, next) || inside;
    } else {
      for (const Branch& branch : std::get<Conditional>(step.what).branches) {
        list("branch of " + step.name);
        inside = mark_all(branch.block, next) || inside;
      }
    }
    list("end");
    marks_[&step].agrees = inside;
    any = any || inside;
  }
  return any;
}

std::vector<std::vector<int>> LocalPlan::holders(ClassesId id, const ActiveSet& active) const {
  const DeviceClasses& classes = plan_.classes[std::size_t(id)];
  std::vector<std::vector<int>> out(static_cast<std::size_t>(classes.count()));
  for (std::size_t d = 0; d < process_of_.size(); ++d) {
    if (!active.contains(std::int32_t(d))) continue;
    std::vector<int>& list = out[std::size_t(classes.class_of[d])];
    const auto at = std::lower_bound(list.begin(), list.end(), process_of_[d]);
    if (at == list.end() || *at != process_of_[d]) list.insert(at, process_of_[d]);
  }
  return out;
}

LocalPlan::Traffic LocalPlan::find_traffic(const Exchange& exchange,
                                           const ActiveSet& active) const {
  const int me = processes_->index();
  std::set<Message> sends, receives;
  const auto slot = [&](SlotId s) -> const Slot& { return plan_.slots[std::size_t(s)]; };
  for (std::size_t i = 0; i < exchange.parts.size(); ++i) {
    const Exchange::Part& part = exchange.parts[i];
    const DeviceClasses& inputs = plan_.classes[std::size_t(slot(part.input).classes)];
    const auto have = holders(slot(part.input).classes, active);
    const auto need = [&](int process, std::int32_t source, std::int64_t column) {
      const std::int32_t cls = inputs.class_of[std::size_t(source)];
      const std::vector<int>& from = have[std::size_t(cls)];
      if (from.empty() || std::binary_search(from.begin(), from.end(), process)) return;
      // Several that have it share the work.
      const int sender = from[std::size_t(process) % from.size()];
      const std::size_t number = column < 0 ? 0 : i;  // columns are cut as the part says
      if (process == me) receives.insert({part.input, cls, column, sender, number});
      if (sender == me) sends.insert({part.input, cls, column, process, number});
    };
    std::function<void(int, std::int32_t, std::size_t)> all_before;
    all_before = [&](int process, std::int32_t device, std::size_t left) {
      if (left == 0) return need(process, device, -1);
      const Exchange::Gather& gather = exchange.before[left - 1];
      const auto& member = (*gather.memberships)[std::size_t(device)];
      if (member.group < 0) return;
      for (const std::int32_t d : gather.groups[std::size_t(member.group)]) {
        all_before(process, d, left - 1);
      }
    };
    std::set<std::pair<int, std::int64_t>> seen;
    for (std::int32_t d = 0; d < plan_.num_devices; ++d) {
      if (!active.contains(d)) continue;
      const auto& member = (*exchange.memberships)[std::size_t(d)];
      if (member.group < 0) continue;
      const int process = process_of(d);
      const auto& group = exchange.groups[std::size_t(member.group)];
      switch (exchange.kind) {
        case Kind::collective_permute:
        case Kind::collective_broadcast:
          need(process, group[0], -1);
          break;
        case Kind::all_gather:
        case Kind::all_reduce:
          if (!seen.insert({process, member.group}).second) break;
          for (const std::int32_t m : group) all_before(process, m, exchange.before.size());
          break;
        case Kind::reduce_scatter:
        case Kind::all_to_all:
          for (const std::int32_t m : group) need(process, m, member.place);
          break;
        case Kind::all_to_all_tuple:
          // As the part at this member's place it gets each member's part: all of them once.
          if (std::size_t(member.place) != i) break;
          for (const std::int32_t m : group) need(process, m, -1);
          break;
      }
    }
  }
  return {{sends.begin(), sends.end()}, {receives.begin(), receives.end()}};
}

const LocalPlan::Traffic& LocalPlan::traffic(const Exchange& exchange, const ActiveSet& active) {
  if (!active.everything()) {
    partial_ = find_traffic(exchange, active);
    return partial_;
  }
  const auto found = traffic_.find(&exchange);
  if (found != traffic_.end()) return found->second;
  return traffic_.emplace(&exchange, find_traffic(exchange, active)).first->second;
}

const DirectExchange& LocalPlan::direct(const Mark& mark, const Exchange& exchange,
                                        const ActiveSet& active) {
  const bool all = active.everything();
  if (all && mark.direct != nullptr) return *mark.direct;
  auto made = std::make_unique<DirectExchange>(
      DirectExchange::of(plan_, exchange, active, traffic(exchange, active), *processes_));
  if (all) {
    mark.direct = made.get();
    direct_.push_back(std::move(made));
    return *mark.direct;
  }
  partial_direct_ = std::move(made);
  return *partial_direct_;
}

const ScatteredSums& LocalPlan::scattered(const Mark& mark, const Exchange& exchange) {
  if (mark.scattered == nullptr) {
    scattered_.push_back(
        std::make_unique<ScatteredSums>(ScatteredSums::of(plan_, exchange, *this)));
    mark.scattered = scattered_.back().get();
  }
  return *mark.scattered;
}

std::int64_t LocalPlan::exchange_bytes(const Block& block) const {
  std::int64_t most = 0;
  for (const Step& step : block.steps) {
    for_each_block(step, [&](const Block& b) { most = std::max(most, exchange_bytes(b)); });
    const auto* exchange = std::get_if<Exchange>(&step.what);
    if (exchange == nullptr || !mark(step).crosses) continue;
    if (mark(step).scatters) {
      most = std::max(most, ScatteredSums::of(plan_, *exchange, *this).scatter.extra_bytes);
    }
    if (mark(step).chains) continue;
    const Traffic all = find_traffic(*exchange, everything());
    if (DirectExchange::fits(*exchange)) {
      most = std::max(
          most, DirectExchange::of(plan_, *exchange, everything(), all, *processes_).extra_bytes);
      continue;
    }
    std::int64_t held = 0;
    for (const bool received : {true, false}) {
      for (const Message& m : received ? all.receives : all.sends) {
        const Exchange::Part& part = exchange->parts[m.part];
        if (m.column >= 0) {
          held += received || part.outer > 1 ? part.outer * part.chunk : 0;
        } else if (received && exchange->kind != Kind::collective_permute &&
                   exchange->kind != Kind::collective_broadcast &&
                   exchange->kind != Kind::all_to_all_tuple) {
          held += plan_.slots[std::size_t(m.slot)].bytes;
        }
      }
    }
    most = std::max(most, held);
  }
  return most;
}

void LocalPlan::check_same() {
  if (checked_ || members_.size() < 2) return;
  if (group_->agreed_on(hash_)) {
    checked_ = true;
    return;
  }
  const Activity activity{"the comparison of what the processes run", name_, {}};
  const auto hashes = processes_->gather(members_, std::to_string(hash_), activity);
  if (std::all_of(hashes.begin(), hashes.end(),
                  [&](const std::string& h) { return h == hashes[0]; })) {
    group_->agree_on(hash_);
    checked_ = true;
    return;
  }
  const auto texts = processes_->gather(members_, name_ + '\n' + text_, activity);
  std::string out = "the processes run different programs:";
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      all.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  };
  const auto first = lines(texts[0]);
  std::size_t differs = 1;
  const auto line = [](const std::vector<std::string>& all, std::size_t i) {
    return i < all.size() ? all[i] : std::string("nothing more");
  };
  for (;; ++differs) {
    if (differs >= first.size() ||
        std::any_of(texts.begin(), texts.end(), [&](const std::string& t) {
          return line(lines(t), differs) != first[differs];
        })) {
      break;
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto mine = lines(texts[i]);
    const auto count = std::count_if(mine.begin() + 1, mine.end(), [](const std::string& l) {
      return l != "end" && l.rfind("combined ", 0) != 0 && l.rfind("while ", 0) != 0 &&
             l.rfind("branch ", 0) != 0;
    });
    out += fmt::format("\n  process {}: '{}' with {} exchanges; the first that differs: {}",
                       members_[i], mine[0], count, line(mine, differs));
  }
  throw RuntimeError(out);
}

}  // namespace tessera::runtime
