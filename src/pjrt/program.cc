// SPDX-License-Identifier: Apache-2.0
// Programs: read, given shardings, compiled, described and serialized.
#include "src/pjrt/program.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/processes/processes.h"
#include "src/base/threads/task_pool.h"
#include "src/compiler/read_module.h"
#include "src/compiler/stored_executable.h"
#include "src/cost/executions.h"
#include "src/cost/work.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/auto_sharding.h"
#include "src/ir/rewrite/drop_shardings.h"
#include "src/passes/products/select_by_predicates.h"
#include "src/pjrt/dtypes.h"
#include "src/pjrt/entry_layouts.h"
#include "src/pjrt/ffi/handlers.h"
#include "src/pjrt/op_sharding.h"
#include "src/pjrt/partitioner/custom_partitioner.h"
#include "src/pjrt/partitioner/inspect_sharding.h"
#include "src/pjrt/stored_program.h"
#include "src/spmd/submeshes.h"

namespace tessera::pjrt {
namespace {

bool is_free(const std::vector<bool>& flags, std::size_t i) {
  return flags.size() == 1 ? flags[0] : i < flags.size() && flags[i];
}

/// Says of each parameter and result where it is to be, or that the compiler chooses.
void settle_shardings(ir::Module& module, const CompileOptions& options) {
  module.num_partitions = options.partitions;
  if (!module.mesh) module.mesh = make_logical_mesh({{"devices", options.partitions}});
  const auto& parameters = module.entry()->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ir::Instruction* p = module.entry()->parameter(i);
    if (!p->shape.is_array()) continue;
    // Those of a group are found by propagation.
    const int group = p->sharding.empty() ? -1 : p->sharding[0].shard_group;
    const bool stated = !p->sharding.empty() &&
                        (p->sharding[0].kind != TensorSharding::Kind::axes || p->sharding[0].mesh);
    if (stated && !p->sharding[0].fully_open()) {
      p->sharding[0] = p->sharding[0].closed();
    } else if (is_free(options.free_parameters, i)) {
      if (group < 0) ir::set_auto_sharding(p);
      p->sharding = {TensorSharding::open_on(module.mesh, p->shape.rank())};
      p->sharding[0].shard_group = group;
    } else {
      p->sharding = {TensorSharding::replicated_on(module.mesh, p->shape.rank())};
    }
  }
  ir::Instruction* root = module.entry()->root();
  const std::vector<Shape> results = flatten(root->shape);
  root->sharding.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    TensorSharding& s = root->sharding[i];
    const bool stated = s.kind != TensorSharding::Kind::axes || s.mesh;
    if (stated) continue;
    s = is_free(options.free_results, i)
            ? TensorSharding::open_on(module.mesh, results[i].rank())
            : TensorSharding::replicated_on(module.mesh, results[i].rank());
  }
}

/// Devices in the order of the program's.
void assign_devices(Program& p) {
  const PJRT_Client& client = *p.client;
  const std::int64_t n = p.options.replicas * p.options.partitions;
  if (p.options.devices.empty()) {
    for (std::int64_t k = 0; k < n; ++k) p.options.devices.push_back(k);
  }
  for (std::size_t k = 0; k < p.options.devices.size(); ++k) {
    const std::int64_t id = p.options.devices[k];
    if (id < 0 || id >= std::int64_t(client.devices.size())) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "the program is for " + std::to_string(n) +
                                                          " devices, device " + std::to_string(id) +
                                                          " among them; the client has " +
                                                          std::to_string(client.devices.size()));
    }
    PJRT_Device* const d = client.devices[std::size_t(id)];
    p.devices.push_back(d);
    if (!d->local) continue;
    p.addressable.push_back(d);
    p.places.push_back(k);
    p.logical_ids.push_back({std::int32_t(std::int64_t(k) / p.options.partitions),
                             std::int32_t(std::int64_t(k) % p.options.partitions)});
  }
}

std::vector<MemoryKind> memory_of_results(const ir::Module& module, std::size_t count,
                                          const std::vector<MemoryKind>& parameters) {
  std::vector<ir::MemoryLeaves> given;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    given.emplace_back(flatten(module.entry()->parameter(i)->shape).size(), parameters[i]);
  }
  const ir::MemoryLeaves made = ir::memory_of_root(*module.entry(), given);
  std::vector<MemoryKind> out(count, MemoryKind::device);
  for (std::size_t i = 0; i < std::min(count, made.size()); ++i) {
    out[i] = made[i].value_or(MemoryKind::device);
  }
  return out;
}

void name_kinds(const std::vector<MemoryKind>& kinds, std::vector<const char*>* names,
                std::vector<std::size_t>* sizes) {
  for (const MemoryKind k : kinds) {
    names->push_back(tessera::name(k));
    sizes->push_back(std::strlen(names->back()));
  }
}

/// `stored`: of the arrays as they are stored, whose shapes clients see so.
std::vector<std::string> write_shardings(const std::vector<TensorSharding>& stored,
                                         const std::vector<Shape>& shapes) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    out.push_back(write_op_sharding(i < stored.size() ? to_tiling(seen(stored[i], shapes[i].layout))
                                                      : Tiling()));
  }
  return out;
}

void point_to(const std::vector<std::string>& bytes, std::vector<const char*>* texts,
              std::vector<std::size_t>* sizes) {
  for (const std::string& b : bytes) {
    texts->push_back(b.data());
    sizes->push_back(b.size());
  }
}

/// What is known of the program, as the API wants it.
void hand_out(Program& p) {
  for (const Shape& s : p.result_shards) {
    p.result_types.push_back(type_of(s.dtype));
    p.result_dims.insert(p.result_dims.end(), s.dims.begin(), s.dims.end());
    p.result_ranks.push_back(s.dims.size());
  }
  for (const Shape& s : p.parameter_shards) p.parameter_layouts.push_back(&memory_layout(s));
  for (const Shape& s : p.result_shards) p.result_layouts.push_back(&memory_layout(s));
  name_kinds(p.result_memory, &p.result_kinds, &p.result_kind_sizes);
  name_kinds(p.parameter_memory, &p.parameter_kinds, &p.parameter_kind_sizes);
  point_to(p.parameter_shardings, &p.parameter_sharding_texts, &p.parameter_sharding_sizes);
  point_to(p.result_shardings, &p.result_sharding_texts, &p.result_sharding_sizes);
}

/// As clients expect of XLA: memory that may be taken is taken where a result of as many bytes, in
/// the same kind of memory, has none yet, whatever its shape.
void donate_by_size(Program& p, const std::vector<std::size_t>& donors) {
  std::vector<bool> taken(p.result_shards.size(), false);
  for (const ir::Alias& a : p.executable->partitioned().input_output_alias) {
    if (!a.output.empty()) taken.at(std::size_t(a.output[0])) = true;
  }
  for (const std::size_t i : donors) {
    if (p.donated[i]) continue;
    for (std::size_t r = 0; r < taken.size(); ++r) {
      if (taken[r] || p.result_memory[r] != p.parameter_memory[i] ||
          p.result_shards[r].byte_count() != p.parameter_shards[i].byte_count()) {
        continue;
      }
      taken[r] = p.donated[i] = true;
      break;
    }
  }
}

/// What the API asks for, ready to be handed out. `donors`: parameters whose memory may be taken.
void describe(Program& p, const EntryLayouts& layouts, const std::vector<std::size_t>& donors) {
  const compiler::Executable& e = *p.executable;
  const bool split = e.num_partitions() > 1;
  const auto shard = [&](const Shape& s, const std::vector<TensorSharding>& all, std::size_t i,
                         const Dims& layout) {
    Shape part = split && s.is_array() ? Shape(s.dtype, all.at(i).shard_dims(s.dims)) : s;
    // What a program's text says of layouts, nobody keeps to.
    part.layout.clear();
    return seen(part, layout);
  };
  for (std::size_t i = 0; i < e.parameter_shapes().size(); ++i) {
    p.parameter_shards.push_back(
        shard(e.parameter_shapes()[i], e.parameter_shardings(), i, layouts.parameters.at(i)));
  }
  for (std::size_t i = 0; i < e.result_shapes().size(); ++i) {
    p.result_shards.push_back(
        shard(e.result_shapes()[i], e.result_shardings(), i, layouts.results.at(i)));
  }
  p.donated.assign(p.parameter_shards.size(), false);
  for (const ir::Alias& a : e.partitioned().input_output_alias) {
    p.donated.at(std::size_t(a.parameter)) = true;
  }
  donate_by_size(p, donors);
  const std::vector<TensorSharding> none;
  p.parameter_shardings =
      write_shardings(split ? e.parameter_shardings() : none, p.parameter_shards);
  p.result_shardings = write_shardings(split ? e.result_shardings() : none, p.result_shards);
  hand_out(p);
}

std::string hexadecimal(XXH128_hash_t h) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return text;
}

/// What the first run is expected to take, on the caller's processors.
double first_seconds(const Program& p) {
  Network here;
  here.other = {5e9, 1e-6};
  here.flops_per_second = 5e9;
  here.memory_bytes_per_second = 5e9;
  const double devices = double(std::max<std::size_t>(1, p.addressable.size()));
  return p.executable->cost_analysis(here).overlapped_seconds * devices /
         std::min(devices, double(worker_count()));
}

/// Flops below which XLA's client runs a program within the call.
constexpr double kFewFlops = 1000;

/// As XLA counts them: a loop once, however often it goes round.
double flops_of_one_pass(const ir::Module& device_program) {
  const std::int64_t devices = device_program.num_partitions * device_program.replica_count;
  double out = 0;
  for (const auto& [computation, e] : cost::executions(device_program)) {
    if (e.times == 0) continue;
    for (const auto& i : computation->instructions()) out += cost::flops(*i, devices);
  }
  return out;
}

/// How runs are queued.
void plan_runs(Program& p) {
  for (const PJRT_Device* d : p.addressable) p.lines.push_back(std::size_t(d->device.id));
  if (p.addressable.size() != p.devices.size()) p.lines.push_back(p.client->devices.size());
  p.seconds = float(first_seconds(p));
  p.few_flops = flops_of_one_pass(p.executable->partitioned()) < kFewFlops;
  for (const auto& c : p.executable->partitioned().computations()) {
    for (const auto& i : c->instructions()) {
      p.calls_host = p.calls_host || ffi::is_handler(*i);
      p.calls_python = p.calls_python || ffi::is_python_callback(*i);
      const auto* loop = i->attrs.get_if<ir::WhileAttrs>();
      if (loop != nullptr && !loop->known_trip_count) p.seconds = 1;
    }
  }
}

/// The program's own devices are of several processes: which.
std::vector<std::int32_t> processes_of(const Program& p) {
  std::vector<std::int32_t> out;
  if (p.addressable.size() == p.devices.size()) return out;
  for (const PJRT_Device* d : p.devices) out.push_back(std::int32_t(d->device.process_index));
  return out;
}

std::shared_ptr<Program> begin_program(PJRT_Client& client, std::string_view source,
                                       std::string_view option_bytes) {
  auto p = std::make_shared<Program>();
  p->client = &client;
  p->options = read_compile_options(option_bytes);
  assign_devices(*p);
  p->source = source;
  p->option_bytes = option_bytes;
  p->fingerprint = hexadecimal(XXH3_128bits_withSeed(
      source.data(), source.size(), XXH3_64bits(option_bytes.data(), option_bytes.size())));
  return p;
}

/// Null if another build stored it, or another kind of machine: it is compiled again.
std::shared_ptr<const compiler::Executable> load_device_program(const Program& p,
                                                                const StoredProgram& stored) {
  try {
    return compiler::load_executable(stored.device_program, processes_of(p));
  } catch (const compiler::IncompatibleExecutable&) {
    return nullptr;
  } catch (const IoError& e) {
    throw Failure(PJRT_Error_Code_DATA_LOSS, e.message());
  }
}

/// Results whose place the client leaves open, and which are to be somewhere after all.
using SettledResults = std::map<std::size_t, TensorSharding>;

/// The sharding without the last axes of dims that aren't multiples of their numbers of shards.
TensorSharding split_evenly(TensorSharding s, const Dims& dims) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    while (!s.dims[d].axes.empty() && dims[d] % s.shards(std::int64_t(d)) != 0) {
      s.dims[d].axes.pop_back();
    }
  }
  return s;
}

/// Clients want all results to be split evenly. Where the compiler chose otherwise, what is to be
/// instead is added; whether there is such a result.
bool settle_uneven_results(const compiler::Executable& e, const EntryLayouts& layouts,
                           const std::vector<bool>& free, SettledResults* settled) {
  const std::size_t before = settled->size();
  for (std::size_t i = 0; e.num_partitions() > 1 && i < e.result_shapes().size(); ++i) {
    const TensorSharding& s = e.result_shardings().at(i);
    const Dims& dims = e.result_shapes()[i].dims;
    if (!is_free(free, i) || s.kind != TensorSharding::Kind::axes || s.splits_evenly(dims))
      continue;
    settled->emplace(i, seen(split_evenly(s, dims), layouts.results.at(i)));
  }
  return settled->size() > before;
}

/// Null if some results must be elsewhere, which is added to those that are settled.
std::shared_ptr<Program> try_to_compile(PJRT_Client& client, std::string_view source,
                                        std::string_view option_bytes, SettledResults* settled) {
  std::shared_ptr<Program> p = begin_program(client, source, option_bytes);
  std::unique_ptr<ir::Module> module = compiler::read_module(source, "<program>");
  p->name = module->name;
  const bool sees_parts = ffi::prepare_callbacks(module.get());
  attach_custom_partitioners(module.get());
  const auto inspections = attach_inspections(module.get());
  passes::select_by_predicates(module.get());
  module->replica_count = p->options.replicas;
  if (p->options.partitions == 1) {
    module->num_partitions = 1;
    ir::drop_shardings_for_one_device(module.get());
  } else {
    settle_shardings(*module, p->options);
    for (const auto& [i, sharding] : *settled) module->entry()->root()->sharding[i] = sharding;
    spmd::extend_submeshes(module.get());
  }
  const bool is_hlo = compiler::text_form(source) == compiler::TextForm::hlo;
  const EntryLayouts layouts = settle_layouts(module.get(), is_hlo);
  for (const ir::Instruction* q : module->entry()->parameters()) {
    p->parameter_memory.push_back(ir::memory_of_parameter(*q));
  }
  p->result_memory = memory_of_results(*module, flatten(module->entry()->root()->shape).size(),
                                       p->parameter_memory);
  compiler::Options options;
  options.keep_stages = false;
  // Such functions are to see what annotations make of arrays, as in XLA.
  if (sees_parts) options.layouts = Layouts::propagated;
  options.process_of = processes_of(*p);
  std::vector<std::size_t> donors;
  for (const auto& [parameter, index] : module->buffer_donor) {
    if (index.empty()) donors.push_back(std::size_t(parameter));
  }
  p->executable = client.engine->compile(std::move(module), options);
  if (settle_uneven_results(*p->executable, layouts, p->options.free_results, settled)) {
    return nullptr;
  }
  for (const auto& i : inspections) i->report();
  describe(*p, layouts, donors);
  plan_runs(*p);
  return p;
}

}  // namespace

std::shared_ptr<Program> compile_program(PJRT_Client& client, std::string_view source,
                                         std::string_view option_bytes) {
  SettledResults settled;
  for (;;) {
    if (auto p = try_to_compile(client, source, option_bytes, &settled)) return p;
  }
}

std::string serialize(const Program& program) {
  StoredProgram out;
  out.option_bytes = program.option_bytes;
  out.source = program.source;
  out.name = program.name;
  // What functions of this process compute, can't be stored. Code isn't: it is in the cache of
  // kernels, and clients store programs right after they compiled them, when not all of it is made.
  if (!program.calls_host) {
    out.device_program = compiler::store_executable(*program.executable, {.code = false});
  }
  for (std::size_t i = 0; i < program.parameter_shards.size(); ++i) {
    out.parameters.push_back({program.parameter_shards[i], program.parameter_memory[i],
                              program.donated[i], program.parameter_shardings[i]});
  }
  for (std::size_t i = 0; i < program.result_shards.size(); ++i) {
    out.results.push_back(
        {program.result_shards[i], program.result_memory[i], false, program.result_shardings[i]});
  }
  return write_stored_program(out);
}

std::shared_ptr<Program> deserialize(PJRT_Client& client, std::string_view bytes) {
  const StoredProgram stored = read_stored_program(bytes);
  if (stored.device_program.empty()) {
    return compile_program(client, stored.source, stored.option_bytes);
  }
  std::shared_ptr<Program> p = begin_program(client, stored.source, stored.option_bytes);
  p->name = stored.name;
  for (const auto& v : stored.parameters) {
    p->parameter_shards.push_back(v.shard);
    p->parameter_memory.push_back(v.memory);
    p->donated.push_back(v.donated);
    p->parameter_shardings.push_back(v.sharding);
  }
  for (const auto& v : stored.results) {
    p->result_shards.push_back(v.shard);
    p->result_memory.push_back(v.memory);
    p->result_shardings.push_back(v.sharding);
  }
  p->executable = load_device_program(*p, stored);
  if (!p->executable) return compile_program(client, stored.source, stored.option_bytes);
  if (p->executable->partitioned().entry()->parameters().size() != p->parameter_shards.size() ||
      flatten(p->executable->partitioned().entry()->root()->shape).size() !=
          p->result_shards.size()) {
    throw Failure(PJRT_Error_Code_DATA_LOSS,
                  "a stored program has another number of parameters or results than it says");
  }
  hand_out(*p);
  plan_runs(*p);
  return p;
}

}  // namespace tessera::pjrt
