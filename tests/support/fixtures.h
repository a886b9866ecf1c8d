// SPDX-License-Identifier: Apache-2.0
// Reader of the fixtures in tests/fixtures (their format is in the README there) and the comparison
// of results with them.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"

namespace tessera::testing {

/// How far a result may be from the fixture's.
struct Tolerance {
  enum class Kind { bits, exact, ulp, close };
  Kind kind = Kind::exact;
  std::int64_t steps = 0;             ///< of ulp
  double relative = 0, absolute = 0;  ///< of close
};

/// A plain number of the language among the operands.
struct PlainScalar {
  std::string kind;  ///< bool, int, float, complex
  std::string text;
};

struct FixtureOperand {
  std::optional<Literal> array;
  PlainScalar scalar;
};

struct FixtureCase {
  std::string name;
  std::string file;
  int line = 0;
  Tolerance tolerance;
  std::string hlo;
  std::string call;                            ///< function of a `call` line
  std::map<std::string, std::string> options;  ///< key=value of a `call` line
  std::vector<FixtureOperand> operands;
  std::vector<Literal> results;  ///< leaves

  std::vector<Literal> arrays() const {
    std::vector<Literal> out;
    for (const FixtureOperand& o : operands) out.push_back(*o.array);
    return out;
  }
};

namespace internal {

[[noreturn]] inline void bad_fixture(const FixtureCase& c, const std::string& what) {
  throw ParseError(c.file + ":" + std::to_string(c.line) + ": " + what);
}

inline int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

inline Literal read_array(const FixtureCase& c, std::istringstream& words) {
  std::string type, dims_text, data;
  if (!(words >> type >> dims_text >> data)) bad_fixture(c, "an array has type, dims and data");
  const auto dtype = dtype_from_name(type);
  if (!dtype) bad_fixture(c, "unknown type " + type);
  Dims dims;
  if (dims_text != "-") {
    std::istringstream sizes(dims_text);
    for (std::string size; std::getline(sizes, size, ',');) dims.push_back(std::stoll(size));
  }
  Literal out{Shape(*dtype, dims)};
  if (data == "-") data.clear();
  if (data.size() != 2 * out.byte_count()) bad_fixture(c, "wrong number of bytes");
  std::byte* to = out.mutable_bytes();
  for (std::size_t i = 0; i < out.byte_count(); ++i) {
    to[i] = std::byte(hex_digit(data[2 * i]) * 16 + hex_digit(data[2 * i + 1]));
  }
  return out;
}

inline Tolerance read_tolerance(const FixtureCase& c, std::istringstream& words) {
  Tolerance t;
  std::string kind;
  words >> kind;
  if (kind == "bits") {
    t.kind = Tolerance::Kind::bits;
  } else if (kind == "0") {
    t.kind = Tolerance::Kind::exact;
  } else if (kind == "ulp" && words >> t.steps) {
    t.kind = Tolerance::Kind::ulp;
  } else if (kind == "close" && words >> t.relative >> t.absolute) {
    t.kind = Tolerance::Kind::close;
  } else {
    bad_fixture(c, "unknown tolerance " + kind);
  }
  return t;
}

/// The bits of a real element as a number that counts the type's numbers in order.
inline std::int64_t place_in_order(std::uint64_t bits, int width) {
  const std::uint64_t sign = std::uint64_t(1) << (width - 1);
  const std::int64_t magnitude = std::int64_t(bits & ~sign);
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

struct Real {
  std::uint64_t bits = 0;
  double value = 0;
  int width = 0;
  bool floating = false;
  std::string text;
};

inline Real real_at(DType t, const std::byte* at) {
  Real r;
  r.width = int(byte_size(t)) * 8;
  std::memcpy(&r.bits, at, byte_size(t));
  r.floating = is_floating(t);
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, at, sizeof v);
    if constexpr (std::is_same_v<T, Pred>) {
      r.value = bool(v);
      r.text = bool(v) ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      r.value = double(v);
      r.text = std::to_string(v);
    } else if constexpr (!std::is_same_v<T, std::complex<float>> &&
                         !std::is_same_v<T, std::complex<double>>) {
      r.value = double(v);
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.17g", r.value);
      r.text = buffer;
    }
  });
  return r;
}

inline bool reals_match(const Real& got, const Real& want, const Tolerance& t) {
  using Kind = Tolerance::Kind;
  if (t.kind == Kind::bits || (!want.floating && t.kind != Kind::close)) {
    return got.bits == want.bits;
  }
  if (std::isnan(got.value) || std::isnan(want.value)) {
    return std::isnan(got.value) && std::isnan(want.value);
  }
  if (t.kind == Kind::exact) return got.bits == want.bits;
  if (t.kind == Kind::ulp) {
    // Of 64-bit numbers with unlike signs the difference may not fit.
    const double apart =
        double(place_in_order(got.bits, got.width)) - double(place_in_order(want.bits, want.width));
    if (std::fabs(apart) > 1e15) return false;
    return std::llabs(place_in_order(got.bits, got.width) -
                      place_in_order(want.bits, want.width)) <= t.steps;
  }
  if (got.value == want.value) return true;
  if (!std::isfinite(got.value) || !std::isfinite(want.value)) return false;
  return std::fabs(got.value - want.value) <= t.absolute + t.relative * std::fabs(want.value);
}

inline bool complexes_match(const Real got[2], const Real want[2], const Tolerance& t) {
  const bool finite = std::isfinite(want[0].value) && std::isfinite(want[1].value);
  if (t.kind != Tolerance::Kind::close || !finite) {
    return reals_match(got[0], want[0], t) && reals_match(got[1], want[1], t);
  }
  if (!std::isfinite(got[0].value) || !std::isfinite(got[1].value)) return false;
  const std::complex<double> g(got[0].value, got[1].value), w(want[0].value, want[1].value);
  return std::abs(g - w) <= t.absolute + t.relative * std::abs(w);
}

}  // namespace internal

/// Reads a file of cases; `path` is relative to tests/fixtures.
inline std::vector<FixtureCase> read_fixtures(const std::string& path) {
  using internal::bad_fixture;
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/" + path);
  FixtureCase c;
  c.file = path;
  if (!file) bad_fixture(c, "can't be opened");
  std::vector<FixtureCase> cases;
  bool open = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    c.line = ++number;
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "case") {
      if (open) bad_fixture(c, "a case begins inside another one");
      c = FixtureCase();
      c.file = path;
      c.line = number;
      words >> c.name;
      open = true;
    } else if (!open) {
      bad_fixture(c, "a line outside a case");
    } else if (first == "tolerance") {
      c.tolerance = internal::read_tolerance(c, words);
    } else if (first == "hlo") {
      while (std::getline(file, line) && line != ">>>") {
        ++number;
        c.hlo += line + "\n";
      }
      ++number;
    } else if (first == "call") {
      words >> c.call;
      for (std::string option; words >> option;) {
        const std::size_t eq = option.find('=');
        if (eq == std::string::npos) bad_fixture(c, "options are key=value");
        c.options[option.substr(0, eq)] = option.substr(eq + 1);
      }
    } else if (first == "in") {
      c.operands.push_back({internal::read_array(c, words), {}});
    } else if (first == "scalar") {
      FixtureOperand o;
      words >> o.scalar.kind;
      std::getline(words >> std::ws, o.scalar.text);
      c.operands.push_back(std::move(o));
    } else if (first == "out") {
      c.results.push_back(internal::read_array(c, words));
    } else if (first == "end") {
      if (c.results.empty()) bad_fixture(c, "a case without results");
      cases.push_back(std::move(c));
      c = FixtureCase();
      c.file = path;
      open = false;
    } else {
      bad_fixture(c, "unknown word " + first);
    }
  }
  if (open) bad_fixture(c, "the last case has no end");
  return cases;
}

/// Empty if `got` is what the fixture wants, else what is different.
inline std::string difference(const Literal& got, const Literal& want, const Tolerance& t) {
  if (!(got.shape() == want.shape())) {
    return "shape " + got.shape().to_string() + ", expected " + want.shape().to_string();
  }
  const DType dtype = want.dtype();
  const std::size_t size = byte_size(dtype);
  std::ostringstream out;
  int wrong = 0;
  for (std::int64_t i = 0; i < want.element_count(); ++i) {
    const std::byte *g = got.bytes() + std::size_t(i) * size,
                    *w = want.bytes() + std::size_t(i) * size;
    bool same;
    std::string g_text, w_text;
    if (is_complex(dtype)) {
      const DType part = real_type(dtype);
      const internal::Real gs[2] = {internal::real_at(part, g),
                                    internal::real_at(part, g + size / 2)};
      const internal::Real ws[2] = {internal::real_at(part, w),
                                    internal::real_at(part, w + size / 2)};
      same = internal::complexes_match(gs, ws, t);
      g_text = "(" + gs[0].text + "," + gs[1].text + ")";
      w_text = "(" + ws[0].text + "," + ws[1].text + ")";
    } else {
      const internal::Real gr = internal::real_at(dtype, g), wr = internal::real_at(dtype, w);
      same = internal::reals_match(gr, wr, t);
      g_text = gr.text;
      w_text = wr.text;
    }
    if (same) continue;
    if (++wrong <= 4) out << " [" << i << "] " << g_text << ", expected " << w_text << ";";
  }
  if (wrong == 0) return "";
  return std::to_string(wrong) + " of " + std::to_string(want.element_count()) +
         " elements differ:" + out.str();
}

/// The leaves of a literal in order.
inline void append_leaves(const Literal& x, std::vector<Literal>& out) {
  if (!x.is_tuple()) {
    out.push_back(x);
    return;
  }
  for (const Literal& e : x.elements()) append_leaves(e, out);
}

/// A literal of this shape, its leaves taken in order from `leaves`.
inline Literal assemble(const Shape& shape, const std::vector<Literal>& leaves, std::size_t& next) {
  if (!shape.is_tuple) return leaves.at(next++);
  std::vector<Literal> elements;
  for (const Shape& s : shape.elements) elements.push_back(assemble(s, leaves, next));
  return Literal::tuple(std::move(elements));
}

/// Empty if a result (an array or a tuple) is what the case wants.
inline std::string difference(const Literal& result, const FixtureCase& c) {
  std::vector<Literal> leaves;
  append_leaves(result, leaves);
  if (leaves.size() != c.results.size()) {
    return std::to_string(leaves.size()) + " results, expected " + std::to_string(c.results.size());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string d = difference(leaves[i], c.results[i], c.tolerance);
    if (!d.empty()) return "result " + std::to_string(i) + ": " + d;
  }
  return "";
}

}  // namespace tessera::testing
