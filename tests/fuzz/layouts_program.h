// SPDX-License-Identifier: Apache-2.0
// Programs of the fuzz target `layouts`: operations that move the elements of one array, as text
// and as what they make of it.
#pragma once

#include <optional>

#include "tests/fuzz/layouts_client.h"

namespace tessera::fuzz {

inline std::string tensor(const Reference& r) {
  std::string out = "tensor<";
  for (const std::int64_t d : r.dims) out += std::to_string(d) + "x";
  return out + r.type->text + ">";
}

/// The program's text so far, and what each of its values is.
struct Built {
  std::string body;
  std::vector<Reference> values;
  std::string name(std::size_t k) const { return k == 0 ? "%a" : "%v" + std::to_string(k); }
  void add(std::string operation, Reference made) {
    body += "    " + name(values.size()) + " = " + operation + "\n";
    values.push_back(std::move(made));
  }
};

/// Element `at` of what is made is element from(at) of the operand.
template <class F>
Reference gathered(const Reference& x, Dims dims, F from) {
  Reference out{x.type, std::move(dims), {}};
  out.bytes.resize(std::size_t(out.count()) * x.type->bytes);
  const Dims strides = dense_strides(x.dims, row_major(x.dims.size()), x.type->bytes);
  each_element(out.dims, [&](std::int64_t n, const Dims& at) {
    std::memcpy(out.bytes.data() + std::size_t(n) * x.type->bytes,
                x.bytes.data() + dot(from(at), strides), x.type->bytes);
  });
  return out;
}

inline void transpose(Choices& c, Built* b, std::size_t k) {
  const Reference x = b->values[k];
  const Dims order = c.order(x.dims.size());
  Dims dims;
  for (const std::int64_t d : order) dims.push_back(x.dims[std::size_t(d)]);
  Reference made = gathered(x, dims, [&](const Dims& at) {
    Dims from(at.size());
    for (std::size_t d = 0; d < at.size(); ++d) from[std::size_t(order[d])] = at[d];
    return from;
  });
  const std::string types = " : (" + tensor(x) + ") -> " + tensor(made);
  b->add("stablehlo.transpose " + b->name(k) + ", dims = [" + text_of(order) + "]" + types,
         std::move(made));
}

inline void reverse(Choices& c, Built* b, std::size_t k) {
  const Reference x = b->values[k];
  if (x.dims.empty()) return;
  const auto dim = std::size_t(c.below(std::int64_t(x.dims.size())));
  Reference made = gathered(x, x.dims, [&](Dims at) {
    at[dim] = x.dims[dim] - 1 - at[dim];
    return at;
  });
  b->add(
      "stablehlo.reverse " + b->name(k) + ", dims = [" + std::to_string(dim) + "] : " + tensor(x),
      std::move(made));
}

inline void flatten(Built* b, std::size_t k) {
  const Reference x = b->values[k];
  Reference made = x;
  made.dims = {x.count()};
  const std::string types = " : (" + tensor(x) + ") -> " + tensor(made);
  b->add("stablehlo.reshape " + b->name(k) + types, std::move(made));
}

/// Twice the array: whole numbers, which wrap around.
inline void twice(Built* b, std::size_t k) {
  const Reference x = b->values[k];
  if (!x.type->integer) return;
  Reference made = x;
  for (std::size_t n = 0; n < made.bytes.size(); n += x.type->bytes) {
    unsigned carry = 0;
    for (std::size_t i = n; i < n + x.type->bytes; ++i) {
      const unsigned sum = 2U * made.bytes[i] + carry;
      made.bytes[i] = std::uint8_t(sum);
      carry = sum >> 8;
    }
  }
  b->add("stablehlo.add " + b->name(k) + ", " + b->name(k) + " : " + tensor(x), std::move(made));
}

inline void constrain(Choices& c, Built* b, std::size_t k) {
  const Reference x = b->values[k];
  const std::string rank = std::to_string(x.dims.size());
  const std::string layouts = "_layouts = [dense<" +
                              (x.dims.empty() ? "" : "[" + text_of(c.order(x.dims.size())) + "]") +
                              "> : tensor<" + rank + "xindex>]";
  b->add("stablehlo.custom_call @LayoutConstraint(" + b->name(k) + ") {operand" + layouts +
             ", result" + layouts + "} : (" + tensor(x) + ") -> " + tensor(x),
         x);
}

inline Built build(Choices& c, const Reference& argument) {
  Built out;
  out.values.push_back(argument);
  for (std::int64_t n = c.below(5); n > 0; --n) {
    const auto k = std::size_t(c.below(std::int64_t(out.values.size())));
    switch (c.below(6)) {
      case 0:
        reverse(c, &out, k);
        break;
      case 1:
        flatten(&out, k);
        break;
      case 2:
        twice(&out, k);
        break;
      case 3:
        constrain(c, &out, k);
        break;
      default:
        transpose(c, &out, k);
    }
  }
  return out;
}

/// What an argument or a result says of its layout; the order is there if it says one.
struct Mode {
  std::string text;
  std::optional<Dims> order;
};
inline Mode mode(Choices& c, const Reference& r) {
  switch (c.below(4)) {
    case 0:
      return {"default", row_major(r.dims.size())};
    case 1:
      return {"auto", std::nullopt};
    default: {
      const Dims order = c.order(r.dims.size());
      const bool small = r.type->number == PJRT_Buffer_Type_S4 && c.one_in(2);
      return {"{" + text_of(order) + (small ? ":E(4)}" : "}"), order};
    }
  }
}

}  // namespace tessera::fuzz
