// SPDX-License-Identifier: Apache-2.0
// What takes the functions, regions and ops of a module as the writer makes them: a text, or
// bytecode.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::text {

/// An SSA value: %4, %4#1, %arg4.
struct Value {
  std::int32_t number = 0;
  std::int32_t result = -1;  ///< which of several results of one op; -1: the only one
  bool argument = false;
  const Shape* type = nullptr;  ///< array or token
};
using Values = std::vector<Value>;
using Types = std::vector<const Shape*>;
/// Entries of an attribute dictionary. A unit attribute has an empty text.
using Entries = std::vector<std::pair<std::string, std::string>>;

/// How an op reads as text.
enum class Form : std::uint8_t {
  generic,        ///< `"name"(%0) <{properties}> ({...}) {attributes} : (...) -> ...`
  one_type,       ///< `name lead %0 tail {attributes} : type`, that of the result or operand
  select,         ///< the same with the types of the first operand and the result
  operand_types,  ///< with `: a, b -> c`
  signature,      ///< with `: (a, b) -> c`
  constant,
  reduce,      ///< `reduce(%0 init: %1) applies ...`, in place of a region
  loop,        ///< `while(%arg = %0)`
  per_device,  ///< sdy.manual_computation
};

struct Op {
  std::string_view name;
  Values operands;
  /// `key = value, ...`: the attributes that the op is defined with, sorted. Of forms other than
  /// the generic one they are made only for a sink that has no short forms.
  std::string properties;
  Types results;
  std::function<void()> regions = nullptr;
  bool decorated = true;  ///< carries the instruction's sharding and attributes
  Form form = Form::generic;
  /// Short forms: what stands before and behind the operands.
  std::string lead = {}, tail = {};
  /// All other attributes.
  Entries attributes = {};
  const Literal* literal = nullptr;  ///< of a constant
};

struct FunctionHead {
  bool entry = false;
  std::string symbol;
  Types arguments, results;
  /// Where arguments come from, and their names.
  std::vector<const ir::Metadata*> argument_metadata;
  /// One each for arguments and results.
  std::vector<Entries> argument_attributes, result_attributes;
};

/// Types and literals must live until `finish`.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Whether short forms are written as such.
  virtual bool has_short_forms() const = 0;

  virtual void module(std::string_view name, const Entries& attributes) = 0;
  /// `mesh`: `<["x"=2]>`.
  virtual void mesh(std::string_view symbol, std::string_view mesh) = 0;
  /// Begins one; its arguments.
  virtual Values function(const FunctionHead& head) = 0;
  virtual void end_function(const Values& returned) = 0;
  /// `metadata`: where the op comes from. Its regions are written meanwhile.
  virtual Values op(const Op& op, const ir::Metadata& metadata) = 0;
  /// Begins the next region of the op; its arguments.
  virtual Values region(const Types& arguments) = 0;
  /// `terminator`: of regions; the op that ends them.
  virtual void end_region(std::string_view terminator, const Values& returned) = 0;
  /// All that was written.
  virtual std::string finish() = 0;
};

}  // namespace tessera::text
