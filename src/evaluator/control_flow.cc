// SPDX-License-Identifier: Apache-2.0
// Evaluates while, conditional, call and custom-call for the devices that take part.
#include <algorithm>
#include <atomic>

#include "src/evaluator/evaluator.h"
#include "src/evaluator/interpreter.h"
#include "src/evaluator/ops.h"
#include "src/ir/constraint.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/custom_calls/custom_call.h"

namespace tessera::evaluator {

Values Interpreter::run_while(const ir::Instruction& in, const Active& active, const Values& init) {
  const ir::Computation &condition = *in.called()[0], &body = *in.called()[1];
  Values results = init;
  Values state = init;
  Active running = active;
  std::vector<std::size_t> places;  // of the running devices, in `active`
  for (std::size_t i = 0; i < active.size(); ++i) places.push_back(i);
  divergences_.push_back({&in, {}});
  while (!running.empty()) {
    const Values goes_on = run(condition, running, {&state});
    Active still;
    Values next;
    std::vector<std::size_t> next_places;
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (goes_on[i].bytes()[0] != std::byte(0)) {
        still.push_back(running[i]);
        next.push_back(std::move(state[i]));
        next_places.push_back(places[i]);
      } else {
        results[places[i]] = std::move(state[i]);
        divergences_.back().away.push_back(running[i]);
      }
    }
    running = std::move(still);
    places = std::move(next_places);
    if (!running.empty()) state = run(body, running, {&next});
  }
  divergences_.pop_back();
  return results;
}

Values Interpreter::run_conditional(const ir::Instruction& in, const Active& active,
                                    const std::vector<const Values*>& operands) {
  const std::int64_t branches = std::int64_t(in.called().size());
  const bool by_pred = in.operands()[0]->shape.dtype == DType::pred;
  std::vector<std::int64_t> taken;
  for (std::size_t i = 0; i < active.size(); ++i) {
    std::int64_t branch = index_at((*operands[0])[i], 0);
    if (by_pred) {
      branch = branch != 0 ? 0 : 1;
    } else if (branch < 0 || branch >= branches) {
      branch = branches - 1;
    }
    taken.push_back(branch);
  }
  Values results(active.size());
  for (std::int64_t b = 0; b < branches; ++b) {
    Active here;
    std::vector<std::size_t> places;
    Values argument;
    Divergence divergence{&in, {}};
    for (std::size_t i = 0; i < active.size(); ++i) {
      if (taken[i] != b) {
        divergence.away.push_back(active[i]);
        continue;
      }
      here.push_back(active[i]);
      places.push_back(i);
      argument.push_back((*operands[std::size_t(b) + 1])[i]);
    }
    if (here.empty()) continue;
    divergences_.push_back(std::move(divergence));
    Values out = run(*in.called()[std::size_t(b)], here, {&argument});
    divergences_.pop_back();
    for (std::size_t i = 0; i < here.size(); ++i) results[places[i]] = std::move(out[i]);
  }
  return results;
}

Values Interpreter::run_call(const ir::Instruction& in, const Active& active,
                             const std::vector<const Values*>& operands) {
  return run(*in.called()[0], active, operands);
}

namespace {
std::atomic<CallFunction (*)(const ir::Instruction& call)> prepare_call{nullptr};
}  // namespace

Values Interpreter::run_custom_partitioning(const ir::Instruction& in, const Active& active,
                                            const std::vector<const Values*>& operands) {
  // A text may have lost its body.
  if (in.called().empty()) ir::need_custom_call(in);
  Values results = run(*in.called().at(0), active, operands);
  // A body may give a tuple of one where the call has the array itself, or the other way round.
  for (Literal& r : results) {
    if (r.is_tuple() && !in.shape.is_tuple && r.elements().size() == 1) {
      r = Literal(r.elements()[0]);
    } else if (!r.is_tuple() && in.shape.is_tuple && in.shape.elements.size() == 1) {
      r = Literal::tuple({Literal(r)});
    }
  }
  return results;
}

Values Interpreter::run_custom_call(const ir::Instruction& in, const Active& active,
                                    const std::vector<const Values*>& operands) {
  const std::string& target = in.get<ir::CustomCallAttrs>().target;
  if (ir::is_shard_shape_target(target)) {
    if (!(in.shape == in.operands().at(0)->shape)) {
      throw RuntimeError("custom-call to \"" + target + "\" at " + in.describe() +
                             " changes the shape from " + in.operands()[0]->shape.to_string() +
                             " to " + in.shape.to_string() +
                             "; run the program after it was partitioned",
                         in.location());
    }
    return *operands[0];
  }
  const ir::CustomCallTarget& known = ir::need_custom_call(in);
  ir::Module scratch;
  if (const ir::Computation* body = known.body(&scratch, in)) {
    // Plans are kept by computation, and this one goes.
    return Interpreter(mode_, grid_).run(*body, active, operands);
  }
  const auto prepare = prepare_call.load();
  if (prepare == nullptr) {
    throw NotImplementedError("custom call target \"" + target + "\" (" + in.describe() +
                                  ") can't be evaluated: no kernels are there",
                              in.location());
  }
  const CallFunction call = prepare(in);
  Values results;
  for (std::size_t i = 0; i < active.size(); ++i) {
    std::vector<const Literal*> xs;
    for (const Values* o : operands) xs.push_back(&(*o)[i]);
    results.push_back(call(xs));
  }
  return results;
}

void set_custom_calls(CallFunction (*prepare)(const ir::Instruction& call)) {
  prepare_call = prepare;
}

}  // namespace tessera::evaluator
