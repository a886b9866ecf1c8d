// SPDX-License-Identifier: Apache-2.0
// The module behind the wall: turns loops into object code for this machine, and loads it.
#include <dlfcn.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>

#include <atomic>
#include <functional>

#include "src/codegen/kernels/kernel_compiler.h"
#include "src/codegen/llvm/loop_function.h"
#include "src/codegen/llvm/program_reduce.h"
#include "src/codegen/llvm/reduce_function.h"

namespace tessera::codegen {
namespace {

namespace orc = llvm::orc;

constexpr const char* kEntry = "tessera_kernel";

/// Code in a library of its own, which goes when nothing holds it any more.
class LoadedCode : public MachineCode {
 public:
  LoadedCode(orc::LLJIT* jit, orc::JITDylib* library, void* entry)
      : jit_(*jit), library_(*library) {
    entry_ = entry;
  }
  ~LoadedCode() override {
    llvm::consumeError(jit_.getExecutionSession().removeJITDylib(library_));
  }

 private:
  orc::LLJIT& jit_;
  orc::JITDylib& library_;
};

Machine host() {
  Machine m;
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
  // Kept for the life of the process: code refers to it.
  m.vector_math = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr;
  return m;
}

class Compiler : public KernelCompiler {
 public:
  Compiler(Machine machine, std::unique_ptr<orc::LLJIT> jit, orc::JITDylib* math)
      : machine_(std::move(machine)), jit_(std::move(jit)), math_(*math) {}

  std::string target() const override {
    return std::string("llvm ") + LLVM_VERSION_STRING + ' ' + machine_.cpu + ' ' +
           machine_.features + (machine_.vector_math ? " libmvec" : "");
  }

  std::string compile(const LoopSource& source) override {
    return object_of(
        [&](llvm::Module* module) { return emit_loop_function(module, machine_, source, kEntry); });
  }

  std::string compile(const ReduceSource& source) override {
    return object_of([&](llvm::Module* module) {
      return emit_reduce_function(module, machine_, source, kEntry);
    });
  }

  std::string compile(const ProgramReduceSource& source) override {
    return object_of([&](llvm::Module* module) {
      return emit_program_reduce_function(module, machine_, source, kEntry);
    });
  }

  std::shared_ptr<const MachineCode> load(const std::string& object) override {
    const auto n = numbers_.fetch_add(1);
    auto library = jit_->createJITDylib("kernel " + std::to_string(n));
    if (!library) return failed(library.takeError());
    library->addToLinkOrder(math_);
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object, "kernel " + std::to_string(n));
    if (auto e = jit_->addObjectFile(*library, std::move(buffer))) return failed(std::move(e));
    auto address = jit_->lookup(*library, kEntry);
    if (!address) return failed(address.takeError());
    return std::make_shared<LoadedCode>(jit_.get(), &*library, address->toPtr<void*>());
  }

 private:
  static std::nullptr_t failed(llvm::Error e) {
    llvm::consumeError(std::move(e));
    return nullptr;
  }

  std::unique_ptr<llvm::TargetMachine> target_machine() const {
    const std::string triple = llvm::sys::getProcessTriple();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (target == nullptr) return nullptr;
    return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
        triple, machine_.cpu, machine_.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
        llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  }

  std::string object_of(const std::function<bool(llvm::Module*)>& emit) const {
    const std::unique_ptr<llvm::TargetMachine> target = target_machine();
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
    simplify(&module, target.get());
    llvm::SmallString<0> object;
    llvm::raw_svector_ostream stream(object);
    llvm::legacy::PassManager passes;
    if (target->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
      return {};
    }
    passes.run(module);
    return object.str().str();
  }

  /// Loops come vectorised: this only tidies up.
  static void simplify(llvm::Module* module, llvm::TargetMachine* target) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(target);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    llvm::FunctionPassManager passes;
    passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
    passes.addPass(llvm::EarlyCSEPass());
    passes.addPass(llvm::InstCombinePass());
    for (llvm::Function& f : *module) {
      if (!f.isDeclaration()) passes.run(f, functions);
    }
  }

  const Machine machine_;
  std::unique_ptr<orc::LLJIT> jit_;
  orc::JITDylib& math_;
  std::atomic<std::uint64_t> numbers_ = 0;
};

}  // namespace
}  // namespace tessera::codegen

extern "C" __attribute__((visibility("default"))) tessera::codegen::KernelCompiler*
tessera_kernel_compiler(std::string* error) {
  namespace orc = llvm::orc;
  const auto failed = [&](llvm::Error e) {
    *error = llvm::toString(std::move(e));
    return nullptr;
  };
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  tessera::codegen::Machine machine = tessera::codegen::host();
  auto jit = orc::LLJITBuilder().create();
  if (!jit) return failed(jit.takeError());
  orc::JITDylib& math = (*jit)->getExecutionSession().createBareJITDylib("math");
  if (machine.vector_math) {
    auto library = orc::DynamicLibrarySearchGenerator::Load(
        "libmvec.so.1", (*jit)->getDataLayout().getGlobalPrefix());
    if (!library) return failed(library.takeError());
    math.addGenerator(std::move(*library));
  }
  // Never deleted: kernels may outlive all else.
  return new tessera::codegen::Compiler(std::move(machine), std::move(*jit), &math);
}
