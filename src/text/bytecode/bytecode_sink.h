// SPDX-License-Identifier: Apache-2.0
// StableHLO as MLIR bytecode: a portable artifact in vhlo, with sdy, chlo and mhlo as they are.
#pragma once

#include <unordered_map>
#include <vector>

#include "src/text/bytecode/attributes.h"
#include "src/text/bytecode/properties.h"
#include "src/text/bytecode/tables.h"
#include "src/text/write/sink.h"

namespace tessera::text {

/// Keeps the operations until all are known: the numbers of values in a region depend on how many
/// values those around it have. Operations that aren't vhlo's take values of builtin types, by
/// casts.
class BytecodeSink final : public Sink {
 public:
  explicit BytecodeSink(bool locations) : locations_(locations), attributes_(tables_) {}

  bool has_short_forms() const override { return false; }
  void module(std::string_view name, const Entries& attributes) override;
  void mesh(std::string_view symbol, std::string_view mesh) override;
  Values function(const FunctionHead& head) override;
  void end_function(const Values& returned) override;
  Values op(const Op& op, const ir::Metadata& metadata) override;
  Values region(const Types& arguments) override;
  void end_region(std::string_view terminator, const Values& returned) override;
  std::string finish() override;

 private:
  using Number = std::uint32_t;
  using Numbers = std::vector<Number>;
  struct Region;
  struct Node {
    Number name = 0, location = 0;
    Number attributes = 0, properties = 0;
    bool has_attributes = false, has_properties = false, isolated = false;
    Number first_result = 0;
    Numbers types, operands;  ///< of results; values
    std::vector<Region> regions;
  };
  struct Region {
    Number first_argument = 0;
    Numbers types, locations;  ///< of arguments; only functions have locations
    std::vector<Node> nodes;
    Number id = 0;
  };
  /// What is known of a name.
  struct Name {
    Number number = 0;
    bool vhlo = false;
    const std::vector<text::Property>* properties = nullptr;
  };
  struct Native {
    Number value = 0, region = 0;
  };

  // bytecode_sink.cc: the operations
  const Name& name_of(std::string_view name);
  Node node(std::string_view name, const ir::Metadata& metadata);
  Region& current() { return regions_.back(); }
  void begin_region();
  /// Its results, from first_result on.
  void append(Node node);
  Number cast(Number value, Number type);
  Number native(const Value& v);
  Values casted(const Types& types, Number first);
  void operands(const Values& values, bool vhlo, Node* node);

  // bytecode_properties.cc
  void attributes(const Op& op, const Name& name, Node* node);
  void collect(const Op& op, bool vhlo, std::vector<std::pair<std::string_view, Number>>* all);
  void collect_vhlo(const Op& op, std::string_view key, std::string_view text,
                    std::vector<std::pair<std::string_view, Number>>* all);
  Number default_of(std::string_view key);
  void function_properties(const FunctionHead& head, Node* node);
  Number argument_attributes(const std::vector<Entries>& list);

  // bytecode_sink.cc: their bytes
  void write(const Node& node, Number base, ByteWriter& out);
  void write(const Region& region, Number base, ByteWriter& out);

  bool locations_;
  BytecodeTables tables_;
  AttributeEncoder attributes_;
  TextMap<Name> names_;
  std::vector<Region> regions_;  ///< that are open, from the outside
  std::vector<Node> nodes_;      ///< whose regions are written
  Number next_value_ = 0, next_region_ = 0;
  std::unordered_map<Number, Native> natives_;  ///< casts of values
  Numbers numbers_;                             ///< of values in their regions
};

}  // namespace tessera::text
