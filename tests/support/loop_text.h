// SPDX-License-Identifier: Apache-2.0
// HLO text of loops that count their trips.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera::testing {

/// An array that a loop carries: its name in the body, and its shape.
struct CarriedText {
  std::string name, shape;
};

/// The computations of a loop that carries a counter, s32[], and some arrays.
class CountedLoopText {
 public:
  /// `counter`: its name in condition and body.
  CountedLoopText(std::string counter, std::vector<CarriedText> carried)
      : counter_(std::move(counter)), carried_(std::move(carried)) {}

  /// The shape of all that it carries.
  std::string state() const {
    std::string out = "(s32[]";
    for (const CarriedText& c : carried_) out += ", " + c.shape;
    return out + ")";
  }
  /// A condition: fewer trips than that were made.
  std::string condition(const std::string& name, int trips) const {
    return name + " {\n" + head() + "  trips = s32[] constant(" + std::to_string(trips) +
           ")\n  ROOT goes_on = pred[] compare(" + counter_ + ", trips), direction=LT\n}\n";
  }
  /// A body: `lines` compute what it passes on, `next`, from the counter and the arrays by name.
  std::string body(const std::string& name, const std::string& lines,
                   const std::string& next) const {
    return name + " {\n" + head() + elements() +
           "  one = s32[] constant(1)\n  counted = s32[] add(" + counter_ + ", one)\n" + lines +
           "  ROOT passed_on = " + state() + " tuple(counted, " + next + ")\n}\n";
  }
  /// The loop `name`, from zero and `init`; condition and body are `condition` and `body`.
  std::string loop(const std::string& name, const std::string& init) const {
    return "  start = s32[] constant(0)\n  first = " + state() + " tuple(start, " + init + ")\n  " +
           name + " = " + state() + " while(first), condition=condition, body=body\n";
  }

 private:
  std::string head() const {
    return "  carried = " + state() + " parameter(0)\n  " + counter_ +
           " = s32[] get-tuple-element(carried), index=0\n";
  }

  std::string elements() const {
    std::string out;
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      out += "  " + carried_[k].name + " = " + carried_[k].shape +
             " get-tuple-element(carried), index=" + std::to_string(k + 1) + "\n";
    }
    return out;
  }

  std::string counter_;
  std::vector<CarriedText> carried_;
};

}  // namespace tessera::testing
