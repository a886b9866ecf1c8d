// SPDX-License-Identifier: Apache-2.0
// Handlers of XLA's FFI, called as kernels of custom calls.
#include "src/pjrt/ffi/handlers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/arrays/host_layout.h"
#include "src/base/arrays/small_elements.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/pjrt/ffi/frame.h"
#include "src/pjrt/ffi/host.h"

namespace tessera::pjrt::ffi {
namespace {

using ir::Instruction;

/// Copies between a row-major array and one whose dims lie in another order.
void reorder(const Dims& dims, const Dims& minor_to_major, std::size_t element, bool to_row_major,
             const std::byte* from, std::byte* to) {
  const std::size_t rank = dims.size();
  std::vector<std::int64_t> strides(rank), index(rank, 0);
  std::int64_t stride = std::int64_t(element), count = 1;
  for (const std::int64_t d : minor_to_major) {
    strides[std::size_t(d)] = stride;
    stride *= dims[std::size_t(d)];
  }
  for (const std::int64_t d : dims) count *= d;
  std::int64_t other = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i * std::int64_t(element);
    std::memcpy(to + (to_row_major ? row : other), from + (to_row_major ? other : row), element);
    for (std::size_t d = rank; d-- > 0;) {
      other += strides[d];
      if (++index[d] < dims[d]) break;
      other -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

/// An operand or result of a call.
struct Leaf {
  Shape shape;
  Dims order;           ///< minor to major, if it isn't row-major
  int aliases = -1;     ///< of a result: the operand in whose memory it is
  bool packed = false;  ///< several elements share a byte for the handler
  std::size_t bytes() const {
    return packed ? packed_bytes(shape.dtype, element_count(shape.dims))
                  : std::size_t(shape.byte_count());
  }
  /// How the handler has its elements.
  HostLayout layout() const { return {shape.dtype, whole(), {}, packed}; }
  Box whole() const { return {Dims(shape.dims.size(), 0), shape.dims}; }
};

/// `{{0}: (1, {}), {}: (0, {})}`: which operand each result shares memory with.
void read_aliases(const std::string& text, std::vector<Leaf>* results) {
  for (std::size_t at = text.find("}: ("); at != std::string::npos;
       at = text.find("}: (", at + 1)) {
    const std::size_t open = text.rfind('{', at);
    if (open == std::string::npos) return;
    const std::string which = text.substr(open + 1, at - open - 1);
    const std::size_t result =
        which.empty() ? 0 : std::size_t(std::strtol(which.c_str(), nullptr, 10));
    const long operand = std::strtol(text.c_str() + at + 4, nullptr, 10);
    if (result < results->size()) (*results)[result].aliases = int(operand);
  }
}

[[noreturn]] void fail(const std::string& who, std::unique_ptr<XLA_FFI_Error> error,
                       Location location) {
  const std::string text = who + ": " + error->message;
  switch (error->code) {
    case 3:
    case 11:
      throw ValueError(text, location);
    case 12:
      throw NotImplementedError(text, location);
    default:
      throw RuntimeError(text, location);
  }
}

/// One call of a handler in a program, ready to be run on any buffers.
class Site {
 public:
  Site(const Instruction& call, const XLA_FFI_Handler_Bundle& bundle, HandlerTraits traits)
      : bundle_(bundle),
        errors_of_(traits.errors_of),
        who_("custom call to \"" + call.get<ir::CustomCallAttrs>().target + "\""),
        location_(call.location()),
        attributes_(CallAttributes::parse(*call.backend_config, call.location()), who_) {
    const auto& attrs = call.get<ir::CustomCallAttrs>();
    const std::vector<Dims> orders = ir::operand_layouts(call);
    for (std::size_t i = 0; i < call.operands().size(); ++i) {
      for (Shape& leaf : flatten(call.operand(i)->shape)) {
        operands_.push_back({std::move(leaf), {}, -1});
        if (i < orders.size() && orders[i].size() == operands_.back().shape.dims.size() &&
            !is_row_major(orders[i])) {
          operands_.back().order = orders[i];
        }
      }
    }
    for (Shape& leaf : flatten(call.shape)) {
      Dims order(leaf.layout.begin(), leaf.layout.end());
      if (order.size() != leaf.dims.size() || is_row_major(order)) order.clear();
      results_.push_back({std::move(leaf), std::move(order), -1});
    }
    if (results_.size() == 1 && results_[0].shape.dtype == DType::token &&
        std::none_of(operands_.begin(), operands_.end(),
                     [](const Leaf& o) { return o.shape.dtype == DType::token; })) {
      results_.clear();  // prepare_callbacks put it there
    }
    for (const auto& [key, text] : attrs.other) {
      if (key == "output_to_operand_aliasing") read_aliases(text, &results_);
    }
    for (auto* side : {&operands_, &results_}) {
      for (Leaf& leaf : *side) leaf.packed = !traits.bytes_for_bits && packs(leaf.shape.dtype);
    }
    if (bundle_.instantiate != nullptr) {
      XLA_FFI_ExecutionContext context;
      context.states[XLA_FFI_ExecutionStage_INSTANTIATE] = &state_;
      call_stage(bundle_.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE, &context, {}, {});
    }
  }

  void run(std::span<const BufferView> in, std::span<const MutableBufferView> out) {
    out = out.first(results_.size());
    std::vector<std::unique_ptr<std::byte[]>> scratch;
    const auto memory = [&](const Leaf& leaf) {
      scratch.push_back(std::make_unique<std::byte[]>(std::size_t(leaf.shape.byte_count()) + 1));
      return scratch.back().get();
    };
    std::vector<std::byte*> from(in.size()), to(out.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Leaf& leaf = operands_[i];
      from[i] = static_cast<std::byte*>(const_cast<void*>(in[i].bytes()));
      if (!leaf.order.empty()) {
        std::byte* const moved = memory(leaf);
        reorder(leaf.shape.dims, leaf.order, byte_size(in[i].dtype()), false, from[i], moved);
        from[i] = moved;
      }
      if (!leaf.packed) continue;
      std::byte* const packed = memory(leaf);
      copy_to_host(from[i], leaf.whole(), packed, leaf.layout());
      from[i] = packed;
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      const Leaf& leaf = results_[k];
      const bool plain = leaf.order.empty() && !leaf.packed;
      to[k] = plain ? static_cast<std::byte*>(out[k].bytes()) : memory(leaf);
      if (leaf.aliases < 0 || leaf.aliases >= int(in.size())) continue;
      std::byte*& operand = from[std::size_t(leaf.aliases)];
      if (operand != to[k] && leaf.bytes() > 0) std::memcpy(to[k], operand, leaf.bytes());
      operand = to[k];
    }
    FrameBuffers args, rets;
    for (std::size_t i = 0; i < in.size(); ++i) {
      args.add(in[i].dtype(), operands_[i].shape.dims, from[i]);
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      rets.add(out[k].dtype(), results_[k].shape.dims, to[k]);
    }
    State prepared, initialized;
    XLA_FFI_ExecutionContext context;
    context.states = {&state_, &prepared, &initialized};
    context.data = user_data_of_run();
    context.run_id = id_of_run();
    context.errors_of = errors_of_;
    const XLA_FFI_Args a = args.args(), r = rets.args();
    tell_of_host_call();
    call_stage(bundle_.prepare, XLA_FFI_ExecutionStage_PREPARE, &context, a, r);
    call_stage(bundle_.initialize, XLA_FFI_ExecutionStage_INITIALIZE, &context, a, r);
    call_stage(bundle_.execute, XLA_FFI_ExecutionStage_EXECUTE, &context, a, r);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const Leaf& leaf = results_[k];
      auto* const result = static_cast<std::byte*>(out[k].bytes());
      if (leaf.packed) {
        std::byte* const bytes = leaf.order.empty() ? result : memory(leaf);
        copy_from_host(to[k], leaf.layout(), bytes, leaf.whole());
        to[k] = bytes;
      } else {
        settle_elements(leaf.shape.dtype, to[k], std::size_t(element_count(leaf.shape.dims)));
      }
      if (leaf.order.empty()) continue;
      reorder(leaf.shape.dims, leaf.order, byte_size(out[k].dtype()), true, to[k], result);
    }
  }

 private:
  static bool packs(DType dtype) { return packed_bytes(dtype, 8) < 8; }

  void call_stage(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage,
                  XLA_FFI_ExecutionContext* context, const XLA_FFI_Args& args,
                  const XLA_FFI_Rets& rets) const {
    if (handler == nullptr) return;
    XLA_FFI_CallFrame frame{};
    frame.struct_size = offsetof(XLA_FFI_CallFrame, future);
    frame.api = &api();
    frame.ctx = context;
    frame.stage = stage;
    frame.args = args;
    frame.rets = rets;
    frame.args.struct_size = frame.rets.struct_size = sizeof(XLA_FFI_Args);
    frame.attrs = attributes_.attrs();
    std::unique_ptr<XLA_FFI_Error> error(handler(&frame));
    if (!error && frame.future != nullptr) {
      const std::unique_ptr<XLA_FFI_Future> future(frame.future);
      std::unique_lock lock(future->mutex);
      future->changed.wait(lock, [&] { return future->done; });
      error = std::move(future->error);
    }
    if (error) fail(who_, std::move(error), location_);
  }

  XLA_FFI_Handler_Bundle bundle_;
  const XLA_FFI_Api* errors_of_;
  std::string who_;
  Location location_;
  FrameAttributes attributes_;
  std::vector<Leaf> operands_, results_;
  State state_;
};

/// A target whose handler may be replaced.
class HandlerTarget : public ir::CustomCallTarget, public codegen::CallKernel {
 public:
  codegen::PreparedCall prepare(const Instruction& call) const override {
    const auto site = std::make_shared<Site>(call, bundle(), traits_);
    codegen::PreparedCall out;
    out.nanoseconds += double(call.shape.byte_count());
    for (const Instruction* o : call.operands()) out.nanoseconds += double(o->shape.byte_count());
    out.run = [site](std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, std::int64_t,
                     std::int64_t) { site->run(operands, results); };
    return out;
  }
  explicit HandlerTarget(HandlerTraits traits) : traits_(traits) {}

  bool has_leading_batch_dims() const override { return batched_; }
  bool takes_parts() const override { return traits_.takes_parts; }
  /// Nothing is known of a handler: it is called for each device, as XLA does.
  bool is_pure() const override { return false; }

  void set(const XLA_FFI_Handler_Bundle& bundle) {
    const std::lock_guard lock(mutex_);
    bundle_ = bundle;
  }
  void set_batched() { batched_ = true; }

 private:
  XLA_FFI_Handler_Bundle bundle() const {
    const std::lock_guard lock(mutex_);
    return bundle_;
  }

  mutable std::mutex mutex_;
  XLA_FFI_Handler_Bundle bundle_{};
  std::atomic<bool> batched_{false};
  HandlerTraits traits_;
};

struct Handlers {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<HandlerTarget>, std::less<>> targets;
  std::map<std::string, bool, std::less<>> batched;
};

Handlers& handlers() {
  static Handlers* const instance = new Handlers();  // programs may outlive static objects
  return *instance;
}

/// What the handler says about the interface that it was compiled with.
void check_version(const std::string& who, XLA_FFI_Handler* execute) {
  XLA_FFI_Metadata metadata{};
  metadata.struct_size = sizeof(XLA_FFI_Metadata);
  metadata.api_version.struct_size = sizeof(XLA_FFI_Api_Version);
  XLA_FFI_Metadata_Extension extension{};
  extension.extension_base = {sizeof(XLA_FFI_Metadata_Extension), XLA_FFI_Extension_Metadata,
                              nullptr};
  extension.metadata = &metadata;
  XLA_FFI_CallFrame frame{};
  frame.struct_size = offsetof(XLA_FFI_CallFrame, future);
  frame.extension_start = &extension.extension_base;
  frame.api = &api();
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args.struct_size = frame.rets.struct_size = sizeof(XLA_FFI_Args);
  frame.attrs.struct_size = sizeof(XLA_FFI_Attrs);
  const std::unique_ptr<XLA_FFI_Error> error(execute(&frame));
  if (error) throw ValueError(who + ": it doesn't tell its version: " + error->message);
  if (metadata.api_version.major_version != 0) {
    throw ValueError(
        who + ": it was made for version " + std::to_string(metadata.api_version.major_version) +
        "." + std::to_string(metadata.api_version.minor_version) + " of XLA's FFI; valid: 0.x");
  }
}

}  // namespace

void register_handler(std::string_view name, std::string_view platform,
                      const XLA_FFI_Handler_Bundle& bundle, HandlerTraits traits) {
  const std::string who = "handler \"" + std::string(name) + "\"";
  std::string lower(platform);
  for (char& c : lower) c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower != "host" && lower != "cpu") {
    throw ValueError(who + " is for the platform \"" + std::string(platform) +
                     "\"; valid: \"Host\"");
  }
  if (name.empty()) throw ValueError("a handler has no name");
  if (bundle.execute == nullptr) throw ValueError(who + " has no function to execute");
  check_version(who, bundle.execute);
  codegen::register_builtin_custom_calls();
  Handlers& h = handlers();
  const std::lock_guard lock(h.mutex);
  if (const auto found = h.targets.find(name); found != h.targets.end()) {
    return found->second->set(bundle);
  }
  if (ir::find_custom_call(std::string(name)) != nullptr) return;
  const auto target = std::make_shared<HandlerTarget>(traits);
  target->set(bundle);
  if (h.batched.count(name) > 0) target->set_batched();
  codegen::register_custom_call(std::string(name), target, target);
  h.targets.emplace(name, target);
}

bool is_handler(const ir::Instruction& call) {
  const auto* attrs = call.attrs.get_if<ir::CustomCallAttrs>();
  Handlers& h = handlers();
  const std::lock_guard lock(h.mutex);
  return attrs != nullptr && h.targets.count(attrs->target) > 0;
}

void register_batch_partitionable(std::string_view name) {
  Handlers& h = handlers();
  const std::lock_guard lock(h.mutex);
  h.batched[std::string(name)] = true;
  if (const auto found = h.targets.find(name); found != h.targets.end()) {
    found->second->set_batched();
  }
}

}  // namespace tessera::pjrt::ffi
