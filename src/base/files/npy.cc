// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy's .npy files, with its Python-dict header and both memory orders.
#include "src/base/files/npy.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "src/base/arrays/dtype_names.h"
#include "src/base/files/file_io.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "files are written in this byte order");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::int64_t kMaxRank = 64;

/// The header: a Python dict of 'descr', 'fortran_order' and 'shape'.
struct Header {
  std::string descr;
  std::optional<bool> fortran;
  std::optional<Dims> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& who) : text_(text), who_(who) {}

  Header parse() {
    Header out;
    bool has_descr = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        skip();
        if (peek() != '\'' && peek() != '"') fail("it holds records; only plain types are read");
        out.descr = quoted();
        has_descr = true;
      } else if (key == "fortran_order") {
        out.fortran = boolean();
      } else if (key == "shape") {
        out.shape = shape();
      } else {
        fail("an unknown key '" + key + "'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) fail("text after the dict");
    if (!has_descr || !out.fortran || !out.shape) {
      fail("descr, fortran_order and shape are needed");
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(who_ + ": the header of this .npy file can't be read: " + what + " (character " +
                  std::to_string(at_) + " of it)");
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  bool word(std::string_view w) {
    skip();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string quoted() {
    skip();
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a quoted word");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a quote is not closed");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    if (word("True")) return true;
    if (word("False")) return false;
    fail("expected True or False");
  }
  Dims shape() {
    Dims out;
    expect('(');
    while (!take(')')) {
      skip();
      if (!std::isdigit(static_cast<unsigned char>(peek()))) fail("expected a size");
      std::int64_t size = 0;
      while (std::isdigit(static_cast<unsigned char>(peek()))) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, std::int64_t(peek() - '0'), &size)) {
          fail("a size that no 64-bit number holds");
        }
        ++at_;
      }
      if (peek() == 'L') ++at_;  // as Python 2 wrote it
      out.push_back(size);
      if (std::int64_t(out.size()) > kMaxRank) fail("more dimensions than numpy allows");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  const std::string& who_;
  std::size_t at_ = 0;
};

struct Element {
  DType dtype;
  bool swap = false;
};

/// '<f4' and the like.
Element element_of(const std::string& descr, std::optional<DType> as, const std::string& who) {
  auto refuse = [&](const std::string& why) -> IoError {
    return IoError(who + ": elements of numpy type '" + descr + "' " + why);
  };
  std::string_view d = descr;
  char order = '=';
  if (!d.empty() && std::string_view("<>=|").find(d[0]) != std::string_view::npos) {
    order = d[0];
    d.remove_prefix(1);
  }
  if (d == "?") d = "b1";
  if (d.size() < 2 || d.size() > 3 ||
      !std::all_of(d.begin() + 1, d.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    throw refuse("have no counterpart");
  }
  const char kind = d[0];
  std::size_t width = 0;
  for (char c : d.substr(1)) width = width * 10 + std::size_t(c - '0');
  const bool swap = order == '>' && width > 1;

  // Libraries of small types write bf16 with a byte order, numpy its own raw bytes without one.
  if (!as && descr == "<V2") return {DType::bf16, false};
  // Raw bytes, and the kinds that libraries of small types register in their place.
  const bool numpy_lacks_it = as && byte_size(*as) == width && [&] {
    switch (*as) {
      case DType::bf16:
        return kind == 'V';
      case DType::s1:
      case DType::s2:
      case DType::s4:
        return kind == 'V' || kind == 'i';
      case DType::u1:
      case DType::u2:
      case DType::u4:
        return kind == 'V' || kind == 'u';
      default:
        return is_floating(*as) && width == 1 && (kind == 'V' || kind == 'f');
    }
  }();
  if (numpy_lacks_it) return {*as, swap};
  if (kind == 'V') {
    throw refuse(
        "are raw bytes of " + std::to_string(width) + ", and " +
        (as ? std::string(name(*as)) + " is requested, of " + std::to_string(byte_size(*as))
            : std::string("no type is requested for them")));
  }
  const std::string ours = (width == 1 ? "|" : "<") + (kind + std::to_string(width));
  if (const std::optional<DType> dtype = dtype_from_npy(ours)) return {*dtype, swap};
  throw refuse("have no counterpart");
}

void swap_bytes(std::byte* data, std::int64_t elements, DType dtype) {
  // The bytes of the real and the imaginary part are swapped separately.
  const std::size_t width = byte_size(dtype) / (is_complex(dtype) ? 2 : 1);
  const std::size_t count = std::size_t(elements) * (is_complex(dtype) ? 2 : 1);
  for (std::size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

/// From column-major to row-major.
Literal from_fortran(const Shape& shape, const std::byte* from) {
  Literal out(shape);
  std::byte* to = out.mutable_bytes();
  const std::size_t width = byte_size(shape.dtype);
  const std::int64_t count = out.element_count();
  Dims index(shape.dims.size(), 0);
  const Dims strides = row_major_strides(shape.dims);
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + std::size_t(position) * width, from + std::size_t(i) * width, width);
    for (std::size_t d = 0; d < index.size(); ++d) {
      position += strides[d];
      if (++index[d] < shape.dims[d]) break;
      position -= strides[d] * shape.dims[d];
      index[d] = 0;
    }
  }
  return out;
}

std::string descr_of(DType dtype) {
  if (npy_name(dtype).empty()) {
    throw ValueError("a " + std::string(name(dtype)) + " can't be written as .npy");
  }
  return std::string(npy_name(dtype));
}

}  // namespace

namespace {

/// No header of numpy's is near this long: at most 64 sizes and a type.
constexpr std::size_t kMaxHeader = std::size_t(1) << 20;
/// The magic number, the version and the longer of the two lengths of a header.
constexpr std::size_t kPreamble = 12;

IoError cut_short(const std::string& who) { return IoError(who + ": the .npy file is cut short"); }

/// Where the header of a file begins and its data do, read from the file's first bytes.
struct Extent {
  std::size_t header = 0, data = 0;
};
Extent extent_of(std::string_view first, std::uint64_t file_bytes, const std::string& who) {
  if (first.substr(0, kMagic.size()) != kMagic) throw IoError(who + " is no .npy file");
  if (first.size() < 8) throw cut_short(who);
  const int version = static_cast<unsigned char>(first[6]);
  if (version < 1 || version > 3) {
    throw IoError(who + ": .npy format " + std::to_string(version) +
                  " is unknown; 1 to 3 are read");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + length_bytes;
  if (first.size() < begin) throw cut_short(who);
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(first[8 + i]);
  }
  if (length > file_bytes - begin) throw cut_short(who);
  if (length > kMaxHeader) {
    throw IoError(who + ": the header of this .npy file has " + std::to_string(length) +
                  " bytes; at most " + std::to_string(kMaxHeader) + " are read");
  }
  return {begin, begin + length};
}

/// What the header says of the data.
struct Contents {
  Element element;
  Shape shape;
  bool fortran = false;
  std::size_t bytes = 0;
};
Contents contents_of(std::string_view text, std::uint64_t data_bytes, std::optional<DType> as,
                     const std::string& who) {
  const Header header = HeaderParser(text, who).parse();
  Contents out;
  out.element = element_of(header.descr, as, who);
  out.shape = Shape(out.element.dtype, *header.shape);
  std::int64_t need = 0;
  try {
    need = out.shape.byte_count();
  } catch (const ValueError& e) {
    throw IoError(who + ": " + e.message());
  }
  if (std::uint64_t(need) > data_bytes) {
    throw IoError(who + ": the .npy file is cut short: " + out.shape.to_string() + " takes " +
                  std::to_string(need) + " bytes and " + std::to_string(data_bytes) + " are there");
  }
  out.fortran = *header.fortran && out.shape.rank() > 1;
  out.bytes = std::size_t(need);
  return out;
}

/// From the order of the file's elements and bytes to ours.
Literal in_our_order(const Contents& contents, Literal read) {
  Literal out = contents.fortran ? from_fortran(contents.shape, read.bytes()) : std::move(read);
  const DType dtype = contents.element.dtype;
  if (contents.element.swap) swap_bytes(out.mutable_bytes(), out.element_count(), dtype);
  if (dtype == DType::pred) {
    // The rest of the library expects booleans to be 0 or 1.
    std::byte* p = out.mutable_bytes();
    for (std::int64_t i = 0; i < out.element_count(); ++i) p[i] = std::byte(p[i] != std::byte{0});
  }
  return out;
}

/// The text of the last error of the system, for messages.
std::string system_says() { return std::error_code(errno, std::generic_category()).message(); }

}  // namespace

Literal parse_npy(std::string_view bytes, const std::string& who, std::optional<DType> as) {
  const Extent extent = extent_of(bytes, bytes.size(), who);
  const std::string_view data = bytes.substr(extent.data);
  const Contents contents =
      contents_of(bytes.substr(extent.header, extent.data - extent.header), data.size(), as, who);
  const auto* from = reinterpret_cast<const std::byte*>(data.data());
  return in_our_order(contents, Literal(contents.shape, std::span(from, contents.bytes)));
}

Literal read_npy(const std::string& path, std::optional<DType> as) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("can't read " + path + ": " + system_says());
  std::error_code unknown;
  const std::uint64_t file_bytes =
      fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
  if (file_bytes == 0 || unknown) {
    // A pipe, or the like: its size isn't known before its end.
    std::ostringstream bytes;
    bytes << file.rdbuf();
    // For an empty file << sets failbit although reading succeeded.
    if (file.bad()) throw IoError("can't read " + path + ": " + system_says());
    return parse_npy(std::move(bytes).str(), path, as);
  }
  const auto read = [&](char* to, std::size_t count) {
    file.read(to, std::streamsize(count));
    if (std::size_t(file.gcount()) != count) throw cut_short(path);
  };
  std::string first(std::size_t(std::min<std::uint64_t>(kPreamble, file_bytes)), '\0');
  read(first.data(), first.size());
  const Extent extent = extent_of(first, file_bytes, path);
  std::string header(extent.data - extent.header, '\0');
  file.seekg(std::streamoff(extent.header));
  read(header.data(), header.size());
  const Contents contents = contents_of(header, file_bytes - extent.data, as, path);
  Literal values(contents.shape);
  read(reinterpret_cast<char*>(values.mutable_bytes()), contents.bytes);
  return in_our_order(contents, std::move(values));
}

std::string npy_header(const Shape& shape) {
  if (shape.is_tuple) throw ValueError("a tuple can't be written as .npy; write its elements");
  std::string dims;
  for (const std::int64_t d : shape.dims) dims += std::to_string(d) + ", ";
  if (shape.dims.size() > 1) dims.resize(dims.size() - 2);
  if (shape.dims.size() == 1) dims.pop_back();
  std::string header = "{'descr': '" + descr_of(shape.dtype) +
                       "', 'fortran_order': False, 'shape': (" + dims + "), }";
  // The data begin at a multiple of 64, after a line end.
  const std::size_t unpadded = 10 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  TESSERA_CHECK(header.size() <= std::numeric_limits<std::uint16_t>::max(), "header of a .npy");
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += char(header.size() & 0xff);
  out += char(header.size() >> 8);
  return out + header;
}

std::string to_npy(const Literal& value) {
  std::string out = npy_header(value.shape());
  out.append(reinterpret_cast<const char*>(value.bytes()), value.byte_count());
  return out;
}

void write_npy(const std::string& path, const Literal& value) {
  const std::string bytes = to_npy(value);
  ReplacedFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace tessera
