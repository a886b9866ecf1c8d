// SPDX-License-Identifier: Apache-2.0
// Operations outside of any trace: each is traced as a program of its own and run.
#include "src/base/at_location.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/trace/explicit_values.h"

namespace tessera::frontend {

namespace {

std::vector<Array> run_as_one_program(const std::string& name, Location location,
                                      const std::function<std::vector<Array>()>& body) {
  Program program;
  program.name = name;
  program.location = location;
  std::vector<Array> args;
  {
    Trace trace(name, static_cast<Trace*>(nullptr));
    trace.set_eager();
    std::vector<Array> results;
    {
      const ActiveTrace active(&trace);
      results = body();
      for (const Array& r : results) {
        program.results.push_back({stated_sharding(r), "", trace.gradient_by_parameter(r)});
      }
    }
    trace.finish(results, location);
    for (const Array& r : results) {
      program.result_weak.push_back(r.weak_type());
    }
    args = trace.captures();
    program.mesh_uses = trace.mesh_uses();
    program.module = trace.take_module();
  }
  program.parameters.resize(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    program.parameters[i].who = "operand " + std::to_string(i) + " of " + name;
  }
  program.donated.assign(args.size(), false);
  return run_program(bind_program(std::move(program), args), args, location);
}

}  // namespace

std::vector<Array> as_one_program(const std::string& name, Location location,
                                  const std::function<std::vector<Array>()>& body) {
  if (Trace::current()) return at_location(location, body);
  return at_location(location, [&] { return run_as_one_program(name, location, body); });
}

}  // namespace tessera::frontend
