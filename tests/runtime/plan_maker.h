// SPDX-License-Identifier: Apache-2.0
// Makes plans by hand, on arrays of floats.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/executor.h"

namespace tessera::testing {

using namespace runtime;

inline DeviceBuffer floats(const std::vector<float>& values) {
  DeviceBuffer b{Storage::allocate(values.size() * sizeof(float))};
  std::memcpy(storage_of(b)->data(), values.data(), b.bytes());
  return b;
}
inline std::vector<float> values(const DeviceBuffer& b) {
  std::vector<float> out(b.bytes() / sizeof(float));
  std::memcpy(out.data(), bytes_of(b), b.bytes());
  return out;
}

/// out = in[0] + in[1], or + 1 if there is one input.
inline void add_kernel(const KernelCall& call) {
  const auto* a = reinterpret_cast<const float*>(call.inputs[0]);
  const auto* b = reinterpret_cast<const float*>(call.inputs[1]);
  auto* out = reinterpret_cast<float*>(call.outputs[0]);
  for (auto i = call.begin; i < call.end; ++i) out[i] = a[i] + b[i];
}
inline void increment_kernel(const KernelCall& call) {
  const auto* a = reinterpret_cast<const float*>(call.inputs[0]);
  auto* out = reinterpret_cast<float*>(call.outputs[0]);
  for (auto i = call.begin; i < call.end; ++i) out[i] = a[i] + 1;
}
/// out (one byte) = in[0][0] < in[1][0].
inline void less_kernel(const KernelCall& call) {
  float a, b;
  std::memcpy(&a, call.inputs[0], sizeof a);
  std::memcpy(&b, call.inputs[1], sizeof b);
  call.outputs[0][0] = std::byte(a < b);
}
inline void add_floats(const void*, std::byte* into, const std::byte* value, std::int64_t count) {
  auto* a = reinterpret_cast<float*>(into);
  const auto* b = reinterpret_cast<const float*>(value);
  for (std::int64_t i = 0; i < count; ++i) a[i] += b[i];
}

struct PlanMaker {
  Plan plan;

  explicit PlanMaker(std::int64_t devices) {
    plan.num_devices = devices;
    plan.classes = {DeviceClasses::uniform(devices), DeviceClasses::distinct(devices)};
  }
  ClassesId classes(const std::vector<std::vector<std::int64_t>>& keys) {
    plan.classes.push_back(DeviceClasses::by_key(keys));
    return ClassesId(plan.classes.size()) - 1;
  }
  SlotId slot(std::int64_t bytes, ClassesId c) {
    plan.slots.push_back({bytes, c, 0});
    return SlotId(plan.slots.size()) - 1;
  }
  SlotId parameter(std::int64_t elements, ClassesId c) {
    plan.parameters.push_back(slot(4 * elements, c));
    return plan.parameters.back();
  }
  static Step step(const std::string& name, unsigned line) {
    Step s;
    s.name = name;
    s.location = Location{"model.cc", line};
    return s;
  }
  static Step kernel(const std::string& name, KernelFunction f, std::vector<SlotId> in, SlotId out,
                     std::int64_t units, double nanoseconds = 10) {
    Step s = step(name, 1);
    KernelTask t;
    t.function = f;
    t.inputs = std::move(in);
    t.outputs = {out};
    t.units = units;
    t.nanoseconds = nanoseconds;
    s.what = std::move(t);
    return s;
  }
  static Step exchange(const std::string& name, unsigned line, Exchange::Kind kind, SlotId in,
                       SlotId out, std::vector<std::vector<std::int32_t>> groups,
                       std::int64_t outer, std::int64_t chunk) {
    Step s = step(name, line);
    Exchange x;
    x.kind = kind;
    x.groups = std::move(groups);
    x.parts = {{in, out, outer, chunk}};
    x.combine = add_floats;
    x.element_bytes = 4;
    s.what = std::move(x);
    return s;
  }
};

}  // namespace tessera::testing
