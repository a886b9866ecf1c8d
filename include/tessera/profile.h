// SPDX-License-Identifier: Apache-2.0
// Profiles: what a program's time goes to.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Options of `profile`.
struct ProfileOptions {
  /// Where to write the trace when the profile ends; empty: nowhere. See `Profile::save_trace`.
  std::string trace{};
  /// How many events are kept; more are counted only.
  std::int64_t max_events = 1'000'000;
};

/// A line of a profile: the calls of one operation at one line of the program, by one kernel.
struct ProfileRow {
  /// "kernel", "exchange" (a collective) or "stage" (of a compilation).
  std::string kind;
  /// The operation: "dot", "all-reduce"; of fused elementwise ones "add+tanh". Of a stage its name.
  std::string op;
  /// The user's "file:line", or "".
  std::string location;
  /// How often it ran: a kernel once for each device, or once for devices that share a result.
  std::int64_t calls = 0;
  /// Time of all calls; of kernels that of all threads together.
  double seconds = 0;
  /// Part of the time of all kernels and exchanges, or of all stages: from 0 to 1.
  double share = 0;
  /// Bytes that the kernels read and wrote, or that one device received.
  std::int64_t bytes = 0;
  /// Of a kernel that was chosen among several: which one, "dot/packed", and why. Else "".
  std::string kernel{}, reason{};
};

/// Records what runs in this process, in all threads, from `profile` until it ends.
class Profile {
 public:
  /// Begins to record. As `profile`.
  explicit Profile(ProfileOptions options = {}, Location location = Location::current());
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  /// Ends it, unless `stop` has; what can't be written then is logged.
  ~Profile();

  /// Ends the recording, and writes the trace if the options say so.
  /// @throws IoError if the trace can't be written.
  void stop();
  /// Returns a row for each operation, line and kernel, of kernels and exchanges first and then of
  /// stages, those that took longest first. Runs that go on count with what has ended of them.
  std::vector<ProfileRow> rows() const;
  /// Returns the rows as text: share, time, calls, bytes, operation, kernel, line; and the kernels
  /// with what they were chosen for.
  std::string table() const;
  /// Returns the number of events that were not kept.
  std::int64_t dropped() const;
  /// Returns a trace in Chrome's JSON format, which Perfetto and chrome://tracing show: a row for
  /// each thread, with runs of programs, kernels, exchanges, compilations and their stages; and a
  /// row for each device, with its kernels. An event has the operation as its name, and the line,
  /// the bytes, the instruction and the device among its arguments.
  std::string trace_json() const;
  /// Writes that to a file.
  /// @throws IoError if it can't be written.
  void save_trace(const std::string& path, Location location = Location::current()) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Begins a profile, which ends with its scope.
///
/// While there is no profile, recording costs one test a step of a program.
/// @code
/// const Profile scope = profile({.trace = "step.json"});
/// state = step(state, batch);
/// std::cout << scope.table();
/// @endcode
/// @throws ValueError if `max_events` is negative.
[[nodiscard]] inline Profile profile(ProfileOptions options = {},
                                     Location location = Location::current()) {
  return Profile(std::move(options), location);
}

/// Prints the table.
std::ostream& operator<<(std::ostream&, const Profile&);

}  // namespace tessera
