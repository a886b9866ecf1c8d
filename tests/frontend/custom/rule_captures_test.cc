// SPDX-License-Identifier: Apache-2.0
// Rules of custom_jvp, custom_vjp and custom_vmap that use arrays from outside. The numbers, and
// what is refused, are JAX's; it also refuses rules that a function jitted further inside hides.
#include <tessera/control_flow.h>
#include <tessera/custom/custom_batching.h>
#include <tessera/custom_derivative.h>
#include <tessera/derivatives.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/vmap.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using Function = std::function<Array(Array)>;

/// Who captures y: it is a factor there.
enum class Captor { function, jvp_rule, forward, backward };

/// sin(x), with ten times dx as its derivative.
Function capturing(const Array& y, Captor who, bool by_jvp = false) {
  const auto if_it_is = [who, y](Captor c, const Array& x) { return who == c ? x * y : x; };
  const auto f = [=](Array x) { return if_it_is(Captor::function, sin(x)); };
  if (who == Captor::jvp_rule || by_jvp) {
    auto g = custom_jvp(f, "captor");
    g.def_jvp([=](std::tuple<Array> x, std::tuple<Array> dx) {
      return std::pair(f(std::get<0>(x)), if_it_is(Captor::jvp_rule, 10.0f * std::get<0>(dx)));
    });
    return [g](Array x) { return g(x); };
  }
  auto g = custom_vjp(f, "captor");
  g.def_vjp([=](Array x) { return std::pair(if_it_is(Captor::forward, f(x)), x); },
            [=](Array, Array ct) { return if_it_is(Captor::backward, 10.0f * ct); });
  return [g](Array x) { return g(x); };
}

float slope(const Function& f) { return f(Array(3.0f)).item<float>(); }

TEST(RuleCaptures, AreOperandsWhereNothingDifferentiatesThem) {
  for (const Captor who : {Captor::function, Captor::jvp_rule, Captor::forward, Captor::backward}) {
    SCOPED_TRACE(int(who));
    const bool scaled = who == Captor::jvp_rule || who == Captor::backward;
    const float once = scaled ? 30.0f : 10.0f;
    const Array two(2.0f);
    EXPECT_EQ(slope(jit([=](Array y) { return grad(capturing(y, who))(two); })), once);
    EXPECT_EQ(slope(jit([=](Array y) { return grad(jit(capturing(y, who)))(two); })), once);
    EXPECT_EQ(slope([=](Array y) { return grad(capturing(y, who))(two); }), once);
    EXPECT_EQ(
        slope([=](Array y) {
          return grad(capturing(device_put(y, devices()[1]), who))(device_put(two, devices()[1]));
        }),
        once);
    const auto steps = [=](Array y) {
      return grad([=](Array x) {
        return scan([=](Array c, Array) { return std::pair(capturing(y, who)(c), c); }, x,
                    counting({3}))
            .first;
      })(two);
    };
    EXPECT_EQ(slope(jit(steps)), once * once * once);
    EXPECT_EQ(slope(steps), once * once * once);
    const std::vector<float> want =
        scaled ? std::vector<float>{0, 10, 20} : std::vector<float>{10, 10, 10};
    expect_close(
        floats(scan([=](Array c, Array y) { return std::pair(c, grad(capturing(y, who))(c)); }, two,
                    counting({3}))
                   .second),
        want);
    expect_close(floats(vmap([=](Array y) { return grad(capturing(y, who))(two); })(counting({3}))),
                 want);
    EXPECT_EQ(grad([=](Array x) {
                return sum(vmap([=](Array y) { return capturing(y, who)(x); })(counting({3})));
              })(two)
                  .item<float>(),
              30);
    EXPECT_EQ(slope(jit(grad([=](Array y) { return capturing(stop_gradient(y), who)(y); }))), once);
    EXPECT_EQ(slope(jit([=](Array y) {
                const auto [value, back] = vjp(capturing(y, who), two);
                return back(Array(1.0f));
              })),
              once);
  }
}

TEST(RuleCaptures, HaveNoDerivativeThroughTheRule) {
  const Array two(2.0f);
  for (const Captor who : {Captor::jvp_rule, Captor::forward, Captor::backward}) {
    SCOPED_TRACE(int(who));
    // The rule isn't needed: the argument has no derivative.
    EXPECT_EQ(slope(grad([=](Array y) { return capturing(y, who)(two); })), 0);
    // What the rule gave is differentiated as anything.
    EXPECT_EQ(slope(grad([=](Array y) { return grad(capturing(y, who))(two); })),
              who == Captor::forward ? 0 : 10);
    expect_error<NotImplementedError>(
        [=] { grad([=](Array y) { return capturing(y, who)(y); })(two); },
        {"captor captures an array that is differentiated, of which its rule knows nothing; pass "
         "it "
         "as an argument"});
    expect_error<NotImplementedError>(
        [=] { jit(grad(jit([=](Array y) { return capturing(y, who)(y); })))(two); },
        {"captor captures an array"});
  }
  for (const bool by_jvp : {true, false}) {
    for (const bool argument_too : {true, false}) {
      expect_error<NotImplementedError>(
          [=] {
            grad([=](Array y) {
              return capturing(y, Captor::function, by_jvp)(argument_too ? y : two);
            })(two);
          },
          {"captor captures an array that is differentiated"});
    }
  }
}

TEST(RuleCaptures, OfRulesThatCallTheFunctionAndOthers) {
  // f' = y f by its rule, which another rule's function uses in a loop.
  const auto make = [](Array y) {
    auto f = std::make_shared<CustomJvp<Function>>(
        custom_jvp(Function([](Array x) { return sin(x); }), "f"));
    f->def_jvp([y, at = std::weak_ptr(f)](std::tuple<Array> x, std::tuple<Array> dx) {
      const Array value = (*at.lock())(std::get<0>(x));
      return std::pair(value,
                       fori_loop(
                           0, 1, [&](Array, Array c) { return c * y; }, value * std::get<0>(dx)));
    });
    return f;
  };
  const Array x(0.5f);
  const float sine = std::sin(0.5f);
  const auto third = jit([=](Array y) {
    const auto f = make(y);
    return grad(grad(grad([=](Array v) { return (*f)(v); })))(x);
  });
  EXPECT_NEAR(slope(third), 27 * sine, 1e-4);
  const auto nested = jit([=](Array y) {
    const auto f = make(y);
    auto g = custom_vjp([](Array v) { return v; }, "g");
    g.def_vjp([](Array v) { return std::pair(v, v); },
              [f](Array v, Array ct) { return ct * (*f)(v); });
    return grad(grad([=](Array v) { return g(v); }))(x);
  });
  EXPECT_NEAR(slope(nested), 3 * sine, 1e-5);
}

TEST(RuleCaptures, OfRulesForBatches) {
  const auto make = [](Array y) {
    auto f = custom_vmap([](Array x) { return x * 2.0f; }, "doubled");
    f.def_vmap([y](const BatchInfo&, Array x) { return x * y; });
    return f;
  };
  const auto batched = [=](Array y) {
    const auto f = make(y);
    return vmap([=](Array x) { return f(x); })(counting({3}));
  };
  expect_close(jit(batched)(Array(3.0f)), counting({3}, 3));
  expect_close(batched(device_put(Array(3.0f), devices()[1])), counting({3}, 3));
  const auto in_loop = [=](Array c, Array y) { return std::pair(c, batched(y)); };
  expect_close(floats(scan(in_loop, Array(0.0f), counting({2})).second), {0, 0, 0, 0, 1, 2});
  expect_error<ValueError>(
      [=] {
        vmap([=](Array y) {
          const auto f = make(y);
          return f(y);
        })(counting({3}));
      },
      {"doubled captures an array", "differs between the entries of a batch"});
}

}  // namespace
}  // namespace tessera::testing
