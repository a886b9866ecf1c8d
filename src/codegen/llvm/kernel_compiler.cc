// SPDX-License-Identifier: Apache-2.0
// The module behind the wall: turns loops into object code for this machine.
#include <llvm/ADT/SmallString.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <functional>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/llvm/loop_function.h"
#include "src/codegen/llvm/reduce_function.h"
#include "src/codegen/llvm/step_function.h"

namespace tessera::codegen {
namespace {

Machine host(bool vector_math) {
  Machine m;
  m.vector_math = vector_math;
  m.cpu = llvm::sys::getHostCPUName().str();
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> names;
  for (const auto& f : features) {
    names.push_back((f.getValue() ? "+" : "-") + f.getKey().str());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& n : names) m.features += (m.features.empty() ? "" : ",") + n;
  const auto has = [&](const char* name) { return features.lookup(name); };
  if (has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl")) {
    m.vector_bytes = 64;
    m.vector_abi = 'e';
  } else if (has("avx2")) {
    m.vector_bytes = 32;
    m.vector_abi = 'd';
  }
  m.fma = has("fma");
  m.half = has("f16c") && m.vector_bytes > 16;
  return m;
}

/// Machines of a level of the x86-64 ABI, which is what LLVM calls them.
Machine of_level(const std::string& cpu, bool vector_math) {
  Machine m;
  m.vector_math = vector_math;
  m.cpu = cpu;
  if (cpu == "x86-64") return m;
  const bool wide = cpu == "x86-64-v4";
  m.vector_bytes = wide ? 64 : 32;
  m.vector_abi = wide ? 'e' : 'd';
  m.fma = m.half = true;
  return m;
}

class Compiler : public KernelCompiler {
 public:
  explicit Compiler(Machine machine) : machine_(std::move(machine)) {}

  std::string compile(const LoopSource& source, CodeTier tier) override {
    return object_of(tier, [&](llvm::Module* module) {
      return emit_loop_function(module, machine_, source, kKernelEntry);
    });
  }

  std::string compile(const ReduceSource& source, CodeTier tier) override {
    return object_of(tier, [&](llvm::Module* module) {
      return emit_reduce_function(module, machine_, source, kKernelEntry);
    });
  }

  std::string compile(const StepSource& source, CodeTier tier) override {
    return object_of(
        tier,
        [&](llvm::Module* module) {
          return emit_step_function(module, machine_, source, kKernelEntry);
        },
        /*several_loops=*/true);
  }

 private:
  std::unique_ptr<llvm::TargetMachine> target_machine(CodeTier tier) const {
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (target == nullptr) return nullptr;
    return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
        triple, machine_.cpu, machine_.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
        llvm::CodeModel::Small,
        tier == CodeTier::quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default,
        /*JIT=*/true));
  }

  static void add_passes(bool several_loops, llvm::legacy::PassManager* passes) {
    // Loops come vectorised: this only tidies up.
    passes->add(llvm::createSROAPass());
    passes->add(llvm::createEarlyCSEPass());
    passes->add(llvm::createInstructionCombiningPass());
    if (!several_loops) return;
    // What one step writes and the next one reads stays in registers.
    passes->add(llvm::createCFGSimplificationPass());
    passes->add(llvm::createLICMPass());
    passes->add(llvm::createEarlyCSEPass());
    passes->add(llvm::createInstructionCombiningPass());
  }

  std::string object_of(CodeTier tier, const std::function<bool(llvm::Module*)>& emit,
                        bool several_loops = false) const {
    const std::unique_ptr<llvm::TargetMachine> target = target_machine(tier);
    if (!target) return {};
    llvm::LLVMContext context;
    llvm::Module module("kernel", context);
    module.setTargetTriple(target->getTargetTriple().str());
    module.setDataLayout(target->createDataLayout());
    if (!emit(&module)) return {};
    for (llvm::Function& f : module) {
      if (f.isDeclaration()) continue;
      // Else some CPUs' tuning splits the widest vectors.
      f.addFnAttr("prefer-vector-width", std::to_string(machine_.vector_bytes * 8));
      f.addFnAttr("min-legal-vector-width", std::to_string(machine_.vector_bytes * 8));
      f.setDoesNotThrow();
    }
#ifndef NDEBUG
    if (llvm::verifyModule(module, &llvm::errs())) return {};
#endif
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream stream(object);
    llvm::legacy::PassManager passes;
    // Asked for by a pass before the target adds its own, it would be one that knows no machine:
    // gathers would be taken apart.
    passes.add(llvm::createTargetTransformInfoWrapperPass(target->getTargetIRAnalysis()));
    if (tier == CodeTier::optimized) {
      add_passes(several_loops, &passes);
    } else if (several_loops) {
      // Else each number goes through memory, from trip to trip.
      passes.add(llvm::createSROAPass());
      passes.add(llvm::createEarlyCSEPass());
    }
    if (target->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
      return {};
    }
    passes.run(module);
    return object.str().str();
  }

  const Machine machine_;
};

}  // namespace
}  // namespace tessera::codegen

extern "C" __attribute__((visibility("default"))) tessera::codegen::KernelCompiler*
tessera_kernel_compiler(bool vector_math, const char* cpu, std::string* error) {
  if (llvm::InitializeNativeTarget() || llvm::InitializeNativeTargetAsmPrinter()) {
    *error = "LLVM was built without this machine's instructions";
    return nullptr;
  }
  // Never deleted: any thread may be compiling when the process ends.
  const std::string level = cpu;
  return new tessera::codegen::Compiler(level.empty()
                                            ? tessera::codegen::host(vector_math)
                                            : tessera::codegen::of_level(level, vector_math));
}
