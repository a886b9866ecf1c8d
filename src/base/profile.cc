// SPDX-License-Identifier: Apache-2.0
// Profiles as rows, as a table and as a trace.
#include <tessera/profile.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <tuple>

#include "src/base/at_location.h"
#include "src/base/files/file_io.h"
#include "src/base/files/json_text.h"
#include "src/base/log.h"
#include "src/base/profiler.h"

namespace tessera {

using profiler::Kind;

struct Profile::State {
  State(ProfileOptions o, Location l)
      : options(std::move(o)), location(l), session(options.max_events) {}
  ProfileOptions options;
  Location location;
  profiler::Session session;
  bool stopped = false;
};

namespace {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kernel:
      return "kernel";
    case Kind::exchange:
      return "exchange";
    case Kind::run:
      return "run";
    case Kind::compile:
      return "compile";
    case Kind::stage:
      return "stage";
  }
  return "";
}

std::string in_units(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t u = 0;
  while (bytes >= 1000 && u + 1 < std::size(units)) {
    bytes /= 1000;
    ++u;
  }
  return fmt::format("{:.{}f} {}", bytes, u == 0 ? 0 : 1, units[u]);
}

constexpr int kThreads = 1, kDevices = 2;  // processes of the trace
constexpr int kExchangeRow = 1 << 30;

Json trace_row(int process, std::int64_t row, const std::string& name) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", process},
          {"tid", row},
          {"args", {{"name", name}}}};
}

Json trace_event(const profiler::Event& e, std::int64_t origin, int process, std::int64_t row) {
  Json args = Json::object();
  if (!e.name.empty()) args["instruction"] = e.name;
  if (e.location.known()) args["location"] = e.location.to_string();
  if (e.bytes != 0) args["bytes"] = e.bytes;
  if (e.device >= 0) args["device"] = e.device;
  if (!e.kernel.empty()) args["kernel"] = e.kernel;
  return {{"ph", "X"},
          {"name", e.op},
          {"cat", kind_name(e.kind)},
          {"pid", process},
          {"tid", row},
          {"ts", double(e.begin - origin) / 1e3},
          {"dur", double(e.end - e.begin) / 1e3},
          {"args", std::move(args)}};
}

}  // namespace

Profile::Profile(ProfileOptions options, Location location) {
  if (options.max_events < 0) {
    throw ValueError(
        "profile: max_events is " + std::to_string(options.max_events) + "; it can't be negative",
        location);
  }
  state_ = std::make_unique<State>(std::move(options), location);
}

Profile::~Profile() {
  if (state_->stopped) return;
  try {
    stop();
  } catch (const IoError& e) {
    log(LogLevel::error, std::string("a trace wasn't saved: ") + e.what());
  }
}

void Profile::stop() {
  if (state_->stopped) return;
  state_->stopped = true;
  state_->session.end();
  if (!state_->options.trace.empty()) save_trace(state_->options.trace, state_->location);
}

std::vector<ProfileRow> Profile::rows() const {
  struct Sum {
    std::int64_t nanoseconds = 0, bytes = 0;
    std::set<std::uint64_t> calls;
    std::int64_t others = 0;
  };
  // By kind first, so that rows of one kind stand together.
  std::map<std::tuple<Kind, std::string, std::string, std::string_view, std::string_view>, Sum>
      sums;
  std::int64_t running = 0, compiling = 0;
  for (const profiler::Event& e : state_->session.events()) {
    if (e.kind == Kind::run || e.kind == Kind::compile) continue;
    Sum& sum = sums[{e.kind, e.op, e.location.to_string(), e.kernel, e.reason}];
    sum.nanoseconds += e.end - e.begin;
    sum.bytes += e.bytes;
    if (e.call == 0) {
      ++sum.others;
    } else {
      sum.calls.insert(e.call);
    }
    (e.kind == Kind::stage ? compiling : running) += e.end - e.begin;
  }
  std::vector<ProfileRow> out;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, op, location, kernel, reason] = key;
    const std::int64_t all = kind == Kind::stage ? compiling : running;
    out.push_back({kind_name(kind), op, location, std::int64_t(sum.calls.size()) + sum.others,
                   double(sum.nanoseconds) / 1e9,
                   all > 0 ? double(sum.nanoseconds) / double(all) : 0, sum.bytes,
                   std::string(kernel), std::string(reason)});
  }
  std::stable_sort(out.begin(), out.end(), [](const ProfileRow& a, const ProfileRow& b) {
    const bool stage_a = a.kind == "stage", stage_b = b.kind == "stage";
    return stage_a != stage_b ? stage_b : a.seconds > b.seconds;
  });
  return out;
}

std::string Profile::table() const {
  std::string out;
  const std::vector<ProfileRow> all = rows();
  std::size_t width = 4, of_kernel = 6;
  std::map<std::string, std::string> reasons;
  for (const ProfileRow& r : all) {
    width = std::max(width, r.op.size());
    of_kernel = std::max(of_kernel, r.kernel.size());
    if (!r.kernel.empty()) reasons.emplace(r.kernel, r.reason);
  }
  for (const bool stages : {false, true}) {
    double seconds = 0;
    std::int64_t kernels = 0, exchanges = 0;
    std::string lines;
    for (const ProfileRow& r : all) {
      if ((r.kind == "stage") != stages) continue;
      seconds += r.seconds;
      (r.kind == "exchange" ? exchanges : kernels) += r.calls;
      lines +=
          fmt::format("{:5.1f} % {:10.3f} {:8} {:>10}  {:<{}}", 100 * r.share, 1e3 * r.seconds,
                      r.calls, stages ? std::string() : in_units(double(r.bytes)), r.op, width);
      if (!stages) lines += fmt::format("  {:<{}}  {}", r.kernel, of_kernel, r.location);
      while (lines.back() == ' ') lines.pop_back();
      lines += '\n';
    }
    if (lines.empty()) continue;
    out += stages ? fmt::format("compilation: {:.3f} ms\n", 1e3 * seconds)
                  : fmt::format("runs: {:.3f} ms of all threads, in {} kernels and {} exchanges\n",
                                1e3 * seconds, kernels, exchanges);
    out += fmt::format("  share         ms    calls {:>10}  ", stages ? "" : "bytes");
    out += stages ? "stage\n"
                  : fmt::format("{:<{}}  {:<{}}  line\n", "op", width, "kernel", of_kernel);
    out += lines;
    if (stages || reasons.empty()) continue;
    out += "kernels, and why they were taken:\n";
    for (const auto& [kernel, reason] : reasons) {
      out += fmt::format("  {:<{}}  {}\n", kernel, of_kernel, reason);
    }
  }
  if (out.empty()) out = "nothing ran\n";
  if (dropped() > 0) {
    out += fmt::format("{} more events were not kept (max_events)\n", dropped());
  }
  return out;
}

std::int64_t Profile::dropped() const { return state_->session.dropped(); }

std::string Profile::trace_json() const {
  const std::vector<profiler::Event> events = state_->session.events();
  const std::int64_t origin = state_->session.begin();
  Json out = Json::array();
  out.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", kThreads}, {"args", {{"name", "threads"}}}});
  out.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", kDevices}, {"args", {{"name", "devices"}}}});
  std::set<std::int32_t> threads, devices;
  std::map<std::uint64_t, profiler::Event> calls;
  bool exchanges = false;
  for (const profiler::Event& e : events) {
    threads.insert(e.thread);
    out.push_back(trace_event(e, origin, kThreads, e.thread));
    if (e.kind == Kind::exchange) {
      exchanges = true;
      out.push_back(trace_event(e, origin, kDevices, kExchangeRow));
    } else if (e.kind == Kind::kernel) {
      // On its device a call is one, however many threads shared it out.
      devices.insert(e.device);
      const auto [call, is_first] = calls.emplace(e.call, e);
      if (is_first) continue;
      call->second.end = std::max(call->second.end, e.end);
      call->second.bytes += e.bytes;
    }
  }
  for (const auto& [number, e] : calls) {
    out.push_back(trace_event(e, origin, kDevices, e.device));
  }
  for (const std::int32_t t : threads) {
    out.push_back(trace_row(kThreads, t, "thread " + std::to_string(t)));
  }
  for (const std::int32_t d : devices) {
    out.push_back(trace_row(kDevices, d, "device " + std::to_string(d)));
  }
  if (exchanges) out.push_back(trace_row(kDevices, kExchangeRow, "exchanges"));
  // Names of instructions and files are whatever the program has.
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(out)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

void Profile::save_trace(const std::string& path, Location location) const {
  at_location(location, [&] {
    const std::string json = trace_json();
    ReplacedFile file(path);
    file.write(json);
    file.commit();
  });
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) {
  return out << profile.table();
}

}  // namespace tessera
