// SPDX-License-Identifier: Apache-2.0
// Calls of InspectSharding: identities whose partitioning tells how their operand is sharded.
#include "src/pjrt/partitioner/inspect_sharding.h"

#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "src/ir/custom_calls/identity_partitioner.h"
#include "src/pjrt/op_sharding.h"
#include "src/text/write/text.h"

namespace tessera::pjrt {
namespace {

/// JAX_InspectSharding_Callback_Args
struct CallbackArgs {
  const char* sharding_spec;
  std::size_t sharding_spec_size;
  /// Set by the function if it fails.
  const char* error_txt;
  void* error_scratch;
  void (*free_error)(CallbackArgs* args);
};

/// JAX_InspectSharding_Callback: the bytes of the call's configuration.
struct Callback {
  void (*call)(void* data, CallbackArgs* args);
  void* data;
};

/// Remembers how its operand was sharded last.
class Inspector final : public ir::IdentityPartitioner, public ShardingInspection {
 public:
  explicit Inspector(const ir::Instruction& call) : location_(call.location()) {
    const std::string bytes = text::unquoted(*call.backend_config);
    if (bytes.size() != sizeof callback_) {
      throw ValueError("InspectSharding: its configuration has " + std::to_string(bytes.size()) +
                           " bytes; valid: the addresses of a function and of its data, " +
                           std::to_string(sizeof callback_) + " bytes",
                       location_);
    }
    std::memcpy(&callback_, bytes.data(), sizeof callback_);
  }

  void see(const Tiling& tiling) {
    const std::lock_guard lock(mutex_);
    seen_ = tiling;
  }
  void report() override {
    std::string bytes;
    {
      const std::lock_guard lock(mutex_);
      bytes = write_op_sharding(seen_);
    }
    CallbackArgs args{bytes.data(), bytes.size(), nullptr, nullptr, nullptr};
    callback_.call(callback_.data, &args);
    if (args.error_txt == nullptr) return;
    const std::string text = args.error_txt;
    if (args.free_error != nullptr) args.free_error(&args);
    throw CompileError("inspect_array_sharding: " + text, location_);
  }

  std::string name() const override { return "InspectSharding"; }

 private:
  void see(const TensorSharding& sharding) override { see(to_tiling(sharding)); }

  Location location_;
  Callback callback_{};
  std::mutex mutex_;
  Tiling seen_;
};

void collect(const ir::Computation* c, std::set<const ir::Computation*>* out) {
  if (!out->insert(c).second) return;
  for (const auto& i : c->instructions()) {
    for (const ir::Computation* called : i->called()) collect(called, out);
  }
}

}  // namespace

std::vector<std::shared_ptr<ShardingInspection>> attach_inspections(ir::Module* module) {
  std::vector<std::shared_ptr<ShardingInspection>> out;
  std::vector<ir::Instruction*> calls;
  std::set<const ir::Computation*> per_device;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      const auto* attrs = i->attrs.get_if<ir::CustomCallAttrs>();
      if (attrs != nullptr && attrs->target == "InspectSharding" && i->operands().size() == 1 &&
          i->shape == i->operand(0)->shape) {
        calls.push_back(i.get());
      }
      if (!i->is(ir::Opcode::manual_computation)) continue;
      for (const ir::Computation* body : i->called()) collect(body, &per_device);
    }
  }
  for (ir::Instruction* call : calls) {
    const auto inspector = std::make_shared<Inspector>(*call);
    out.push_back(inspector);
    if (per_device.count(call->parent) > 0) {
      // Each device has a value of its own.
      Tiling manual;
      manual.kind = Tiling::Kind::manual;
      inspector->see(manual);
      call->replace_all_uses_with(call->operand(0));
      call->parent->erase({call});
      continue;
    }
    ir::CustomPartitioningAttrs a;
    static_cast<ir::CallAttrs&>(a) = *call->attrs.call_attrs();
    a.partitioner = inspector;
    call->opcode = ir::Opcode::custom_partitioning;
    call->attrs = std::move(a);
  }
  return out;
}

}  // namespace tessera::pjrt
