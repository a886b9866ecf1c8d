// SPDX-License-Identifier: Apache-2.0
// What stands in operations, as values, and instructions that are made of them: all that
// conversions need of the text that is being read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/ir/hlo/hlo_parser.h"
#include "src/ir/module.h"
#include "src/text/read/cursor.h"
#include "src/text/read/function.h"
#include "src/text/read/known_integers.h"
#include "src/text/read/operation.h"
#include "src/text/read/types.h"

namespace tessera::text {

class InstructionBuilder {
 public:
  InstructionBuilder(std::string_view text, const std::string& file, const Places* places)
      : in_(text, file, places), types_(in_, attribute_aliases_) {}
  virtual ~InstructionBuilder() = default;
  InstructionBuilder(const InstructionBuilder&) = delete;

 protected:
  // what is known of the text around
  virtual void check_bound_axes(std::string_view sharding, const char* at) = 0;

  // values.cc: attributes as values
  /// Runs `read` at the value's place, and goes on here.
  template <class F>
  void at_value(std::string_view value, F&& read) {
    const char* back = in_.position();
    in_.seek(value.data());
    read();
    in_.seek(back);
  }
  const Attribute& need(const Operation& op, std::string_view key);
  Dims integers(const Operation& op, std::string_view key);
  Dims integers_or(const Operation& op, std::string_view key, Dims otherwise);
  std::vector<Dims> integer_rows(const Operation& op, std::string_view key);
  std::int64_t integer(const Operation& op, std::string_view key);
  std::int64_t integer_or(const Operation& op, std::string_view key, std::int64_t otherwise);
  bool flag(const Operation& op, std::string_view key, bool otherwise);
  double real(const Operation& op, std::string_view key);
  /// The word of an enumeration: `#stablehlo<comparison_direction LT>` or `LT`.
  std::string_view keyword(const Operation& op, std::string_view key);
  std::string text(const Operation& op, std::string_view key);
  /// `#stablehlo.gather<offset_dims = [1], ...>` as attributes.
  std::vector<Attribute> fields(const Attribute& a);
  /// The same under the name and place of the operation, for what reads an operation's attributes.
  Operation fields_of(const Operation& op, const Attribute& a);
  /// The fields of that attribute, or the operation's own attributes if they are flat.
  Operation fields_or_own(const Operation& op, std::string_view key);
  /// `{a = 1, b = 2}` as attributes.
  std::vector<Attribute> dictionary(const Attribute& a, const char* where);
  std::vector<std::string> precision(const Operation& op);
  std::string_view expanded(std::string_view value);
  Dims dims_of(std::string_view value);
  Dims read_dims(std::string_view value);
  /// Bytecode has the text of an attribute once, however often it is used.
  bool shared_texts() const { return in_.places() != nullptr; }
  bool dense_integers(Dims* out);

  void attribute_dict(std::vector<Attribute>* out, char close);

  // literals.cc
  /// `dense<...> : type` and its like. A splat gives a scalar.
  Literal literal(const Shape** type);
  Literal aliased_literal(const Shape** type);
  Literal bare_literal(std::string_view word, const char* at, const Shape** type);
  const Shape* type_behind_elements(const char* constant);
  std::string_view resource_digits(const char* start);
  Literal dense(const Shape& type);
  Literal blob(std::string_view hex, const Shape& type, const char* at);
  void resources();
  /// The value of a constant that is kept elsewhere, whose name comes next.
  virtual Literal resource_literal(const Shape& type);

  // locations.cc
  const Cow<ir::Metadata>& metadata_of(std::string_view location);
  ir::Metadata parse_location(int depth);

  // sdy.cc
  /// A mesh that StableHLO's attribute holds itself; null if it only names one.
  MeshRef mesh_in_place(const Operation& op, const Attribute& mesh);
  /// What the aliases in it stand for put in place, and `#sdy<sharding<...>>` as
  /// `#sdy.sharding<...>`.
  std::string expanded_sdy(std::string_view text);
  void append_expanded(std::string_view text, int depth, std::string* out);
  std::size_t append_opened(std::string_view text, std::size_t bracket, int depth,
                            std::string* out);

  // regions.cc
  ir::Instruction* add_to(ir::Computation* c, ir::Opcode opcode, Shape shape, ir::Attributes attrs,
                          std::vector<ir::Instruction*> operands);
  ir::Computation* binary_computation(ir::Opcode opcode, DType dtype);

  // build.cc: making instructions
  ir::Instruction* add(const Operation& op, ir::Opcode opcode, Shape shape,
                       std::vector<ir::Instruction*> operands, ir::Attributes attributes = {},
                       std::vector<ir::Computation*> called = {});
  /// What operands and attributes give; ParseError where that is nothing, or isn't as declared.
  Shape inferred(const Operation& op, ir::Opcode opcode,
                 const std::vector<ir::Instruction*>& operands, const ir::Attributes& attributes,
                 const std::vector<ir::Computation*>& called, const Shape* declared);
  /// ParseError where the shape isn't what operands and attributes give.
  void check_shape(const Operation& op, const ir::Instruction& i);
  /// The one result with the type that the text gives.
  void set(Operation& op, ir::Opcode opcode, std::vector<ir::Instruction*> operands,
           ir::Attributes attributes = {}, std::vector<ir::Computation*> called = {});
  /// Several results: a tuple and its elements; one: as set(). Returns what makes them.
  ir::Instruction* set_results(Operation& op, ir::Opcode opcode,
                               std::vector<ir::Instruction*> operands,
                               ir::Attributes attributes = {},
                               std::vector<ir::Computation*> called = {});
  void unpack(Operation& op, ir::Instruction* tuple, std::size_t count);
  ir::Instruction* element(const Operation& op, ir::Instruction* tuple, std::size_t index);
  ir::Instruction* scalar_constant(const Operation& op, DType dtype, double value);
  ir::Instruction* splat(const Operation& op, ir::Instruction* scalar, const Dims& dims);
  ir::Instruction* broadcast_to(const Operation& op, ir::Instruction* x, const Shape& to,
                                const Dims& dims);
  /// The value of an operand that must be a constant.
  Dims constant_integers(const Operation& op, std::size_t operand);

  // convert/open_results.cc: results whose types leave sizes open
  /// Gives an open result the sizes that operands and attributes say it has.
  void close_result(Operation& op, std::size_t n, const Shape& actual);
  /// All of them, by shape inference.
  void close_results(Operation& op, ir::Opcode opcode,
                     const std::vector<ir::Instruction*>& operands,
                     const ir::Attributes& attributes, const std::vector<ir::Computation*>& called);
  [[noreturn]] void fail_open(const Operation& op, const Shape& type, const std::string& why);

  void set_shardings(Operation& op);
  void pend(ir::Instruction* i, std::string_view sdy, std::string_view tiling);
  void pend_attributes(ir::Instruction* i, const std::vector<Attribute>& attributes);
  std::map<std::string, std::string> frontend(const Attribute& a);
  void need_operands(const Operation& op, std::size_t least, std::size_t most);
  void need_results(const Operation& op, std::size_t count);
  void need_regions(const Operation& op, std::size_t count);
  [[noreturn]] void fail(const Operation& op, const std::string& message);
  [[noreturn]] void not_supported(const Operation& op, const std::string& message);

  Frame& frame() { return *frames_.back(); }
  ir::Computation* current() { return frames_.back()->computation; }

  Cursor in_;
  TypeParser types_;
  std::unique_ptr<ir::Module> module_;
  std::vector<Frame*> frames_;
  std::int64_t next_number_ = 0;
  /// Whether the text leaves sizes of dims open; it is read for those of the arguments then.
  bool open_ = false;
  KnownIntegers known_;
  TypeParser::Aliases attribute_aliases_;
  std::unordered_map<std::string_view, std::string_view> resources_;
  std::unordered_map<std::string_view, Cow<ir::Metadata>> locations_;
  const std::pair<const std::string_view, Cow<ir::Metadata>>* last_location_ = nullptr;
  /// What texts of attributes stand for, by where they are, if operations share them.
  std::unordered_map<const char*, Dims> dims_read_;
  Cow<ir::Metadata> here_;  ///< scratch
  std::map<std::pair<ir::Opcode, DType>, ir::Computation*> binary_computations_;
  struct DeclaredMesh {
    std::string_view name, text;
    MeshRef mesh;
  };
  std::vector<DeclaredMesh> meshes_;
  std::vector<ir::PendingSharding> pending_;
};

}  // namespace tessera::text
