// SPDX-License-Identifier: Apache-2.0
// Attributes and types of a bytecode file, as MLIR writes them in text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/bytecode/file.h"

namespace tessera::text {

/// The texts of all attributes and types, one after the other: what is read of an operation of the
/// text form is read of these, too. Locations have no text, and large constants stand as
/// `dense_resource<"12"> : tensor<...>`, by the number of the attribute. vhlo's attributes and
/// types are written as those of StableHLO that they stand for.
class EntryTexts {
 public:
  explicit EntryTexts(const BytecodeFile& file);

  std::string_view all() const { return out_; }
  /// Empty: a location.
  std::string_view attribute(std::size_t n) const { return text(attributes_[n]); }
  std::string_view type(std::size_t n) const { return text(types_[n]); }
  /// Where the entry is encoded whose text holds this place.
  const char* encoded_at(const char* where) const;
  /// Whether an attribute says that something optional isn't there.
  bool is_none(std::size_t n) const;

 private:
  struct Range {
    std::size_t begin = 0, size = 0;
    bool done = false;
  };
  enum class Elision : std::uint8_t { never, may };
  class Deeper;

  std::string_view text(const Range& r) const {
    return std::string_view(out_).substr(r.begin, r.size);
  }
  void write_all(const std::vector<BytecodeFile::Entry>& entries, bool types,
                 std::vector<Range>* out);
  void entry(std::size_t n, bool type, Elision elision);

  // entries.cc: parts of texts
  void check_size(const ByteReader& in) const;
  void add(std::string_view text) { out_ += text; }
  void add_integer(std::int64_t v);
  void add_quoted(std::string_view raw);
  /// Bare if it is a word, else quoted.
  void add_name(std::string_view raw);
  void add_attribute(ByteReader& in, Elision elision = Elision::never);
  void add_attribute_number(std::size_t n, Elision elision = Elision::never);
  void add_type(ByteReader& in);
  /// What `read` writes for each of a list, with commas between.
  template <class F>
  void add_list(ByteReader& in, const char* what, F&& read) {
    const std::size_t n = in.count(what);
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0) add(", ");
      read();
      check_size(in);
    }
  }
  void add_attributes(ByteReader& in, Elision elision = Elision::never);
  void add_types(ByteReader& in);
  void add_function_type(ByteReader& in);
  /// What begins so, the types that it is of, and `>`.
  void add_type_of(std::string_view open, ByteReader& in);
  void add_type_of_all(std::string_view open, ByteReader& in);
  /// `1, 2`
  void add_integers(ByteReader& in);
  /// `, name = `, without the comma behind an opening bracket.
  void add_field(std::string_view name);
  void add_integers_field(ByteReader& in, std::string_view name);
  void add_integer_field(ByteReader& in, std::string_view name);
  /// The word of an enumeration; there is none where a word is empty.
  void add_word(ByteReader& in, std::span<const char* const> words, const char* what);
  /// `{a = 1, b}`
  void add_dictionary(ByteReader& in);
  void add_unknown(std::string_view dialect, std::uint64_t code, bool type, ByteReader& in);
  std::string_view string_of(ByteReader& in) const;
  /// What a string attribute holds.
  std::string_view string_attribute(ByteReader& in) const;
  std::string type_text(ByteReader& in);
  std::size_t attribute_index(ByteReader& in) const;
  std::size_t type_index(ByteReader& in) const;

  // numbers.cc
  void add_integer_of(ByteReader& in, std::string_view type, Elision elision);
  void add_float_of(ByteReader& in, std::string_view type, Elision elision);
  void add_dense(std::size_t n, std::string_view type, std::string_view bytes);
  bool add_small_dense(std::string_view type, std::string_view bytes);
  void add_array(ByteReader& in);
  /// A scale of a quantized type.
  void add_double(ByteReader& in);
  std::uint64_t bits(ByteReader& in, int width) const;

  // builtin.cc
  void builtin_attribute(std::size_t n, ByteReader& in, Elision elision);
  void builtin_type(ByteReader& in);
  void add_tensor(ByteReader& in, std::string_view encoding);
  /// With its encoding in front of it.
  void add_encoded_tensor(ByteReader& in);
  void quant_type(ByteReader& in, std::uint64_t code);
  /// `!quant.uniform<...>`, whose encoding vhlo shares.
  void uniform_quantized(ByteReader& in, bool per_axis);
  // vhlo.cc
  void vhlo_attribute(std::size_t n, ByteReader& in, Elision elision);
  bool vhlo_compound(std::uint64_t code, ByteReader& in);
  void vhlo_type(ByteReader& in);
  // stablehlo.cc, also chlo
  void stablehlo_attribute(ByteReader& in);
  bool stablehlo_enumeration(std::uint64_t code, ByteReader& in);
  bool stablehlo_compound(std::uint64_t code, ByteReader& in);
  void stablehlo_type(ByteReader& in);
  void chlo_attribute(ByteReader& in);
  /// Fields of lists of integers and, where a name begins with '#', of integers.
  void add_dims(ByteReader& in, std::string_view open, std::span<const char* const> names);
  void dot_algorithm(ByteReader& in);
  void output_operand_alias(ByteReader& in);
  void bounds(ByteReader& in);
  void result_accuracy(ByteReader& in);
  void sub_axis(ByteReader& in);
  // sdy.cc
  void sdy_attribute(ByteReader& in);
  void sdy_sharding(ByteReader& in, bool partial, bool reduced);
  void sdy_rule(ByteReader& in);
  /// Without the prefix, if it has it.
  void add_stripped(ByteReader& in, std::string_view prefix);

  const BytecodeFile& file_;
  std::string out_;
  std::size_t most_;
  int depth_ = 0;
  std::vector<Range> attributes_, types_;
};

/// `tensor<2x3xf32>` in parts; only a text of ours.
struct TensorText {
  explicit TensorText(std::string_view type);
  std::vector<std::int64_t> dims;
  std::string_view element;
  std::size_t count = 1;  ///< elements, at most 2^40; more count as that
};

/// Whether a constant of i1, in any of its encodings, is true at i.
bool truth_at(std::string_view bytes, std::size_t count, std::size_t i);
/// Whether these bytes are one truth value for all.
bool is_truth_splat(std::string_view bytes, std::size_t count);

}  // namespace tessera::text
