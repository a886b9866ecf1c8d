// SPDX-License-Identifier: Apache-2.0
// Loops whose trips are steps of stencils: several fields, coefficients, fixed borders and what is
// told of each step; several steps at once give the bits of one after the other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/while_view.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/partitioner/stencils/stencils.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

/// Small arrays count as large ones.
spmd::PartitionOptions small_options() {
  spmd::PartitionOptions options;
  options.least_looped_bytes = 1024;
  return options;
}

/// Loops over fields of one shape. The body is made of rolls, shifts with fill, mirrored and copied
/// edges, updates of the interior, and sums of what these give.
class LoopProgram {
 public:
  struct Field {
    std::string name;
    bool changes = true;
  };

  LoopProgram(Dims dims, std::string sharding, std::int64_t trips)
      : dims_(std::move(dims)), sharding_(std::move(sharding)), trips_(trips) {}

  void carry(const std::string& name, bool changes) { fields_.push_back({name, changes}); }

  std::string shape() const { return "f32[" + join(dims_) + "]"; }

  std::string emit(const std::string& op) { return emit(shape(), op); }
  std::string emit(const std::string& of, const std::string& op) {
    const std::string name = "v" + std::to_string(made_++);
    body_ += name + " = " + of + " " + op + "\n";
    return name;
  }

  std::string cut(const std::string& x, std::size_t d, std::int64_t begin, std::int64_t end) {
    Dims dims = dims_;
    dims[d] = end - begin;
    std::string text = "slice(" + x + "), slice={";
    for (std::size_t k = 0; k < dims.size(); ++k) {
      text += (k > 0 ? ", [" : "[") + std::to_string(k == d ? begin : 0) + ":" +
              std::to_string(k == d ? end : dims[k]) + "]";
    }
    return emit("f32[" + join(dims) + "]", text + "}");
  }
  std::string rolled(const std::string& x, std::size_t d, std::int64_t by) {
    const std::int64_t n = dims_[d], at = by > 0 ? n - by : -by;
    return emit("concatenate(" + cut(x, d, at, n) + ", " + cut(x, d, 0, at) + "), dimensions={" +
                std::to_string(d) + "}");
  }
  std::string shifted(const std::string& x, std::size_t d, std::int64_t by) {
    const std::string low = std::to_string(by) + "_" + std::to_string(-by);
    return emit("pad(" + x + ", fill), padding=" + (d == 0 ? low + "x0_0" : "0_0x" + low));
  }
  /// By one, with its own edge at the end.
  std::string copied(const std::string& x, std::size_t d, bool up) {
    const std::int64_t n = dims_[d];
    const std::string parts = up ? cut(x, d, 0, 1) + ", " + cut(x, d, 0, n - 1)
                                 : cut(x, d, 1, n) + ", " + cut(x, d, n - 1, n);
    return emit("concatenate(" + parts + "), dimensions={" + std::to_string(d) + "}");
  }
  /// Where the border isn't.
  std::string inside(const std::string& x, const std::string& of) {
    const std::string inner =
        emit("f32[" + std::to_string(dims_[0] - 2) + "," + std::to_string(dims_[1]) + "]",
             "slice(" + of + "), slice={[1:" + std::to_string(dims_[0] - 1) +
                 "], [0:" + std::to_string(dims_[1]) + "]}");
    return emit("dynamic-update-slice(" + x + ", " + inner + ", one, nought)");
  }

  /// `next`: of the fields that change. `told`: an f32[1] of each step that is kept; may be empty.
  std::string text(const std::vector<std::string>& next, const std::string& told) const {
    const std::string all = "(s32[]" +
                            [&] {
                              std::string s;
                              for (std::size_t k = 0; k < fields_.size(); ++k) s += ", " + shape();
                              return s;
                            }() +
                            ", f32[" + std::to_string(trips_) + "])";
    const std::string last = std::to_string(fields_.size() + 1);
    const std::string kept = "f32[" + std::to_string(trips_) + "]";
    std::string body =
        "step {\n c = " + all + " parameter(0)\n i = s32[] get-tuple-element(c), index=0\n";
    std::string results = "n", inits = "nought";
    std::size_t changed = 0;
    for (std::size_t k = 0; k < fields_.size(); ++k) {
      const Field& f = fields_[k];
      body +=
          f.name + " = " + shape() + " get-tuple-element(c), index=" + std::to_string(k + 1) + "\n";
      results += ", " + (f.changes ? next[changed++] : f.name);
      inits += ", " + f.name;
    }
    body += "kept = " + kept + " get-tuple-element(c), index=" + last + "\n" +
            "one = s32[] constant(1)\nnought = s32[] constant(0)\nfill = f32[] constant(3)\n" +
            "n = s32[] add(i, one)\n" + body_;
    std::string more = "kept";
    if (!told.empty()) {
      body += "more = " + kept + " dynamic-update-slice(kept, " + told + ", i)\n";
      more = "more";
    }
    body += "ROOT r = " + all + " tuple(" + results + ", " + more + ")\n}\n";
    std::string entry = "ENTRY e {\n";
    std::string out, root;
    for (std::size_t k = 0; k < fields_.size(); ++k) {
      entry += fields_[k].name + " = " + shape() + " parameter(" + std::to_string(k) + ")" +
               (sharding_.empty() ? "" : ", sharding={" + sharding_ + "}") + "\n";
      root += (k > 0 ? ", " : "") + ("r" + std::to_string(k));
      out += (k > 0 ? ", " : "") + shape();
    }
    entry += "nought = s32[] constant(0)\nz = f32[] constant(0)\nkept = " + kept +
             " broadcast(z), dimensions={}\nt = " + all + " tuple(" + inits +
             ", kept)\nw = " + all + " while(t), condition=goes_on, body=step\n";
    for (std::size_t k = 0; k <= fields_.size(); ++k) {
      entry += "r" + std::to_string(k) + " = " + (k < fields_.size() ? shape() : kept) +
               " get-tuple-element(w), index=" + std::to_string(k + 1) + "\n";
    }
    const std::string of_result = sharding_.empty() ? "{replicated}" : "{" + sharding_ + "}";
    std::string shardings;
    for (std::size_t k = 0; k < fields_.size(); ++k) shardings += of_result + ", ";
    entry += "ROOT out = (" + out + ", " + kept + ") tuple(" + root + ", r" +
             std::to_string(fields_.size()) + "), sharding={" + shardings + "{replicated}}\n}\n";
    return "HloModule m, num_partitions=" + std::string(sharding_.empty() ? "1" : "8") +
           "\nmost { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, "
           "b) }\n" +
           "goes_on { c = " + all +
           " parameter(0)\n i = s32[] get-tuple-element(c), index=0\n k = s32[] constant(" +
           std::to_string(trips_) + ")\n ROOT l = pred[] compare(i, k), direction=LT }\n" + body +
           entry;
  }

 private:
  Dims dims_;
  std::string sharding_, body_;
  std::int64_t trips_;
  std::vector<Field> fields_;
  int made_ = 0;
};

/// A random step, as text.
std::string random_loop(std::uint64_t seed, bool on_mesh) {
  Dice dice(seed);
  struct Split {
    const char* text;
    std::int64_t ways[2];
  };
  static constexpr Split kSplits[] = {{"devices=[8,1]<=[8]", {8, 1}},
                                      {"devices=[1,8]<=[8]", {1, 8}},
                                      {"devices=[4,2]<=[8]", {4, 2}},
                                      {"devices=[2,4]<=[4,2]T(1,0)", {2, 4}},
                                      {"devices=[4,1,2]<=[8] last_tile_dim_replicate", {4, 1}}};
  const Split& split = kSplits[std::size_t(dice.below(5))];
  Dims dims;
  for (const std::int64_t ways : split.ways) {
    dims.push_back(on_mesh && ways > 1 ? ways * dice.between(16, 28) : dice.between(24, 40));
  }
  LoopProgram p(dims, on_mesh ? split.text : "", dice.between(3, 7));
  const std::int64_t changing = dice.between(1, 3), constant = dice.below(2);
  std::vector<std::string> values;
  for (std::int64_t k = 0; k < changing + constant; ++k) {
    values.push_back(std::string(1, char('A' + k)));
    p.carry(values.back(), k < changing);
  }
  const auto any = [&] { return values[std::size_t(dice.below(std::int64_t(values.size())))]; };
  std::vector<std::string> next;
  for (std::int64_t k = 0; k < changing; ++k) {
    std::string sum = any();
    for (std::int64_t n = dice.between(1, 4); n > 0; --n) {
      const std::size_t d = std::size_t(dice.below(2));
      const std::int64_t by = dice.chance(0.5) ? 1 : -1;
      std::string part;
      switch (dice.below(5)) {
        case 0:
        case 1:
          part = p.rolled(any(), d, by * dice.between(1, 2));
          break;
        case 2:
          part = p.shifted(any(), d, by);
          break;
        case 3:
          part = p.copied(any(), d, by > 0);
          break;
        default:
          part = p.inside(any(), any());
      }
      sum = p.emit((dice.chance(0.5) ? "maximum(" : "subtract(") + sum + ", " + part + ")");
    }
    next.push_back(sum);
    values.push_back(sum);  // others are made of what this one became
  }
  std::string told;
  if (dice.chance(0.5)) {
    if (dice.chance(0.5)) {
      const std::string at = "f32[1,1] slice(" + next.back() + "), slice={[3:4], [5:6]}";
      told = p.emit("f32[1]", "reshape(" + p.emit("f32[1,1]", at.substr(9)) + ")");
    } else {
      told = p.emit("f32[1]", "reshape(" +
                                  p.emit("f32[]", "reduce(" + next.front() +
                                                      ", fill), dimensions={0,1}, to_apply=most") +
                                  ")");
    }
  }
  return p.text(next, told);
}

std::int64_t soak_number(const char* variable, std::int64_t fallback) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

TEST(StencilLoops, OnOneDevice) {
  const std::int64_t first = soak_number("SOAK_SEED", 1), count = soak_number("SOAK_PROGRAMS", 150);
  std::int64_t tiled = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_loop(std::uint64_t(seed), false);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    Dice dice{std::uint64_t(seed)};
    const auto tile = [](ir::Module* m) { return spmd::tile_stencil_loops(m, small_options()); };
    tiled += keeps_results(module.get(), random_arguments(*module, dice), tile) > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GE(tiled, count / 2);
}

TEST(StencilLoops, OnMeshes) {
  const std::int64_t first = soak_number("SOAK_SEED", 1), count = soak_number("SOAK_PROGRAMS", 40);
  std::int64_t tiled = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const std::string text = random_loop(std::uint64_t(seed), true);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const PartitionCase c = check_partition(ir::parse_hlo(text), 0, {}, small_options());
    for (const auto& computation : c.device->computations()) {
      for (const auto& i : computation->instructions()) {
        if (!i->is(Opcode::while_)) continue;
        tiled +=
            ir::WhileView(*i).size() >
                    ir::WhileView(*ir::parse_hlo(text)->entry()->root()->operand(0)->operand(0))
                        .size()
                ? 1
                : 0;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(tiled, count / 4);
}

}  // namespace
}  // namespace tessera::testing
