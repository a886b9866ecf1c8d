// SPDX-License-Identifier: Apache-2.0
// Partitioning by functions of the client.
#include "src/pjrt/partitioner/custom_partitioner.h"

#include <map>
#include <mutex>
#include <set>

#include "src/ir/custom_call_targets.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/passes/control/inline_calls.h"
#include "src/pjrt/entry.h"
#include "src/pjrt/ffi/handlers.h"
#include "src/pjrt/objects.h"
#include "src/pjrt/op_sharding.h"
#include "src/pjrt/status.h"
#include "src/text/bytecode/bytecode.h"
#include "src/text/read/stablehlo.h"

namespace tessera::pjrt {
namespace {

using String = JAX_CustomCallPartitioner_string;
using Aval = JAX_CustomCallPartitioner_aval;

/// JAX_CustomCallPartitioner_Callbacks, with its functions' types.
struct Callbacks {
  std::int64_t version;
  void* private_data;
  void (*dtor)(Callbacks*);
  void (*partition)(Callbacks*, JAX_CustomCallPartitioner_Partition_Args*);
  void (*infer_sharding)(Callbacks*, JAX_CustomCallPartitioner_InferShardingFromOperands_Args*);
  void (*propagate_user_sharding)(Callbacks*,
                                  JAX_CustomCallPartitioner_PropagateUserSharding_Args*);
  bool can_side_effecting_have_replicated_sharding;
};

String view_of(const std::string& text) { return {text.data(), text.size()}; }
std::string_view text_of(const String& s) {
  return {static_cast<const char*>(s.data), s.data == nullptr ? 0 : s.size};
}

/// What a function left behind; freed at the end.
class Answer {
 public:
  Answer(JAX_CustomCallPartitioner_version_and_error* header, std::string who)
      : header_(header), who_(std::move(who)) {}
  ~Answer() {
    if (header_->cleanup_fn == nullptr) return;
    reinterpret_cast<void (*)(const void*)>(header_->cleanup_fn)(header_->data);
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  void check(Location location) const {
    if (header_->has_error) {
      throw CompileError(who_ + ": " + std::string(text_of(header_->error_msg)), location);
    }
  }

 private:
  JAX_CustomCallPartitioner_version_and_error* header_;
  std::string who_;
};

class ClientPartitioner : public ir::CustomPartitioner {
 public:
  ClientPartitioner(std::string target, Callbacks* callbacks, const ir::Instruction& call)
      : target_(std::move(target)),
        callbacks_(callbacks),
        config_(unquoted(*call.backend_config)),
        is_tuple_(call.shape.is_tuple),
        location_(call.location()) {
    const auto rule = call.frontend_attributes->find("xla.sdy.sharding_rule");
    if (rule != call.frontend_attributes->end()) {
      rule_ = ir::parse_sharding_rule(rule->second, location_);
    }
  }

  std::string name() const override { return target_; }
  std::optional<ir::FactorRuleSpec> rule(const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
                                         const std::vector<ir::ShapeWithSharding>&) override {
    return rule_;
  }
  // A rule says all that propagation needs.
  bool has_infer_callback() const override { return !rule_; }
  bool has_propagate_callback() const override { return !rule_; }

  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
      const std::vector<ir::ShapeWithSharding>& results) override {
    std::vector<std::string> kept;
    std::vector<Aval> avals;
    kept.reserve(args.size() * 2);
    for (const auto& a : args) avals.push_back(aval(a, &kept));
    const std::string shape = write_shape(result_shape(results));
    JAX_CustomCallPartitioner_InferShardingFromOperands_Args call{};
    call.num_args = avals.size();
    call.op_args = avals.data();
    call.result_shape = view_of(shape);
    call.backend_config = view_of(config_);
    callbacks_->infer_sharding(callbacks_, &call);
    const Answer answer(&call.header, target_ + ", infer_sharding_from_operands");
    answer.check(location_);
    if (!call.has_result_sharding) {
      std::vector<TensorSharding> none;
      for (const auto& r : results) {
        none.push_back(TensorSharding::replicated_on(mesh, r.shape.rank()));
      }
      return none;
    }
    return read_back(text_of(call.result_sharding), results, mesh, "results");
  }

  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& results) override {
    const std::string shape = write_shape(result_shape(results)), sharding = sharding_of(results);
    JAX_CustomCallPartitioner_PropagateUserSharding_Args call{};
    call.backend_config = view_of(config_);
    call.result_shape = view_of(shape);
    call.result_sharding = view_of(sharding);
    callbacks_->propagate_user_sharding(callbacks_, &call);
    const Answer answer(&call.header, target_ + ", propagate_user_sharding");
    answer.check(location_);
    return read_back(text_of(call.result_sharding), results, mesh, "results");
  }

  Partition partition(ir::Module* module, const MeshRef& mesh,
                      const std::vector<ir::ShapeWithSharding>& args,
                      const std::vector<ir::ShapeWithSharding>& results) override {
    const Given& given = ask(args, results);
    Partition out;
    for (std::size_t i = 0; i < args.size(); ++i) {
      out.args.push_back(
          read_back(given.args[i], {args[i]}, mesh, "argument " + std::to_string(i))[0]);
    }
    out.results = read_back(given.result, results, mesh, "results");
    out.body = body(module, given.module);
    return out;
  }

 private:
  /// An answer of `partition`: for one call the same each time that it is asked, and it is asked
  /// more than once where layouts are searched for.
  struct Given {
    std::string module, result;
    std::vector<std::string> args;
  };

  static std::string unquoted(std::string_view text) {
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
      text = text.substr(1, text.size() - 2);
    }
    return std::string(text);
  }

  Shape result_shape(const std::vector<ir::ShapeWithSharding>& results) const {
    if (!is_tuple_ && results.size() == 1) return results[0].shape;
    std::vector<Shape> all;
    for (const auto& r : results) all.push_back(r.shape);
    return Shape::tuple(all);
  }
  std::string sharding_of(const std::vector<ir::ShapeWithSharding>& results) const {
    std::vector<Tiling> tilings;
    for (const auto& r : results) {
      tilings.push_back(r.sharding ? to_tiling(*r.sharding) : Tiling());
    }
    return !is_tuple_ && tilings.size() == 1 ? write_op_sharding(tilings[0])
                                             : write_op_sharding(tilings);
  }

  static Aval aval(const ir::ShapeWithSharding& value, std::vector<std::string>* kept) {
    Aval out{};
    kept->push_back(write_shape(value.shape));
    out.shape = view_of(kept->back());
    if (value.sharding) {
      kept->push_back(write_op_sharding(to_tiling(*value.sharding)));
      out.has_sharding = true;
      out.sharding = view_of(kept->back());
    }
    return out;
  }

  const Given& ask(const std::vector<ir::ShapeWithSharding>& args,
                   const std::vector<ir::ShapeWithSharding>& results) {
    std::vector<std::string> kept;
    std::vector<Aval> avals;
    kept.reserve(args.size() * 2);
    for (const auto& a : args) avals.push_back(aval(a, &kept));
    const std::string shape = write_shape(result_shape(results)), sharding = sharding_of(results);
    std::vector<std::string> key = kept;
    key.push_back(sharding);
    const std::lock_guard lock(mutex_);
    if (const auto found = given_.find(key); found != given_.end()) return found->second;
    JAX_CustomCallPartitioner_Partition_Args call{};
    call.num_args = avals.size();
    call.op_args = avals.data();
    call.op_result = {view_of(shape), true, view_of(sharding)};
    call.backend_config = view_of(config_);
    callbacks_->partition(callbacks_, &call);
    const Answer answer(&call.header, target_ + ", partition");
    answer.check(location_);
    Given given;
    given.module = text_of(call.mlir_module);
    given.result = text_of(call.result_sharding);
    const auto* shardings = static_cast<const String*>(call.args_sharding);
    for (std::size_t i = 0; i < args.size(); ++i) given.args.emplace_back(text_of(shardings[i]));
    return given_.emplace(std::move(key), std::move(given)).first->second;
  }

  std::vector<TensorSharding> read_back(std::string_view bytes,
                                        const std::vector<ir::ShapeWithSharding>& values,
                                        const MeshRef& mesh, const std::string& what) const {
    const std::vector<Tiling> tilings = read_op_sharding(bytes);
    if (tilings.size() != values.size()) {
      throw ValueError(target_ + ": " + std::to_string(tilings.size()) + " shardings were given " +
                           "for the " + what + ", which are " + std::to_string(values.size()),
                       location_);
    }
    std::vector<TensorSharding> out;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::vector<std::int64_t> ranks{values[i].shape.rank()};
      const std::vector<Tiling> one{tilings[i]};
      TensorSharding s = from_tilings(one, ranks, mesh->num_devices(), mesh)[0];
      if (s.mesh && !(*s.mesh == *mesh)) {
        throw NotImplementedError(target_ + ": the sharding " + tilings[i].to_string() +
                                      " of the " + what +
                                      " can't be expressed by the axes of the program's " + "mesh",
                                  location_);
      }
      out.push_back(s.on(mesh));
    }
    return out;
  }

  ir::Computation* body(ir::Module* module, const std::string& code) const {
    std::unique_ptr<ir::Module> made = text::is_bytecode(code)
                                           ? text::parse_bytecode(code, target_)
                                           : text::parse_stablehlo(code, target_);
    passes::inline_calls(made.get());
    ir::Computation* const copy = module->import(*made->entry());
    if (!copy->root()->shape.is_tuple) {
      ir::Builder b(copy);
      copy->set_root(b.tuple({copy->root()}));
    }
    return copy;
  }

  std::string target_;
  Callbacks* callbacks_;
  std::string config_;
  bool is_tuple_;
  Location location_;
  std::optional<ir::FactorRuleSpec> rule_;
  std::mutex mutex_;
  std::map<std::vector<std::string>, Given> given_;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Callbacks*, std::less<>> by_target;

  Callbacks* find(const std::string& target) {
    const std::lock_guard lock(mutex);
    const auto at = by_target.find(target);
    return at == by_target.end() ? nullptr : at->second;
  }
};

Registry& registry() {
  static Registry* const instance = new Registry();  // clients' functions are never given back
  return *instance;
}

PJRT_Error* register_partitioner(PJRT_Register_Custom_Partitioner_Args* args) {
  return guarded([&] {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    auto* const callbacks = static_cast<Callbacks*>(args->callbacks);
    r.by_target[std::string(pjrt::text_of(args->name, args->name_size, "a name"))] =
        &checked(callbacks, "the table of functions of a custom partitioner");
  });
}

PJRT_Error* register_batch(PJRT_Register_Batch_Partitionable_Args* args) {
  return guarded([&] {
    ffi::register_batch_partitionable(pjrt::text_of(args->name, args->name_size, "a name"));
  });
}

PJRT_Custom_Partitioner_Extension make_extension() {
  PJRT_Custom_Partitioner_Extension e{};
  e.base.struct_size = sizeof(PJRT_Custom_Partitioner_Extension);
  e.base.type = PJRT_Extension_Type_Custom_Partitioner;
  e.register_custom_partitioner = reinterpret_cast<void*>(entry<register_partitioner>);
  e.register_batch_partitionable = reinterpret_cast<void*>(entry<register_batch>);
  return e;
}

}  // namespace

PJRT_Custom_Partitioner_Extension* custom_partitioner_extension() {
  static PJRT_Custom_Partitioner_Extension table = make_extension();
  return &table;
}

void attach_custom_partitioners(ir::Module* module) {
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      const ir::CallAttrs* attrs = i->attrs.call_attrs();
      if (attrs == nullptr) continue;
      const bool custom = i->is(ir::Opcode::custom_partitioning);
      if (!custom && !i->is(ir::Opcode::custom_call)) continue;
      const std::string target =
          custom ? ir::kCustomPartitioningTarget : i->get<ir::CustomCallAttrs>().target;
      Callbacks* const callbacks = registry().find(target);
      if (callbacks == nullptr) continue;
      ir::CustomPartitioningAttrs a;
      static_cast<ir::CallAttrs&>(a) = *attrs;
      a.partitioner = std::make_shared<ClientPartitioner>(target, callbacks, *i);
      i->opcode = ir::Opcode::custom_partitioning;
      i->attrs = std::move(a);
    }
  }
}

}  // namespace tessera::pjrt
