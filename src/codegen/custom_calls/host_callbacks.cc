// SPDX-License-Identifier: Apache-2.0
// Calls of functions of the host (ir::HostCallback), as kernels.
#include <cstring>

#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/hooks.h"

namespace tessera::codegen {

namespace {

/// Calls of the host.
class HostTarget : public ir::CustomCallTarget, public CallKernel {
 public:
  explicit HostTarget(bool pure) : pure_(pure) {}

  bool is_pure() const override { return pure_; }

  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    const auto& host = call.get<ir::CustomCallAttrs>().host;
    return host ? host->rule(call) : std::nullopt;
  }

  PreparedCall prepare(const ir::Instruction& call) const override {
    const auto host = call.get<ir::CustomCallAttrs>().host;
    if (host == nullptr) {
      throw NotImplementedError(
          call.describe() +
              " calls a function of the host, which a text "
              "can't hold; valid: the program that was traced, run where it was",
          call.location());
    }
    PreparedCall out;
    out.run = [host, shapes = flatten(call.shape)](std::span<const BufferView> operands,
                                                   std::span<const MutableBufferView> results,
                                                   std::int64_t, std::int64_t) {
      std::vector<Literal> in;
      for (const BufferView& view : operands) {
        const Shape shape(view.dtype(), Dims(view.shape().begin(), view.shape().end()));
        const auto* bytes = static_cast<const std::byte*>(view.bytes());
        in.emplace_back(shape, std::span(bytes, std::size_t(shape.byte_count())));
      }
      const std::vector<Literal> made = host->run(in, shapes);
      for (std::size_t k = 0; k < made.size(); ++k) {
        std::memcpy(results[k].bytes(), made[k].bytes(), std::size_t(shapes[k].byte_count()));
      }
    };
    return out;
  }

 private:
  bool pure_;
};

}  // namespace

void register_host_callbacks() {
  const auto pure = std::make_shared<HostTarget>(true);
  const auto impure = std::make_shared<HostTarget>(false);
  register_custom_call(ir::kPureCallbackTarget, pure, pure);
  register_custom_call(ir::kIoCallbackTarget, impure, impure);
  register_custom_call(ir::kDebugCallbackTarget, impure, impure);
}

}  // namespace tessera::codegen
