// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

/// A place in the user's source. `file` must live for the whole process (a literal, or interned).
///
/// Functions of the public API take it as a defaulted last parameter or inside `Operand`, so that
/// every message can name the line at fault.
struct Location {
  const char* file = nullptr;
  unsigned line = 0;

  static constexpr Location current(const char* f = __builtin_FILE(),
                                    unsigned l = __builtin_LINE()) {
    return Location{f, l};
  }
  constexpr bool known() const { return file != nullptr && line != 0; }
  /// "file:line", or "" when unknown.
  std::string to_string() const;
};

/// Makes a `Location` whose file name was computed at run time (for example read from a module's
/// metadata). The name is kept until the process ends.
Location make_location(const std::string& file, unsigned line);

/// Base of everything that Tessera throws. `what()` starts with "file:line: " when it is known.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, Location location = {});
  /// The user's line at fault; not known() when there is none.
  Location location() const { return location_; }
  /// The message without the location.
  const std::string& message() const { return message_; }

 private:
  std::string message_;
  Location location_;
};

/// An argument has the right type and a wrong value.
class ValueError : public Error {
 public:
  using Error::Error;
};
/// An argument has the wrong type or the wrong tree structure.
class TypeError : public Error {
 public:
  using Error::Error;
};
/// Shapes that don't fit the operation.
class ShapeError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// Element types that don't fit the operation.
class DTypeError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// A mesh, spec or sharding that can't be used as asked.
class ShardingError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// A dimension isn't a multiple of the number of ways that it is to be split.
class IndivisibleError : public ShardingError {
 public:
  using ShardingError::ShardingError;
};
/// One mesh axis stands twice in a PartitionSpec.
class DuplicateSpecError : public ShardingError {
 public:
  using ShardingError::ShardingError;
};
/// A traced array was used where a value is needed, or outlived its trace.
class TracerError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// Text (HLO, StableHLO, a rule, a spec) that can't be read; the message has line and column.
class ParseError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// The program is valid and something in it can't be compiled.
class CompileError : public Error {
 public:
  using Error::Error;
};
/// A request that is valid in itself and isn't supported (yet).
class NotImplementedError : public Error {
 public:
  using Error::Error;
};
/// A failure while running: deleted arrays, diverging collectives, wrong devices.
class RuntimeError : public Error {
 public:
  using Error::Error;
};
/// Files.
class IoError : public Error {
 public:
  using Error::Error;
};
/// A broken invariant of Tessera itself: please report it.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tessera
