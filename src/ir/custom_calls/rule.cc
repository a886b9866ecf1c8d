// SPDX-License-Identifier: Apache-2.0
// Sharding rules of custom calls, and Shardy's text of rules.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::ir {
namespace {

constexpr const char* kSdyRule = "xla.sdy.sharding_rule";
constexpr std::int64_t kMaxFactors = 4096;

class RuleReader {
 public:
  RuleReader(std::string_view text, Location location) : text_(text), location_(location) {}

  FactorRuleSpec read() {
    constexpr std::string_view kPrefix = "#sdy.op_sharding_rule<";
    skip();
    if (text_.substr(at_, kPrefix.size()) == kPrefix) at_ += kPrefix.size();
    spec_.operands = tensors();
    expect('-');
    expect('>');
    spec_.results = tensors();
    if (accept('{') && !accept('}')) {  // scalars have no factors
      do {
        const int f = factor(word());
        expect('=');
        spec_.factor_sizes[std::size_t(f)] = integer();
      } while (accept(','));
      expect('}');
    }
    for (std::size_t f = 0; f < spec_.factor_sizes.size(); ++f) {
      if (spec_.factor_sizes[f] < 0) fail("factor '" + spec_.factor_names[f] + "' has no size");
    }
    lists();
    skip();
    if (at_ < text_.size()) fail("something follows the rule");
    return std::move(spec_);
  }

 private:
  /// Of factors that are no plain ones, in Shardy's order, and whether it is the user's own rule.
  void lists() {
    constexpr std::string_view kNames[] = {"reduction", "need_replication", "permutation",
                                           "blocked_propagation", "custom"};
    IndexList* const lists[] = {&spec_.reduction, &spec_.need_replication, &spec_.permutation,
                                &spec_.blocked};
    for (std::size_t next = 0; !accept('>') && at_ < text_.size(); ++next) {
      const bool comma = accept(',');
      const std::string key = word();
      if (std::find(std::begin(kNames), std::end(kNames), key) == std::end(kNames)) {
        fail("there is no '" + key +
             "'; valid: reduction, need_replication, permutation, blocked_propagation, custom");
      }
      while (next < std::size(kNames) && kNames[next] != key) ++next;
      if (next == std::size(kNames) || comma != (key == "custom")) {
        fail("'" + key +
             "' can't stand here; valid, in this order: reduction={i}, need_replication={j}, "
             "permutation={k}, blocked_propagation={l}, and ', custom'");
      }
      if (comma) continue;
      expect('=');
      expect('{');
      do {
        lists[next]->push_back(factor(word()));
      } while (accept(','));
      expect('}');
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ParseError("sharding rule '" + std::string(text_.substr(0, 200)) + "': " + what +
                         " (at character " + std::to_string(at_) + ")",
                     location_);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  static bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  std::string word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (letter(text_[at_]) || digit(text_[at_]) || text_[at_] == '_')) {
      ++at_;
    }
    if (at_ == begin) fail("expected a word");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::int64_t integer() {
    skip();
    std::int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc() || v < 0) fail("expected a size");
    at_ = std::size_t(end - text_.data());
    return v;
  }
  int factor(const std::string& name) {
    const auto [at, fresh] = numbers_.emplace(name, int(spec_.factor_names.size()));
    if (fresh) {
      if (std::int64_t(spec_.factor_names.size()) >= kMaxFactors) fail("too many factors");
      spec_.factor_names.push_back(name);
      spec_.factor_sizes.push_back(-1);
    }
    return at->second;
  }
  /// ([ij, k], [])
  std::vector<std::vector<IndexList>> tensors() {
    std::vector<std::vector<IndexList>> out;
    expect('(');
    if (accept(')')) return out;
    do {
      out.emplace_back();
      expect('[');
      if (accept(']')) continue;
      do {
        out.back().emplace_back();
        skip();
        // Symbols stand without blanks between: a letter, and maybe _ and a number.
        while (at_ < text_.size() && letter(text_[at_])) {
          const std::size_t begin = at_++;
          if (at_ + 1 < text_.size() && text_[at_] == '_' && digit(text_[at_ + 1])) {
            ++at_;
            while (at_ < text_.size() && digit(text_[at_])) ++at_;
          }
          out.back().back().push_back(factor(std::string(text_.substr(begin, at_ - begin))));
        }
      } while (accept(','));
      expect(']');
    } while (accept(','));
    expect(')');
    return out;
  }

  std::string_view text_;
  Location location_;
  std::size_t at_ = 0;
  FactorRuleSpec spec_;
  std::map<std::string, int> numbers_;
};

/// Does the rule have each tensor with all its dims?
bool fits(const std::vector<std::vector<IndexList>>& tensors, const std::vector<Shape>& shapes) {
  if (tensors.size() != shapes.size()) return false;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    if (tensors[t].size() != shapes[t].dims.size()) return false;
  }
  return true;
}

/// Factors of dims whose size isn't the product of the factors' sizes: where the dim would be cut
/// isn't known, and it stays whole.
void find_unequal(const FactorRuleSpec& spec, const std::vector<std::vector<IndexList>>& tensors,
                  const std::vector<Shape>& shapes, std::set<int>* out) {
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    for (std::size_t d = 0; d < shapes[t].dims.size(); ++d) {
      std::int64_t product = 1;
      for (int f : tensors[t][d]) {
        product = checked_multiply(product, spec.factor_sizes[std::size_t(f)]);
      }
      if (product != shapes[t].dims[d]) out->insert(tensors[t][d].begin(), tensors[t][d].end());
    }
  }
}

}  // namespace

FactorRuleSpec parse_sharding_rule(std::string_view text, Location location) {
  return RuleReader(text, location).read();
}

std::optional<FactorRuleSpec> custom_call_rule(const Instruction& call) {
  const CustomCallTarget* target = find_custom_call(custom_call_target(call));
  if (target) {
    if (auto rule = target->rule(call)) return rule;
  }
  const auto text = call.frontend_attributes->find(kSdyRule);
  if (text == call.frontend_attributes->end()) return std::nullopt;
  FactorRuleSpec spec = parse_sharding_rule(text->second, call.location());
  std::vector<Shape> operands;
  for (const Instruction* o : call.operands()) {
    for (Shape& leaf : flatten(o->shape)) operands.push_back(std::move(leaf));
  }
  const std::vector<Shape> results = flatten(call.shape);
  if (!fits(spec.operands, operands) || !fits(spec.results, results)) {
    throw ShapeError("the sharding rule " + text->second + " of " + call.describe() +
                         " doesn't fit its shapes " + call_signature(call),
                     call.location());
  }
  std::set<int> unequal;
  find_unequal(spec, spec.operands, operands, &unequal);
  find_unequal(spec, spec.results, results, &unequal);
  for (IndexList* list : {&spec.reduction, &spec.permutation, &spec.need_replication}) {
    list->erase(
        std::remove_if(list->begin(), list->end(), [&](int f) { return unequal.count(f) > 0; }),
        list->end());
  }
  for (const int f : unequal) spec.need_replication.push_back(f);
  // The call runs as it is on the shards: what only one tensor has can't be cut.
  IndexList tensors_of(spec.factor_sizes.size(), 0);
  for (const auto* side : {&spec.operands, &spec.results}) {
    for (const auto& tensor : *side) {
      for (const auto& dim : tensor) {
        for (int f : dim) ++tensors_of[std::size_t(f)];
      }
    }
  }
  auto listed = [&](int f) {
    for (const auto* list : {&spec.reduction, &spec.need_replication, &spec.permutation}) {
      if (std::find(list->begin(), list->end(), f) != list->end()) return true;
    }
    return false;
  };
  for (std::size_t f = 0; f < tensors_of.size(); ++f) {
    if (tensors_of[f] < 2 && !listed(int(f))) spec.need_replication.push_back(int(f));
  }
  std::sort(spec.need_replication.begin(), spec.need_replication.end());
  return spec;
}

}  // namespace tessera::ir
