// SPDX-License-Identifier: Apache-2.0
// Attributes as values.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "src/text/read/reader.h"

namespace tessera::text {

std::string_view InstructionBuilder::expanded(std::string_view value) {
  for (int steps = 0; value.size() > 1 && value[0] == '#' && steps < 64; ++steps) {
    std::size_t stop = 1;
    while (stop < value.size() && is_id_char(value[stop])) ++stop;
    auto it = attribute_aliases_.find(value.substr(1, stop - 1));
    if (it == attribute_aliases_.end()) break;
    value = it->second;
  }
  return value;
}

const Attribute& InstructionBuilder::need(const Operation& op, std::string_view key) {
  const Attribute* a = op.find(key);
  if (a == nullptr) fail(op, "needs the attribute " + std::string(key));
  return *a;
}

// dense<[0, 1]> : tensor<2xi64>, dense<1> : ..., without a constant being made of it. False: it is
// something else, or wrong; nothing was read.
bool InstructionBuilder::dense_integers(Dims* out) {
  const char* start = in_.position();
  const auto no = [&] {
    out->clear();
    in_.seek(start);
    return false;
  };
  if (!in_.accept_text("dense<")) return false;
  bool splat = true;
  const char* p = in_.position();
  for (int open = 0;; ++p) {
    if (p == in_.end()) return no();
    if (*p == '>' && open == 0) break;
    if (*p == ' ' || *p == ',') continue;
    if (*p == '[' || *p == ']') {
      splat = false;
      open += *p == '[' ? 1 : -1;
      continue;
    }
    std::int64_t v = 0;
    const auto [stop, error] = std::from_chars(p, in_.end(), v);
    if (error != std::errc() || is_id_char(*stop)) return no();
    out->push_back(v);
    p = stop - 1;
  }
  in_.seek(p + 1);
  if (!in_.accept(':')) return no();
  const Shape& type = *types_.read();
  const std::int64_t count = type.element_count();
  if ((type.dtype != DType::s64 && type.dtype != DType::s32) || count > (1 << 20)) return no();
  if (splat && out->size() == 1) {
    out->assign(std::size_t(count), out->front());
  } else if (std::int64_t(out->size()) != count) {
    return no();
  }
  return true;
}

Dims InstructionBuilder::dims_of(std::string_view value) {
  if (!shared_texts()) return read_dims(value);
  const auto known = dims_read_.find(value.data());
  if (known != dims_read_.end()) return known->second;
  return dims_read_.emplace(value.data(), read_dims(value)).first->second;
}

Dims InstructionBuilder::read_dims(std::string_view value) {
  const char* back = in_.position();
  value = expanded(value);
  in_.seek(value.data());
  Dims out;
  if (in_.accept_word("array")) {
    in_.expect('<', "after array");
    in_.word("an element type");
    if (!in_.accept('>')) {
      in_.expect(':', "after the element type");
      do {
        out.push_back(in_.accept_word("true")    ? 1
                      : in_.accept_word("false") ? 0
                                                 : in_.integer("an integer"));
      } while (in_.accept(','));
      in_.expect('>', "after the integers");
    }
  } else if (in_.peek() == '[') {
    in_.accept('[');
    if (!in_.accept(']')) {
      do {
        out.push_back(in_.accept_word("true")    ? 1
                      : in_.accept_word("false") ? 0
                                                 : in_.integer("an integer"));
        if (in_.accept(':')) in_.word("a type");
      } while (in_.accept(','));
      in_.expect(']', "after the integers");
    }
  } else if (!dense_integers(&out)) {
    in_.skip();
    const char* at = in_.position();
    const Shape* type = nullptr;
    Literal v = literal(&type);
    if (!is_integer(type->dtype) && type->dtype != DType::pred) {
      in_.fail_at(at, "expected integers, found " + mlir_type(*type));
    }
    std::int64_t n = type->element_count();
    if (n > (1 << 20)) in_.fail_at(at, "more than a million integers as an attribute");
    auto at_index = [&](std::int64_t i) -> std::int64_t {
      switch (type->dtype) {
        case DType::s64:
          return v.data<std::int64_t>()[std::size_t(i)];
        case DType::u64:
          return std::int64_t(v.data<std::uint64_t>()[std::size_t(i)]);
        case DType::s32:
          return v.data<std::int32_t>()[std::size_t(i)];
        case DType::u32:
          return v.data<std::uint32_t>()[std::size_t(i)];
        case DType::pred:
          return v.data<std::uint8_t>()[std::size_t(i)];
        default:
          in_.fail_at(at, "expected 32 or 64 bit integers, found " + mlir_type(*type));
      }
    };
    bool splat = v.dims().empty();
    for (std::int64_t i = 0; i < n; ++i) out.push_back(at_index(splat ? 0 : i));
  }
  in_.seek(back);
  return out;
}

Dims InstructionBuilder::integers(const Operation& op, std::string_view key) {
  return dims_of(need(op, key).value);
}

Dims InstructionBuilder::integers_or(const Operation& op, std::string_view key, Dims otherwise) {
  const Attribute* a = op.find(key);
  return a == nullptr ? std::move(otherwise) : dims_of(a->value);
}

std::vector<Dims> InstructionBuilder::integer_rows(const Operation& op, std::string_view key) {
  std::string_view value = expanded(need(op, key).value);
  const char* back = in_.position();
  in_.seek(value.data());
  std::vector<Dims> out;
  if (in_.accept('[')) {
    if (!in_.accept(']')) {
      do {
        out.push_back(in_.bracketed_integers("a list of integers"));
      } while (in_.accept(','));
      in_.expect(']', "after the lists");
    }
    in_.seek(back);
    return out;
  }
  // dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
  const Shape* type = nullptr;
  literal(&type);
  in_.seek(back);
  if (type->rank() != 2) {
    in_.fail_at(value.data(),
                std::string(key) + " is " + mlir_type(*type) + " and must have rank 2");
  }
  Dims flat = dims_of(value);
  auto width = std::size_t(type->dims[1]);
  for (std::int64_t r = 0; r < type->dims[0]; ++r) {
    auto first = flat.begin() + std::ptrdiff_t(std::size_t(r) * width);
    out.emplace_back(first, first + std::ptrdiff_t(width));
  }
  return out;
}

std::int64_t InstructionBuilder::integer(const Operation& op, std::string_view key) {
  std::string_view value = expanded(need(op, key).value);
  const char* back = in_.position();
  in_.seek(value.data());
  std::int64_t v = 0;
  if (in_.accept_word("true")) {
    v = 1;
  } else if (!in_.accept_word("false")) {
    v = in_.integer("an integer");
  }
  in_.seek(back);
  return v;
}

std::int64_t InstructionBuilder::integer_or(const Operation& op, std::string_view key,
                                            std::int64_t otherwise) {
  return op.find(key) == nullptr ? otherwise : integer(op, key);
}

bool InstructionBuilder::flag(const Operation& op, std::string_view key, bool otherwise) {
  const Attribute* a = op.find(key);
  if (a == nullptr) return otherwise;
  std::string_view value = expanded(a->value);
  if (value.empty()) return true;  // a unit attribute
  if (value != "true" && value != "false") {
    in_.fail_at(value.data(), std::string(key) + " must be true or false, not '" +
                                  std::string(value.substr(0, 40)) + "'");
  }
  return value == "true";
}

double InstructionBuilder::real(const Operation& op, std::string_view key) {
  std::string_view value = expanded(need(op, key).value);
  double v = 0;
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, v);
  if (error != std::errc()) {
    in_.fail_at(value.data(), "expected a number for " + std::string(key));
  }
  (void)stop;
  return v;
}

std::string_view InstructionBuilder::keyword(const Operation& op, std::string_view key) {
  std::string_view value = expanded(need(op, key).value);
  // #stablehlo<comparison_direction LT>, #stablehlo.foo<LT>, LT: the last word.
  std::size_t stop = value.size();
  while (stop > 0 && !is_id_char(value[stop - 1])) --stop;
  std::size_t start = stop;
  while (start > 0 && is_id_char(value[start - 1])) --start;
  return value.substr(start, stop - start);
}

std::string InstructionBuilder::text(const Operation& op, std::string_view key) {
  std::string_view value = expanded(need(op, key).value);
  const char* back = in_.position();
  in_.seek(value.data());
  std::string out = in_.string("a text");
  in_.seek(back);
  return out;
}

std::vector<Attribute> InstructionBuilder::fields(const Attribute& a) {
  std::string_view value = expanded(a.value);
  const char* back = in_.position();
  std::size_t open = value.find('<');
  if (open == std::string_view::npos) {
    in_.fail_at(value.data(), "expected fields in <...> for " + std::string(a.key));
  }
  in_.seek(value.data() + open + 1);
  std::vector<Attribute> out;
  // The dims of convolutions may be written so, and say it first.
  if (value.substr(0, open).ends_with("conv")) in_.accept_word("raw");
  attribute_dict(&out, '>');
  in_.seek(back);
  return out;
}

Operation InstructionBuilder::fields_of(const Operation& op, const Attribute& a) {
  Operation out;
  out.at = op.at;
  out.name = op.name;
  out.attributes = fields(a);
  return out;
}

Operation InstructionBuilder::fields_or_own(const Operation& op, std::string_view key) {
  if (!op.flat || op.find(key) != nullptr) return fields_of(op, need(op, key));
  Operation out;
  out.at = op.at;
  out.name = op.name;
  out.attributes = op.attributes;
  return out;
}

std::vector<Attribute> InstructionBuilder::dictionary(const Attribute& a, const char* where) {
  std::vector<Attribute> out;
  at_value(expanded(a.value), [&] {
    in_.expect('{', where);
    attribute_dict(&out, '}');
  });
  return out;
}

std::vector<std::string> InstructionBuilder::precision(const Operation& op) {
  std::vector<std::string> out;
  const Attribute* a = op.find("precision_config");
  if (a == nullptr) return out;
  std::string_view value = expanded(a->value);
  const char* back = in_.position();
  in_.seek(value.data());
  in_.expect('[', "before the precisions");
  bool all_default = true;
  if (!in_.accept(']')) {
    do {
      // #stablehlo<precision HIGH> or HIGH
      std::string_view one = expanded(in_.value());
      std::size_t stop = one.size();
      while (stop > 0 && !is_id_char(one[stop - 1])) --stop;
      std::size_t start = stop;
      while (start > 0 && is_id_char(one[start - 1])) --start;
      std::string word(one.substr(start, stop - start));
      std::transform(word.begin(), word.end(), word.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
      if (word != "default" && word != "high" && word != "highest") {
        in_.fail_at(one.data(), "unknown precision " + word + "; valid: DEFAULT, HIGH, HIGHEST");
      }
      all_default &= word == "default";
      out.push_back(std::move(word));
    } while (in_.accept(','));
    in_.expect(']', "after the precisions");
  }
  in_.seek(back);
  if (all_default) out.clear();
  return out;
}

}  // namespace tessera::text
