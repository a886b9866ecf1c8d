// SPDX-License-Identifier: Apache-2.0
// The registry of kernels, and calls run for the evaluator.
#include "src/codegen/custom_calls/call_kernels.h"

#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/check.h"
#include "src/evaluator/evaluator.h"

namespace tessera::codegen {
namespace {

void append(const Literal& x, std::vector<BufferView>* out) {
  if (x.is_tuple()) {
    for (const Literal& e : x.elements()) append(e, out);
    return;
  }
  out->emplace_back(x.dtype(), std::span<const std::int64_t>(x.dims()), x.bytes());
}

void append(Literal& x, std::vector<MutableBufferView>* out) {
  if (x.is_tuple()) {
    for (Literal& e : x.mutable_elements()) append(e, out);
    return;
  }
  std::byte* const bytes = x.mutable_bytes();
  out->emplace_back(x.dtype(), std::span<const std::int64_t>(x.dims()), bytes);
}

evaluator::CallFunction on_literals(const ir::Instruction& call) {
  return [prepared = prepare_call(call),
          shape = call.shape](std::span<const Literal* const> operands) {
    std::vector<BufferView> in;
    for (const Literal* x : operands) append(*x, &in);
    Literal out(shape);
    std::vector<MutableBufferView> results;
    append(out, &results);
    prepared.run(in, results, 0, prepared.units);
    return out;
  };
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const CallKernel>> kernels;

  Registry() { evaluator::set_custom_calls(on_literals); }
};

Registry& registry() {
  // Never destroyed: plans may outlive static objects.
  static Registry* const instance = new Registry();
  return *instance;
}

/// Fails when it is run, not when it is compiled: libraries check for errors by a callback in a
/// branch that is not taken as a rule, and such a program runs until it gets there.
PreparedCall python_callback(const ir::Instruction& call) {
  std::exception_ptr failure;
  try {
    ir::refuse_python(call);
  } catch (const InternalError&) {
    throw;
  } catch (...) {
    failure = std::current_exception();
  }
  PreparedCall prepared;
  prepared.run = [failure](auto, auto, std::int64_t, std::int64_t) {
    std::rethrow_exception(failure);
  };
  return prepared;
}

}  // namespace

void register_custom_call(const std::string& name,
                          std::shared_ptr<const ir::CustomCallTarget> target,
                          std::shared_ptr<const CallKernel> kernel, Location location) {
  ir::register_custom_call(name, std::move(target), location);
  if (!kernel) return;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.kernels[name] = std::move(kernel);
}

PreparedCall prepare_call(const ir::Instruction& call) {
  (void)ir::need_custom_call(call);
  const std::string& name = call.get<ir::CustomCallAttrs>().target;
  std::shared_ptr<const CallKernel> kernel;
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    const auto found = r.kernels.find(name);
    if (found != r.kernels.end()) kernel = found->second;
  }
  if (kernel) return kernel->prepare(call);
  if (ir::find_custom_call(name) == nullptr) return python_callback(call);
  throw NotImplementedError(
      "custom call target \"" + name + "\" (" + call.describe() + ") can't be run on buffers",
      call.location());
}

}  // namespace tessera::codegen
