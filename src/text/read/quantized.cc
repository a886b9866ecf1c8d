// SPDX-License-Identifier: Apache-2.0
// Parses quantized element types.
#include "src/text/read/quantized.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/base/arrays/literal_util.h"
#include "src/text/read/types.h"

namespace tessera::text {
namespace {

constexpr int kMaxStorageBits = 32;

std::string number_text(double v) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, v).ptr;
  return {text, end};
}

// Bits of an integer type by its name: "i8", "u4".
int bits_of(std::string_view word) {
  int bits = 0;
  auto [stop, error] = std::from_chars(word.data() + 1, word.data() + word.size(), bits);
  return error == std::errc() && stop == word.data() + word.size() ? bits : 0;
}

double positive_scale(Cursor& in, DType expressed) {
  in.skip();
  const char* at = in.position();
  double v = 0;
  auto [stop, error] = std::from_chars(at, in.end(), v);
  if (error == std::errc()) {
    double held = to_vector<double>(Literal::scalar(expressed, v)).at(0);
    if (std::isfinite(held) && held > 0) {
      in.seek(stop);
      return v;
    }
  }
  in.fail_at(
      at, "expected a scale: a positive number that " + std::string(name(expressed)) + " can hold");
}

}  // namespace

bool Quantized::same_numbers(const Quantized& other) const {
  return storage == other.storage && expressed == other.expressed && least == other.least &&
         most == other.most && scales == other.scales && zero_points == other.zero_points;
}

bool Quantized::is_promotable(const Quantized& to) const {
  return text::is_promotable(storage, to.storage) && expressed == to.expressed &&
         scales == to.scales && zero_points == to.zero_points && axis == to.axis;
}

bool is_promotable(DType from, DType to) {
  // The first number of a type's name is its width.
  const auto bits = [](DType t) {
    const std::string_view text = name(t);
    std::size_t at = text.find_first_of("0123456789");
    int n = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      n = 10 * n + text[at] - '0';
    return n;
  };
  const bool alike = (is_signed_integer(from) && is_signed_integer(to)) ||
                     (is_unsigned_integer(from) && is_unsigned_integer(to)) ||
                     (is_floating(from) && is_floating(to)) || (is_complex(from) && is_complex(to));
  return from != to && alike && bits(from) <= bits(to);
}

std::string Quantized::to_string() const {
  std::string store = mlir_type(Shape(storage, {}));
  store = store.substr(7, store.size() - 8);
  if (store[0] == 'u') store.erase(1, 1);  // u8: MLIR's builtin type is ui8
  std::string real = mlir_type(Shape(expressed, {}));
  std::string out = "!quant.uniform<" + store + "<" + std::to_string(least) + ":" +
                    std::to_string(most) + ">:" + real.substr(7, real.size() - 8);
  if (axis) out += ":" + std::to_string(*axis);
  out += axis ? ", {" : ", ";
  for (std::size_t n = 0; n < scales.size(); ++n) {
    if (n > 0) out += ", ";
    out += number_text(scales[n]) + ":" + std::to_string(zero_points[n]);
  }
  return out + (axis ? "}>" : ">");
}

// <i8:f32, 0.5:3>, <i8<-127:127>:f32, 0.5>, <i8:f32:1, {0.5:3, 0.25:-1}>
DType TypeParser::quantized_element() {
  Quantized q;
  in_.expect('<', "after quant.uniform");
  in_.skip();
  const char* at = in_.position();
  std::string_view word = in_.word("the type of what is stored, such as i8");
  const bool is_signed = word[0] == 'i';
  const bool prefixed = word.substr(0, 2) == "ui";
  const int bits = bits_of(word.substr(prefixed ? 1 : 0));
  std::string builtin = (is_signed ? "i" : "ui") + std::to_string(bits);
  std::optional<DType> storage = dtype_from_mlir(builtin);
  if ((word[0] != 'i' && word[0] != 'u' && !is_signed) || bits < 2 || bits > kMaxStorageBits ||
      !storage) {
    in_.not_supported_at(at, "integers stored as " + std::string(word) +
                                 " are not supported; valid: i2, i4, i8, i16, i32, u2, u4, u8, "
                                 "u16, u32");
  }
  q.storage = *storage;
  std::int64_t values = std::int64_t(1) << bits;
  std::int64_t lowest = is_signed ? -values / 2 : 0, highest = lowest + values - 1;
  q.least = lowest;
  q.most = highest;
  if (in_.accept('<')) {
    q.least = in_.integer("the smallest stored value");
    in_.expect(':', "before the largest stored value");
    q.most = in_.integer("the largest stored value");
    in_.expect('>', "after the range of what is stored");
    if (q.least < lowest || q.most > highest || q.least >= q.most) {
      in_.fail_at(at, "the stored values " + std::to_string(q.least) + " to " +
                          std::to_string(q.most) + " are no range of " + std::string(word) +
                          ", which holds " + std::to_string(lowest) + " to " +
                          std::to_string(highest));
    }
  }
  in_.expect(':', "before the type of what the integers stand for");
  in_.skip();
  const char* at_expressed = in_.position();
  word = in_.word("the type of what the integers stand for, such as f32");
  std::optional<DType> expressed = dtype_from_mlir(word);
  if (!expressed || !is_floating(*expressed) || byte_size(*expressed) < 2) {
    in_.not_supported_at(at_expressed, "integers that stand for " + std::string(word) +
                                           " are not supported; valid: f16, bf16, f32, f64");
  }
  q.expressed = *expressed;
  if (in_.accept(':')) {
    in_.skip();
    if (in_.peek() == '{') {
      in_.not_supported_at(in_.position(),
                           "scales of blocks are not supported; valid: one scale, or one for each "
                           "index of a dim");
    }
    const char* at_axis = in_.position();
    q.axis = in_.integer("the dim that the scales belong to");
    if (*q.axis < 0) in_.fail_at(at_axis, "expected a dim of the tensor: 0 or more");
  }
  in_.expect(',', "before the scale");
  if (q.axis) in_.expect('{', "before the scales");
  do {
    q.scales.push_back(positive_scale(in_, q.expressed));
    std::int64_t zero = 0;
    if (in_.accept(':')) {
      in_.skip();
      const char* at_zero = in_.position();
      zero = in_.integer("a zero point");
      if (zero < q.least || zero > q.most) {
        in_.fail_at(at_zero, "the zero point must lie in " + std::to_string(q.least) + " to " +
                                 std::to_string(q.most));
      }
    }
    q.zero_points.push_back(zero);
  } while (q.axis && in_.accept(','));
  if (q.axis) in_.expect('}', "after the scales");
  in_.expect('>', "after a quantized type");
  DType dtype = q.storage;
  element_ = std::move(q);
  return dtype;
}

}  // namespace tessera::text
