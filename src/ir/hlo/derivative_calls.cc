// SPDX-License-Identifier: Apache-2.0
// Reads and writes the attributes of remat and custom-derivative.
#include "src/ir/hlo/derivative_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/ir/hlo/hlo_lexer.h"
#include "src/ir/hlo/text_out.h"

namespace tessera::ir {
namespace {

using Policy = RematPolicy::Kind;

constexpr std::string_view kNothing = "nothing_saveable";

struct PolicyText {
  Policy kind;
  std::string_view name;
};
constexpr PolicyText kPolicies[] = {
    {Policy::everything_saveable, "everything_saveable"},
    {Policy::dots_saveable, "dots_saveable"},
    {Policy::dots_with_no_batch_dims_saveable, "dots_with_no_batch_dims_saveable"},
    {Policy::save_only_these_names, "save_only_these_names"},
    {Policy::save_any_names_but_these, "save_any_names_but_these"},
    {Policy::save_anything_except_these_names, "save_anything_except_these_names"},
    {Policy::offload_dot_with_no_batch_dims, "offload_dot_with_no_batch_dims"},
    {Policy::save_and_offload_only_these_names, "save_and_offload_only_these_names"},
};

bool names_values(Policy kind) {
  return kind == Policy::save_only_these_names || kind == Policy::save_any_names_but_these ||
         kind == Policy::save_anything_except_these_names;
}

std::string list_of_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    append_quoted(out, name);
  }
  return out;
}

std::string policy_text(const RematPolicy& p) {
  std::string out;
  for (const PolicyText& known : kPolicies) {
    if (known.kind == p.kind) out = known.name;
  }
  const std::string memories = list_of_names({p.from_memory, p.to_memory});
  if (names_values(p.kind)) out += "(" + list_of_names(p.names) + ")";
  if (p.kind == Policy::offload_dot_with_no_batch_dims) out += "(" + memories + ")";
  if (p.kind == Policy::save_and_offload_only_these_names) {
    out += "([" + list_of_names(p.names) + "], [" + list_of_names(p.offloaded_names) + "], " +
           memories + ")";
  }
  return out;
}

std::vector<std::string> read_names(HloLexer& in, char end) {
  std::vector<std::string> out;
  if (in.accept(end)) return out;
  do {
    out.push_back(in.quoted("the name of a value"));
  } while (in.accept(','));
  in.expect(end, "after the names");
  return out;
}

void read_memories(HloLexer& in, RematPolicy* p) {
  p->from_memory = in.quoted("a kind of memory");
  in.expect(',', "between kinds of memory");
  p->to_memory = in.quoted("a kind of memory");
  in.expect(')', "after the policy");
}

std::vector<RematPolicy> read_policies(HloLexer& in) {
  std::vector<RematPolicy> out;
  in.expect('[', "before the policies");
  do {
    in.skip();
    const char* at = in.position();
    const std::string_view word = in.word("a policy");
    if (word == kNothing) continue;
    const auto* known = std::find_if(std::begin(kPolicies), std::end(kPolicies),
                                     [&](const PolicyText& p) { return p.name == word; });
    if (known == std::end(kPolicies)) {
      std::string valid(kNothing);
      for (const PolicyText& p : kPolicies) valid += ", " + std::string(p.name);
      in.fail_at(at, "unknown policy '" + std::string(word) + "'; valid: " + valid);
    }
    RematPolicy p;
    p.kind = known->kind;
    if (names_values(p.kind)) {
      in.expect('(', "before the names");
      p.names = read_names(in, ')');
    } else if (p.kind == Policy::offload_dot_with_no_batch_dims) {
      in.expect('(', "before kinds of memory");
      read_memories(in, &p);
    } else if (p.kind == Policy::save_and_offload_only_these_names) {
      in.expect('(', "before the names");
      in.expect('[', "before names of values that are saved");
      p.names = read_names(in, ']');
      in.expect(',', "after names of values that are saved");
      in.expect('[', "before names of values that are offloaded");
      p.offloaded_names = read_names(in, ']');
      in.expect(',', "after names of values that are offloaded");
      read_memories(in, &p);
    }
    out.push_back(std::move(p));
  } while (in.accept(','));
  in.expect(']', "after the policies");
  return out;
}

/// Takes the attributes of one call out of its texts.
class CallReader {
 public:
  CallReader(const Instruction& call, CallAttrs* attrs) : call_(call), attrs_(attrs) {}

  /// Runs `read` on the text; ParseError with the call's line.
  template <class F>
  void take(const char* key, F&& read) {
    const auto item = std::find_if(attrs_->other.begin(), attrs_->other.end(),
                                   [&](const auto& entry) { return entry.first == key; });
    if (item == attrs_->other.end()) return;
    const std::string text = std::move(item->second);
    attrs_->other.erase(item);
    HloLexer in(text, {});
    try {
      read(in);
      if (!in.at_end()) in.fail("expected the end of the value");
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      throw ParseError(
          "in " + std::string(key) + "=" + text + " of " + call_.name + ": " + e.message(),
          call_.location());
    }
  }
  void take(const char* key, bool* flag) {
    take(key, [&](HloLexer& in) {
      *flag = in.accept_word("true");
      if (!*flag && !in.accept_word("false")) in.fail("expected true or false");
    });
  }
  void take(const char* key, std::int64_t* number) {
    take(key, [&](HloLexer& in) { *number = in.integer("a number"); });
  }
  void take(const char* key, std::string* quoted) {
    take(key, [&](HloLexer& in) { *quoted = in.quoted("a name"); });
  }

 private:
  const Instruction& call_;
  CallAttrs* attrs_;
};

/// Appends to the texts of a call.
class CallWriter {
 public:
  explicit CallWriter(CallAttrs* call) : call_(call) {}

  void word(const char* key, std::string text) { call_->other.emplace_back(key, std::move(text)); }
  void flag(const char* key, bool value) { word(key, value ? "true" : "false"); }
  void quoted(const char* key, const std::string& value) {
    if (!value.empty()) word(key, list_of_names({value}));
  }

 private:
  CallAttrs* call_;
};

}  // namespace

void raise_remat(Instruction* call, CallAttrs attrs) {
  RematAttrs a;
  CallReader reader(*call, &attrs);
  reader.take("policies", [&](HloLexer& in) { a.policies = read_policies(in); });
  reader.take("prevent_cse", &a.prevent_cse);
  reader.take("differentiated", &a.differentiated);
  reader.take("label", &a.label);
  static_cast<CallAttrs&>(a) = std::move(attrs);
  call->opcode = Opcode::remat;
  call->attrs = std::move(a);
}

void raise_custom_derivative(Instruction* call, CallAttrs attrs) {
  CustomDerivativeAttrs a;
  CallReader reader(*call, &attrs);
  reader.take("rule", [&](HloLexer& in) {
    if (in.accept_word("vjp")) {
      a.kind = CustomDerivativeAttrs::Kind::vjp;
    } else if (in.accept_word("zero")) {
      a.kind = CustomDerivativeAttrs::Kind::zero;
    } else if (in.accept_word("batch")) {
      a.kind = CustomDerivativeAttrs::Kind::batch;
    } else if (!in.accept_word("jvp")) {
      in.fail("expected jvp, vjp, zero or batch");
    }
  });
  reader.take("num_nondiff", &a.nondiff);
  reader.take("num_residuals", &a.residuals);
  reader.take("symbolic_zeros", &a.symbolic_zeros);
  reader.take("label", &a.label);
  static_cast<CallAttrs&>(a) = std::move(attrs);
  call->opcode = Opcode::custom_derivative;
  call->attrs = std::move(a);
}

void lower_derivative_attributes(const Instruction& op, CallAttrs* call) {
  CallWriter out(call);
  if (const auto* a = op.attrs.get_if<RematAttrs>()) {
    std::string policies;
    for (const RematPolicy& p : a->policies) {
      policies += (policies.empty() ? "" : ", ") + policy_text(p);
    }
    out.word("policies", "[" + (policies.empty() ? std::string(kNothing) : policies) + "]");
    out.flag("prevent_cse", a->prevent_cse);
    out.flag("differentiated", a->differentiated);
    out.quoted("label", a->label);
  } else if (const auto* a = op.attrs.get_if<CustomDerivativeAttrs>()) {
    static constexpr const char* kKinds[] = {"jvp", "vjp", "zero", "batch"};
    out.word("rule", kKinds[std::size_t(a->kind)]);
    out.word("num_nondiff", std::to_string(a->nondiff));
    if (a->kind == CustomDerivativeAttrs::Kind::vjp) {
      out.word("num_residuals", std::to_string(a->residuals));
    }
    out.flag("symbolic_zeros", a->symbolic_zeros);
    out.quoted("label", a->label);
  }
}

}  // namespace tessera::ir
