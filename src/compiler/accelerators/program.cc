// SPDX-License-Identifier: Apache-2.0
// Gives device programs to a plugin as StableHLO, and runs what it makes of them.
#include "src/compiler/accelerators/program.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "src/base/profiler.h"
#include "src/base/small_vector.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/compiler/accelerators/device_program.h"
#include "src/compiler/accelerators/host_calls.h"
#include "src/compiler/accelerators/lapack.h"
#include "src/compiler/accelerators/memory.h"
#include "src/compiler/accelerators/multi_process.h"
#include "src/compiler/one_device.h"
#include "src/compiler/pipeline.h"
#include "src/compiler/planned_executable.h"
#include "src/cost/peak_memory.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/bytecode/bytecode.h"
#include "src/text/write/stablehlo.h"

namespace tessera::compiler::accelerators {
namespace {

/// Little: the plugin's compiler does the rest.
constexpr PassStage kSimplification[] = {
    {"simplify", "eliminate-dead,simplify<4>"},
    {"common", "common"},
};

/// That of our portable artifacts.
const std::vector<std::int64_t> kBytecodeVersion{1, 10, 0};

/// Where the user's program is: that of a result, if it says so.
Location location_of(const ir::Module& module) {
  const ir::Instruction* root = module.entry()->root();
  if (root->location().known()) return root->location();
  for (const ir::Instruction* operand : root->operands()) {
    if (operand->location().known()) return operand->location();
  }
  return {};
}

class AcceleratorExecutable final : public Executable, public OneDeviceProgram {
 public:
  AcceleratorExecutable(Compilation c, const Client* client, std::shared_ptr<const Work> work,
                        std::unique_ptr<ClientProgram> loaded, std::vector<bool> aliased,
                        HostCalls host)
      : Executable(record_of(&c)),
        client_(client),
        work_(std::move(work)),
        loaded_(std::move(loaded)),
        aliased_(std::move(aliased)),
        host_(std::move(host)) {
    for (const ir::Alias& a : partitioned().input_output_alias) {
      if (a.must) must_alias_.push_back(a);
    }
    for (std::size_t r = 0; r < result_shapes().size(); ++r) {
      const Shape& s = result_shapes()[r];
      const Dims part =
          r < result_shardings().size() ? result_shardings()[r].shard_dims(s.dims) : s.dims;
      result_bytes_.push_back(std::size_t(Shape(s.dtype, part).byte_count()));
    }
    const std::vector<std::int64_t>& ids = assignment().ids;
    for (std::int64_t d = 0; d < num_devices(); ++d) {
      const auto device = std::size_t(ids.empty() ? d : ids[std::size_t(d)]);
      // A program that is only looked at may have devices that there aren't.
      if (device < client->devices().size() && !client->devices()[device].is_local) continue;
      places_.push_back(std::size_t(d));
      devices_.push_back(device);
    }
  }

  /// The processes that run it, unless this one does alone.
  void runs_together(std::shared_ptr<MultiProcessProgram> together) {
    together_ = std::move(together);
  }

  DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const override {
    const profiler::Span span(profiler::Kind::run, partitioned().name, "");
    if (!loaded_ && !places_.empty()) {
      throw RuntimeError("this program was compiled to be looked at only");
    }
    if (!donated.empty() && donated.size() != args.size()) {
      throw RuntimeError(std::to_string(donated.size()) + " donation flags given for " +
                         std::to_string(args.size()) + " arguments");
    }
    if (args.size() != parameter_shapes().size()) {
      throw RuntimeError(work_->what + " takes " + std::to_string(parameter_shapes().size()) +
                         " arguments, and " + std::to_string(args.size()) + " are given");
    }
    DeviceArrays out(result_bytes_.size());
    if (places_.empty()) {  // it is other processes' alone
      for (std::vector<DeviceBuffer>& r : out) r.resize(std::size_t(num_devices()));
      return out;
    }
    const std::vector<std::int64_t> kept = kept_arguments(args, donated);
    check_must_alias(kept);
    SmallVector<const ClientBuffer*, 16> inputs;
    const DeviceBuffer none;
    for (const std::size_t place : places_) {
      for (std::size_t i = 0; i < args.size(); ++i) {
        inputs.push_back(buffer_of(place < args[i].size() ? args[i][place] : none, i));
      }
    }
    std::vector<std::unique_ptr<ClientBuffer>> made(devices_.size() * out.size());
    execute({inputs.data(), inputs.size()}, kept, made);
    for (std::size_t r = 0; r < out.size(); ++r) {
      out[r].resize(std::size_t(num_devices()));
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        out[r][places_[d]].memory = std::make_shared<Memory>(
            result_bytes_[r], std::move(made[d * out.size() + r]), client_, devices_[d], work_);
      }
    }
    return out;
  }

  bool runs_on_one() const override {
    return loaded_ && places_.size() == 1 && num_devices() == 1 && must_alias_.empty() &&
           std::find(aliased_.begin(), aliased_.end(), true) == aliased_.end();
  }
  void run_on_one(std::span<const DeviceBuffer* const> arguments,
                  std::span<DeviceBuffer> results) const override {
    const profiler::Span span(profiler::Kind::run, partitioned().name, "");
    SmallVector<const ClientBuffer*, 16> inputs;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      inputs.push_back(buffer_of(*arguments[i], i));
    }
    std::unique_ptr<ClientBuffer> few[8];
    std::vector<std::unique_ptr<ClientBuffer>> many(results.size() > std::size(few) ? results.size()
                                                                                    : 0);
    std::unique_ptr<ClientBuffer>* const made = many.empty() ? few : many.data();
    execute({inputs.data(), inputs.size()}, {}, {made, results.size()});
    for (std::size_t r = 0; r < results.size(); ++r) {
      results[r].memory = std::make_shared<Memory>(result_bytes_[r], std::move(made[r]), client_,
                                                   devices_[0], work_);
    }
  }

  MemoryAnalysis memory_analysis() const override {
    std::optional<ClientProgram::Memory> told;
    try {
      if (loaded_) told = loaded_->memory();
    } catch (const PluginFailure& failure) {
      throw_error(failure, *work_);
    }
    if (!loaded_) return estimated_memory();
    if (!told) return Executable::memory_analysis();
    MemoryAnalysis out;
    out.argument_bytes = told->arguments;
    out.output_bytes = told->results;
    out.alias_bytes = told->aliases;
    out.temp_bytes = told->temporary;
    // XLA takes the temporary memory in one block, which the peak that it tells may not have.
    out.peak_bytes_per_device =
        std::max(told->peak, told->arguments + told->results + told->temporary - told->aliases);
    // Some count what is in the host's memory as the device's.
    const MemoryAnalysis known = of_arrays();
    const bool apart = told->host_arguments + told->host_results > 0;
    out.host_argument_bytes = apart ? told->host_arguments : known.host_argument_bytes;
    out.host_output_bytes = apart ? told->host_results : known.host_output_bytes;
    if (!apart) {
      out.argument_bytes = known.argument_bytes;
      out.output_bytes = known.output_bytes;
      out.peak_bytes_per_device -= known.host_argument_bytes + known.host_output_bytes;
    }
    out.host_alias_bytes = told->host_aliases;
    out.host_temp_bytes = told->host_temporary;
    out.peak_host_bytes_per_device =
        out.host_argument_bytes + out.host_output_bytes + told->host_temporary - told->host_aliases;
    return out;
  }

 private:
  void execute(std::span<const ClientBuffer* const> inputs, std::span<const std::int64_t> kept,
               std::span<std::unique_ptr<ClientBuffer>> made) const {
    try {
      std::unique_lock<std::mutex> turn;
      if (together_) turn = together_->begin(work_->location);
      loaded_->execute(inputs, devices_.size(), kept, made);
    } catch (const PluginFailure& failure) {
      // What a function of the user's threw passes unchanged.
      if (const std::exception_ptr thrown = host_.failures->take()) std::rethrow_exception(thrown);
      throw_error(failure, *work_);
    }
  }

  /// Bytes of one device's arguments and results, in the device's memory and the host's.
  MemoryAnalysis of_arrays() const {
    MemoryAnalysis out;
    const ir::Computation& entry = *partitioned().entry();
    for (const ir::Instruction* p : entry.parameters()) {
      (is_host(ir::memory_of_parameter(*p)) ? out.host_argument_bytes : out.argument_bytes) +=
          p->shape.byte_count();
    }
    const std::vector<const ir::Instruction*> results = results_of(entry);
    for (std::size_t r = 0; r < result_bytes_.size(); ++r) {
      const bool host = r < results.size() && is_host(memory_of_result(*results[r]));
      (host ? out.host_output_bytes : out.output_bytes) += std::int64_t(result_bytes_[r]);
    }
    return out;
  }

  /// Of a program that isn't to run: no plugin has seen it.
  MemoryAnalysis estimated_memory() const {
    MemoryAnalysis out = of_arrays();
    const std::int64_t host = out.host_argument_bytes + out.host_output_bytes;
    const auto peak = std::int64_t(cost::estimated_peak_bytes(partitioned()));
    // Whoever calls keeps the arguments.
    out.peak_bytes_per_device =
        std::max<std::int64_t>(peak - host, out.argument_bytes + out.output_bytes);
    out.peak_host_bytes_per_device = host;
    out.temp_bytes = out.peak_bytes_per_device - out.argument_bytes - out.output_bytes;
    return out;
  }

  /// Arguments whose memory a result would have, but that the caller keeps, or somebody else has.
  std::vector<std::int64_t> kept_arguments(const DeviceArrays& args,
                                           const std::vector<bool>& donated) const {
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < aliased_.size() && i < args.size(); ++i) {
      if (!aliased_[i]) continue;
      const bool given = i < donated.size() && donated[i] &&
                         std::all_of(args[i].begin(), args[i].end(), [](const DeviceBuffer& b) {
                           return !b || b.memory.use_count() == 1;
                         });
      if (!given) kept.push_back(std::int64_t(i));
    }
    return kept;
  }

  void check_must_alias(const std::vector<std::int64_t>& kept) const {
    for (const ir::Alias& a : must_alias_) {
      if (std::find(kept.begin(), kept.end(), a.parameter) == kept.end()) continue;
      throw RuntimeError(
          "'" + partitioned().name + "' says that result " +
          std::to_string(a.output.empty() ? 0 : a.output[0]) +
          " must have the memory of argument " + std::to_string(a.parameter) + ", " +
          parameter_shapes().at(std::size_t(a.parameter)).to_string() +
          ", which somebody else uses as well; valid: donate the argument, of which there is no "
          "other copy, or may-alias in the program");
    }
  }

  const ClientBuffer* buffer_of(const DeviceBuffer& argument, std::size_t i) const {
    const DeviceMemory* const given = argument.memory.get();
    // The class is final: comparing is quicker than a dynamic_cast.
    const auto* memory = given != nullptr && typeid(*given) == typeid(Memory)
                             ? static_cast<const Memory*>(given)
                             : nullptr;
    if (memory == nullptr || memory->client != client_) {
      throw RuntimeError("argument " + std::to_string(i) + " of " + work_->what +
                         " isn't in memory of that platform");
    }
    return &memory->buffer();
  }

  const Client* client_;
  std::shared_ptr<const Work> work_;
  std::unique_ptr<ClientProgram> loaded_;
  std::vector<bool> aliased_;  ///< of parameters
  HostCalls host_;
  std::vector<ir::Alias> must_alias_;
  std::vector<std::size_t> result_bytes_;
  /// Of this process: which of the program's devices, and which of the client's they are.
  std::vector<std::size_t> places_, devices_;
  std::shared_ptr<MultiProcessProgram> together_;
};

std::vector<std::size_t> devices_of(const Compilation& c, const Client& client, const Work& work) {
  std::vector<std::size_t> out;
  for (std::int64_t d = 0; d < c.assignment.num_devices(); ++d) {
    const std::int64_t device = c.assignment.ids.empty() ? d : c.assignment.ids[std::size_t(d)];
    if (device >= std::int64_t(client.devices().size())) {
      throw ValueError(work.what + " is for device " + std::to_string(device) + "; there are " +
                           std::to_string(client.devices().size()),
                       work.location);
    }
    out.push_back(std::size_t(device));
  }
  return out;
}

}  // namespace

AcceleratorTarget::AcceleratorTarget(std::string platform, const Client* client)
    : platform_(std::move(platform)), client_(client) {
  codegen::register_builtin_custom_calls();
  const auto found = client->attributes().find("stablehlo_current_version");
  if (found == client->attributes().end()) return;
  const auto* version = std::get_if<std::vector<std::int64_t>>(&found->second);
  takes_bytecode_ = version != nullptr && *version >= kBytecodeVersion;
}

std::span<const PassStage> AcceleratorTarget::simplification() const { return kSimplification; }
std::span<const PassStage> AcceleratorTarget::selection() const { return {}; }

std::shared_ptr<const Executable> AcceleratorTarget::load(Compilation c,
                                                          StageRecorder* stages) const {
  auto work = std::make_shared<Work>(Work{
      "program '" + c.module->name + "' on platform '" + platform_ + "'", location_of(*c.module)});
  if (!c.options.runs) {
    return std::make_shared<AcceleratorExecutable>(std::move(c), client_, std::move(work), nullptr,
                                                   std::vector<bool>(), HostCalls());
  }
  ProgramText text;
  text.devices = devices_of(c, *client_, *work);
  const std::vector<int> members = processes_of(*client_, text.devices);
  if (std::none_of(text.devices.begin(), text.devices.end(),
                   [&](std::size_t d) { return client_->devices()[d].is_local; })) {
    return std::make_shared<AcceleratorExecutable>(std::move(c), client_, std::move(work), nullptr,
                                                   std::vector<bool>(), HostCalls());
  }
  check_feeds(*c.module, platform_);
  // A function of the host's is called by one device for all, which must be of its process.
  const bool calls_host = client_->calls_host() && members.size() == 1;
  const LapackForms forms = calls_host ? LapackForms::of_stablehlo : LapackForms::formulas;
  stages->run("lapack", [&] { lower_lapack(c.module.get(), forms); },
              {[&] { return ir::to_string(*c.module); }, [&] { ir::verify(*c.module); }});
  if (!calls_host) check_calls(*c.module, platform_, members.size());
  std::unique_ptr<ir::Module> module = c.module->clone();
  HostCalls host;
  if (calls_host) {
    stages->run("host calls", [&] { host = call_host(module.get(), *client_); },
                {[&] { return ir::to_string(*module); }, [&] { ir::verify(*module); }});
  }
  std::vector<bool> aliased;
  text.calls_host = !host.numbers.empty();
  stages->run("replicas",
              [&] {
                make_replicas(module.get());
                aliased = alias_donated(module.get());
              },
              {[&] { return text::to_stablehlo(*module, {}); }, [&] { ir::verify(*module); }});
  const text::WriteOptions write{.locations = true};
  stages->run("stablehlo",
              [&] {
                text.code = text::to_stablehlo(*module, write);
                // Ops of chlo have no versions: in bytecode attributes must be those that the
                // plugin knows, in text new ones may be absent.
                if (takes_bytecode_ && text.code.find("chlo.") == std::string::npos) {
                  text.code = text::to_bytecode(*module, write);
                }
              },
              {});
  std::unique_ptr<ClientProgram> loaded;
  try {
    stages->run("plugin", [&] { loaded = client_->compile(text); }, {});
  } catch (const PluginFailure& failure) {
    throw CompileError(work->what + ": " + failure.function + ": " + failure.what(),
                       work->location);
  }
  std::shared_ptr<MultiProcessProgram> together;
  if (members.size() > 1) {
    together =
        std::make_shared<MultiProcessProgram>(members, c.module->name, ir::to_string(*module));
  }
  auto made = std::make_shared<AcceleratorExecutable>(std::move(c), client_, std::move(work),
                                                      std::move(loaded), std::move(aliased),
                                                      std::move(host));
  made->runs_together(std::move(together));
  return made;
}

}  // namespace tessera::compiler::accelerators
