// SPDX-License-Identifier: Apache-2.0
// Each op that the op table declares linear is linear on random numbers, and each elementwise op
// that is linear is declared so.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <map>
#include <random>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/linearity.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"

namespace tessera {
namespace {

using ir::Linearity;
using ir::Opcode;

constexpr const char* kCallees = R"(
add { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT s = f64[] add(a, b) }
ge { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=GE }
)";

/// By op, the lines of an entry whose root it is and whose operands are parameters, in order.
const std::map<Opcode, const char*>& programs() {
  static const std::map<Opcode, const char*> all = {
      {Opcode::add,
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n ROOT r = f64[4] add(x, y)"},
      {Opcode::subtract,
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n ROOT r = f64[4] subtract(x, y)"},
      {Opcode::complex,
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n ROOT r = c128[4] complex(x, y)"},
      {Opcode::multiply,
       "x = c128[4] parameter(0)\n y = c128[4] parameter(1)\n ROOT r = c128[4] multiply(x, y)"},
      {Opcode::divide,
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n ROOT r = f64[4] divide(x, y)"},
      {Opcode::negate, "x = f64[4] parameter(0)\n ROOT r = f64[4] negate(x)"},
      {Opcode::real, "x = c128[4] parameter(0)\n ROOT r = f64[4] real(x)"},
      {Opcode::imag, "x = c128[4] parameter(0)\n ROOT r = f64[4] imag(x)"},
      {Opcode::convert, "x = f32[4] parameter(0)\n ROOT r = f64[4] convert(x)"},
      {Opcode::copy, "x = f64[4] parameter(0)\n ROOT r = f64[4] copy(x)"},
      {Opcode::sharding_constraint,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] custom-call(x), "
       "custom_call_target=\"Sharding\""},
      {Opcode::pvary,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] custom-call(x), "
       "custom_call_target=\"tessera.pvary\", manual_axes=[\"x\"]"},
      {Opcode::device_placement,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] custom-call(x), "
       "custom_call_target=\"MoveToHost\""},
      {Opcode::propagation_barrier,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] custom-call(x), "
       "custom_call_target=\"xla.sdy.PropagationBarrier\""},
      {Opcode::select,
       "p = pred[4] parameter(0)\n x = f64[4] parameter(1)\n y = f64[4] parameter(2)\n"
       "ROOT r = f64[4] select(p, x, y)"},
      {Opcode::broadcast,
       "x = f64[4] parameter(0)\n ROOT r = f64[4,3] broadcast(x), dimensions={0}"},
      {Opcode::reshape, "x = f64[4] parameter(0)\n ROOT r = f64[2,2] reshape(x)"},
      {Opcode::transpose,
       "x = f64[4,2] parameter(0)\n ROOT r = f64[2,4] transpose(x), dimensions={1,0}"},
      {Opcode::reverse, "x = f64[4] parameter(0)\n ROOT r = f64[4] reverse(x), dimensions={0}"},
      {Opcode::slice, "x = f64[4] parameter(0)\n ROOT r = f64[2] slice(x), slice={[1:4:2]}"},
      {Opcode::pad,
       "x = f64[4] parameter(0)\n z = f64[] parameter(1)\n ROOT r = f64[8] pad(x, z), "
       "padding=1_0_1"},
      {Opcode::concatenate,
       "x = f64[4] parameter(0)\n y = f64[2] parameter(1)\n ROOT r = f64[6] concatenate(x, y), "
       "dimensions={0}"},
      {Opcode::dynamic_slice,
       "x = f64[4] parameter(0)\n i = s32[] parameter(1)\n ROOT r = f64[2] dynamic-slice(x, i), "
       "dynamic_slice_sizes={2}"},
      {Opcode::dynamic_update_slice,
       "x = f64[4] parameter(0)\n y = f64[2] parameter(1)\n i = s32[] parameter(2)\n"
       "ROOT r = f64[4] dynamic-update-slice(x, y, i)"},
      {Opcode::gather,
       "x = f64[4,2] parameter(0)\n i = s32[3,1] parameter(1)\n ROOT r = f64[3,2] gather(x, i), "
       "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
       "slice_sizes={1,2}"},
      {Opcode::scatter,
       "x = f64[4,2] parameter(0)\n i = s32[3,1] parameter(1)\n u = f64[3,2] parameter(2)\n"
       "ROOT r = f64[4,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
      {Opcode::reduce,
       "x = f64[4,2] parameter(0)\n z = f64[] parameter(1)\n ROOT r = f64[2] reduce(x, z), "
       "dimensions={0}, to_apply=add"},
      {Opcode::reduce_window,
       "x = f64[4] parameter(0)\n z = f64[] parameter(1)\n ROOT r = f64[3] reduce-window(x, z), "
       "window={size=2}, to_apply=add"},
      {Opcode::select_and_scatter,
       "x = f64[4] parameter(0)\n s = f64[2] parameter(1)\n z = f64[] parameter(2)\n"
       "ROOT r = f64[4] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge, "
       "scatter=add"},
      {Opcode::dot,
       "x = f64[2,4] parameter(0)\n y = f64[4,3] parameter(1)\n ROOT r = f64[2,3] dot(x, y), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::convolution,
       "x = f64[1,6,2] parameter(0)\n k = f64[3,2,2] parameter(1)\n"
       "ROOT r = f64[1,4,2] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f"},
      {Opcode::ragged_dot,
       "x = f64[5,2] parameter(0)\n y = f64[2,2,1] parameter(1)\n g = s32[2] parameter(2)\n"
       "ROOT r = f64[5,1] ragged-dot(x, y, g), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"},
      {Opcode::scaled_dot,
       "x = f32[1,4] parameter(0)\n y = f32[1,4] parameter(1)\n a = f32[1,2] parameter(2)\n"
       "b = f32[1,1] parameter(3)\n ROOT r = f32[1,1] scaled-dot(x, y, a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
      {Opcode::fft,
       "x = f64[8] parameter(0)\n ROOT r = c128[5] fft(x), fft_type=RFFT, fft_length={8}"},
      {Opcode::triangular_solve,
       "a = f64[3,3] parameter(0)\n x = f64[3,2] parameter(1)\n"
       "ROOT r = f64[3,2] triangular-solve(a, x), left_side=true, lower=true, "
       "transpose_a=NO_TRANSPOSE"},
      {Opcode::dynamic_reshape,
       "x = f64[4] parameter(0)\n n = s32[] constant(4)\n ROOT r = f64[4] dynamic-reshape(x, n)"},
      {Opcode::tuple,
       "x = f64[4] parameter(0)\n y = f64[2] parameter(1)\n ROOT r = (f64[4], f64[2]) tuple(x, y)"},
      {Opcode::get_tuple_element,
       "x = (f64[4], f64[2]) parameter(0)\n ROOT r = f64[2] get-tuple-element(x), index=1"},
      {Opcode::opt_barrier, "x = f64[4] parameter(0)\n ROOT r = f64[4] opt-barrier(x)"},
      {Opcode::domain,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] domain(x), domain={kind=\"sharding\", "
       "entry={replicated}, exit={replicated}}"},
      {Opcode::add_dependency,
       "x = f64[4] parameter(0)\n t = token[] parameter(1)\n ROOT r = f64[4] add-dependency(x, t)"},
      {Opcode::all_gather,
       "x = f64[4] parameter(0)\n ROOT r = f64[8] all-gather(x), replica_groups={{0,1}}, "
       "channel_id=1, use_global_device_ids=true, dimensions={0}"},
      {Opcode::all_reduce,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] all-reduce(x), replica_groups={{0,1}}, "
       "channel_id=1, use_global_device_ids=true, to_apply=add"},
      {Opcode::reduce_scatter,
       "x = f64[4] parameter(0)\n ROOT r = f64[2] reduce-scatter(x), replica_groups={{0,1}}, "
       "channel_id=1, use_global_device_ids=true, dimensions={0}, to_apply=add"},
      {Opcode::all_to_all,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] all-to-all(x), replica_groups={{0,1}}, "
       "channel_id=1, dimensions={0}"},
      {Opcode::collective_permute,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] collective-permute(x), channel_id=1, "
       "source_target_pairs={{0,1}}"},
      {Opcode::collective_broadcast,
       "x = f64[4] parameter(0)\n ROOT r = f64[4] collective-broadcast(x), channel_id=1, "
       "replica_groups={{1,0}}"},
      // Each device sends one element to each, which lays it to its own place.
      {Opcode::ragged_all_to_all,
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n i = s32[2] constant({0, 2})\n"
       "n = s32[2] constant({1, 1})\n p = u32[] partition-id()\n q = s32[] convert(p)\n"
       "o = s32[2] broadcast(q), dimensions={}\n"
       "ROOT r = f64[4] ragged-all-to-all(x, y, i, n, o, n), channel_id=1, "
       "replica_groups={{0,1}}"},
      {Opcode::all_reduce_done, "x = f64[4] parameter(0)\n ROOT r = f64[4] all-reduce-done(x)"},
      {Opcode::all_gather_done,
       "x = (f64[4], f64[8]) parameter(0)\n ROOT r = f64[8] all-gather-done(x)"},
      {Opcode::collective_permute_done,
       "x = (f64[4], f64[4], u32[], u32[]) parameter(0)\n"
       "ROOT r = f64[4] collective-permute-done(x)"},
      {Opcode::copy_done,
       "x = (f64[4], f64[4], u32[]) parameter(0)\n ROOT r = f64[4] copy-done(x)"},
  };
  return all;
}

std::unique_ptr<ir::Module> parse(Opcode op, const char* body) {
  const bool devices = ir::is_collective(op);
  return ir::parse_hlo(std::string("HloModule m") + (devices ? ", num_partitions=2" : "") +
                           kCallees + "ENTRY e {\n" + body + "\n}\n",
                       "linear.hlo");
}

using Numbers = std::vector<std::complex<double>>;

class Values {
 public:
  /// Small integers; none is zero, so that what they divide or solve for is finite.
  Literal operator()(const Shape& shape) {
    if (shape.is_tuple) {
      std::vector<Literal> parts;
      for (const Shape& s : shape.elements) parts.push_back((*this)(s));
      return Literal::tuple(std::move(parts));
    }
    Literal out(shape);
    if (!shape.is_array()) return out;
    const auto next = [&] { return 1 + int(random_() % 4); };
    std::vector<double> v(std::size_t(out.element_count()));
    if (is_complex(shape.dtype)) {
      auto data = out.mutable_data<std::complex<double>>();
      for (auto& z : data) z = {double(next()), double(next())};
      return out;
    }
    const bool index = is_integer(shape.dtype) || shape.dtype == DType::pred;
    for (double& x : v) x = index ? next() % 2 : next();
    return make_literal(shape.dtype, shape.dims, v);
  }

 private:
  std::mt19937 random_{7};
};

/// a x + y, element by element; of integers x.
Literal combined(double a, const Literal& x, const Literal& y) {
  if (x.is_tuple()) {
    std::vector<Literal> parts;
    for (std::size_t k = 0; k < x.elements().size(); ++k) {
      parts.push_back(combined(a, x.elements()[k], y.elements()[k]));
    }
    return Literal::tuple(std::move(parts));
  }
  Literal out = x;
  if (x.dtype() == DType::f64) {
    auto to = out.mutable_data<double>();
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = a * to[k] + y.data<double>()[k];
  } else if (x.dtype() == DType::f32) {
    auto to = out.mutable_data<float>();
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = float(a) * to[k] + y.data<float>()[k];
  } else if (x.dtype() == DType::c128) {
    auto to = out.mutable_data<std::complex<double>>();
    for (std::size_t k = 0; k < to.size(); ++k) {
      to[k] = a * to[k] + y.data<std::complex<double>>()[k];
    }
  }
  return out;
}

void numbers(const Literal& x, Numbers* out) {
  if (x.is_tuple()) {
    for (const Literal& part : x.elements()) numbers(part, out);
  } else if (x.dtype() == DType::c128) {
    for (const auto& z : x.data<std::complex<double>>()) out->push_back(z);
  } else {
    for (const double v : to_vector<double>(x)) out->emplace_back(v);
  }
}

using Arguments = std::vector<std::vector<Literal>>;  // by device

Numbers run(const ir::Module& module, const Arguments& arguments) {
  Numbers out;
  for (const Literal& r : evaluator::evaluate_spmd(module, arguments)) numbers(r, &out);
  return out;
}

/// Whether f(a x + y) = a f(x) + f(y), where x and y differ in these operands.
bool is_linear(const ir::Module& module, std::uint32_t operands, Values& values) {
  constexpr double kFactor = -3;
  const auto& parameters = module.entry()->parameters();
  Arguments xs, ys, sums;
  for (std::int64_t device = 0; device < module.num_partitions; ++device) {
    xs.emplace_back();
    ys.emplace_back();
    sums.emplace_back();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const Literal x = values(parameters[k]->shape);
      const bool varies = (operands >> k & 1u) != 0;
      const Literal y = varies ? values(parameters[k]->shape) : x;
      xs.back().push_back(x);
      ys.back().push_back(y);
      sums.back().push_back(varies ? combined(kFactor, x, y) : x);
    }
  }
  const Numbers fx = run(module, xs), fy = run(module, ys), f = run(module, sums);
  for (std::size_t k = 0; k < f.size(); ++k) {
    const std::complex<double> expected = kFactor * fx[k] + fy[k];
    const double error = std::abs(f[k] - expected);
    if (!(error <= 1e-9 * (1 + std::abs(fx[k]) + std::abs(fy[k])))) return false;
  }
  return true;
}

TEST(Linearity, OpsAreAsLinearAsTheTableStates) {
  Values values;
  for (int n = 0; n < ir::opcode_count(); ++n) {
    const auto op = Opcode(n);
    SCOPED_TRACE(ir::name(op));
    const bool claimed = ir::info(op).linear.kind != Linearity::Kind::none;
    const auto it = programs().find(op);
    ASSERT_EQ(claimed, it != programs().end());
    if (!claimed) continue;
    const auto module = parse(op, it->second);
    const ir::Instruction& root = *module->entry()->root();
    ASSERT_EQ(root.opcode, op);
    const Linearity stated = ir::linearity(root);
    ASSERT_NE(stated.kind, Linearity::Kind::none);
    ASSERT_NE(stated.kind, Linearity::Kind::sums);
    const std::size_t count = module->entry()->parameters().size();
    for (int round = 0; round < 5; ++round) {
      if (stated.kind == Linearity::Kind::jointly) {
        EXPECT_TRUE(is_linear(*module, stated.operands, values));
        continue;
      }
      std::uint32_t both = 0;
      for (std::size_t k = 0; k < count; ++k) {
        if (!stated.in(k)) continue;
        both |= 1u << k;
        EXPECT_TRUE(is_linear(*module, 1u << k, values)) << "operand " << k;
      }
      EXPECT_FALSE(is_linear(*module, both, values)) << "jointly, and not in each only";
    }
  }
}

TEST(Linearity, LinearElementwiseOpsAreDeclaredLinear) {
  Values values;
  const Shape reals(DType::f64, {8});
  for (int n = 0; n < ir::opcode_count(); ++n) {
    const auto op = Opcode(n);
    const ir::OpcodeInfo& row = ir::info(op);
    if (!ir::is_elementwise(op) || (row.types & ir::types::floating) == 0 || row.operands > 2 ||
        op == Opcode::stochastic_convert || op == Opcode::convert) {
      continue;
    }
    SCOPED_TRACE(row.text);
    for (int k = 0; k < row.operands; ++k) {
      if (row.linear.in(std::size_t(k))) continue;
      ir::Module module;
      module.set_entry(module.add_computation("e"));
      ir::Builder b(module.entry());
      std::vector<ir::Instruction*> operands;
      for (int o = 0; o < row.operands; ++o) {
        // Between integers, where a rounding would look linear.
        ir::Instruction* x = b.parameter(o, reals, "x" + std::to_string(o));
        operands.push_back(
            b.binary(Opcode::divide, x, b.splat(b.constant(Literal::scalar(f64, 3.7)), {8})));
      }
      ir::Attributes attrs;
      if (op == Opcode::compare) attrs = ir::CompareAttrs{};
      if (op == Opcode::reduce_precision) attrs = ir::ReducePrecisionAttrs{8, 7};
      ir::Instruction* root = op == Opcode::bitcast_convert
                                  ? b.emit_shaped(op, Shape(DType::s64, {8}), operands, attrs)
                                  : b.emit(op, operands, attrs);
      module.entry()->set_root(root);
      EXPECT_FALSE(is_linear(module, 1u << k, values)) << "operand " << k;
    }
  }
}

}  // namespace
}  // namespace tessera
