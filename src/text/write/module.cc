// SPDX-License-Identifier: Apache-2.0
// Modules, functions and regions as StableHLO text.
#include <algorithm>

#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/post_order.h"
#include "src/text/read/layout_modes.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/function.h"
#include "src/text/write/stablehlo.h"
#include "src/text/write/text.h"
#include "src/text/write/text_sink.h"

namespace tessera::text {

using ir::append_int;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// Regions are copies of their computations. A computation that is larger than this and used
// several times becomes a function instead, so that text grows with the module only.
constexpr std::size_t kMaxCopied = 16;
// Regions in regions; what is nested deeper becomes a function.
constexpr int kMaxPrintedDepth = 48;

std::vector<Computation*> reachable(const ir::Module& m) {
  TESSERA_CHECK(m.entry() != nullptr && m.entry()->root() != nullptr, "a module without an entry");
  return ir::post_order({m.entry()});
}

/// Number of leaves before the place that an index path leads to.
std::int64_t leaf_at(const Shape& shape, const Dims& path) {
  std::int64_t at = 0;
  const Shape* s = &shape;
  for (std::int64_t step : path) {
    TESSERA_CHECK(s->is_tuple && step >= 0 && std::size_t(step) < s->elements.size(),
                  "an alias names no part of a value");
    for (std::int64_t n = 0; n < step; ++n) {
      at += std::int64_t(leaves_of(s->elements[std::size_t(n)]).size());
    }
    s = &s->elements[std::size_t(step)];
  }
  return at;
}

bool is_result_marker(const Instruction& i) {
  const auto* constraint = i.attrs.get_if<ir::ShardingConstraintAttrs>();
  return constraint != nullptr && constraint->kind == ir::ShardingConstraintAttrs::Kind::result &&
         i.sharding.size() == 1;
}

/// The marker of a result's sharding that leaf `n` of the root comes from; null if there is none.
const Instruction* result_marker(const Instruction* root, std::size_t n, std::size_t leaves) {
  const Instruction* i = root;
  if (i->is(Opcode::tuple)) {
    if (i->operands().size() != leaves) return nullptr;
    i = i->operands()[n];
  }
  while (i->is(Opcode::get_tuple_element) && i->operands()[0]->is(Opcode::tuple)) {
    i = i->operands()[0]->operands().at(std::size_t(i->get<ir::GetTupleElementAttrs>().index));
  }
  return is_result_marker(*i) ? i : nullptr;
}

/// XLA writes an unused reshape beside each marker, with the same sharding as a tiling.
void find_echoes(const Computation& c, const std::unordered_set<const Instruction*>& markers,
                 std::unordered_set<const Instruction*>* echoes) {
  std::unordered_set<const Instruction*> used{c.root()};
  for (const auto& i : c.instructions()) used.insert(i->operands().begin(), i->operands().end());
  for (const auto& i : c.instructions()) {
    if (i->is(Opcode::reshape) && markers.count(i->operands()[0]) > 0 && used.count(i.get()) == 0) {
      echoes->insert(i.get());
    }
  }
}

}  // namespace

Writer::Writer(const ir::Module& module, Sink& sink)
    : module_(module),
      sink_(sink),
      order_(reachable(module)),
      symbols_{"main"},
      meshes_(module, order_, &symbols_),
      next_channel_(module.last_channel_id + 1),
      partitions_(std::max(module.num_partitions, meshes_.devices())) {
  for (const Computation* c : order_) {
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called()) ++uses_[callee];
    }
  }
  const Instruction* root = module.entry()->root();
  const std::size_t leaves = leaves_of(root->shape).size();
  for (std::size_t n = 0; n < leaves; ++n) {
    if (const Instruction* marker = result_marker(root, n, leaves)) result_markers_.insert(marker);
  }
  if (!result_markers_.empty()) find_echoes(*module.entry(), result_markers_, &echoes_);
}

std::string Writer::run() {
  Entries attributes{{"mhlo.num_partitions", std::to_string(partitions_) + " : i32"},
                     {"mhlo.num_replicas", std::to_string(module_.replica_count) + " : i32"}};
  std::string frontend;
  for (const auto& [k, v] : module_.frontend_attributes) {
    if (k == ir::kSdyMeshes || k == kResultLayoutModes) continue;
    frontend += frontend.empty() ? "{" : ", ";
    append_key(frontend, k);
    frontend += " = ";
    append_string(frontend, v);
  }
  if (!frontend.empty()) attributes.emplace_back("mhlo.frontend_attributes", frontend + "}");
  sink_.module(module_.name.empty() ? "module" : module_.name, attributes);
  meshes_.define(sink_);
  function(*module_.entry(), "main");
  // Writing one may call others.
  for (std::size_t n = 0; n < pending_.size(); ++n) function(*pending_[n], functions_[pending_[n]]);
  return sink_.finish();
}

std::string Writer::unused_symbol(const std::string& name) {
  std::string out = name;
  for (int n = 0; !symbols_.insert(out).second; ++n) out = name + "_" + std::to_string(n);
  return out;
}

const std::string& Writer::symbol_of(const Computation& c) {
  auto [it, added] = functions_.try_emplace(&c);
  if (added) {
    it->second = unused_symbol(c.name());
    pending_.push_back(&c);
  }
  return it->second;
}

namespace {

/// The memory of a result that is placed in that of the host.
void append_memory(const Instruction& root, std::size_t n, std::size_t results, Entries* out) {
  const bool tuple = root.is(Opcode::tuple) && root.operands().size() == results;
  if (!tuple && results != 1) return;
  const Instruction& result = tuple ? *root.operand(n) : root;
  const auto* placement = result.attrs.get_if<ir::DevicePlacementAttrs>();
  if (placement == nullptr || !is_host(placement->memory)) return;
  out->emplace_back(ir::kMemoryKindAttribute, "\"" + std::string(name(placement->memory)) + "\"");
}

/// The layout that the module states for a result of its entry, unless it is the default.
void append_layout_mode(const ir::Module& module, std::size_t n, Entries* out) {
  const auto found = module.frontend_attributes.find(kResultLayoutModes);
  if (found == module.frontend_attributes.end()) return;
  const std::vector<std::string> modes = result_layout_modes(found->second);
  if (n >= modes.size() || modes[n] == "default") return;
  std::string text;
  append_string(text, modes[n]);
  out->emplace_back(kLayoutMode, std::move(text));
}

}  // namespace

void Writer::function(const Computation& c, const std::string& symbol) {
  FunctionHead head;
  head.entry = &c == module_.entry();
  head.symbol = symbol;
  std::vector<std::size_t> first;  // leaf of each parameter
  for (const Instruction* p : c.parameters()) {
    first.push_back(head.arguments.size());
    append_leaves(p->shape, &head.arguments);
    head.argument_metadata.resize(head.arguments.size(), &*p->metadata);
  }
  std::vector<Entries>& entries = head.argument_attributes;
  entries.resize(head.arguments.size());
  for (std::size_t p = 0; p < c.parameters().size(); ++p) {
    const Instruction& i = *c.parameters()[p];
    const Types leaves = leaves_of(i.shape);
    const bool sharded = i.sharding.size() == leaves.size();
    for (auto& [k, v] : decorations(i)) {
      for (std::size_t n = 0; n < leaves.size(); ++n) {
        const bool of_leaf = k == "sdy.sharding" && sharded;
        entries[first[p] + n].emplace_back(
            k, of_leaf ? "#sdy.sharding" + sharding_text(i.sharding[n], leaves[n]->rank()) : v);
      }
    }
  }
  if (head.entry) {
    for (const ir::Alias& a : module_.input_output_alias) {
      const Instruction& p = *c.parameter(std::size_t(a.parameter));
      const auto leaf =
          first[std::size_t(a.parameter)] + std::size_t(leaf_at(p.shape, a.parameter_index));
      entries[leaf].emplace_back("tf.aliasing_output",
                                 std::to_string(leaf_at(c.root()->shape, a.output)) + " : i32");
    }
    for (const auto& [number, path] : module_.buffer_donor) {
      const Instruction& p = *c.parameter(std::size_t(number));
      entries[first[std::size_t(number)] + std::size_t(leaf_at(p.shape, path))].emplace_back(
          "jax.buffer_donor", "true");
    }
  }
  const Instruction& root = *c.root();
  append_leaves(root.shape, &head.results);
  head.result_attributes.resize(head.results.size());
  for (std::size_t n = 0; n < head.results.size(); ++n) {
    Entries& of_result = head.result_attributes[n];
    const Instruction* marker = head.entry ? result_marker(&root, n, head.results.size()) : nullptr;
    const TensorSharding* s = nullptr;
    if (root.sharding.size() == head.results.size()) s = &root.sharding[n];
    if (marker != nullptr) s = &marker->sharding[0];
    if (head.entry) append_memory(root, n, head.results.size(), &of_result);
    if (head.entry) append_layout_mode(module_, n, &of_result);
    if (s != nullptr && !s->is_manual() && s->kind != TensorSharding::Kind::unknown) {
      of_result.emplace_back("sdy.sharding",
                             "#sdy.sharding" + sharding_text(*s, head.results[n]->rank()));
    }
  }
  const Values parameters = sink_.function(head);
  sink_.end_function(body(c, parameters));
}

Values Writer::body(const Computation& c, const Values& arguments) {
  Frame f{&c, std::vector<Values>(c.instructions().size()), {}};
  std::size_t next = 0;
  for (const Instruction* p : c.parameters()) {
    Values& v = f.values[std::size_t(p->index)];
    const std::size_t count = leaves_of(p->shape).size();
    TESSERA_CHECK(next + count <= arguments.size(), "too few arguments for " + c.name());
    v.assign(arguments.begin() + std::ptrdiff_t(next),
             arguments.begin() + std::ptrdiff_t(next + count));
    next += count;
  }
  TESSERA_CHECK(next == arguments.size(), "too many arguments for " + c.name());
  for (const auto& i : c.instructions()) {
    if (i->is(Opcode::parameter) || echoes_.count(i.get()) > 0) continue;
    Values v = instruction(f, *i);
    for (std::size_t n = 0; n < i->sharding.size() && n < v.size(); ++n) {
      if (i->sharding[n].shard_group < 0) continue;
      const std::string group = std::to_string(i->sharding[n].shard_group);
      Op op{"sdy.sharding_group", {v[n]}, "group_id = " + group + " : i64", {}};
      op.form = Form::one_type;
      op.tail = " group_id=" + group;
      op.decorated = false;
      emit(*i, std::move(op));
    }
    f.values[std::size_t(i->index)] = std::move(v);
  }
  return of(f, *c.root());
}

bool Writer::outlined(const Computation& c) const {
  if (depth_ >= kMaxPrintedDepth) return true;
  if (uses_.at(&c) < 2) return false;
  return c.instructions().size() > kMaxCopied ||
         std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& i) { return !i->called().empty(); });
}

Values Writer::inlined(const Instruction& i, const Computation& c, const Values& arguments) {
  if (outlined(c)) return call(i, c, arguments, false);
  ++depth_;
  Values out = body(c, arguments);
  --depth_;
  return out;
}

void Writer::closed_region(const Instruction& i, const Computation& c, const Values& arguments) {
  sink_.region({});
  sink_.end_region("stablehlo.return", inlined(i, c, arguments));
}

void Writer::region(const Instruction& i, const Computation& c, std::string_view terminator) {
  Types types;
  for (const Instruction* p : c.parameters()) append_leaves(p->shape, &types);
  const Values block = sink_.region(types);
  sink_.end_region(terminator, inlined(i, c, block));
}

Values Writer::call(const Instruction& i, const Computation& c, const Values& arguments,
                    bool decorated) {
  Op op{"func.call", arguments, "callee = ", leaves_of(c.root()->shape)};
  append_symbol(op.properties, symbol_of(c));
  op.form = Form::signature;
  append_symbol(op.lead, symbol_of(c));
  op.lead += '(';
  op.tail = ")";
  op.decorated = decorated;
  return emit(i, std::move(op));
}

std::string write_module(const ir::Module& module, Sink& sink) {
  return Writer(module, sink).run();
}

std::string to_stablehlo(const ir::Module& module, const WriteOptions& options) {
  TextSink sink(module.instruction_count() * 96, options.locations);
  return write_module(module, sink);
}

std::string to_stablehlo(const ir::Module& module) { return to_stablehlo(module, WriteOptions{}); }

}  // namespace tessera::text
