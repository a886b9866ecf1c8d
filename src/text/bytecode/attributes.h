// SPDX-License-Identifier: Apache-2.0
// Attributes and types, which the writer has as text, as entries of a bytecode file; entries.h
// goes the other way.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"
#include "src/text/bytecode/tables.h"
#include "src/text/read/cursor.h"

namespace tessera::text {

/// Results are numbers of entries. ParseError for text that isn't MLIR's, or that has no form in
/// bytecode.
class AttributeEncoder {
 public:
  explicit AttributeEncoder(BytecodeTables& tables) : tables_(tables) {}

  /// An attribute of StableHLO as vhlo's; those of sdy stay what they are.
  std::uint32_t vhlo(std::string_view text);
  std::uint32_t vhlo_type(const Shape& shape);
  std::uint32_t vhlo_type(std::string_view text);
  std::uint32_t vhlo_function_type(const std::vector<const Shape*>& arguments,
                                   const std::vector<const Shape*>& results);
  std::uint32_t constant(const Literal& value);
  std::uint32_t api_version(std::string_view text);
  /// How exact a function is: as is usual.
  std::uint32_t default_accuracy();

  /// As it is: an attribute of builtin, sdy, chlo or mhlo.
  std::uint32_t native(std::string_view text);
  std::uint32_t native_type(const Shape& shape);
  /// A text of builtin: names of entries, of the module.
  std::uint32_t builtin_string(std::string_view text);
  /// A dictionary of builtin, of names and numbers.
  std::uint32_t dictionary(std::vector<std::pair<std::string_view, std::uint32_t>> entries);
  std::uint32_t location(const ir::Metadata& metadata);

  /// The fields of `#stablehlo.gather<offset_dims = [0], ...>`, each as vhlo has it.
  void fields(std::string_view text, std::vector<std::pair<std::string_view, std::uint32_t>>* out);
  /// `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`
  void convolution(std::string_view text,
                   std::vector<std::pair<std::string_view, std::uint32_t>>* out);
  std::uint32_t integer(std::int64_t v) { return vhlo(std::to_string(v) + " : i64"); }
  std::uint32_t dims(const Dims& dims);
  std::uint32_t string(std::string_view text);

 private:
  std::uint32_t value(Cursor& in);
  std::uint32_t array(Cursor& in);
  std::uint32_t dictionary_value(Cursor& in);
  std::uint32_t number(Cursor& in);
  std::uint32_t numbers(Cursor& in);  // array<i64: 1>
  std::uint32_t dense(Cursor& in);
  std::uint32_t of_dialect(Cursor& in);
  std::uint32_t alias(Cursor& in);
  std::uint32_t tensor(const Dims& dims, std::string_view element, std::string bytes);
  std::uint32_t parsed_type(Cursor& in);
  std::uint32_t add(const ByteWriter& encoded) { return tables_.attribute("vhlo", encoded); }

  BytecodeTables& tables_;
  TextMap<std::uint32_t> known_, known_types_, known_native_, locations_;
  std::optional<std::uint32_t> unknown_location_;
};

}  // namespace tessera::text
