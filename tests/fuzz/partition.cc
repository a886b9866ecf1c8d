// SPDX-License-Identifier: Apache-2.0
// A small program in either form, partitioned for the mesh that it names or for four devices: the
// result is a module that can be printed and read back, and both run to results of the same shapes.
#include "src/spmd/partitioner/partition.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/propagation/propagate.h"
#include "src/text/read/stablehlo.h"
#include "tests/fuzz/text_mutator.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kMaxDevicesHere = 16;
constexpr std::int64_t kMaxInstructions = 2000;
/// Elements touched, roughly, by what is evaluated.
constexpr double kMaxWork = 2e6;

/// A collective among partitions.
bool among_partitions(const ir::Instruction& i) {
  if (i.is(ir::Opcode::partition_id)) return true;
  if (!ir::is_collective(i.opcode)) return false;
  if (const auto* c = i.attrs.get_if<ir::CollectiveAttrs>()) {
    return c->channel_id.has_value() || c->use_global_device_ids || c->groups.symbolic();
  }
  if (const auto* p = i.attrs.get_if<ir::PermuteAttrs>()) return p->channel_id.has_value();
  return false;
}

/// A marker of code that is not per device.
bool is_global_marker(const ir::Instruction& i) {
  if (ir::is_printed_as_custom_call(i.opcode)) return true;
  const std::string target = ir::custom_call_target(i);
  return target.rfind("xla.sdy.", 0) == 0 || target.rfind("SPMD", 0) == 0 ||
         target == ir::kManualComputationTarget;
}

/// It is one device's program already.
bool is_partitioned_program(const ir::Module& module) {
  if (!module.entry()) return false;
  bool found = false;
  for (const ir::Computation* c : ir::device_computations(module)) {
    for (const auto& i : c->instructions()) {
      if (is_global_marker(*i)) return false;
      found |= among_partitions(*i);
      const bool boundary =
          c == module.entry() && (i->is(ir::Opcode::parameter) || i.get() == c->root());
      if (i->has_sharding() && !boundary) return false;
    }
  }
  return found;
}

/// An upper bound, except for loops of unknown trip counts.
double work_of(const ir::Computation& c, int depth = 0) {
  double sum = 0;
  for (const auto& i : c.instructions()) {
    if (i->is(ir::Opcode::while_) || depth > 8) return 2 * kMaxWork;
    double own = 1, largest = 1;
    for (const Shape& leaf : flatten(i->shape)) own += double(element_count(leaf.dims));
    for (const ir::Instruction* o : i->operands()) {
      for (const Shape& leaf : flatten(o->shape)) {
        largest = std::max(largest, double(element_count(leaf.dims)));
      }
    }
    switch (i->opcode) {
      case ir::Opcode::dot:
      case ir::Opcode::convolution:
      case ir::Opcode::reduce_window:
      case ir::Opcode::select_and_scatter:
      case ir::Opcode::scatter:
      case ir::Opcode::cholesky:
      case ir::Opcode::triangular_solve:
      case ir::Opcode::fft:
        own *= largest;
        break;
      default:
        own += largest;
    }
    double inner = 1;
    for (const ir::Computation* callee : i->called()) inner += work_of(*callee, depth + 1);
    sum += own * inner;
    if (i->is(ir::Opcode::reduce_window)) {
      for (const ir::WindowDim& d : i->get<ir::WindowAttrs>().dims) sum += own * double(d.size);
    }
    if (sum > kMaxWork) break;
  }
  return sum;
}

std::vector<Literal> arguments(const ir::Computation& entry) {
  std::vector<Literal> out;
  for (const ir::Instruction* p : entry.parameters()) out.push_back(Literal(p->shape));
  return out;
}

std::int64_t size_of(const ir::Module& module) {
  std::int64_t n = 0;
  for (const auto& c : module.computations()) n += std::int64_t(c->instructions().size());
  return n;
}

void run(std::string_view text) {
  std::unique_ptr<ir::Module> module;
  if (!accepts([&] {
        if (text.substr(0, 9) == "HloModule") {
          module = ir::parse_hlo(text);
        } else {
          module = text::parse_stablehlo(text);
        }
      })) {
    return;
  }
  if (size_of(*module) > kMaxInstructions) return;
  if (module->mesh && module->num_partitions == 1) {
    module->num_partitions = module->mesh->num_devices();
  }
  if (module->num_partitions == 1) module->num_partitions = 4;
  if (!module->mesh) module->mesh = make_logical_mesh({{"d", module->num_partitions}});
  if (module->num_partitions > kMaxDevicesHere || module->replica_count != 1) return;
  std::unique_ptr<ir::Module> parted;
  const bool fits = accepts([&] {
    ir::normalize_layouts(module.get());
    if (is_partitioned_program(*module)) return;
    const auto global = module->clone();
    spmd::propagate(global.get());
    spmd::PartitionReport report;
    parted = spmd::partition(*global, {}, &report);
  });
  if (!fits || !parted) return;
  must("the partitioned module is wrong", [&] {
    ir::verify(*parted);
    const std::string printed = ir::to_string(*parted);
    same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "the text of a partitioned module");
  });
  const double devices = double(parted->num_partitions);
  if (work_of(*module->entry()) > kMaxWork || work_of(*parted->entry()) * devices > kMaxWork) {
    return;
  }
  // Shapes that the evaluator refuses, and unregistered custom calls, are errors in both.
  accepts([&] {
    const Literal whole = evaluator::evaluate(*module, arguments(*module->entry()));
    const std::vector<std::vector<Literal>> each(std::size_t(parted->num_partitions),
                                                 arguments(*parted->entry()));
    const std::vector<Literal> parts = evaluator::evaluate_spmd(*parted, each);
    if (!(whole.shape() == module->entry()->root()->shape) ||
        !(parts.at(0).shape() == parted->entry()->root()->shape)) {
      throw InternalError("a result has another shape than the root");
    }
  });
}

}  // namespace
}  // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
