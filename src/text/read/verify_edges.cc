// SPDX-License-Identifier: Apache-2.0
// Where data-flow edges may stand, and the attributes that tell how shardings were propagated: what
// Shardy's verifier refuses of both.
#include <algorithm>
#include <set>

#include "src/sharding/axes/axis_refs.h"
#include "src/sharding/axes/sdy_text.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

/// A value of an operation: `operand-1`, `result-0`.
struct ValueRef {
  bool result = false;
  std::int64_t index = 0;
  auto operator<=>(const ValueRef&) const = default;
};

struct Edges {
  std::vector<std::string> axes;
  std::vector<ValueRef> values;
};

/// `#sdy.propagation_edges<[{step-0 = [{"x" = operand-0 -> [result-0]}]}]>`
class EdgesReader {
 public:
  explicit EdgesReader(std::string_view text) : in_(text, "propagation edges") {}

  Edges read() {
    in_.expect("#sdy.propagation_edges");
    in_.expect("<");
    std::set<std::int64_t> steps;
    list([&] {
      in_.expect("{");
      in_.expect("step");
      in_.expect("-");
      if (in_.peek() == '-') in_.fail("the number of a step is at least 0");
      step_ = in_.integer();
      if (!steps.insert(step_).second) in_.fail("step " + std::to_string(step_) + " stands twice");
      in_.expect("=");
      list([&] { axis(); });
      in_.expect("}");
    });
    in_.expect(">");
    if (!in_.at_end()) in_.fail("nothing may follow");
    return std::move(out_);
  }

 private:
  template <class Item>
  void list(Item item) {
    in_.expect("[");
    if (in_.accept("]")) return;
    do {
      item();
    } while (in_.accept(","));
    in_.expect("]");
  }
  void axis() {
    in_.expect("{");
    const std::string name = in_.quoted('"');
    out_.axes.push_back(name);
    if (in_.accept(":")) {
      in_.expect("(");
      in_.integer();
      in_.expect(")");
      in_.integer();
    }
    in_.expect("=");
    const ValueRef source = value();
    in_.expect("->");
    std::set<ValueRef> targets;
    list([&] {
      const ValueRef target = value();
      if (target == source) in_.fail("a source can't be a target, too");
      if (targets.insert(target).second) return;
      in_.fail("in step " + std::to_string(step_) + " axis \"" + name +
               "\" has a target that stands twice");
    });
    in_.expect("}");
  }
  ValueRef value() {
    ValueRef ref;
    ref.result = in_.accept("result");
    if (!ref.result) in_.expect("operand");
    in_.expect("-");
    ref.index = in_.integer();
    out_.values.push_back(ref);
    return ref;
  }

  TextCursor in_;
  std::int64_t step_ = 0;
  Edges out_;
};

}  // namespace

Origin Reader::origin_of(const OpInfo& info) {
  if (info.convert == &Reader::call) return Origin::call;
  // Computations give values that flow out of them.
  const bool flows = info.regions != Regions::none;
  return !flows && info.name.starts_with("sdy.") ? Origin::sdy : Origin::other;
}

Symbol* Reader::symbol_at(const char* at, std::int64_t* number) {
  Symbol* s = nullptr;
  at_value({at, 0}, [&] {
    in_.expect('%', "before a value");
    s = symbols_.find(in_.suffix("the name of a value"));
    *number = 0;
    if (in_.position() < in_.end() && *in_.position() == '#') {
      in_.seek(in_.position() + 1);
      *number = in_.integer("the number of a result");
    }
  });
  return s;
}

std::string Reader::value_name(const char* at) {
  std::string out;
  at_value({at, 0}, [&] {
    in_.expect('%', "before a value");
    out = "%" + std::string(in_.suffix("the name of a value"));
  });
  return out;
}

void Reader::fail_read_twice(const char* at) {
  in_.fail_at(at, "value " + value_name(at) +
                      " is the operand of a data-flow edge, which must be the only one to read it");
}

void Reader::check_data_flow_edge(const Operation& op) {
  need_operands(op, 1, 1);
  const char* at = op.operand_places[0];
  std::int64_t number = 0;
  Symbol* s = symbol_at(at, &number);
  if (s == nullptr) return;
  std::uint32_t& reads = symbols_.reads_of(*s, number);
  if (reads != 1) fail_read_twice(at);
  reads = Symbols::kReadByEdge;
  if (op.name == "sdy.func_data_flow_edge") {
    if (s->origin == Origin::function_argument || s->origin == Origin::call) return;
    fail(op,
         "stands on " + value_name(at) + "; valid: arguments of functions and results of calls");
  }
  if (s->origin != Origin::sdy) return;
  fail(op, "stands on " + value_name(at) +
               ", which an operation of sdy gives; valid: values of other operations, of "
               "sdy.named_computation and sdy.manual_computation");
}

void Reader::check_propagation_edges(const Operation& op) {
  for (const Attribute& a : op.attributes) {
    const bool of_op = a.key == "sdy.propagation_edges";
    if (!of_op && a.key != "sdy.result_propagation_edges" &&
        a.key != "sdy.block_arg_propagation_edges") {
      continue;
    }
    const std::string_view text = expanded(a.value);
    const auto read = [&](std::string_view one) {
      try {
        return EdgesReader(expanded_sdy(one)).read();
      } catch (const InternalError&) {
        throw;
      } catch (const Error& e) {
        in_.fail_at(text.data(), std::string(a.key) + ": " + e.message());
      }
    };
    if (!of_op) {
      const char* back = in_.position();
      in_.seek(text.data());
      in_.expect('[', "before propagation edges, one for each value");
      in_.items(']', "after propagation edges", [&] {
        in_.skip();
        read(in_.value());
      });
      in_.seek(back);
      continue;
    }
    const Edges edges = read(text);
    if (op.name == "sdy.func_data_flow_edge") continue;
    SdyRecords::PropagationEdges found{{}, edges.axes, text.data()};
    for (const ValueRef& ref : edges.values) {
      const auto& values = ref.result ? op.values : op.operands;
      if (ref.index >= std::int64_t(values.size())) {
        in_.fail_at(text.data(), std::string(a.key) + " names " +
                                     (ref.result ? "result " : "operand ") +
                                     std::to_string(ref.index) + " of " + std::string(op.name) +
                                     ", which has " + std::to_string(values.size()));
      }
      found.values.push_back(values[std::size_t(ref.index)]);
    }
    sdy_.propagation_edges.push_back(std::move(found));
  }
}

void Reader::check_edges_of_shardings() {
  if (sdy_.propagation_edges.empty()) return;
  std::set<std::string, std::less<>> axes;
  for (const DeclaredMesh& declared : meshes_) {
    for (const MeshAxis& axis : declared.mesh->axes) axes.insert(axis.name);
  }
  for (const SdyRecords::PropagationEdges& e : sdy_.propagation_edges) {
    // Shardings of what a region is given aren't written at its arguments.
    const auto may_have_one = [&](const ir::Instruction* i) {
      return !i->sharding.empty() || i->is(ir::Opcode::get_tuple_element) ||
             (i->is(ir::Opcode::parameter) && i->parent != module_->entry());
    };
    if (std::none_of(e.values.begin(), e.values.end(), may_have_one)) {
      in_.fail_at(e.at, "propagation edges of an operation, no value of which has a sharding");
    }
    for (const std::string& axis : e.axes) {
      if (meshes_.empty() || axes.count(axis) > 0) continue;
      in_.fail_at(e.at, "propagation edges along axis \"" + axis + "\", which no mesh has");
    }
  }
}

}  // namespace tessera::text
