// SPDX-License-Identifier: Apache-2.0
// Encodes attributes that are written as text.
#include "src/text/bytecode/attributes.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "src/base/files/plain_numbers.h"
#include "src/text/bytecode/codes.h"
#include "src/text/bytecode/enumerations.h"
#include "src/text/read/types.h"
#include "src/text/write/text.h"

namespace tessera::text {

using A = VhloAttribute;

namespace {

/// The same text gives the same number.
template <class F>
std::uint32_t remembered(TextMap<std::uint32_t>* known, std::string_view text, F&& make) {
  if (const auto it = known->find(text); it != known->end()) return it->second;
  const std::uint32_t number = make();
  known->emplace(text, number);
  return number;
}

struct EnumerationName {
  std::string_view name;
  A::Code code;
  std::span<const char* const> words;
};
constexpr EnumerationName kEnumerations[] = {
    {"comparison_direction", A::kComparisonDirection, kComparisonDirections},
    {"comparison_type", A::kComparisonType, kComparisonTypes},
    {"fft_type", A::kFftType, kFftTypes},
    {"precision", A::kPrecision, kPrecisions},
    {"rng_algorithm", A::kRngAlgorithm, kRngAlgorithms},
    {"rng_distribution", A::kRngDistribution, kRngDistributions},
    {"transpose", A::kTranspose, kTransposes},
    {"result_accuracy_mode", A::kResultAccuracyMode, kAccuracyModes},
};

std::size_t word_number(std::span<const char* const> words, std::string_view word) {
  return std::size_t(std::find(words.begin(), words.end(), word) - words.begin());
}

}  // namespace

std::uint32_t AttributeEncoder::vhlo(std::string_view text) {
  return remembered(&known_, text, [&] {
    Cursor in(text, "<attribute>");
    const std::uint32_t number = value(in);
    if (!in.at_end()) in.fail("expected the end of the attribute");
    return number;
  });
}

std::uint32_t AttributeEncoder::value(Cursor& in) {
  const char c = in.peek();
  if (c == '"') return string(in.string("a text"));
  if (c == '[') return array(in);
  if (c == '{') return dictionary_value(in);
  if (c == '#') return of_dialect(in);
  if (in.accept('@')) return string(unescape(in.suffix("a symbol")));
  if (c == '-' || is_decimal(c)) return number(in);
  ByteWriter out;
  for (std::size_t n = 0; n < std::size(kTruthValues); ++n) {
    if (!in.accept_word(kTruthValues[n])) continue;
    out.varint(A::kBoolean);
    out.varint(n);
    return add(out);
  }
  if (in.accept_text("array<")) return numbers(in);
  if (in.accept_text("dense<")) return dense(in);
  // vhlo has none of its own.
  if (in.accept_word("unit")) return native("unit");
  const std::uint32_t type = parsed_type(in);
  out.varint(A::kType);
  out.varint(type);
  return add(out);
}

std::uint32_t AttributeEncoder::string(std::string_view text) {
  ByteWriter out;
  out.varint(A::kString);
  out.varint(tables_.string(text));
  return add(out);
}

std::uint32_t AttributeEncoder::array(Cursor& in) {
  in.expect('[', "before a list");
  std::vector<std::uint32_t> items;
  in.items(']', "behind a list", [&] { items.push_back(value(in)); });
  ByteWriter out;
  out.varint(A::kArray);
  out.varint(items.size());
  for (std::uint32_t n : items) out.varint(n);
  return add(out);
}

std::uint32_t AttributeEncoder::dictionary_value(Cursor& in) {
  in.expect('{', "before a dictionary");
  std::vector<std::pair<std::string, std::uint32_t>> items;
  in.items('}', "behind a dictionary", [&] {
    std::string key =
        in.peek() == '"' ? in.string("a name") : std::string(in.word("the name of an attribute"));
    const std::uint32_t item = in.accept('=') ? value(in) : native("unit");
    items.emplace_back(std::move(key), item);
  });
  std::sort(items.begin(), items.end());
  ByteWriter out;
  out.varint(A::kDictionary);
  out.varint(items.size());
  for (const auto& [key, item] : items) {
    out.varint(string(key));
    out.varint(item);
  }
  return add(out);
}

std::uint32_t AttributeEncoder::of_dialect(Cursor& in) {
  const char* start = in.position();
  if (!in.accept_text("#stablehlo")) return native(in.value());
  if (in.accept('<')) {
    const std::string_view name = in.word("the name of an enumeration");
    const std::string_view word = in.word("its value");
    in.expect('>', "behind an enumeration");
    for (const EnumerationName& e : kEnumerations) {
      const std::size_t number = e.name == name ? word_number(e.words, word) : e.words.size();
      if (number == e.words.size()) continue;
      ByteWriter out;
      out.varint(e.code);
      out.varint(number);
      return add(out);
    }
    in.fail_at(start, "this value is not known");
  }
  if (in.accept_text(".output_operand_alias<")) return alias(in);
  in.fail_at(start, "this attribute has no form in bytecode");
}

std::uint32_t AttributeEncoder::alias(Cursor& in) {
  ByteWriter out;
  out.varint(A::kOutputOperandAlias);
  const auto list = [&](const char* name) {
    in.expect_word(name, "in an alias");
    in.expect('=', "behind a name");
    const Dims dims = in.bracketed_integers("an index");
    out.varint(dims.size());
    for (std::int64_t d : dims) out.signed_varint(d);
    in.accept(',');
  };
  list("output_tuple_indices");
  in.expect_word("operand_index", "in an alias");
  in.expect('=', "behind a name");
  out.signed_varint(in.integer("the number of an operand"));
  in.expect(',', "behind a number");
  list("operand_tuple_indices");
  in.expect('>', "behind an alias");
  return add(out);
}

void AttributeEncoder::fields(std::string_view text,
                              std::vector<std::pair<std::string_view, std::uint32_t>>* out) {
  Cursor in(text, "<attribute>");
  in.seek(text.data() + std::min(text.find('<'), text.size()));
  in.expect('<', "before the fields of an attribute");
  in.items('>', "behind the fields of an attribute", [&] {
    const std::string_view name = in.word("the name of a field");
    in.expect('=', "behind the name of a field");
    const char c = in.peek();
    const std::uint32_t number = c == '['                    ? dims(in.bracketed_integers("dims"))
                                 : c == '-' || is_decimal(c) ? integer(in.integer("a number"))
                                                             : value(in);
    out->emplace_back(name, number);
  });
}

void AttributeEncoder::convolution(std::string_view text,
                                   std::vector<std::pair<std::string_view, std::uint32_t>>* out) {
  Cursor in(text, "<attribute>");
  in.expect_text("#stablehlo.conv<", "before the dims of a convolution");
  struct Side {
    char first, second;
    const char *before, *first_name, *second_name, *spatial_name;
  };
  constexpr Side kSides[] = {{'b', 'f', "", "input_batch_dimension", "input_feature_dimension",
                              "input_spatial_dimensions"},
                             {'i', 'o', "x", "kernel_input_feature_dimension",
                              "kernel_output_feature_dimension", "kernel_spatial_dimensions"},
                             {'b', 'f', "->", "output_batch_dimension", "output_feature_dimension",
                              "output_spatial_dimensions"}};
  for (const Side& side : kSides) {
    in.expect_text(side.before, "between the dims of a convolution");
    in.expect('[', "before the dims of a convolution");
    std::int64_t place = 0, first = 0, second = 0;
    Dims spatial;
    in.items(']', "behind the dims of a convolution", [&] {
      if (is_decimal(in.peek())) {
        const auto n = std::size_t(in.integer("a dim"));
        if (n > 64) in.fail("expected a dim");
        if (spatial.size() <= n) spatial.resize(n + 1);
        spatial[n] = place++;
      } else {
        (in.word("a dim")[0] == side.first ? first : second) = place++;
      }
    });
    out->emplace_back(side.first_name, integer(first));
    out->emplace_back(side.second_name, integer(second));
    out->emplace_back(side.spatial_name, dims(spatial));
  }
}

std::uint32_t AttributeEncoder::api_version(std::string_view text) {
  ByteWriter out;
  out.varint(A::kCallVersion);
  out.varint(word_number(kCallVersions, text));
  return add(out);
}

std::uint32_t AttributeEncoder::default_accuracy() {
  const std::uint32_t mode = vhlo("#stablehlo<result_accuracy_mode DEFAULT>");
  ByteWriter out;
  out.varint(A::kResultAccuracy);
  out.signed_varint(0);  // the bits of atol, rtol, and ulps
  out.signed_varint(0);
  out.signed_varint(0);
  out.varint(mode);
  return add(out);
}

std::uint32_t AttributeEncoder::native(std::string_view text) {
  std::string_view dialect = "builtin";
  for (std::string_view other : {"sdy", "chlo", "mhlo", "stablehlo"}) {
    if (text.starts_with("#" + std::string(other))) dialect = other;
  }
  return remembered(&known_native_, text, [&] { return tables_.attribute_text(dialect, text); });
}

std::uint32_t AttributeEncoder::builtin_string(std::string_view text) {
  ByteWriter out;
  out.varint(BuiltinAttribute::kString);
  out.varint(tables_.string(text));
  return tables_.attribute("builtin", out);
}

std::uint32_t AttributeEncoder::dictionary(
    std::vector<std::pair<std::string_view, std::uint32_t>> entries) {
  std::sort(entries.begin(), entries.end());
  ByteWriter out;
  out.varint(BuiltinAttribute::kDictionary);
  out.varint(entries.size());
  for (const auto& [key, number] : entries) {
    out.varint(builtin_string(key));
    out.varint(number);
  }
  return tables_.attribute("builtin", out);
}

std::uint32_t AttributeEncoder::location(const ir::Metadata& m) {
  if (m.op_name.empty() && m.source_file.empty()) {
    if (!unknown_location_) {
      ByteWriter out;
      out.varint(BuiltinAttribute::kUnknownLocation);
      unknown_location_ = tables_.attribute("builtin", out);
    }
    return *unknown_location_;
  }
  const std::string key = m.op_name + '\0' + m.source_file + '\0' + std::to_string(m.source_line);
  return remembered(&locations_, key, [&] {
    ByteWriter inner;
    if (m.source_file.empty()) {
      inner.varint(BuiltinAttribute::kUnknownLocation);
    } else {
      inner.varint(BuiltinAttribute::kFileLineColumn);
      inner.varint(builtin_string(m.source_file));
      inner.varint(std::uint64_t(std::max<std::int64_t>(m.source_line, 0)));
      inner.varint(0);
    }
    const std::uint32_t place = tables_.attribute("builtin", inner);
    if (m.op_name.empty()) return place;
    ByteWriter out;
    out.varint(BuiltinAttribute::kNameLocation);
    out.varint(builtin_string(m.op_name));
    out.varint(place);
    return tables_.attribute("builtin", out);
  });
}

}  // namespace tessera::text
