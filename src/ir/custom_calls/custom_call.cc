// SPDX-License-Identifier: Apache-2.0
// The registry of custom call targets, and expansion of those that stand for a program.
#include "src/ir/custom_calls/custom_call.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

struct Entry {
  std::shared_ptr<const CustomCallTarget> target;
  Location location;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> entries;

  Registry() {
    for (auto& [name, target] : plain_custom_calls()) entries[name] = {std::move(target), {}};
  }
};

Registry& registry() {
  // Never destroyed: plans may outlive static objects.
  static Registry* const instance = new Registry();
  return *instance;
}

}  // namespace

Computation* CustomCallTarget::body(Module*, const Instruction&) const { return nullptr; }
std::optional<FactorRuleSpec> CustomCallTarget::rule(const Instruction&) const {
  return std::nullopt;
}

void register_custom_call(const std::string& name, std::shared_ptr<const CustomCallTarget> target,
                          Location location) {
  TESSERA_CHECK(target != nullptr, "no target for " + name);
  if (name.empty()) throw ValueError("a custom call target needs a name", location);
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto [at, fresh] = r.entries.try_emplace(name, Entry{std::move(target), location});
  if (fresh) return;
  const Location first = at->second.location;
  throw ValueError("custom call target \"" + name + "\" is registered already" +
                       (first.known() ? " (" + first.to_string() + ")" : " (by Tessera)") +
                       "; choose another name",
                   location);
}

const CustomCallTarget* find_custom_call(const std::string& name) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto at = r.entries.find(name);
  return at == r.entries.end() ? nullptr : at->second.target.get();
}

void refuse_python(const Instruction& call) {
  throw NotImplementedError(
      "custom call target \"" + call.get<CustomCallAttrs>().target + "\" (" + call.describe() +
          ": " + call_signature(call) +
          ") calls back into Python, which isn't here; export the program without pure_callback, "
          "io_callback and debug.print, or register a function under that name with "
          "tessera::register_custom_call",
      call.location());
}

const CustomCallTarget& need_custom_call(const Instruction& call) {
  const std::string target = custom_call_target(call);
  if (const CustomCallTarget* found = find_custom_call(target)) return *found;
  const std::string what = "custom call target \"" + target + "\" (" + call.describe() + ": " +
                           call_signature(call) + ")";
  if (target.find("python") != std::string::npos && target.find("callback") != std::string::npos) {
    // It may never be reached.
    static const CustomCallTarget in_a_branch;
    if (call.parent != nullptr && call.parent != call.parent->module()->entry()) return in_a_branch;
    refuse_python(call);
  }
  throw NotImplementedError(what + " isn't known; register a function that computes it with " +
                                "tessera::register_custom_call(\"" + target +
                                "\", {.compute = ...})",
                            call.location());
}

std::vector<std::string> custom_call_names() {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  std::vector<std::string> out;
  for (const auto& [name, entry] : r.entries) out.push_back(name);
  return out;
}

std::string call_signature(const Instruction& call) {
  std::string out;
  for (const Instruction* o : call.operands()) {
    out += (out.empty() ? "" : ", ") + o->shape.to_string();
  }
  return out + (out.empty() ? "-> " : " -> ") + call.shape.to_string();
}

std::vector<Dims> operand_layouts(const Instruction& call) {
  const CallAttrs* attrs = call.attrs.call_attrs();
  if (!attrs) return {};
  for (const auto& [key, text] : attrs->other) {
    if (key != "operand_layout_constraints") continue;
    // {f32[8,8]{0,1}, s32[], f32[3]{0:T(128)}}: what stands in braces behind each shape.
    std::vector<Dims> out;
    std::size_t at = text.find('{');
    if (at == std::string::npos) return {};
    ++at;
    bool any = false;
    Dims layout;
    int brackets = 0;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '[') ++brackets;
      if (c == ']') --brackets;
      if (std::isalpha(static_cast<unsigned char>(c))) any = true;
      if (c == '{') {
        layout.clear();
        std::int64_t number = -1;
        for (++at; at < text.size() && text[at] != '}' && text[at] != ':'; ++at) {
          if (text[at] >= '0' && text[at] <= '9' && number < 1000) {
            number = std::max<std::int64_t>(number, 0) * 10 + (text[at] - '0');
          } else if (number >= 0) {
            layout.push_back(number);
            number = -1;
          }
        }
        if (number >= 0) layout.push_back(number);
        while (at < text.size() && text[at] != '}') ++at;
      } else if ((c == ',' && brackets == 0) || c == '}') {
        if (any) out.push_back(layout);
        layout.clear();
        any = false;
        if (c == '}') break;
      }
    }
    return out;
  }
  return {};
}

namespace {

void copy_layouts(const Shape& from, Shape* to) {
  if (from.is_tuple != to->is_tuple) return;
  if (!from.is_tuple) {
    if (from.dims.size() == to->dims.size()) to->layout = from.layout;
    return;
  }
  for (std::size_t i = 0; i < from.elements.size() && i < to->elements.size(); ++i) {
    copy_layouts(from.elements[i], &to->elements[i]);
  }
}

}  // namespace

void keep_call_layouts(const Instruction& source, Instruction* copy) {
  copy_layouts(source.shape, &copy->shape);
  CallAttrs* attrs = copy->attrs.edit_call_attrs();
  if (attrs == nullptr) return;
  for (auto& [key, text] : attrs->other) {
    if (key != "operand_layout_constraints") continue;
    const std::vector<Dims> layouts = operand_layouts(source);
    text = "{";
    for (std::size_t i = 0; i < copy->operands().size(); ++i) {
      Shape shape = copy->operand(i)->shape;
      if (shape.is_array()) {
        shape.layout.clear();
        if (i < layouts.size() && layouts[i].size() == shape.dims.size()) shape.layout = layouts[i];
      }
      if (i > 0) text += ", ";
      text += shape.to_string_with_layout();
    }
    text += "}";
  }
}

std::size_t expand_custom_calls(Module* module, bool markers) {
  std::size_t count = 0;
  // Bodies are appended to the list of computations.
  std::vector<Computation*> computations;
  for (const auto& c : module->computations()) computations.push_back(c.get());
  for (Computation* c : computations) {
    std::vector<std::pair<Instruction*, const CustomCallTarget*>> calls;
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::custom_call)) continue;
      const CustomCallTarget* target = find_custom_call(i->get<CustomCallAttrs>().target);
      if (target && target->is_marker() == markers) calls.emplace_back(i.get(), target);
    }
    std::size_t replaced = 0;
    const auto replace = [&](Instruction* i, Instruction* to) {
      i->drop_side_effect();
      i->replace_all_uses_with(to);
      ++replaced;
    };
    for (const auto& i : c->instructions()) {
      const bool marks = i->is(Opcode::sharding_constraint) || i->is(Opcode::propagation_barrier);
      // Transformations alone ask which values are marked as varying.
      if (markers ? marks : i->is(Opcode::pvary)) replace(i.get(), i->operand(0));
    }
    for (const auto& [call, target] : calls) {
      Computation* body = target->body(module, *call);
      if (!body) continue;
      if (!(body->root()->shape == call->shape)) {
        throw ShapeError("custom call target \"" + call->get<CustomCallAttrs>().target + "\" (" +
                             call->describe() + "): the program that stands for it gives " +
                             body->root()->shape.to_string() + ", and the call " +
                             call->shape.to_string(),
                         call->location());
      }
      Builder builder(c);
      builder.metadata = call->metadata;
      Instruction* made = builder.call(body, call->operands());
      made->sharding = call->sharding;
      made->set_control_predecessors(call->control_predecessors());
      replace(call, made);
    }
    if (replaced == 0) continue;
    c->sort_topologically();
    c->remove_dead();
    count += replaced;
  }
  return count;
}

}  // namespace tessera::ir
