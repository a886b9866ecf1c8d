// SPDX-License-Identifier: Apache-2.0
// Calls that say how their derivative is computed: remat and custom-derivative.
#include <algorithm>

#include "src/ir/hooks.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

std::vector<Shape> shapes_of_operands(const Site& site) {
  std::vector<Shape> out;
  for (std::size_t i = 0; i < site.operands.size(); ++i) out.push_back(site.shape(i));
  return out;
}

std::vector<Shape> one_by_one(const Shape& result) {
  return result.is_tuple ? result.elements : std::vector<Shape>{result};
}

/// The shapes of the tangents, or cotangents, of values.
std::vector<Shape> tangents_of(std::span<const Shape> values) {
  std::vector<Shape> out;
  for (const Shape& s : values) {
    if (s.is_array() && (is_floating(s.dtype) || is_complex(s.dtype))) out.push_back(s);
  }
  return out;
}

void append(std::vector<Shape>* to, std::span<const Shape> more) {
  to->insert(to->end(), more.begin(), more.end());
}

std::string shapes_text(std::span<const Shape> shapes) {
  std::string out;
  for (const Shape& s : shapes) out += (out.empty() ? "" : ", ") + s.to_string();
  return "(" + out + ")";
}

/// The callee must give a tuple of exactly these.
void check_results(const Site& site, std::size_t callee, std::span<const Shape> expected,
                   const char* role) {
  const Shape& gives = site.result_of(callee);
  if (gives.is_tuple &&
      std::equal(gives.elements.begin(), gives.elements.end(), expected.begin(), expected.end())) {
    return;
  }
  site.shape_error(std::string(role) + " " + site.called[callee]->name() + " gives " +
                   gives.to_string() + " and must give " + shapes_text(expected));
}

void check_policy(const Site& site, const RematPolicy& p) {
  using Kind = RematPolicy::Kind;
  const bool offloads = p.kind == Kind::offload_dot_with_no_batch_dims ||
                        p.kind == Kind::save_and_offload_only_these_names;
  if (offloads == (p.from_memory.empty() || p.to_memory.empty())) {
    site.shape_error(offloads ? "a policy that offloads must name two kinds of memory"
                              : "a policy names kinds of memory, and offloads nothing");
  }
  const bool names = p.kind == Kind::save_only_these_names ||
                     p.kind == Kind::save_any_names_but_these ||
                     p.kind == Kind::save_anything_except_these_names ||
                     p.kind == Kind::save_and_offload_only_these_names;
  const bool offloads_names = p.kind == Kind::save_and_offload_only_these_names;
  if ((!names && !p.names.empty()) || (!offloads_names && !p.offloaded_names.empty())) {
    site.shape_error("a policy names values, and isn't about names");
  }
}

}  // namespace

Shape infer_remat(const Site& site) {
  site.need_called(1);
  site.check_parameters(0, shapes_of_operands(site), "body");
  for (const RematPolicy& p : site.get<RematAttrs>().policies) check_policy(site, p);
  return site.result_of(0);
}

Shape infer_custom_derivative(const Site& site) {
  const auto& a = site.get<CustomDerivativeAttrs>();
  const bool vjp = a.kind == CustomDerivativeAttrs::Kind::vjp;
  const bool zero =
      a.kind == CustomDerivativeAttrs::Kind::zero || a.kind == CustomDerivativeAttrs::Kind::batch;
  const std::size_t rules = zero ? 0 : vjp ? 2 : 1;
  const auto count = std::int64_t(site.operands.size());
  if (a.nondiff < 0 || a.nondiff > count) {
    site.shape_error("num_nondiff=" + std::to_string(a.nondiff) + " of " +
                     plural(site.operands.size(), "operand"));
  }
  if (site.called.size() != 1 && site.called.size() != 1 + rules) {
    site.shape_error(std::string("must call its primal") +
                     (zero  ? ""
                      : vjp ? ", and may call forward and backward"
                            : ", and may call jvp") +
                     "; it calls " + plural(site.called.size(), "computation"));
  }
  const std::vector<Shape> operands = shapes_of_operands(site);
  site.check_parameters(0, operands, "primal");
  if (site.called.size() == 1) return site.result_of(0);
  if (a.symbolic_zeros) {
    site.shape_error(
        "with symbolic_zeros the rule depends on which tangents are zero, and is no "
        "computation that is called");
  }
  const auto nondiff = std::size_t(a.nondiff);
  const std::vector<Shape> results = one_by_one(site.result_of(0));
  const std::vector<Shape> in_tangents = tangents_of(std::span(operands).subspan(nondiff));
  const std::vector<Shape> out_tangents = tangents_of(results);
  if (!vjp) {
    std::vector<Shape> takes = operands, gives = results;
    append(&takes, in_tangents);
    append(&gives, out_tangents);
    site.check_parameters(1, takes, "jvp");
    check_results(site, 1, gives, "jvp");
    return site.result_of(0);
  }
  // What it gives behind the results is kept for the way back.
  const Shape& forward = site.result_of(1);
  if (!forward.is_tuple || a.residuals < 0 ||
      forward.elements.size() != results.size() + std::size_t(a.residuals)) {
    site.shape_error("forward " + site.called[1]->name() + " gives " + forward.to_string() +
                     " and must give " + plural(results.size(), "result") + " and " +
                     std::to_string(a.residuals) + " residuals");
  }
  const auto residuals = std::span(forward.elements).subspan(results.size());
  std::vector<Shape> kept = results;
  append(&kept, residuals);
  site.check_parameters(1, operands, "forward");
  check_results(site, 1, kept, "forward");
  std::vector<Shape> takes(operands.begin(), operands.begin() + std::ptrdiff_t(nondiff));
  append(&takes, residuals);
  append(&takes, out_tangents);
  site.check_parameters(2, takes, "backward");
  check_results(site, 2, in_tangents, "backward");
  return site.result_of(0);
}

}  // namespace tessera::ir::inference
