// SPDX-License-Identifier: Apache-2.0
// The reader of StableHLO as MLIR bytecode; bytecode.h is its front.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "src/text/bytecode/entries.h"
#include "src/text/bytecode/locations.h"
#include "src/text/bytecode/places.h"
#include "src/text/bytecode/properties.h"
#include "src/text/read/reader.h"

namespace tessera::text {

/// Reads operations from bytes into what the reader of text reads them into, with the texts of
/// their attributes; all that follows is shared.
class BytecodeReader final : public Reader {
 public:
  BytecodeReader(const BytecodeFile& file, const EntryTexts& texts, BytecodeLocations& locations,
                 BytecodePlaces& places);

 private:
  /// What is known of an operation's name.
  struct Name {
    std::string full, stable;
    const OpInfo* info = nullptr;
    const std::vector<Property>* properties = nullptr;
    bool vhlo = false;
    bool registered = true;
    bool has_defaults = false;  ///< some of its attributes mean the same as none
  };
  /// Values are numbered by the regions that define them, in a stack of regions.
  struct Value {
    Symbol symbol;
    const Shape* type = nullptr;
  };
  /// What of an operation stands behind its operands.
  struct Tail {
    std::size_t name = 0, regions = 0, first_result = 0;
    bool isolated = false;
  };
  /// While it lives, values are those of a region that begins.
  class RegionScope;
  /// While it lives, bytes are those of the section of an isolated operation's regions.
  class IsolatedScope;

  void scan_functions() override;
  void start_body(Function& f) override;
  void operations(Frame& frame) override;
  void end_of_operations() override { places_.finish(); }
  void define(std::string_view name, const char* at, ir::Instruction* const* values,
              std::size_t count, Origin origin) override;
  Symbol* symbol_at(const char* at, std::int64_t* number) override;
  std::string value_name(const char* at) override;
  void read_apart(Function& f) override;
  Literal resource_literal(const Shape& type) override;

  // reader.cc
  void module_item();
  void function(const Operation& op, const Tail& tail);
  void encoded_operation(bool* ended);
  void encoded_regions(Operation& op, const Tail& tail);
  void encoded_region(Operation& op, Captures* captures);
  void define_results(const Operation& op, const Tail& tail);
  /// The bytes of the regions of an isolated operation.
  std::string_view section_of_regions();
  /// The region that begins: where its arguments stand. False: it has no block.
  bool begin_region(std::vector<BlockArgument>* arguments,
                    std::vector<std::string_view>* locations);
  void block_arguments(std::vector<BlockArgument>* arguments,
                       std::vector<std::string_view>* locations);

  // operation.cc: an operation without its regions
  Tail head(Operation& op);
  void dictionary(std::size_t attribute, std::vector<Attribute>* out);
  void properties(const Name& name, std::size_t number, Operation* op);
  void segments(ByteReader& in, const Property& p, Operation* op);
  void add_attribute(std::string_view key, std::size_t number, std::vector<Attribute>* out);
  static void leave_out_defaults(Operation& op);
  void result_types(Operation& op, Tail* tail);
  void operand(Operation& op);
  void use_list_orders(std::size_t values);
  std::size_t location_index();
  std::string_view location(std::size_t attribute);
  const Shape* type(std::size_t n);
  void skip_regions(const Tail& tail, int depth);
  void skip_operation(int depth);

  // literals.cc
  std::string_view blob_of(std::size_t n, const char* at);
  Literal elements(std::string_view bytes, const Shape& type, const char* at);

  const BytecodeFile& file_;
  const EntryTexts& texts_;
  BytecodeLocations& known_locations_;
  BytecodePlaces& places_;
  std::vector<Name> names_;
  std::vector<const Shape*> types_read_;
  std::vector<bool> locations_noted_;
  ByteReader bytes_;
  std::vector<Value> values_;
  std::size_t next_value_ = 0, values_end_ = 0;
  std::uint64_t operations_left_ = 0;                   ///< of the block that was begun
  std::unordered_map<const char*, ByteReader> bodies_;  ///< by Function::body
};

}  // namespace tessera::text
