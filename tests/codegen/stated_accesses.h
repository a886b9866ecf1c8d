// SPDX-License-Identifier: Apache-2.0
// Whether the kernels of a program touch what they state, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/runtime/buffer.h"
#include "src/runtime/plan_walk.h"

namespace tessera::testing {

/// Runs the steps of a plan of one device one by one; and each kernel that states what its units
/// write for some of its units, too: with the bits turned of all that these don't read, and of all
/// that they are to write. Chains and workers believe what is stated.
class StatedAccesses {
 public:
  /// `element`: bytes of the program's longest element.
  StatedAccesses(const codegen::PlannedProgram& program, std::int64_t element, std::uint64_t seed)
      : program_(program),
        element_(element),
        engine_(seed),
        memory_(program.built.plan.slots.size()) {}

  int checked() const { return checked_; }

  void check(const std::vector<Literal>& arguments) {
    const runtime::Plan& plan = program_.built.plan;
    for (std::size_t p = 0; p < plan.parameters.size(); ++p) {
      const Literal& given = arguments.at(p);
      set(plan.parameters[p], given.bytes(), given.byte_count());
    }
    for (const auto& constant : plan.constants) {
      set(constant.slot, constant.values.at(0)->data(), constant.values.at(0)->bytes());
    }
    for (const runtime::Step& step : plan.entry.steps) {
      const runtime::KernelTask* task = runtime::task_of(step);
      if (task == nullptr) return;  // loops and branches: what is behind them isn't known
      run(*task, step.name);
    }
  }

 private:
  using Bytes = std::shared_ptr<runtime::Storage>;
  struct Range {
    std::int64_t begin, end;
  };

  std::int64_t bytes_of(runtime::SlotId s) const {
    return program_.built.plan.slots[std::size_t(s)].bytes;
  }
  Bytes& of(runtime::SlotId s) { return memory_[std::size_t(s)]; }
  void set(runtime::SlotId s, const void* from, std::size_t bytes) {
    of(s) = runtime::Storage::allocate(bytes);
    if (bytes > 0) std::memcpy(of(s)->data(), from, bytes);
  }
  static Bytes copy_of(const Bytes& x, std::int64_t bytes) {
    Bytes out = runtime::Storage::allocate(std::size_t(bytes));
    if (bytes > 0) std::memcpy(out->data(), x->data(), std::size_t(bytes));
    return out;
  }
  static void turn(const Bytes& x, Range but, std::int64_t bytes) {
    for (std::int64_t k = 0; k < bytes; ++k) {
      if (k < but.begin || k >= but.end) x->data()[k] = ~x->data()[k];
    }
  }

  static void call(const runtime::Kernel& kernel, const std::vector<Bytes>& in,
                   const std::vector<Bytes>& out, Range units) {
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const Bytes& x : in) inputs.push_back(x->data());
    for (const Bytes& x : out) outputs.push_back(x->data());
    kernel.function(
        {kernel.attributes.get(), inputs.data(), outputs.data(), units.begin, units.end});
  }

  void run(const runtime::KernelTask& task, const std::string& name) {
    const codegen::KernelDescriptor& described = program_.kernels.at(task.kernel);
    const runtime::Kernel kernel = described.make();
    std::vector<Bytes> inputs, outputs, before;
    for (const runtime::SlotId s : task.inputs) inputs.push_back(of(s));
    for (std::size_t o = 0; o < task.outputs.size(); ++o) {
      Bytes out = runtime::Storage::allocate(std::size_t(bytes_of(task.outputs[o])));
      std::memset(out->data(), 0, std::size_t(bytes_of(task.outputs[o])));
      bool keeps = false;  // it writes a part of what is there
      for (const auto& r : task.reuse) {
        if (!r.copy || std::size_t(r.output) != o) continue;
        out = copy_of(inputs[std::size_t(r.input)], bytes_of(task.outputs[o]));
        keeps = true;
      }
      before.push_back(keeps ? copy_of(out, bytes_of(task.outputs[o])) : nullptr);
      outputs.push_back(std::move(out));
    }
    call(kernel, inputs, outputs, {0, task.units});
    for (std::size_t o = 0; o < task.outputs.size(); ++o) of(task.outputs[o]) = outputs[o];
    if (!described.access.makes_own() || task.units < 2) return;
    const std::int64_t parts = whole_parts(task, described.access);
    if (parts < 2) return;
    for (int k = 0; k < 2; ++k, ++checked_) {
      const auto begin = std::int64_t(engine_() % std::uint64_t(parts));
      const auto end = begin + 1 + std::int64_t(engine_() % std::uint64_t(parts - begin));
      const Range units{begin * (task.units / parts), end * (task.units / parts)};
      const std::string what = name + ", units " + std::to_string(units.begin) + " to " +
                               std::to_string(units.end) + " of " + std::to_string(task.units);
      check_units(task, described, kernel, {inputs, outputs, before}, units, what);
    }
  }

  /// Into how many parts its units fall, at most, each with whole elements of all that is shared.
  std::int64_t whole_parts(const runtime::KernelTask& task, const codegen::Accesses& access) const {
    std::int64_t out = task.units;
    const auto add = [&](runtime::SlotId s) { out = std::gcd(out, bytes_of(s) / element_); };
    for (const runtime::SlotId s : task.outputs) add(s);
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      if (access.reads_own(k)) add(task.inputs[k]);
    }
    return out;
  }

  struct Arrays {
    const std::vector<Bytes>&inputs, &outputs, &before;
  };

  void check_units(const runtime::KernelTask& task, const codegen::KernelDescriptor& described,
                   const runtime::Kernel& kernel, const Arrays& arrays, Range units,
                   const std::string& what) {
    const auto share = [&](std::int64_t bytes, std::int64_t of, Range r) {
      EXPECT_TRUE(bytes * r.begin % of == 0 && bytes * r.end % of == 0) << what;
      return Range{bytes * r.begin / of, bytes * r.end / of};
    };
    // What units of a group read is the group's, also of fewer and larger groups.
    const auto of_groups = [&](std::int64_t bytes) {
      const std::int64_t groups = std::gcd(described.access.groups, bytes / element_);
      const std::int64_t each = task.units / groups;
      return share(bytes, groups, {units.begin / each, (units.end - 1) / each + 1});
    };
    std::vector<Bytes> inputs, outputs;
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      const std::int64_t bytes = bytes_of(task.inputs[k]);
      const codegen::Share stated = described.access.share(k);
      if (stated == codegen::Share::whole || bytes < element_) {
        inputs.push_back(arrays.inputs[k]);
        continue;
      }
      inputs.push_back(copy_of(arrays.inputs[k], bytes));
      turn(inputs.back(),
           stated == codegen::Share::own ? share(bytes, task.units, units) : of_groups(bytes),
           bytes);
    }
    for (std::size_t o = 0; o < task.outputs.size(); ++o) {
      const std::int64_t bytes = bytes_of(task.outputs[o]);
      outputs.push_back(copy_of(arrays.before[o] ? arrays.before[o] : arrays.outputs[o], bytes));
      if (!arrays.before[o]) turn(outputs.back(), {0, 0}, bytes);
    }
    const std::vector<Bytes> untouched = [&] {
      std::vector<Bytes> out;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        out.push_back(copy_of(outputs[o], bytes_of(task.outputs[o])));
      }
      return out;
    }();
    call(kernel, inputs, outputs, units);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::int64_t bytes = bytes_of(task.outputs[o]);
      const Range own = share(bytes, task.units, units);
      const auto same = [&](const Bytes& with, std::int64_t begin, std::int64_t end) {
        return std::equal(outputs[o]->data() + begin, outputs[o]->data() + end,
                          with->data() + begin);
      };
      EXPECT_TRUE(same(arrays.outputs[o], own.begin, own.end))
          << what << ": result " << o << " depends on what units state that they don't read";
      EXPECT_TRUE(same(untouched[o], 0, own.begin) && same(untouched[o], own.end, bytes))
          << what << ": result " << o << " is written where other units are";
    }
  }

  const codegen::PlannedProgram& program_;
  std::int64_t element_;
  int checked_ = 0;
  std::mt19937_64 engine_;
  std::vector<Bytes> memory_;
};

}  // namespace tessera::testing
