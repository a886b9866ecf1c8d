// SPDX-License-Identifier: Apache-2.0
// Shardy's HLO form: custom calls from and to local shapes around a call of the body.
#include <algorithm>

#include "src/base/check.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/spmd/manual/manual.h"

namespace tessera::spmd::manual {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr std::string_view kBody = "xla.sdy.manual_computation_body";

[[noreturn]] void fail(const Instruction& call, const std::string& why) {
  throw ValueError("the manual computation " + call.called()[0]->name() + " " + why,
                   call.location());
}

/// The text from its first bracket to its last.
std::string bracketed(const std::string& text, char open, char close) {
  const std::size_t begin = text.find(open), end = text.rfind(close);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return text.substr(begin, end - begin + 1);
}

std::string attribute(const Instruction* i, const std::string& name) {
  if (!i) return {};
  auto it = i->frontend_attributes->find("xla.sdy." + name);
  return it == i->frontend_attributes->end() ? std::string() : it->second;
}

class Raise {
 public:
  Raise(ir::Computation* computation, Instruction* call, const ir::NamedMeshes& meshes)
      : c_(computation), call_(call), meshes_(meshes) {}

  /// What the users of the result shall use.
  std::pair<Instruction*, Instruction*> run() {
    find_inputs();
    find_outputs();
    ir::CustomCallAttrs attrs;
    attrs.target = ir::kManualComputationTarget;
    attrs.has_side_effect = !to_global_;
    std::string in = bracketed(attribute(to_local_, "in_shardings"), '[', ']');
    std::string out = bracketed(attribute(to_global_, "out_shardings"), '[', ']');
    std::string axes = attribute(to_local_ ? to_local_ : to_global_, "manual_axes");
    std::string names = bracketed(axes, '{', '}');
    if (!names.empty()) names = names.substr(1, names.size() - 2);
    attrs.other = {{ir::kManualInShardings, in.empty() ? "[]" : in},
                   {ir::kManualOutShardings, out.empty() ? "[]" : out},
                   {ir::kManualAxes, "[" + names + "]"}};
    auto made = std::make_unique<Instruction>();
    made->opcode = Opcode::custom_call;
    made->shape = to_global_ ? to_global_->shape : Shape::tuple({});
    made->name = "manual_computation";
    made->attrs = std::move(attrs);
    made->metadata = call_->metadata;
    made->set_called({call_->called()[0]});
    if (to_local_) made->set_operands(to_local_->operands());
    Instruction* raised = c_->add(std::move(made));
    ir::raise_manual_computation(raised, meshes_);
    for (Instruction* i : {to_local_, to_global_}) {
      if (i) i->drop_side_effect();
    }
    return {to_global_, raised};
  }

 private:
  void find_inputs() {
    for (std::size_t k = 0; k < call_->operands().size(); ++k) {
      Instruction* o = call_->operands()[k];
      std::int64_t element = 0;
      if (o->is(Opcode::get_tuple_element)) {
        element = o->get<ir::GetTupleElementAttrs>().index;
        o = o->operands()[0];
      }
      if (!ir::calls_target(*o, ir::kGlobalToLocalShapeTarget) || (to_local_ && to_local_ != o) ||
          element != std::int64_t(k)) {
        fail(*call_,
             "doesn't take its operands from one " + std::string(ir::kGlobalToLocalShapeTarget));
      }
      to_local_ = o;
    }
  }

  void find_outputs() {
    auto take = [&](Instruction* user) {
      if (!ir::calls_target(*user, ir::kLocalToGlobalShapeTarget) ||
          (to_global_ && to_global_ != user)) {
        fail(*call_,
             "doesn't give its results to one " + std::string(ir::kLocalToGlobalShapeTarget));
      }
      to_global_ = user;
    };
    for (Instruction* user : call_->users()) {
      if (!user->is(Opcode::get_tuple_element)) {
        take(user);
        continue;
      }
      for (Instruction* next : user->users()) {
        take(next);
        const auto k = std::size_t(user->get<ir::GetTupleElementAttrs>().index);
        if (k >= next->operands().size() || next->operands()[k] != user) {
          fail(*call_, "gives its results in another order to " +
                           std::string(ir::kLocalToGlobalShapeTarget));
        }
      }
    }
  }

  ir::Computation* c_;
  Instruction* call_;
  const ir::NamedMeshes& meshes_;
  Instruction *to_local_ = nullptr, *to_global_ = nullptr;
};

}  // namespace

void raise_sdy_calls(ir::Module* module) {
  for (const auto& c : module->computations()) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      const bool is_body =
          i->is(Opcode::call) && i->called().size() == 1 &&
          std::string_view(i->called()[0]->name()).substr(0, kBody.size()) == kBody;
      if (is_body) calls.push_back(i.get());
    }
    if (calls.empty()) continue;
    const ir::NamedMeshes meshes = ir::named_meshes(*module);
    for (Instruction* call : calls) {
      auto [from, to] = Raise(c.get(), call, meshes).run();
      if (from) from->replace_all_uses_with(to);
    }
    c->sort_topologically();
    c->remove_dead();
  }
}

}  // namespace tessera::spmd::manual
