// SPDX-License-Identifier: Apache-2.0
// Writes all attributes and types of a bytecode file as text.
#include "src/text/bytecode/entries.h"

#include <algorithm>
#include <charconv>

#include <tessera/error.h>

#include "src/text/read/cursor.h"

namespace tessera::text {
namespace {

constexpr int kMaxEntryDepth = 64;
/// Attributes that name others often would be written without end.
constexpr std::size_t kMostText = std::size_t(1) << 26;

bool is_location_entry(const BytecodeFile& file, const BytecodeFile::Entry& e) {
  if (file.dialect_of(e) != BytecodeDialect::builtin) return false;
  if (!e.custom) return e.data.starts_with("loc(");
  ByteReader in = file.reader(e.data);
  const std::uint64_t code = in.varint();
  return (code >= 10 && code <= 15) || code == 22;
}

}  // namespace

/// While it lives, an entry that another one names is written.
class EntryTexts::Deeper {
 public:
  Deeper(EntryTexts& texts, const ByteReader& in) : depth_(texts.depth_) {
    if (++depth_ > kMaxEntryDepth) {
      depth_ = 0;
      in.fail("attributes or types nest deeper than " + std::to_string(kMaxEntryDepth));
    }
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;

 private:
  int& depth_;
};

EntryTexts::EntryTexts(const BytecodeFile& file)
    : file_(file), most_(kMostText + 16 * file.source.bytes.size()) {
  out_.reserve(std::min(kMostText, 8 * file.source.bytes.size()));
  types_.resize(file.types.size());
  attributes_.resize(file.attributes.size());
  write_all(file.types, true, &types_);
  write_all(file.attributes, false, &attributes_);
}

void EntryTexts::write_all(const std::vector<BytecodeFile::Entry>& entries, bool types,
                           std::vector<Range>* out) {
  for (std::size_t n = 0; n < entries.size(); ++n) {
    const std::size_t begin = out_.size();
    if (types || !is_location_entry(file_, entries[n])) entry(n, types, Elision::never);
    (*out)[n] = {begin, out_.size() - begin, true};
    // Ends what is read of a text, if not before.
    add(";\n");
  }
}

void EntryTexts::entry(std::size_t n, bool type, Elision elision) {
  const BytecodeFile::Entry& e = (type ? file_.types : file_.attributes)[n];
  ByteReader in = file_.reader(e.data);
  const Deeper deeper(*this, in);
  check_size(in);
  if (!e.custom) {
    add(in.terminated());
  } else {
    const BytecodeDialect dialect = file_.dialect_of(e);
    switch (dialect) {
      case BytecodeDialect::builtin:
        type ? builtin_type(in) : builtin_attribute(n, in, elision);
        break;
      case BytecodeDialect::vhlo:
        type ? vhlo_type(in) : vhlo_attribute(n, in, elision);
        break;
      case BytecodeDialect::stablehlo:
        type ? stablehlo_type(in) : stablehlo_attribute(in);
        break;
      case BytecodeDialect::chlo:
        if (!type) {
          chlo_attribute(in);
          break;
        }
        [[fallthrough]];
      case BytecodeDialect::sdy:
        if (!type) {
          sdy_attribute(in);
          break;
        }
        [[fallthrough]];
      case BytecodeDialect::quant:
        if (type) {
          quant_type(in, in.varint());
          break;
        }
        [[fallthrough]];
      case BytecodeDialect::unknown:
        add_unknown(file_.dialects[e.dialect].name, in.empty() ? 0 : in.varint(), type, in);
        break;
    }
  }
  if (!in.empty()) {
    in.fail(std::to_string(in.left()) + " bytes behind " + (type ? "a type" : "an attribute") +
            " of dialect " + std::string(file_.dialects[e.dialect].name) +
            ": the file is damaged, or of a newer version");
  }
}

const char* EntryTexts::encoded_at(const char* where) const {
  if (out_.empty() || where < out_.data() || where > out_.data() + out_.size()) return nullptr;
  const auto at = std::size_t(where - out_.data());
  for (const auto* table : {&types_, &attributes_}) {
    const auto after = std::upper_bound(table->begin(), table->end(), at,
                                        [](std::size_t n, const Range& r) { return n < r.begin; });
    if (after == table->begin()) continue;
    const Range& r = after[-1];
    // The end of a text belongs to it.
    if (at > r.begin + r.size + 1) continue;
    const auto n = std::size_t(after - table->begin()) - 1;
    return (table == &types_ ? file_.types : file_.attributes)[n].data.data();
  }
  return nullptr;
}

bool EntryTexts::is_none(std::size_t n) const {
  return file_.dialect_of(file_.attributes[n]) == BytecodeDialect::vhlo && attribute(n) == "none";
}

void EntryTexts::check_size(const ByteReader& in) const {
  if (out_.size() <= most_) return;
  in.fail("the attributes up to here stand for more than " + std::to_string(most_) +
          " bytes of text");
}

void EntryTexts::add_integer(std::int64_t v) {
  char text[24];
  const char* end = std::to_chars(text, text + sizeof text, v).ptr;
  out_.append(text, std::size_t(end - text));
}

void EntryTexts::add_quoted(std::string_view raw) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out_ += '"';
  for (const char c : raw) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      out_ += "\\\\";
    } else if (u < 0x20 || u >= 0x7f || c == '"') {
      out_ += '\\';
      out_ += kDigits[u >> 4];
      out_ += kDigits[u & 15];
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

void EntryTexts::add_name(std::string_view raw) {
  const auto in_word = [](char c) { return is_id_char(c) && c != '-'; };
  if (!raw.empty() && is_id_start(raw[0]) && std::all_of(raw.begin(), raw.end(), in_word)) {
    add(raw);
  } else {
    add_quoted(raw);
  }
}

std::size_t EntryTexts::attribute_index(ByteReader& in) const {
  return in.index(file_.attributes.size(), "attribute");
}

std::size_t EntryTexts::type_index(ByteReader& in) const {
  return in.index(file_.types.size(), "type");
}

void EntryTexts::add_attribute(ByteReader& in, Elision elision) {
  add_attribute_number(attribute_index(in), elision);
}

void EntryTexts::add_attribute_number(std::size_t n, Elision elision) {
  const Range& known = attributes_[n];
  if (known.done && elision == Elision::never) {
    out_.append(out_, known.begin, known.size);
  } else {
    entry(n, false, elision);
  }
}

void EntryTexts::add_type(ByteReader& in) {
  const std::size_t n = type_index(in);
  if (types_[n].done) {
    out_.append(out_, types_[n].begin, types_[n].size);
  } else {
    entry(n, true, Elision::never);
  }
}

std::string EntryTexts::type_text(ByteReader& in) {
  const std::size_t begin = out_.size();
  add_type(in);
  std::string out = out_.substr(begin);
  out_.resize(begin);
  return out;
}

std::string_view EntryTexts::string_of(ByteReader& in) const {
  return file_.strings[in.index(file_.strings.size(), "string")];
}

std::string_view EntryTexts::string_attribute(ByteReader& in) const {
  const char* at = in.position();
  const BytecodeFile::Entry& e = file_.attributes[attribute_index(in)];
  const BytecodeDialect dialect = file_.dialect_of(e);
  if (e.custom && (dialect == BytecodeDialect::builtin || dialect == BytecodeDialect::vhlo)) {
    ByteReader inner = file_.reader(e.data);
    const std::uint64_t code = inner.varint();
    const bool is_string =
        dialect == BytecodeDialect::builtin ? code == 2 || code == 3 : code == 14;
    if (is_string) return string_of(inner);
  }
  in.fail_at(at, "expected a text");
}

void EntryTexts::add_attributes(ByteReader& in, Elision elision) {
  add_list(in, "attributes", [&] { add_attribute(in, elision); });
}

void EntryTexts::add_types(ByteReader& in) {
  add_list(in, "types", [&] { add_type(in); });
}

void EntryTexts::add_function_type(ByteReader& in) {
  add("(");
  add_types(in);
  add(") -> (");
  add_types(in);
  add(")");
}

void EntryTexts::add_type_of(std::string_view open, ByteReader& in) {
  add(open);
  add_type(in);
  add(">");
}

void EntryTexts::add_type_of_all(std::string_view open, ByteReader& in) {
  add(open);
  add_types(in);
  add(">");
}

void EntryTexts::add_integers(ByteReader& in) {
  add_list(in, "integers", [&] { add_integer(in.signed_varint()); });
}

void EntryTexts::add_field(std::string_view name) {
  if (out_.back() != '<') add(", ");
  add(name);
  add(" = ");
}

void EntryTexts::add_integers_field(ByteReader& in, std::string_view name) {
  add_field(name);
  add("[");
  add_integers(in);
  add("]");
}

void EntryTexts::add_integer_field(ByteReader& in, std::string_view name) {
  add_field(name);
  add_integer(in.signed_varint());
}

void EntryTexts::add_word(ByteReader& in, std::span<const char* const> words, const char* what) {
  const char* at = in.position();
  const std::uint64_t n = in.varint();
  if (n >= words.size() || words[n][0] == '\0') {
    in.fail_at(at, std::string("there is no ") + what + " number " + std::to_string(n));
  }
  add(words[n]);
}

void EntryTexts::add_dictionary(ByteReader& in) {
  add("{");
  add_list(in, "attributes", [&] {
    add_name(string_attribute(in));
    const std::size_t before = out_.size();
    add(" = ");
    add_attribute(in);
    if (std::string_view(out_).substr(before) == " = unit") out_.resize(before);
  });
  add("}");
}

// To be met when it is used: what nothing reads may be anything.
void EntryTexts::add_unknown(std::string_view dialect, std::uint64_t code, bool type,
                             ByteReader& in) {
  add(type ? "!" : "#");
  add(dialect);
  add(".unreadable<");
  add_integer(std::int64_t(code));
  add(">");
  in.bytes(in.left());
}

}  // namespace tessera::text
