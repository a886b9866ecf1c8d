// SPDX-License-Identifier: Apache-2.0
// The format of stored executables. A program is kept as it was planned, each loop a fusion, so
// that loading it has no choices to make; constants of some size stand behind the text.
#include "src/compiler/stored_executable.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "src/base/env.h"
#include "src/base/files/byte_stream.h"
#include "src/base/files/module_files.h"
#include "src/base/threads/task_pool.h"
#include "src/codegen/kernels/code/code_identity.h"
#include "src/codegen/kernels/code/embedded_code.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/code/object_code.h"
#include "src/codegen/plan/liveness.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/compiler/pipeline.h"
#include "src/compiler/planned_executable.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/passes/control/inline_calls.h"
#include "src/passes/eliminate_common.h"
#include "src/runtime/verify_plan.h"
#include "src/sharding/axes/stored_sharding.h"

namespace tessera::compiler {
namespace {

constexpr std::string_view kFormat = "1\n";
constexpr std::int64_t kMostDevices = std::int64_t(1) << 31;
/// Longer constants are not text.
constexpr std::int64_t kLongConstant = 32;
/// Where this code isn't in a file that can be read: nothing is of that build.
constexpr const char* kUnknown = "unknown";
constexpr std::string_view kConstantMark = "stored constant ";

/// The build of the code that makes and calls kernels: this library, or a program that has it.
const std::string& own_build() {
  static const std::string& id = *new std::string(codegen::build_id(own_file()).value_or(kUnknown));
  return id;
}

std::string machine_of(const std::string& cpu) {
  return cpu == "native" ? codegen::machine_identity() : std::string();
}

// --- what it is for ----------------------------------------------------------------------------

struct Environment {
  std::string build, cpu, machine, machine_name;
  bool vector_math = false;
};

void write(ByteWriter* out, const Environment& e) {
  out->text(e.build);
  out->text(e.cpu);
  out->text(e.machine);
  out->text(e.machine_name);
  out->number(e.vector_math);
}

Environment read_environment(ByteReader* in) {
  Environment e;
  e.build = in->text();
  e.cpu = in->text();
  e.machine = in->text();
  e.machine_name = in->text();
  e.vector_math = in->flag();
  return e;
}

void check_environment(const Environment& e) {
  if (e.build != own_build() || e.build == kUnknown) {
    throw IncompatibleExecutable(
        fmt::format("a stored program is of another build of Tessera ({}) than this ({}), whose "
                    "kernels differ; "
                    "valid: store it again with this build",
                    e.build.substr(0, 12), own_build().substr(0, 12)));
  }
  if (e.cpu == "native" && e.machine != codegen::machine_identity()) {
    throw IncompatibleExecutable(fmt::format(
        "a stored program is for the processor on which it was made ({}), and this is another ({}) "
        "or has other features; valid: store it for a level that both have, as x86-64-v3",
        e.machine_name, codegen::machine_name()));
  }
  const int needs = e.cpu == "x86-64-v4" ? 4 : e.cpu == "x86-64-v3" ? 3 : 0;
  if (codegen::machine_level() < needs) {
    throw IncompatibleExecutable(fmt::format(
        "a stored program is for {}, and this processor ({}) is x86-64-v{}; valid: store it for "
        "that level or for native, on this machine",
        e.cpu, codegen::machine_name(), codegen::machine_level()));
  }
  if (e.vector_math && !codegen::has_vector_math()) {
    throw IncompatibleExecutable(
        "a stored program calls the vector math of the C library (libmvec.so.1), which "
        "isn't there; valid: store it on a machine without it, too");
  }
}

// --- constants ---------------------------------------------------------------------------------

/// Numbers the long constants, and takes them out. Equal ones are one.
std::vector<Literal> mark_constants(ir::Module* module) {
  std::vector<Literal> out;
  for (const auto& computation : module->computations()) {
    for (const auto& i : computation->instructions()) {
      auto* constant = i->attrs.get_if<ir::ConstantAttrs>();
      if (constant == nullptr || constant->value.is_tuple() || constant->elided ||
          constant->value.element_count() <= kLongConstant) {
        continue;
      }
      const auto same = [&](const Literal& l) {
        return l.bytes() == constant->value.bytes() && l.shape() == constant->value.shape();
      };
      const auto at = std::find_if(out.begin(), out.end(), same);
      const auto number = std::size_t(at - out.begin());
      if (at == out.end()) out.push_back(constant->value);
      ir::Metadata mark;
      mark.op_name = std::string(kConstantMark) + std::to_string(number);
      i->metadata = std::move(mark);
      i->attrs = ir::ConstantAttrs{Literal(), /*elided=*/true};
    }
  }
  return out;
}

void put_constants(ir::Module* module, const std::vector<Literal>& all, const ByteReader& in) {
  for (const auto& computation : module->computations()) {
    for (const auto& i : computation->instructions()) {
      auto* constant = i->attrs.get_if<ir::ConstantAttrs>();
      if (constant == nullptr || !constant->elided) continue;
      const std::string& name = i->metadata->op_name;
      std::size_t number = all.size();
      if (name.starts_with(kConstantMark) && name.size() < kConstantMark.size() + 10) {
        number = std::size_t(std::atoll(name.c_str() + kConstantMark.size()));
      }
      if (number >= all.size() || !(all[number].shape() == i->shape)) {
        in.fail("lacks the constant of " + i->describe());
      }
      i->attrs = ir::ConstantAttrs{all[number], false};
      i->metadata = {};
    }
  }
}

void write(ByteWriter* out, const std::vector<Literal>& constants) {
  out->list(constants, [&](const Literal& l) {
    write_shape(out, l.shape());
    out->text({reinterpret_cast<const char*>(l.bytes()), l.byte_count()});
  });
}

std::vector<Literal> read_constants(ByteReader* in) {
  std::vector<Literal> out;
  in->list([&] {
    const Shape shape = read_shape(in);
    const std::string_view bytes = in->view();
    if (!shape.is_array() || std::size_t(shape.byte_count()) != bytes.size()) {
      in->fail("has a constant of " + std::to_string(bytes.size()) + " bytes as " +
               shape.to_string());
    }
    out.emplace_back(shape, std::as_bytes(std::span(bytes)));
  });
  return out;
}

// --- what is known of it -----------------------------------------------------------------------

void write_report(ByteWriter* out, const spmd::PartitionReport& report) {
  out->list(report.records, [&](const spmd::CommunicationRecord& r) {
    out->number(r.id);
    for (const std::string* text :
         {&r.kind, &r.instruction, &r.for_op, &r.from, &r.to, &r.reason}) {
      out->text(*text);
    }
    out->text(r.location.file == nullptr ? "" : r.location.file);
    out->number(r.location.line);
    out->real(r.bytes_received);
    out->number(r.full_gather);
  });
  out->list(report.replicated_ops, [&](const std::string& op) { out->text(op); });
}

spmd::PartitionReport read_report(ByteReader* in) {
  spmd::PartitionReport out;
  in->list([&] {
    spmd::CommunicationRecord r;
    r.id = in->number();
    for (std::string* text : {&r.kind, &r.instruction, &r.for_op, &r.from, &r.to, &r.reason}) {
      *text = in->text();
    }
    const std::string file = in->text();
    const auto line = unsigned(in->number(0, 1 << 30, "a line"));
    if (!file.empty()) r.location = make_location(file, line);
    r.bytes_received = in->real();
    r.full_gather = in->flag();
    out.records.push_back(std::move(r));
  });
  in->list([&] { out.replicated_ops.push_back(in->text()); });
  return out;
}

void write_record(ByteWriter* out, const Executable& e) {
  out->number(e.num_replicas());
  out->number(e.num_partitions());
  out->number(int(e.layouts()));
  for (const auto* shapes : {&e.parameter_shapes(), &e.result_shapes()}) {
    out->list(*shapes, [&](const Shape& s) { write_shape(out, s); });
  }
  for (const auto* shardings : {&e.parameter_shardings(), &e.result_shardings()}) {
    out->list(*shardings, [&](const TensorSharding& s) { write_sharding(out, s); });
  }
  write_report(out, e.report());
}

void read_record(ByteReader* in, Compilation* c) {
  c->assignment.num_replicas = in->number(1, kMostDevices, "a number of replicas");
  c->assignment.num_partitions = in->number(1, kMostDevices, "a number of partitions");
  c->options.layouts = Layouts(in->number(0, 1, "a way to choose layouts"));
  for (auto* shapes : {&c->parameter_shapes, &c->result_shapes}) {
    in->list([&] { shapes->push_back(read_shape(in)); });
  }
  for (auto* shardings : {&c->parameter_shardings, &c->result_shardings}) {
    in->list([&] { shardings->push_back(read_sharding(in)); });
  }
  c->report = read_report(in);
}

/// What is stored fits together.
void check_record(const Compilation& c, const ByteReader& in) {
  const auto parameters = c.module->entry()->parameters().size();
  const std::size_t results = flatten(c.module->entry()->root()->shape).size();
  if (c.parameter_shapes.size() != parameters || c.result_shapes.size() != results ||
      c.module->num_partitions != c.assignment.num_devices()) {
    in.fail("has another number of arguments, results or devices than its program");
  }
}

void refuse_host_functions(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const auto* call = i->attrs.get_if<ir::CustomCallAttrs>();
      if (call == nullptr || call->host == nullptr) continue;
      throw NotImplementedError(i->describe() +
                                    " calls a function of this process, which can't be stored; "
                                    "valid: a custom call, which who loads the program registers",
                                i->location());
    }
  }
}

codegen::BuiltPlan make_plan(const ir::Module& fused, bool rematerializes,
                             const codegen::CodeSource& source) {
  const codegen::CodeScope scope(&source);
  return codegen::materialize(codegen::plan_fused_program(fused, rematerializes));
}

}  // namespace

std::string seal(std::string_view body) {
  const std::uint64_t checksum = XXH3_64bits(body.data(), body.size());
  std::string out(kStoredMagic);
  out += kFormat;
  out.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return out.append(body);
}

std::string_view unseal(std::string_view bytes, const std::string& who) {
  if (!bytes.starts_with(kStoredMagic)) {
    throw IoError(who + " begins with " + std::string(kStoredMagic) +
                  ", and this doesn't; valid: what serialize, save or tessera compile wrote "
                  "(load_stablehlo and load_hlo read programs as text)");
  }
  bytes.remove_prefix(kStoredMagic.size());
  if (!bytes.starts_with(kFormat)) {
    throw IoError(who +
                  " is of another version of the format of stored programs, or damaged; "
                  "this build reads version " +
                  std::string(kFormat.substr(0, 1)));
  }
  bytes.remove_prefix(kFormat.size());
  std::uint64_t checksum = 0;
  if (bytes.size() < sizeof checksum) throw IoError(who + " is cut off");
  std::memcpy(&checksum, bytes.data(), sizeof checksum);
  bytes.remove_prefix(sizeof checksum);
  if (checksum != XXH3_64bits(bytes.data(), bytes.size())) {
    throw IoError(who + " is damaged: its checksum differs");
  }
  return bytes;
}

std::string store_executable(const Executable& executable, const StoreOptions& options) {
  if (options.cpu != "native" && options.cpu != "x86-64-v3" && options.cpu != "x86-64-v4") {
    throw ValueError("'" + options.cpu +
                     "' is no processor that programs are stored for; valid: native, x86-64-v3, "
                     "x86-64-v4");
  }
  const ir::Module& module = executable.partitioned();
  check_planned(executable);
  refuse_host_functions(module);
  const codegen::PlannedProgram planned = codegen::plan_program(module);
  const auto fused = planned.fused();
  const std::vector<Literal> constants = mark_constants(fused.get());
  const std::string text = ir::to_string(*fused);

  codegen::EmbeddedCode code;
  codegen::CodeSource source;
  source.use = codegen::CodeSource::Use::add;
  source.code = &code;
  source.cpu = options.cpu == "native" ? "" : options.cpu;
  source.compiles = codegen::can_compile_kernels();
  source.workers = worker_count();
  ByteWriter body;
  write(&body,
        Environment{own_build(), options.cpu, machine_of(options.cpu), codegen::machine_name(),
                    options.code && source.compiles && codegen::has_vector_math()});
  write_record(&body, executable);
  body.text(module.name);
  body.text(text);
  write(&body, constants);
  body.number(planned.rematerializes);
  body.number(source.compiles);
  body.number(source.workers);
  if (options.code) {
    // Made of what is read: names of kernels are as there.
    const auto read = ir::parse_hlo(text, module.name);
    put_constants(read.get(), constants, ByteReader({}, "a program that is stored"));
    (void)make_plan(*read, planned.rematerializes, source);
  }
  body.list(code.all(), [&](const auto& one) {
    body.text(one.first);
    body.text(one.second);
  });
  return seal(body.take());
}

std::shared_ptr<const Executable> load_executable(std::string_view bytes,
                                                  std::vector<std::int32_t> process_of) {
  ByteReader in(unseal(bytes, "a stored program"), "a stored program");
  check_environment(read_environment(&in));
  Compilation c;
  c.options.keep_stages = false;
  c.options.process_of = std::move(process_of);
  c.next = Phase::done;
  read_record(&in, &c);
  const std::string name = in.text();
  c.module = ir::parse_hlo(in.view(), name);
  put_constants(c.module.get(), read_constants(&in), in);
  const bool rematerializes = in.flag();
  codegen::EmbeddedCode code;
  codegen::CodeSource source;
  source.code = &code;
  source.compiles = in.flag();
  source.workers = int(in.number(1, kMaxThreads, "a number of workers"));
  in.list([&] {
    std::string kernel = in.text();
    code.add(kernel, in.text());
  });
  if (!in.at_end()) in.fail("goes on behind its end");
  check_record(c, in);
  codegen::BuiltPlan built = make_plan(*c.module, rematerializes, source);
  codegen::plan_memory(&built.plan);
  runtime::finalize(&built.plan);
  if (env_flag("TESSERA_VERIFY", false)) runtime::verify_plan(built.plan);
  // What is known of it is told as of other programs: without the fusions.
  passes::inline_calls(c.module.get());
  passes::eliminate_common(c.module.get());
  return planned_executable(std::move(c), std::move(built));
}

}  // namespace tessera::compiler
