// SPDX-License-Identifier: Apache-2.0
// Parses einsum-like sharding rules and converts them to factors.
#include <tessera/sharding/sharding_rule.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "src/base/arrays/shape.h"
#include "src/frontend/custom/sharding_rule_factors.h"

namespace tessera {

namespace {

bool is_ellipsis(const ShardingRule::Dim& dim) { return dim.size() == 2 && dim[0] == "..."; }

class RuleParser {
 public:
  RuleParser(const std::string& text, Location location) : text_(text), location_(location) {}

  void parse(std::vector<ShardingRule::Value>* operands,
             std::vector<ShardingRule::Value>* results) {
    const std::size_t arrow = text_.find("->");
    if (arrow == std::string::npos) fail("there is no '->' between operands and results", 0);
    if (text_.find("->", arrow + 2) != std::string::npos) {
      fail("there are two '->'", text_.find("->", arrow + 2));
    }
    *operands = side(0, arrow);
    *results = side(arrow + 2, text_.size());
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::size_t at) const {
    throw ValueError(
        "sharding rule '" + text_ + "': " + what + " (at character " + std::to_string(at) + ")",
        location_);
  }

  std::vector<ShardingRule::Value> side(std::size_t begin, std::size_t end) {
    std::vector<ShardingRule::Value> out(1);
    bool compound = false;
    std::size_t opened = 0;
    ShardingRule::Dim inner;
    for (std::size_t i = begin; i < end;) {
      const char c = text_[i];
      if (c == ' ' || c == '\t') {
        ++i;
      } else if (c == ',') {
        if (compound) fail("a ',' inside of parentheses", i);
        out.emplace_back();
        ++i;
      } else if (c == '(') {
        if (compound) fail("nested parentheses", i);
        compound = true;
        opened = i++;
        inner.clear();
      } else if (c == ')') {
        if (!compound) fail("a ')' without '('", i);
        if (inner.size() < 2) {
          fail("parentheses must hold two factors or more, these hold " +
                   std::to_string(inner.size()),
               opened);
        }
        out.back().push_back(inner);
        compound = false;
        ++i;
      } else if (c == '.') {
        if (text_.compare(i, 3, "...") != 0) fail("a '.' that is no '...'", i);
        if (compound) fail("'...' inside of parentheses", i);
        if (!out.back().empty()) fail("'...' must come first in a value", i);
        std::size_t stop = i + 3;
        while (stop < end && std::isdigit(static_cast<unsigned char>(text_[stop]))) ++stop;
        const std::string number = text_.substr(i + 3, stop - i - 3);
        out.back().push_back({"...", number.empty() ? "0" : number});
        i = stop;
      } else if (std::isalpha(static_cast<unsigned char>(c))) {
        std::size_t stop = i;
        while (stop < end &&
               (std::isalnum(static_cast<unsigned char>(text_[stop])) || text_[stop] == '_')) {
          ++stop;
        }
        const std::string factor = text_.substr(i, stop - i);
        if (compound) {
          inner.push_back(factor);
        } else {
          out.back().push_back({factor});
        }
        i = stop;
      } else if (std::isdigit(static_cast<unsigned char>(c)) || c == '_') {
        fail(std::string("a factor's name must start with a letter, not '") + c + "'", i);
      } else {
        // A character may be several bytes of UTF-8.
        std::size_t stop = i + 1;
        while (stop < end && (static_cast<unsigned char>(text_[stop]) & 0xc0) == 0x80) ++stop;
        fail("unknown character '" + text_.substr(i, stop - i) + "'", i);
      }
    }
    if (compound) fail("a '(' without ')'", opened);
    return out;
  }

  const std::string& text_;
  Location location_;
};

void for_each_factor(const std::vector<ShardingRule::Value>& values,
                     const std::function<void(const std::string&, bool in_compound)>& f) {
  for (const auto& value : values) {
    for (const auto& dim : value) {
      if (is_ellipsis(dim)) continue;
      for (const std::string& factor : dim) f(factor, dim.size() > 1);
    }
  }
}

std::string value_text(const ShardingRule::Value& value) {
  std::string out = "(";
  for (std::size_t d = 0; d < value.size(); ++d) {
    if (d > 0) out += ", ";
    const auto& dim = value[d];
    if (is_ellipsis(dim)) {
      out += "'..." + dim[1] + "'";
    } else if (dim.size() == 1) {
      out += "'" + dim[0] + "'";
    } else {
      out += "(";
      for (std::size_t i = 0; i < dim.size(); ++i) out += (i ? ", '" : "'") + dim[i] + "'";
      out += ")";
    }
  }
  if (value.size() == 1) out += ",";
  return out + ")";
}

}  // namespace

ShardingRule::ShardingRule(const std::string& rule, Options options, Location location)
    : text_(rule), options_(std::move(options)), location_(location) {
  RuleParser(text_, location_).parse(&operands_, &results_);
  auto fail = [&](const std::string& what) {
    throw ValueError("sharding rule '" + text_ + "': " + what, location_);
  };
  std::set<std::string> all, whole;
  auto note = [&](const std::string& factor, bool in_compound) {
    all.insert(factor);
    if (!in_compound) whole.insert(factor);
  };
  for_each_factor(operands_, note);
  for_each_factor(results_, note);
  for (const auto& [factor, size] : options_.factor_sizes) {
    if (!all.count(factor)) fail("a size is given for '" + factor + "', which is no factor of it");
    if (whole.count(factor)) {
      fail("a size is given for '" + factor + "', whose size follows from the shapes");
    }
    if (size <= 0) {
      fail("the size of '" + factor + "' must be positive, got " + std::to_string(size));
    }
  }
  for (const std::string& factor : all) {
    if (!whole.count(factor) && !options_.factor_sizes.count(factor)) {
      fail("factor '" + factor + "' stands in parentheses only: its size must be given");
    }
  }
  std::map<std::string, std::string> listed;
  auto check_set = [&](const std::vector<std::string>& set, const std::string& name) {
    for (const std::string& factor : set) {
      if (!all.count(factor)) fail(name + " holds '" + factor + "', which is no factor of it");
      auto [at, fresh] = listed.emplace(factor, name);
      if (!fresh && at->second == name) fail(name + " holds '" + factor + "' twice");
      if (!fresh) fail("factor '" + factor + "' stands in " + at->second + " and in " + name);
    }
  };
  check_set(options_.reduction_factors, "reduction_factors");
  check_set(options_.need_replication_factors, "need_replication_factors");
  check_set(options_.permutation_factors, "permutation_factors");
}

std::string ShardingRule::to_string() const {
  auto side = [](const std::vector<Value>& values) {
    std::string out = "(";
    for (std::size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + value_text(values[i]);
    return out + (values.size() == 1 ? ",)" : ")");
  };
  std::string out = "SdyShardingRule(" + side(operands_) + ", " + side(results_) + ", {";
  bool first = true;
  for (const auto& [factor, size] : options_.factor_sizes) {
    out += (first ? "'" : ", '") + factor + "': " + std::to_string(size);
    first = false;
  }
  out += "}";
  auto add_set = [&](const char* name, const std::vector<std::string>& factors) {
    if (factors.empty()) return;
    out += std::string(" ") + name + "={";
    for (std::size_t i = 0; i < factors.size(); ++i) out += (i ? ", '" : "'") + factors[i] + "'";
    out += "}";
  };
  add_set("reduction", options_.reduction_factors);
  add_set("need_replication", options_.need_replication_factors);
  add_set("permutation", options_.permutation_factors);
  return out + ")";
}

namespace frontend {

namespace {

/// Factors by number, ellipsis dims included, in order of first appearance.
class FactorTable {
 public:
  explicit FactorTable(const ShardingRule& rule) : rule_(rule) {}

  ir::FactorRuleSpec build(const std::vector<Dims>& operands, const std::vector<Dims>& results) {
    count_check("operands", rule_.operands().size(), operands.size());
    count_check("results", rule_.results().size(), results.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      spec_.operands.push_back(
          value("operand " + std::to_string(i), rule_.operands()[i], operands[i]));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      spec_.results.push_back(value("result " + std::to_string(i), rule_.results()[i], results[i]));
    }
    for (const Check& c : checks_) {
      std::int64_t product = 1;
      bool fits = true;
      std::string factors;
      for (int f : c.factors) {
        fits =
            fits && !__builtin_mul_overflow(product, spec_.factor_sizes[std::size_t(f)], &product);
        factors += (factors.empty() ? "" : " * ") + spec_.factor_names[std::size_t(f)] + "=" +
                   std::to_string(spec_.factor_sizes[std::size_t(f)]);
      }
      if (!fits || product != c.size) {
        fail(c.who + ": dim of size " + std::to_string(c.size) + " is no product of its factors, " +
             factors + (fits ? " = " + std::to_string(product) : ", more than 64 bits hold"));
      }
    }
    auto numbers = [&](const std::vector<std::string>& names) {
      IndexList out;
      for (const std::string& n : names) {
        if (auto at = numbers_.find(n); at != numbers_.end()) out.push_back(at->second);
      }
      std::sort(out.begin(), out.end());
      return out;
    };
    spec_.reduction = numbers(rule_.options().reduction_factors);
    spec_.need_replication = numbers(rule_.options().need_replication_factors);
    spec_.permutation = numbers(rule_.options().permutation_factors);
    return std::move(spec_);
  }

 private:
  struct Check {
    std::string who;
    std::int64_t size;
    IndexList factors;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError("sharding rule '" + rule_.text() + "': " + what, rule_.location());
  }
  void count_check(const std::string& what, std::size_t rule, std::size_t given) const {
    if (rule != given) {
      fail("it has " + std::to_string(rule) + " " + what + ", and the operation has " +
           std::to_string(given));
    }
  }

  int number(const std::string& name) {
    auto [at, fresh] = numbers_.emplace(name, int(spec_.factor_names.size()));
    if (fresh) {
      spec_.factor_names.push_back(name);
      spec_.factor_sizes.push_back(-1);
    }
    return at->second;
  }

  std::vector<IndexList> value(const std::string& who, const ShardingRule::Value& rule,
                               const Dims& dims) {
    std::vector<IndexList> out;
    const bool leading = !rule.empty() && is_ellipsis(rule[0]);
    const std::size_t written = rule.size() - (leading ? 1 : 0);
    if (dims.size() < written || (!leading && dims.size() != written)) {
      fail(who + " has rank " + std::to_string(dims.size()) + ", and the rule writes " +
           std::to_string(written) + (leading ? " dims or more" : " dims"));
    }
    if (leading) {
      const std::string& group = rule[0][1];
      const std::size_t extra = dims.size() - written;
      auto [at, fresh] =
          ellipsis_.emplace(group, Dims(dims.begin(), dims.begin() + std::ptrdiff_t(extra)));
      if (!fresh && at->second.size() != extra) {
        fail("'..." + group + "' stands for " + std::to_string(at->second.size()) +
             " dims and for " + std::to_string(extra) + " in " + who);
      }
      for (std::size_t d = 0; d < extra; ++d) {
        const std::string name = "_dim_" + group + "_" + std::to_string(d);
        if (at->second[d] != dims[d]) {
          fail("dim " + std::to_string(d) + " of '..." + group + "' has sizes " +
               std::to_string(at->second[d]) + " and " + std::to_string(dims[d]));
        }
        const int f = number(name);
        spec_.factor_sizes[std::size_t(f)] = dims[d];
        out.push_back({f});
      }
    }
    for (std::size_t d = 0; d < written; ++d) {
      const ShardingRule::Dim& dim = rule[d + (leading ? 1 : 0)];
      const std::int64_t size = dims[dims.size() - written + d];
      IndexList factors;
      for (const std::string& name : dim) {
        const int f = number(name);
        auto given = rule_.options().factor_sizes.find(name);
        if (given != rule_.options().factor_sizes.end()) {
          spec_.factor_sizes[std::size_t(f)] = given->second;
        }
        factors.push_back(f);
      }
      if (dim.size() == 1) {
        std::int64_t& known = spec_.factor_sizes[std::size_t(factors[0])];
        known = known < 0 ? size : std::min(known, size);
      } else {
        checks_.push_back({who, size, factors});
      }
      out.push_back(std::move(factors));
    }
    return out;
  }

  const ShardingRule& rule_;
  ir::FactorRuleSpec spec_;
  std::map<std::string, int> numbers_;
  std::map<std::string, Dims> ellipsis_;
  std::vector<Check> checks_;
};

}  // namespace

ir::FactorRuleSpec to_factors(const ShardingRule& rule, const std::vector<Dims>& operands,
                              const std::vector<Dims>& results) {
  return FactorTable(rule).build(operands, results);
}

}  // namespace frontend
}  // namespace tessera
