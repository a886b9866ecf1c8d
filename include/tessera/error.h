// SPDX-License-Identifier: Apache-2.0
// Exceptions and source locations.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

/// A line of the user's source.
///
/// Public functions take it as a defaulted last parameter or inside `Operand`, so that every
/// message can name the line at fault. It never has to be passed explicitly, except by wrappers
/// that want messages to name their own callers:
/// @code
/// Array doubled(const Array& x, Location location = Location::current()) {
///   return multiply({x, location}, 2.0f);
/// }
/// @endcode
struct Location {
  /// Name of the file; must live until the process ends (a literal, or made by `make_location`).
  const char* file = nullptr;
  /// Line number, from 1.
  unsigned line = 0;

  /// As a default argument: the line of the call.
  static constexpr Location current(const char* f = __builtin_FILE(),
                                    unsigned l = __builtin_LINE()) {
    return Location{f, l};
  }
  /// True if there is a file and a line.
  constexpr bool known() const { return file != nullptr && line != 0; }
  /// Returns "file:line", or "" if unknown.
  std::string to_string() const;
};

/// Returns a `Location` whose file name was computed at run time, for example read from a module's
/// metadata. The name is kept until the process ends.
Location make_location(const std::string& file, unsigned line);

/// Base class of all exceptions that Tessera throws. `what()` is "file:line: message" if the line
/// is known, else the message.
///
/// Exceptions thrown by user code (traced functions, callbacks) pass through unchanged.
class Error : public std::runtime_error {
 public:
  /// An error with a message and, if there is one, the line at fault.
  explicit Error(const std::string& message, Location location = {});
  /// The user's line at fault; not `known()` if there is none.
  Location location() const { return location_; }
  /// The message without the location.
  const std::string& message() const { return message_; }

 private:
  std::string message_;
  Location location_;
};

/// An argument has the right type but an invalid value.
class ValueError : public Error {
 public:
  using Error::Error;
};
/// An argument has the wrong type or tree structure.
class TypeError : public Error {
 public:
  using Error::Error;
};
/// Shapes don't fit the operation.
class ShapeError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// Dtypes don't fit the operation.
class DTypeError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// A mesh, spec or sharding can't be used as requested.
class ShardingError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// The size of a dimension isn't a multiple of the number of parts it is to be split into.
class IndivisibleError : public ShardingError {
 public:
  using ShardingError::ShardingError;
};
/// A mesh axis occurs more than once in a PartitionSpec.
class DuplicateSpecError : public ShardingError {
 public:
  using ShardingError::ShardingError;
};
/// In explicit mode: the shardings of an operation's operands don't say how its result is sharded,
/// or contradict each other.
class ShardingTypeError : public ShardingError {
 public:
  using ShardingError::ShardingError;
};
/// A traced array was used where a value is needed or after its trace had ended, or tracing would
/// never end.
class TracerError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// Text (HLO, StableHLO, a sharding) can't be parsed; the message has the position.
class ParseError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// A valid program can't be compiled as requested.
class CompileError : public Error {
 public:
  using Error::Error;
};
/// A valid request that isn't supported yet.
class NotImplementedError : public Error {
 public:
  using Error::Error;
};
/// A failure at run time: a deleted array, devices that diverge at a collective, no mesh in scope,
/// too little memory.
class RuntimeError : public Error {
 public:
  using Error::Error;
};
/// A file can't be read or written.
class IoError : public Error {
 public:
  using Error::Error;
};
/// A broken invariant of Tessera itself. Please report it.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
