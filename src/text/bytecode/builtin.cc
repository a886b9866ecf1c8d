// SPDX-License-Identifier: Apache-2.0
// Attributes and types of MLIR's builtin dialect, and the quantized types of quant.
#include <limits>

#include "src/text/bytecode/codes.h"
#include "src/text/bytecode/entries.h"

namespace tessera::text {
namespace {

struct BuiltinType {
  enum Code : std::uint64_t {
    kIntegerType,
    kIndexType,
    kFunctionType,
    kBf16,
    kF16,
    kF32,
    kF64,
    kF80,
    kF128,
    kComplex,
    kNoneType = 12,
    kRankedTensor,
    kEncodedTensor,
    kTuple,
    kUnrankedTensor = 18,
  };
};

/// Types without parts that came last, from code 21 on.
constexpr std::uint64_t kFirstFloatType = 21;
constexpr const char* kFloatTypes[] = {"tf32",       "f8E5M2",     "f8E4M3",        "f8E4M3FN",
                                       "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E3M4",
                                       "f4E2M1FN",   "f6E2M3FN",   "f6E3M2FN",      "f8E8M0FNU"};

constexpr std::int64_t kOpenSizeCode = std::numeric_limits<std::int64_t>::min();

}  // namespace

void EntryTexts::builtin_attribute(std::size_t n, ByteReader& in, Elision elision) {
  using A = BuiltinAttribute;
  const std::uint64_t code = in.varint();
  switch (code) {
    case A::kArray:
      add("[");
      add_attributes(in, Elision::may);
      return add("]");
    case A::kDictionary:
      return add_dictionary(in);
    case A::kString:
      return add_quoted(string_of(in));
    case A::kTypedString:
      add_quoted(string_of(in));
      in.varint();
      return;
    case A::kFlatSymbol:
      add("@");
      return add_name(string_attribute(in));
    case A::kSymbol:
      add("@");
      add_name(string_attribute(in));
      for (std::size_t i = in.count("names"); i > 0; --i) {
        add("::");
        add_attribute(in);
      }
      return;
    case A::kType:
      return add_type(in);
    case A::kUnit:
      return add("unit");
    case A::kInteger: {
      const std::string type = type_text(in);
      return add_integer_of(in, type, elision);
    }
    case A::kFloat: {
      const std::string type = type_text(in);
      return add_float_of(in, type, elision);
    }
    case A::kDenseResource: {
      // As other constants, by the number of this attribute.
      const std::string type = type_text(in);
      in.index(file_.resources.size(), "resource");
      add("dense_resource<\"");
      add_integer(std::int64_t(n));
      add("\"> : ");
      return add(type);
    }
    case A::kDenseArray:
      return add_array(in);
    case A::kDense: {
      const std::string type = type_text(in);
      return add_dense(n, type, in.blob());
    }
    default:
      return add_unknown("builtin", code, false, in);
  }
}

void EntryTexts::builtin_type(ByteReader& in) {
  using T = BuiltinType;
  const std::uint64_t code = in.varint();
  switch (code) {
    case T::kIntegerType: {
      const std::uint64_t v = in.varint();
      add((v & 3) == 1 ? "si" : (v & 3) == 2 ? "ui" : "i");
      return add_integer(std::int64_t(v >> 2));
    }
    case T::kIndexType:
      return add("index");
    case T::kFunctionType:
      return add_function_type(in);
    case T::kBf16:
      return add("bf16");
    case T::kF16:
      return add("f16");
    case T::kF32:
      return add("f32");
    case T::kF64:
      return add("f64");
    case T::kF80:
      return add("f80");
    case T::kF128:
      return add("f128");
    case T::kComplex:
      return add_type_of("complex<", in);
    case T::kNoneType:
      return add("none");
    case T::kRankedTensor:
      return add_tensor(in, {});
    case T::kEncodedTensor:
      return add_encoded_tensor(in);
    case T::kTuple:
      return add_type_of_all("tuple<", in);
    case T::kUnrankedTensor:
      return add_type_of("tensor<*x", in);
    default:
      if (code >= kFirstFloatType && code - kFirstFloatType < std::size(kFloatTypes)) {
        return add(kFloatTypes[code - kFirstFloatType]);
      }
      return add_unknown("builtin", code, true, in);
  }
}

void EntryTexts::add_encoded_tensor(ByteReader& in) {
  const std::size_t begin = out_.size();
  add_attribute(in);
  const std::string encoding = out_.substr(begin);
  out_.resize(begin);
  add_tensor(in, encoding);
}

void EntryTexts::add_tensor(ByteReader& in, std::string_view encoding) {
  add("tensor<");
  const std::size_t rank = in.count("dims");
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t size = in.signed_varint();
    if (size == kOpenSizeCode) {
      add("?");
    } else {
      add_integer(size);
    }
    add("x");
  }
  add_type(in);
  if (!encoding.empty()) {
    add(", ");
    add(encoding);
  }
  add(">");
}

void EntryTexts::quant_type(ByteReader& in, std::uint64_t code) {
  constexpr std::uint64_t kUniform = 4, kPerAxis = 5;
  if (code == kUniform || code == kPerAxis) return uniform_quantized(in, code == kPerAxis);
  add_unknown("quant", code, true, in);
}

void EntryTexts::uniform_quantized(ByteReader& in, bool per_axis) {
  const bool is_signed = (in.varint() & 1) != 0;
  std::string storage = type_text(in);
  // The flag says what the integers are, not their type.
  while (!storage.empty() && storage[0] != 'i') storage.erase(0, 1);
  if (!is_signed && !storage.empty()) storage[0] = 'u';
  const std::string expressed = type_text(in);
  const std::size_t begin = out_.size();
  const auto piece = [&](auto&& write) {
    write();
    std::string out = out_.substr(begin);
    out_.resize(begin);
    return out;
  };
  std::vector<std::string> scales, zero_points;
  std::int64_t least = 0, most = 0;
  std::uint64_t axis = 0;
  if (per_axis) {
    axis = in.varint();
    least = in.signed_varint();
    most = in.signed_varint();
    for (std::size_t i = in.count("scales"); i > 0; --i) {
      scales.push_back(piece([&] { add_double(in); }));
    }
    for (std::size_t i = in.count("zero points"); i > 0; --i) {
      zero_points.push_back(std::to_string(in.signed_varint()));
    }
    if (zero_points.size() != scales.size()) {
      in.fail("a quantized type of " + std::to_string(scales.size()) + " scales and " +
              std::to_string(zero_points.size()) + " zero points");
    }
  } else {
    scales.push_back(piece([&] { add_double(in); }));
    zero_points.push_back(std::to_string(in.signed_varint()));
    least = in.signed_varint();
    most = in.signed_varint();
  }
  add("!quant.uniform<" + storage + "<" + std::to_string(least) + ":" + std::to_string(most) +
      ">:" + expressed);
  if (per_axis) add(":" + std::to_string(axis));
  add(per_axis ? ", {" : ", ");
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (i > 0) add(", ");
    add(scales[i] + ":" + zero_points[i]);
  }
  add(per_axis ? "}>" : ">");
}

}  // namespace tessera::text
